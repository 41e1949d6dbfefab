/* touched.c - gradients of an embedding as the rows that tokens have touched:
 * int64_t how many there are, or -1 where they are too many; of each, by rising
 * number, int64_t its number, and then those of its floats; and room for `most`
 * of them, which need not be sent (tasks/args.h).
 */
#include "codelets/codelets.h"

#include "codelets/trials.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

struct packed {
    int64_t *count;
    char *rows;
    size_t bytes; /* of a row */
};

static struct packed packed_of(const struct dsflow_buf *buf,
                               const struct dsf_rows_args *a)
{
    int64_t *count = buf->ptr;

    return (struct packed){ count, (char *)(count + 1),
                            (size_t)dsf_row_bytes(a) };
}

/* Rows of an odd width are at any multiple of a float. */
static int64_t number_of(const struct packed *p, int64_t at)
{
    int64_t row;

    memcpy(&row, p->rows + (size_t)at * p->bytes, sizeof(row));
    return row;
}

static float *floats_of(const struct packed *p, int64_t at)
{
    return (float *)(void *)(p->rows + (size_t)at * p->bytes + sizeof(int64_t));
}

/* -0 is not: where all terms have it, so has their sum. */
static bool is_zero(const float *x, int64_t n)
{
    uint32_t any = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, x + i, sizeof(bits));
        any |= bits;
    }
    return any == 0;
}

/* What is not there is zeroes, whatever stood in the buffer. */
static void end_at(const struct packed *out, const struct dsf_rows_args *a,
                   int64_t n)
{
    memset(out->rows + (size_t)n * out->bytes, 0,
           (size_t)(a->most - n) * out->bytes);
}

static void pack_rows_cpu(const struct dsflow_call *call)
{
    const struct dsf_rows_args *a = call->args;
    const struct packed out = packed_of(&call->bufs[1], a);
    const float *in = (const float *)call->bufs[0].ptr + a->at;
    int64_t n = 0, all = 0;

    for (int64_t at = 0; at < a->elems; at += a->width) {
        int64_t width = a->elems - at < a->width ? a->elems - at : a->width;
        int64_t row = at / a->width;
        float *to;

        if (is_zero(in + at, width) || all++ >= a->most)
            continue;
        memcpy(out.rows + (size_t)n * out.bytes, &row, sizeof(row));
        to = floats_of(&out, n++);
        memcpy(to, in + at, (size_t)width * sizeof(*to));
        memset(to + width, 0, (size_t)(a->width - width) * sizeof(*to));
    }
    end_at(&out, a, n);
    *out.count = all > a->most ? -1 : n;
}

DSF_CODELET(pack_rows, .cpu = pack_rows_cpu, .trials = &dsf_trials_rows);

/* --- sums ----------------------------------------------------------------- */

/* One row of each term, or NULL where it has none. */
struct terms {
    const float **row;
    size_t len;
};

/* As `add` does it (move.c); rows that are not there are zeroes. */
static void tree(const struct terms *t, unsigned first, unsigned n, float *out,
                 float *room)
{
    unsigned half = 1;

    if (n == 1) {
        if (t->row[first] != NULL)
            memcpy(out, t->row[first], t->len * sizeof(*out));
        else
            memset(out, 0, t->len * sizeof(*out));
        return;
    }
    while (2 * half < n)
        half *= 2;
    tree(t, first, half, out, room);
    tree(t, first + half, n - half, room, room + t->len);
    dsf_add(out, room, t->len);
}

/* The position of the first row that is `row` or a later one. */
static int64_t find(const struct packed *p, int64_t row)
{
    int64_t low = 0, high = *p->count;

    while (low < high) {
        int64_t middle = (low + high) / 2;

        if (number_of(p, middle) < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Row `row` of a term, from its number `from` on; *any: there is one. */
static const float *term(const struct dsflow_buf *buf,
                         const struct dsf_rows_args *a, int64_t row,
                         int64_t from, bool *any)
{
    const struct packed p = packed_of(buf, a);
    const int64_t at = find(&p, row);

    if (at >= *p.count || number_of(&p, at) != row)
        return NULL;
    *any = true;
    return floats_of(&p, at) + from;
}

static void add_row(const struct dsflow_call *call, int64_t row, int64_t from,
                    int64_t n, float *out)
{
    const struct dsf_rows_args *a = call->args;
    const unsigned terms = call->nbufs - 1;
    const float **rows = call->scratch;
    const struct terms t = { rows, (size_t)n };
    bool any = false;

    for (unsigned i = 0; i < terms; i++)
        rows[i] = term(&call->bufs[i + 1], a, row, from, &any);
    if (any)
        tree(&t, 0, terms, out, (float *)(void *)(rows + terms));
    else
        memset(out, 0, (size_t)n * sizeof(*out));
}

static bool all_fit(const struct dsflow_call *call)
{
    for (unsigned i = 1; i < call->nbufs; i++)
        if (*packed_of(&call->bufs[i], call->args).count < 0)
            return false;
    return true;
}

static void add_rows_cpu(const struct dsflow_call *call)
{
    const struct dsf_rows_args *a = call->args;
    float *into = (float *)call->bufs[0].ptr + a->into_at;
    const bool fit = all_fit(call);

    for (int64_t i = 0, n; i < a->elems; i += n) {
        int64_t row = (a->at + i) / a->width, from = (a->at + i) % a->width;

        n = a->width - from;
        n = n < a->elems - i ? n : a->elems - i;
        if (fit)
            add_row(call, row, from, n, into + i);
        /* More than there can be: nothing is right then. */
        for (int64_t k = 0; k < n && !fit; k++)
            into[i + k] = NAN;
    }
}

DSF_CODELET(add_rows, .cpu = add_rows_cpu, .trials = &dsf_trials_rows);
