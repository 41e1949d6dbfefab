/* weight_form.c - the weights of a model that is trained to be quantized or
 * pruned. */
#include "tasks/weight_form.h"

#include <string.h>

void dsf_weight_form_apply(const struct dsf_weight_form *f, int64_t updates,
                           int64_t at, int64_t elems, const float *in,
                           float *out)
{
    const struct dsf_fake_quantizer q = dsf_weight_form_after(f, updates);
    int64_t n = f->matrices - at;

    n = n < 0 ? 0 : n < elems ? n : elems;
    dsf_fake_quantize(&q, in, out, (size_t)(n / f->group));
    memmove(out + n, in + n, (size_t)(elems - n) * sizeof(*out));
}

static bool is_power(int32_t n, int32_t least, int32_t most)
{
    return n >= least && n <= most && (n & (n - 1)) == 0;
}

static bool is_quantizer(const struct dsf_weight_form *f)
{
    const bool has_bits =
        f->quantizer == DSF_SYMMETRIC || f->quantizer == DSF_ASYMMETRIC;

    return f->quantizer >= DSF_UNQUANTIZED && f->quantizer <= DSF_BINARY &&
           dsf_is_quantize_group(f->group) &&
           (!has_bits ||
            (f->bits >= 2 && f->bits <= f->start_bits &&
             f->start_bits <= DSF_QUANTIZE_MOST_BITS && f->period >= 1)) &&
           (f->of == 0 || (is_power(f->of, 2, DSF_QUANTIZE_MOST_OF) &&
                           f->keep >= 1 && f->keep < f->of));
}

int dsf_weight_form_check(const struct dsf_weight_form *f, const char *op,
                          int64_t at, int64_t elems, struct dsflow_err *err)
{
    if (!is_quantizer(f))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: quantizer %d in groups of %d, %d to %d bits, "
                           "%d of %d: there is none",
                           op, (int)f->quantizer, (int)f->group,
                           (int)f->start_bits, (int)f->bits, (int)f->keep,
                           (int)f->of);
    if (at < 0 || elems < 0 || f->matrices < 0 ||
        (at | elems | f->matrices) % f->group != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld numbers from %lld on, %lld of matrices: "
                           "expected whole groups of %d",
                           op, (long long)elems, (long long)at,
                           (long long)f->matrices, (int)f->group);
    return DSFLOW_OK;
}
