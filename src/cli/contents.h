/* contents.h - what a run has in memory as whole tensors of the model, however
 * the mesh shares them out. */
#ifndef DSF_CLI_CONTENTS_H
#define DSF_CLI_CONTENTS_H

#include <dsflow/exec.h>
#include <dsflow/optimizer.h>

#include "model/model.h"

/* What is kept of each unit: its parameters, and from 1 on the states of the
 * optimizer, in its order. */
enum { DSF_KEPT_PARAM, DSF_NKEPT = 1 + DSFLOW_MAX_STATES };

/* One piece of data of a unit: a replica or a shard. */
struct dsf_holding {
    uint32_t unit, kind;
    dsflow_data_id id;
};

struct dsf_contents {
    const struct dsf_model *model; /* borrowed, all four */
    struct dsflow_graph *graph;
    struct dsflow_exec *exec;
    const struct dsflow_optimizer *optimizer;
    int32_t tensor; /* parts of a unit */
    struct dsf_holding *v; /* by unit, then kind */
    size_t n, cap;
};

void dsf_contents_init(struct dsf_contents *c, const struct dsf_model *model,
                       struct dsflow_graph *graph, struct dsflow_exec *exec,
                       const struct dsflow_optimizer *optimizer,
                       int32_t tensor);
void dsf_contents_fini(struct dsf_contents *c);

/* The name of a state; "" of the parameters, NULL past the last. */
const char *dsf_contents_name(const struct dsf_contents *c, unsigned kind);

/* Has the optimizer this state? */
bool dsf_contents_has(const struct dsf_contents *c, unsigned unit,
                      unsigned kind);

/* The tensor itself where it is in one piece, else NULL. */
float *dsf_contents_map(struct dsf_contents *c, unsigned unit,
                        unsigned kind, enum dsflow_access access);

/* Copy the whole unit (units[unit].elems numbers) out of, or into, all pieces
 * there are. */
void dsf_contents_get(struct dsf_contents *c, unsigned unit,
                      unsigned kind, float *whole);
void dsf_contents_put(struct dsf_contents *c, unsigned unit,
                      unsigned kind, const float *whole);

#endif
