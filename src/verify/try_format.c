/* try_format.c - a format of what ranks send, on random blocks: how far numbers
 * move, what becomes of those that are none, and that blocks are coded each by
 * itself. */
#include "verify/try_component.h"

#include "base/alloc.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks of numbers, coded and decoded. */
struct coded {
    const struct dsflow_wire_format *f;
    size_t block, n, bytes; /* numbers of a block, blocks, bytes of one */
    float *in, *out;
    uint8_t *code;
};

static void code(struct coded *c)
{
    c->f->encode(c->block, c->in, c->code, c->n);
    c->f->decode(c->block, c->code, c->out, c->n);
}

static struct coded make(const struct dsflow_wire_format *f, uint64_t seed)
{
    struct coded c = { .f = f, .n = 1 + seed % 4 };
    uint64_t state = seed;
    float size = ldexpf(1, (int)(dsf_random(&state) % 41) - 20);

    c.block = seed % 2 ? (size_t)f->block
                       : DSFLOW_WIRE_FORMAT_STEP *
                             (1 + (size_t)(dsf_random(&state) % 8));
    c.bytes = f->bytes(c.block);
    c.in = dsf_xcalloc(c.n * c.block, sizeof(*c.in));
    c.out = dsf_xcalloc(c.n * c.block, sizeof(*c.out));
    c.code = dsf_xcalloc(c.n, c.bytes);
    for (size_t i = 0; i < c.n * c.block; i++)
        c.in[i] = size * (float)dsf_random_normal(&state);
    return c;
}

static void fini(struct coded *c)
{
    free(c->in);
    free(c->out);
    free(c->code);
}

static void check_error(const struct coded *c)
{
    for (size_t b = 0; b < c->n; b++) {
        const float *in = c->in + b * c->block, *out = c->out + b * c->block;
        double most = 0;

        for (size_t i = 0; i < c->block; i++)
            most = fmax(most, fabs((double)in[i]));
        for (size_t i = 0; i < c->block; i++)
            if (!(fabs((double)out[i] - in[i]) <= (c->f->error + 1e-6) * most))
                dsf_child_fault("%.9g becomes %.9g in a block of up to %.9g: "
                                "expected at most %g times that between them",
                                (double)in[i], (double)out[i], most,
                                c->f->error);
    }
}

/* The last block alone has the same bytes as behind the others. */
static void check_alone(const struct coded *c)
{
    const size_t last = c->n - 1;
    uint8_t *alone = dsf_xcalloc(1, c->bytes);

    c->f->encode(c->block, c->in + last * c->block, alone, 1);
    if (memcmp(alone, c->code + last * c->bytes, c->bytes) != 0)
        dsf_child_fault("a block has other bytes alone than behind others");
    free(alone);
}

static void check_no_number(struct coded *c, float x)
{
    const size_t at = c->n * c->block / 2;
    const float was = c->in[at];

    c->in[at] = x;
    code(c);
    if (isfinite(c->out[at]))
        dsf_child_fault("%g becomes %g: expected no finite number", (double)x,
                        (double)c->out[at]);
    c->in[at] = was;
}

void dsf_try_format(const struct dsflow_wire_format *f,
                    const struct dsf_verify_options *how,
                    struct dsf_verdict *verdict)
{
    for (; verdict->cases < how->cases; verdict->cases++) {
        struct coded c = make(f, how->seed + verdict->cases);
        char where[96];

        snprintf(where, sizeof(where),
                 "%zu blocks of %zu numbers; --seed %llu --cases 1", c.n,
                 c.block, (unsigned long long)how->seed + verdict->cases);
        dsf_child_step("", where);
        code(&c);
        check_error(&c);
        check_alone(&c);
        check_no_number(&c, NAN);
        check_no_number(&c, INFINITY);
        check_no_number(&c, -INFINITY);
        fini(&c);
    }
}
