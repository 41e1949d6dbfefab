/* loops_narrow.h - what there is for bf16 and fp16 alone, and the table of one
 * of them: included once a type, after loops_types.h. */

static void OF(widen)(const NUM *in, float *out, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        vstore(out + i, LOAD(in + i, VW), VW);
    if (i < n)
        vstore(out + i, LOAD(in + i, n - i), n - i);
}

INLINE void OF(narrow_at)(const float *in, const NUM *b, NUM *out, size_t k)
{
    vf x = vload(in, k);

    if (b)
        x += LOAD(b, k);
    STORE(out, x, k);
}

static void OF(narrow)(const float *in, size_t ld_in, const NUM *b, NUM *out,
                       size_t ld_out, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, in += ld_in, out += ld_out) {
        size_t i = 0;

        for (; i + VW <= cols; i += VW)
            OF(narrow_at)(in + i, b ? b + i : b, out + i, VW);
        if (i < cols)
            OF(narrow_at)(in + i, b ? b + i : b, out + i, cols - i);
    }
}

INLINE void OF(residual_at)(const float *in, const NUM *x, const NUM *b, NUM *y,
                            size_t k)
{
    vf t = LOAD(x, k);

    if (b)
        t += LOAD(b, k);
    STORE(y, t + vload(in, k), k);
}

/* y = (x + b) + in */
static void OF(residual)(const float *in, const NUM *x, const NUM *b, NUM *y,
                         size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, in += cols, x += cols, y += cols) {
        size_t i = 0;

        for (; i + VW <= cols; i += VW)
            OF(residual_at)(in + i, x + i, b ? b + i : b, y + i, VW);
        if (i < cols)
            OF(residual_at)(in + i, x + i, b ? b + i : b, y + i, cols - i);
    }
}

static const struct dsf_narrow_loops OF(loops) = {
    .widen = OF(widen),
    .sum2 = OF(sum2),
    .narrow = OF(narrow),
    .residual = OF(residual),
    .column_sums = OF(column_sums),
    .norm_forward = OF(norm_forward),
    .norm_backward = OF(norm_backward),
    .gelu_forward = OF(gelu_forward),
    .gelu_backward = OF(gelu_backward),
    .swiglu_forward = OF(swiglu_forward),
    .swiglu_backward = OF(swiglu_backward),
    .head_dots = OF(head_dots),
    .adam = OF(adam),
    .sgd = OF(sgd),
    .lion = OF(lion),
    .adagrad = OF(adagrad),
    .lamb = OF(lamb),
    .row_product = OF(row_product),
};
