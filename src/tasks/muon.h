/* muon.h - what of Muon other files need. */
#ifndef DSF_TASKS_MUON_H
#define DSF_TASKS_MUON_H

#include <dsflow/option.h>

#include "tasks/args.h"

#include <math.h>

/* Of the iteration of Newton and Schulz, by Jordan et al.: X = (a I + b A + c A
 * A) X with A = X X^T, or from the other side where X has more rows than
 * columns. */
#define DSF_MUON_A 3.4445f
#define DSF_MUON_B (-4.7750f)
#define DSF_MUON_C 2.0315f

/* The table [muon] of a job. */
struct dsf_muon_keys {
    double momentum;
    int64_t steps;
    int nesterov;
    int64_t scale; /* enum dsf_muon_scale */
    double adam_lr;
};
extern const struct dsflow_option dsf_muon_options[];

/* What follows from them, and from those of all optimizers. */
void dsf_muon_fill(const void *part, const struct dsflow_optimizer_keys *keys,
                   struct dsf_update_args *args);

/* Is it a matrix of a layer, which becomes orthogonal? */
static inline int dsf_muon_turns(const struct dsflow_tensor *t)
{
    return t->kind == DSFLOW_MATRIX;
}

/* Of its step: the rate is this times that of the control. */
static inline double dsf_muon_length(const struct dsf_update_args *a,
                                     const struct dsflow_tensor *t)
{
    const double rows = (double)t->rows, cols = (double)t->cols;

    return a->scale == DSF_MUON_RMS ? 0.2 * sqrt(fmax(rows, cols))
                                    : sqrt(fmax(1, rows / cols));
}

/* Of a whole unit: the number from which on it has second moments, a multiple
 * of DSFLOW_BLOCK_ELEMS; a->elems where all of it is matrices, and it has none.
 */
int64_t dsf_muon_second_from(const struct dsflow_update_args *a);

#endif
