/* fake_quantize.c - weights as a model has them that is quantized or pruned. */
#include "codelets/codelets.h"

#include "codelets/trials.h"
#include "kernels/narrow.h"

enum { CONTROL, IN, OUT };

static void narrow_to(const struct dsflow_buf *out, int64_t at,
                      const float *made, int64_t n)
{
    dsf_narrow(out->dtype)
        ->narrow(made, (size_t)n, NULL, (uint16_t *)out->ptr + at, (size_t)n, 1,
                 (size_t)n);
}

static void fake_quantize_cpu(const struct dsflow_call *call)
{
    const struct dsf_fake_quantize_args *a = call->args;
    const struct dsflow_buf *out = &call->bufs[OUT];
    const float *in = (const float *)call->bufs[IN].ptr + a->in_at;
    const int64_t updates = dsf_fake_quantize_after(a, call->bufs[CONTROL].ptr);

    for (int64_t i = 0, n; i < a->elems; i += n) {
        n = a->elems - i < DSF_FAKE_QUANTIZE_CHUNK ? a->elems - i
                                                   : DSF_FAKE_QUANTIZE_CHUNK;
        if (dsf_is_narrow(out->dtype)) {
            dsf_weight_form_apply(&a->form, updates, a->at + i, n, in + i,
                                  call->scratch);
            narrow_to(out, a->out_at + i, call->scratch, n);
        } else {
            dsf_weight_form_apply(&a->form, updates, a->at + i, n, in + i,
                                  (float *)out->ptr + a->out_at + i);
        }
    }
}

DSF_CODELET(fake_quantize, .cpu = fake_quantize_cpu,
            .trials = &dsf_trials_fake_quantize);
