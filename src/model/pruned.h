/* pruned.h - a model made of parts of another (structured pruning): some of its
 * layers, and of each layer some heads and some inner columns of the MLP. */
#ifndef DSF_MODEL_PRUNED_H
#define DSF_MODEL_PRUNED_H

#include "model/model.h"

struct dsf_pruned; /* opaque */

/* Numbers of each unit of a model. */
struct dsf_pruned_source {
    dsf_unit_fn read;
    void *user;
};

/* The parameters of `to`, which is `from` but for the number of its layers,
 * its heads (with as many for each head of keys) and its inner columns, of
 * which it has as many or fewer. Its layer l is layer layers[l] of `from`.
 *
 * What stays of a layer is what the loss would miss most. A head of keys with
 * its queries, or an inner column, is gone when the weights that use it are 0:
 * those of O, or of the MLP's second matrix. To second order, and with no
 * weights depending on others, a weight w that becomes 0 costs w^2 H / 2
 * (LeCun, Denker and Solla 1990, eq. 5), and the curvature H is about the mean
 * of its squared gradient, which `moments` has in units like those of
 * `weights`, in any scale. Of equal ones the first stay. Nothing is read but by
 * dsf_pruned_read, and no moments where all heads and columns stay. The models
 * and layers are borrowed. */
struct dsf_pruned *dsf_pruned_open(const struct dsf_model *from,
                                   const struct dsf_model *to,
                                   const int32_t *layers,
                                   struct dsf_pruned_source weights,
                                   struct dsf_pruned_source moments);
void dsf_pruned_close(struct dsf_pruned *pruned); /* NULL is fine */

/* Unit `unit` of `to`; to choose what stays, the units of a layer are read once
 * more. `pruned` is a struct dsf_pruned: a dsf_unit_fn. */
int dsf_pruned_read(void *pruned, unsigned unit, float *to,
                    struct dsflow_err *err);

#endif
