/* sparse_layers.h - which layers have a layout of sparse attention, and which
 * one: what [sparse_attention] says. Errors are about its keys. */
#ifndef DSF_PLAN_SPARSE_LAYERS_H
#define DSF_PLAN_SPARSE_LAYERS_H

#include "plan/plan.h"
#include "tasks/attention_layout.h"

/* By layer: does it have one? Error: DSFLOW_EINVAL, also where models of this
 * kind cannot have any. */
int dsf_sparse_layers(const struct dsflow_plan *plan, bool *on,
                      struct dsflow_err *err);

/* That of layer `l`, freed by dsf_attention_layout_free. */
int dsf_sparse_layout(const struct dsflow_plan *plan, int32_t l,
                      struct dsf_attention_layout *layout,
                      struct dsflow_err *err);

#endif
