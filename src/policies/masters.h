/* masters.h - parameters of which a step computes with something else than the
 * optimizer works on: each gets a master, for the optimizer, and a copy, for
 * all else. The copy is made behind each task that writes the master, and all
 * of them are in the program `prepare`. */
#ifndef DSF_POLICIES_MASTERS_H
#define DSF_POLICIES_MASTERS_H

#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>
#include <dsflow/rewrite.h>

struct dsf_masters {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    const char *suffix; /* of the names of copies */

    /* Parameters of the old graph, as the optimizer has them: do they get a
     * copy? */
    bool (*wants)(const struct dsf_masters *m,
                  const struct dsflow_data_spec *d);
    /* Adds the task that makes the copy, which stands behind `like`; both data
     * are of the new graph. A master that has a copy already, in another type,
     * gets none, and this in the place of each cast. */
    void (*write)(struct dsf_masters *m, const struct dsflow_task_spec *like,
                  const struct dsflow_data_spec *d, dsflow_data_id master,
                  dsflow_data_id copy);

    /* Made by dsf_masters_rewrite; by data of the old graph. */
    dsflow_program prepare;
    uint8_t *wanted;
    dsflow_data_id *copies; /* in the new graph */
};

void dsf_masters_rewrite(struct dsf_masters *m, struct dsflow_graph *in,
                         struct dsflow_graph *out);

/* The numbers of parameters that may be cut at multiples of `cut` numbers, and
 * whose first `matrices` numbers are matrices: of a unit, or of a part. */
struct dsf_masters_numbers {
    int64_t cut, matrices;
};
struct dsf_masters_numbers
dsf_masters_numbers(const struct dsflow_plan *plan,
                    const struct dsflow_data_spec *d);

#endif
