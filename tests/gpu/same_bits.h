/* same_bits.h - cases of test_same_bits: what a task begins with. */
#ifndef DSF_TESTS_GPU_SAME_BITS_H
#define DSF_TESTS_GPU_SAME_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <dsflow/op.h>
#include <dsflow/optimizer.h>

#include "base/random.h"
#include "tasks/coding.h"

enum { MOST_PORTS = 300 };

/* What a task begins with, and what it leaves. */
struct trial {
    const char *op;
    unsigned long long seed;
    uint64_t random; /* state */
    unsigned n, fresh;
    unsigned without; /* a bit for each port that is left out */
    unsigned counts;  /* ports of doubles of which every second is a count; the
                         last bit is for all from 31 on */
    unsigned moments; /* the port of floats that are 0 or above; 0: none */
    bool coded;       /* bytes are numbers for the wire, and no control */
    bool calm;        /* floats are small, so that sums are finite */
    bool skips;       /* the control says that nothing is updated */
    int64_t quiet; /* of so many floats all are tiny, in every other stretch */
    struct dsflow_shape shapes[MOST_PORTS];
    void *before[MOST_PORTS], *cores[MOST_PORTS], *gpu[MOST_PORTS];
    _Alignas(16) unsigned char args[2048];
};

/* A number from least to most. */
static inline int64_t any(struct trial *t, int64_t least, int64_t most)
{
    return least +
           (int64_t)(dsf_random(&t->random) % (uint64_t)(most - least + 1));
}

static inline bool one_in(struct trial *t, int64_t n)
{
    return any(t, 1, n) == 1;
}

/* How many numbers: none, few, odd, whole words. */
static inline int64_t any_size(struct trial *t)
{
    static const int64_t most[] = { 0, 9, 300, 1100, 9000 };
    int64_t n = any(t, 0, most[any(t, 0, 4)]);

    return one_in(t, 2) ? n : n / 8 * 8;
}

/* Where they begin: at whole words, or anywhere. */
static inline int64_t any_start(struct trial *t)
{
    return one_in(t, 2) ? 16 * any(t, 0, 2) : any(t, 0, 21);
}

static inline struct dsflow_shape floats(int64_t n)
{
    return dsflow_shape_of(DSFLOW_FP32, n);
}

static inline struct dsflow_shape control(void)
{
    return dsflow_shape_of(DSFLOW_BYTES, sizeof(struct dsflow_control));
}

/* same_bits_wire.c: a case of t->op, of a kind that codes numbers for the wire;
 * and bytes that are such numbers, on a port. */
void make_wire(struct trial *t);
void fill_wire(struct trial *t, unsigned port);

/* Signs, with a scale for each tensor, and how many blocks the unit has; some
 * of its blocks, as arguments that begin with struct dsf_chunk_args; a port
 * that the task does not have. */
struct dsf_coding any_signs(struct trial *t, int64_t *blocks);
void any_chunks(struct trial *t);
void leave_out(struct trial *t, unsigned port);

/* same_bits_zeroone.c: cases of 0/1 Adam and of clipping by group; fill_zeroone
 * returns whether it fills a port. same_bits_few.c: the same of few numbers. */
void make_zeroone(struct trial *t);
bool fill_zeroone(struct trial *t, unsigned port);
void make_few(struct trial *t);
bool fill_few(struct trial *t, unsigned port);

/* same_bits_weights.c: a case of weights that are quantized or pruned. */
void make_fake_quantize(struct trial *t);

/* same_bits_rows.c: the same of the rows of an embedding, of which a port may
 * have some: fill_rows returns whether it does. */
void make_pack_rows(struct trial *t);
void make_add_rows(struct trial *t);
bool fill_rows(struct trial *t, unsigned port);

/* Floats of all sizes, with zeroes, infinities and NaNs; where `plain`, none of
 * the latter. */
float any_float(struct trial *t, bool plain);

#endif
