/* state_dict.h - what the state_dict of an optimizer of torch says, whoever
 * keeps it. */
#ifndef DSF_FOREIGN_STATE_DICT_H
#define DSF_FOREIGN_STATE_DICT_H

#include "foreign/source.h"
#include "torch/torch.h"

/* The next moment in the state of a parameter, from its key *i on: "exp_avg",
 * …; false: there are no more that are kept here. `state` may be NULL. */
bool dsf_state_dict_next(const struct dsf_torch_node *state, uint32_t *i,
                         enum dsf_source_state *which,
                         const struct dsf_torch_node **moment);

/* So many updates, a number or a tensor of one; where nothing has said yet. */
void dsf_state_dict_step(struct dsf_source *s,
                         const struct dsf_torch_file *file,
                         const struct dsf_torch_node *step);

/* How many updates, which rule, rate, betas, eps and decay the groups of
 * parameters and one of the states say; each may be NULL. */
void dsf_state_dict_said(struct dsf_source *s,
                         const struct dsf_torch_file *file,
                         const struct dsf_torch_node *groups,
                         const struct dsf_torch_node *state);

#endif
