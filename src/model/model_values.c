/* model_values.c - numbers that a model starts with: random weights, and the
 * angles of rotary positions. */
#include "model/model.h"

#include "base/parallel.h"

#include <math.h>
#include <string.h>

/* splitmix64 (Steele et al. 2014) as a counter-based generator: number i of
 * stream s is a hash of (s, i), so that nothing depends on who asks first. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* In (0, 1]. */
static double uniform(uint64_t bits)
{
    return ((double)(bits >> 11) + 1) * 0x1p-53;
}

/* Normal numbers 2i and 2i + 1 of a stream (Box & Muller 1958). */
static void normal_pair(uint64_t stream, uint64_t i, double out[2])
{
    double r = sqrt(-2 * log(uniform(mix(stream + 2 * i))));
    double angle = 2 * M_PI * uniform(mix(stream + 2 * i + 1));

    out[0] = r * cos(angle);
    out[1] = r * sin(angle);
}

struct filled {
    const struct dsf_tensor *tensor;
    uint64_t stream;
    float *to;
};

/* Pairs of numbers of a tensor, the last of them maybe a half. */
static void fill_pairs(void *filled, int64_t from, int64_t end)
{
    const struct filled *f = filled;
    const struct dsf_tensor *t = f->tensor;
    int64_t n = t->rows * t->cols;

    for (int64_t i = from; i < end; i++) {
        double pair[2] = { 0, 0 };

        if (t->init_std > 0)
            normal_pair(f->stream, (uint64_t)i, pair);
        for (int64_t k = 0; k < 2 && 2 * i + k < n; k++)
            f->to[2 * i + k] = t->init_value + t->init_std * (float)pair[k];
    }
}

static void fill_tensor(const struct dsf_tensor *t, uint64_t stream, float *to)
{
    struct filled filled = { t, stream, to };

    dsf_parallel((t->rows * t->cols + 1) / 2, 1 << 15, fill_pairs, &filled);
}

static void zero(void *params, int64_t from, int64_t end)
{
    memset((float *)params + from, 0, (size_t)(end - from) * sizeof(float));
}

void dsf_model_randomize(const struct dsf_model *m, unsigned u, uint64_t seed,
                         float *params)
{
    const struct dsf_unit *unit = &m->units[u];

    dsf_parallel(unit->elems, 1 << 20, zero, params);
    for (unsigned t = 0; t < unit->ntensors; t++)
        fill_tensor(&unit->tensors[t],
                    mix(mix(seed) + ((uint64_t)u << 32 | t)),
                    params + unit->tensors[t].offset);
}

/* Llama 3.1's stretch of the slow frequencies (Hugging Face,
 * modeling_rope_utils): those whose wave is longer than the original context
 * over low_freq_factor are divided by factor, the fast ones stay, the ones
 * between are blended. */
static double llama3(const struct dsf_model *m, double freq)
{
    double old = (double)m->rope_original_context;
    double wave = 2 * M_PI / freq, blend;

    if (wave < old / m->rope_high_freq_factor)
        return freq;
    if (wave > old / m->rope_low_freq_factor)
        return freq / m->rope_factor;
    blend = (old / wave - m->rope_low_freq_factor) /
            (m->rope_high_freq_factor - m->rope_low_freq_factor);
    return (1 - blend) * freq / m->rope_factor + blend * freq;
}

void dsf_model_rope_table(const struct dsf_model *m, float *out)
{
    int half = m->dims.head_dim / 2;

    for (int i = 0; i < half; i++) {
        double freq = pow(m->rope_theta, -2.0 * i / m->dims.head_dim);

        if (m->rope_llama3)
            freq = llama3(m, freq);
        for (int64_t pos = 0; pos < m->dims.context; pos++) {
            float *to = out + 2 * (pos * half + i);

            to[0] = (float)cos((double)pos * freq);
            to[1] = (float)sin((double)pos * freq);
        }
    }
}
