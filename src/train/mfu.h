/* mfu.h - how much of what its GPUs are built for a run gets out of them. */
#ifndef DSF_TRAIN_MFU_H
#define DSF_TRAIN_MFU_H

#include "machine/machine.h"
#include "plan/plan.h"

/* Operations that a token costs, forwards and backwards, without what is
 * computed twice: 6 (N + V C) + 6 A T, of N parameters of blocks and norms, V
 * words of the vocabulary in rows of C numbers, A numbers of queries over all
 * blocks, and sequences of T tokens, of which causal attention sees half on
 * average (Chowdhery et al. 2022, appendix B, which counts all of them). Where
 * a window hides tokens, those are not counted; nor are, below, those that a
 * layout hides. */
double dsf_token_operations(const struct dsf_model *model, int64_t sequence);

/* Seconds that the GPUs of the plan's ranks would take for a token at their dense
 * peak in the type that the job computes in: model FLOPs utilization (MFU) is
 * that over what a token took. 0: it runs on cores, or of such GPUs no peak is
 * known (machine/gpu_peak.c). */
double dsf_token_seconds(const struct dsflow_plan *plan);

#endif
