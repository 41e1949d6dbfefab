/* weight_form.h - the weights of a model that is trained to be quantized or
 * pruned: which numbers of a unit, and how from which step on. */
#ifndef DSF_TASKS_WEIGHT_FORM_H
#define DSF_TASKS_WEIGHT_FORM_H

#include <stdbool.h>
#include <stdint.h>
#include <dsflow/error.h>

#include "kernels/fake_quantize.h"

/* Groups begin at multiples of `group` of the unit's own numbering, and what is
 * cut is cut there. Steps are updates that have been made.
 * Part of arguments: no pointers, no padding. */
struct dsf_weight_form {
    int64_t matrices; /* numbers from there on stay as they are; whole groups */
    int32_t quantizer; /* enum dsf_quantizer */
    int32_t group;
    int32_t bits, start_bits; /* of symmetric and asymmetric */
    int32_t keep, of;         /* of each so many; of = 0: all */
    int64_t period;           /* steps with start_bits */
    int64_t quantize_from, prune_from;
};

/* Kernels of GPUs ask this themselves, and say here how such a function begins.
 */
#ifndef DSF_WEIGHT_FORM_FN
#define DSF_WEIGHT_FORM_FN static inline
#endif

/* Bits fall after `period` steps, and again each time the steps have doubled,
 * down to `bits`, as those of DeepSpeed's MoQ. */
DSF_WEIGHT_FORM_FN int32_t dsf_weight_form_bits(const struct dsf_weight_form *f,
                                                int64_t steps)
{
    int32_t bits = f->start_bits;

    for (int64_t at = f->period; bits > f->bits && at <= steps; at *= 2)
        bits--;
    return bits;
}

/* How numbers are quantized after so many updates. */
DSF_WEIGHT_FORM_FN struct dsf_fake_quantizer
dsf_weight_form_after(const struct dsf_weight_form *f, int64_t updates)
{
    const bool quantized =
        f->quantizer != DSF_UNQUANTIZED && updates >= f->quantize_from;
    const bool pruned = f->of > 0 && updates >= f->prune_from;
    struct dsf_fake_quantizer q;

    q.quantizer = quantized ? f->quantizer : (int32_t)DSF_UNQUANTIZED;
    q.bits =
        quantized ? dsf_weight_form_bits(f, updates - f->quantize_from) : 0;
    q.group = f->group;
    q.keep = pruned ? f->keep : 0;
    q.of = pruned ? f->of : 0;
    return q;
}

/* Numbers at .. at+elems of the unit, which are whole groups; `out` may be
 * `in`. */
void dsf_weight_form_apply(const struct dsf_weight_form *f, int64_t updates,
                           int64_t at, int64_t elems, const float *in,
                           float *out);

int dsf_weight_form_check(const struct dsf_weight_form *f, const char *op,
                          int64_t at, int64_t elems, struct dsflow_err *err);

#endif
