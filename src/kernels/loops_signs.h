/* loops_signs.h - signs of numbers with a scale for each block (wire_blocks.h),
 * and what coding takes from gradients, for the next ones. IEEE arithmetic in a
 * fixed order: every set of instructions gives the same bits.
 */
#ifndef DSF_KERNELS_LOOPS_SIGNS_H
#define DSF_KERNELS_LOOPS_SIGNS_H

#include "kernels/wire_blocks.h"

/* Numbers whose signs take whole bytes. */
enum { SIGNS = VW < 8 ? 8 : VW };

static void wire1_encode(size_t block, float scale, const float *in,
                         uint8_t *out, size_t n)
{
    for (; n > 0; n--, in += block, out += dsf_wire1_bytes(block)) {
        uint8_t *codes = out + sizeof(scale);

        memcpy(out, &scale, sizeof(scale));
        for (size_t i = 0; i < block; i += DSF_WIRE_STEP) {
            store_signs(codes + i / 8, in + i);
            ask_for(in + i);
        }
    }
}

static void wire1_decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    for (; n > 0; n--, out += block, in += dsf_wire1_bytes(block)) {
        const uint8_t *codes = in + DSF_WIRE_SCALE;
        float scale;
        vf s;

        memcpy(&scale, in, sizeof(scale));
        s = vset(scale);
        for (size_t i = 0; i < block; i += SIGNS) {
            uint32_t signs = 0;

            for (size_t k = 0; k < SIGNS; k += 8)
                signs |= (uint32_t)codes[(i + k) / 8] << k;
            UNROLL
            for (size_t k = 0; k < SIGNS; k += VW)
                vstore(out + i + k, vnegate(s, signs >> k), VW);
        }
    }
}

static void error_add(const struct dsf_error_step *s, const float *error,
                      float *x, size_t n)
{
    const vf scale = vset(s->scale);

    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;

        vstore(x + i, vfma_exact(scale, vload(error + i, k), vload(x + i, k)),
               k);
    }
}

INLINE vf finite_or(vf a, vf b)
{
    const vu none = { 0 };
    vu bits = (vu)a;

    return (vf)choose(below(bits & 0x7fffffff, none + 0x7f800000), bits, (vu)b);
}

static void error_keep(const struct dsf_error_step *s, const float *x,
                       const float *sent, float *error, size_t n)
{
    const vf beta = vset(s->beta), rest = vset(s->rest / s->scale);

    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;
        vf was = vload(error + i, k);
        vf now = vload(x + i, k) - vload(sent + i, k);

        vstore(error + i, finite_or(vfma_exact(beta, was, rest * now), was), k);
    }
}

/* --- 1-bit Adam --- */

static void momentum_mean(const struct dsf_momentum_step *s, const float *m,
                          float *x, size_t n)
{
    const vf beta = vset(s->beta), rest = vset(s->rest);

    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;

        vstore(x + i, vfma_exact(beta, vload(m + i, k), rest * vload(x + i, k)),
               k);
    }
}

static void wire1_serve(float scale, const float *x, float *server, float *m,
                        size_t n)
{
    const vf s = vset(scale);

    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;
        vf y = vload(x + i, k) + vload(server + i, k);
        vf sent = vnegate(s, vnegative(y));

        vstore(m + i, sent, k);
        vstore(server + i, y - sent, k);
    }
}

/* --- 1-bit LAMB --- */

static void wire1_send(float scale, float *x, float *error, size_t n)
{
    const vf s = vset(scale);

    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;
        vf own = vload(x + i, k), sent = vnegate(s, vnegative(own));

        vstore(x + i, sent, k);
        vstore(error + i, finite_or(own - sent, vload(error + i, k)), k);
    }
}

static void lamb_refresh(const struct dsf_refresh_step *s, const float *x,
                         float *m, float *fresh, size_t n)
{
    const vf by = vset(s->by), beta1 = vset(-s->beta1), rest1 = vset(s->rest1);
    const vf beta2 = vset(s->beta2), rest2 = vset(s->rest2);

    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;
        vf now = vload(x + i, k) / by;
        vf g = vfma_exact(beta1, vload(m + i, k), now) / rest1;

        vstore(m + i, now, k);
        vstore(fresh + i,
               vfma_exact(beta2, vload(fresh + i, k), rest2 * (g * g)), k);
    }
}

/* --- 0/1 Adam --- */

/* by m / (sqrt(v) + eps); 0 where v is 0. */
INLINE vf step_by(vf by, vf m, vf v, vf eps)
{
    const vu none = { 0 };

    return (vf)choose(below(none, (vu)v), (vu)(by * (m / (vsqrt(v) + eps))),
                      none);
}

static void held_update(const struct dsf_held_step *s, const float *g,
                        const float *v, float *p, float *m, size_t n)
{
    const vf beta1 = vset(s->beta1), rest1 = vset(s->rest1);
    const vf lr = vset(-s->lr), keep = vset(1 - s->decay);
    const vf eps = vset(s->eps);

    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;
        vf m1 = vfma_exact(beta1, vload(m + i, k), rest1 * vload(g + i, k));
        vf step = step_by(lr, m1, vload(v + i, k), eps);

        vstore(m + i, m1, k);
        vstore(p + i, vfma_exact(keep, vload(p + i, k), step), k);
    }
}

static void local_update(const struct dsf_held_step *s, const float *g,
                         const float *v, const float *p, const float *was,
                         float *m, float *local, size_t n)
{
    const vf beta1 = vset(s->beta1), rest1 = vset(s->rest1);
    const vf lr = vset(-s->lr), decay = vset(-s->decay);
    const vf eps = vset(s->eps);

    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;
        vf u = vload(local + i, k), w = vload(p + i, k) + u;
        vf m1 = vfma_exact(beta1, vload(was + i, k), rest1 * vload(g + i, k));
        vf step = step_by(lr, m1, vload(v + i, k), eps);

        vstore(m + i, m1, k);
        vstore(local + i, u + vfma_exact(decay, w, step), k);
    }
}

static void local_share(float eps, float share, const float *local,
                        const float *v, float *x, size_t n)
{
    const vf e = vset(eps), by = vset(share);

    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;

        vstore(x + i, vload(local + i, k) * (vsqrt(vload(v + i, k)) + e) * by,
               k);
    }
}

static void local_settle(float eps, float rates, const float *mean,
                         const float *v, float *p, float *m, size_t n)
{
    const vf e = vset(eps), one = vset(1), by = vset(-rates);

    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;
        vf u = vload(mean + i, k);

        vstore(p + i, vload(p + i, k) + step_by(one, u, vload(v + i, k), e), k);
        vstore(m + i, u / by, k);
    }
}

#endif
