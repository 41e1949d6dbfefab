/* same_bits_weights.c - cases of test_same_bits: weights that are quantized or
 * pruned. */
#include "same_bits.h"

#include "tasks/args.h"

void make_fake_quantize(struct trial *t)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };
    struct dsf_fake_quantize_args *a = (void *)t->args;
    struct dsf_weight_form *f = &a->form;

    f->quantizer = (int32_t)any(t, DSF_UNQUANTIZED, DSF_BINARY);
    f->group = DSF_QUANTIZE_LEAST << any(t, 0, 3);
    f->bits = (int32_t)any(t, 2, 8);
    f->start_bits = (int32_t)any(t, f->bits, DSF_QUANTIZE_MOST_BITS);
    f->period = any(t, 1, 4);
    f->quantize_from = any(t, 0, 4);
    f->prune_from = any(t, 0, 4);
    if (one_in(t, 2)) {
        f->of = 2 << any(t, 0, 3);
        f->keep = (int32_t)any(t, 1, f->of - 1);
    }
    t->quiet = one_in(t, 2) ? f->group : 0; /* many are alike */
    a->elems = any_size(t) / f->group * f->group;
    a->at = f->group * any(t, 0, 5);
    f->matrices = one_in(t, 2) ? a->at + a->elems : f->group * any(t, 0, 40);
    a->behind = one_in(t, 2);
    a->in_at = any_start(t);
    a->out_at = any_start(t);
    t->n = 3;
    t->shapes[0] = control();
    t->shapes[1] = floats(a->in_at + a->elems);
    t->shapes[2] = dsflow_shape_of(types[any(t, 0, 2)], a->out_at + a->elems);
}
