/* unit.c - tensors one after the other in a unit, and what a part has of it. */
#include "segments/unit.h"

#include "base/multiple.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static struct dsf_tensor *add(struct dsf_unit *u, int64_t rows, int64_t cols,
                              const char *fmt, va_list ap)
{
    struct dsf_tensor *t = &u->tensors[u->ntensors++];

    vsnprintf(t->name, sizeof(t->name), fmt, ap);
    t->rows = rows;
    t->cols = cols;
    t->offset = u->elems;
    t->file_offset = u->file_elems;
    u->elems += rows * cols;
    u->file_elems += rows * cols;
    return t;
}

struct dsf_tensor *dsf_unit_matrix(struct dsf_unit *u, int64_t rows,
                                   int64_t cols, float std, const char *fmt,
                                   ...)
{
    struct dsf_tensor *t;
    va_list ap;

    va_start(ap, fmt);
    t = add(u, rows, cols, fmt, ap);
    va_end(ap);
    t->init_std = std;
    return t;
}

struct dsf_tensor *dsf_unit_vocabulary(struct dsf_unit *u, int64_t rows,
                                       int64_t cols, const char *name)
{
    struct dsf_tensor *t = dsf_unit_matrix(u, rows - u->padding, cols,
                                           DSF_INIT_STD, "%s", name);

    u->elems += u->padding * cols;
    return t;
}

struct dsf_tensor *dsf_unit_vector(struct dsf_unit *u, int64_t n, float value,
                                   const char *fmt, ...)
{
    struct dsf_tensor *t;
    va_list ap;

    va_start(ap, fmt);
    t = add(u, 1, n, fmt, ap);
    va_end(ap);
    t->vector = true;
    t->init_value = value;
    return t;
}

int64_t dsf_unit_align(struct dsf_unit *u)
{
    u->file_elems = dsf_round_up(u->file_elems, 16);
    return u->elems = dsf_round_up(u->elems, 16);
}

void dsf_unit_end_matrices(struct dsf_unit *u)
{
    u->decay = dsf_unit_align(u);
}

void dsf_unit_norm(struct dsf_unit *u, const struct dsflow_tile *sizes,
                   const char *name, int64_t *w, int64_t *b)
{
    *w = dsf_unit_align(u);
    dsf_unit_vector(u, sizes->width, 1, "%s.weight", name);
    if (sizes->rms)
        return;
    *b = dsf_unit_align(u);
    dsf_unit_vector(u, sizes->width, 0, "%s.bias", name);
}

void dsf_unit_list(struct dsf_unit *u, const struct dsflow_layout *layout)
{
    struct dsflow_tensor_spec list[DSFLOW_SEGMENT_TENSORS] = { { 0 } };
    const struct dsf_prefix p = dsf_unit_prefix(layout);

    u->segment->tensors(layout, list);
    for (unsigned i = 0; i < DSFLOW_SEGMENT_TENSORS; i++) {
        const struct dsflow_tensor_spec *spec = &list[i];
        struct dsf_tensor *t;

        if (spec->name == NULL)
            continue;
        u->at[i] = dsf_unit_align(u);
        if (spec->rows > 0)
            t = dsf_unit_matrix(u, spec->rows, spec->cols, spec->std, "%s.%s",
                                p.s, spec->name);
        else
            t = dsf_unit_vector(u, spec->cols, spec->value, "%s.%s", p.s,
                                spec->name);
        t->init_value = spec->value;
        t->init_std = spec->std;
        t->number = (uint8_t)i;
        t->cut = spec->cut;
        t->role = spec->role;
        if (spec->rows > 0)
            dsf_unit_end_matrices(u);
    }
}

struct dsf_prefix dsf_unit_prefix(const struct dsflow_layout *layout)
{
    struct dsf_prefix p;

    snprintf(p.s, sizeof(p.s), "%s.%d",
             layout->llama ? "model.layers" : "transformer.h",
             (int)layout->layer);
    return p;
}

float dsf_residual_std(const struct dsflow_layout *layout)
{
    return DSF_INIT_STD / sqrtf(2.0f * (float)layout->layers);
}

int64_t dsf_unit_block(int64_t elems)
{
    return dsf_round_up(elems / 4096 + 1, 1024);
}

unsigned dsf_unit_tensor_at(const struct dsf_unit *unit, int64_t at)
{
    unsigned i = 0;

    while (i + 1 < unit->ntensors && unit->tensors[i + 1].offset <= at)
        i++;
    return i;
}

int32_t dsf_share(int32_t n, int32_t parts, int32_t p, int32_t *first)
{
    int32_t more = n % parts;

    *first = n / parts * p + (p < more ? p : more);
    return n / parts + (p < more);
}

/* Products on tensor cores need multiples of 8 numbers, 16 bytes in bf16. Their
 * tiles have 64 columns or more, and 64 numbers in bf16 are a whole line of the
 * cache; a multiple of 128 is not faster, and takes more memory. Of a small
 * vocabulary, 64 more rows would be too much, and some tensor ranks would have
 * none: it gets a multiple of 8. */
void dsf_dims_pad(struct dsf_dims *d)
{
    enum { FEW = 64, MANY = 64 * 64 };

    d->vocab_step = d->vocab >= MANY ? 64 : d->vocab >= FEW ? 8 : 1;
    d->vocab_rows = (int32_t)dsf_round_up(d->vocab, d->vocab_step);
}

int32_t dsf_share_vocabulary(const struct dsf_dims *d, int32_t parts, int32_t p,
                             int32_t *first)
{
    int32_t steps = dsf_share(d->vocab_rows / d->vocab_step, parts, p, first);

    *first *= d->vocab_step;
    return steps * d->vocab_step;
}

int64_t dsf_part_align(struct dsf_part *p)
{
    return p->elems = dsf_round_up(p->elems, 16);
}

void dsf_part_take(struct dsf_part *p, int64_t at, int64_t rows, int64_t cols,
                   int64_t ld)
{
    p->blocks[p->nblocks++] =
        (struct dsf_block){ p->elems, at, rows, cols, cols, ld };
    p->elems += rows * cols;
}

int64_t dsf_part_vector(struct dsf_part *p, int64_t at, int64_t n)
{
    int64_t here = dsf_part_align(p);

    if (at < 0)
        return -1;
    dsf_part_take(p, at, 1, n, n);
    return here;
}

/* Of one tensor: its rows, its columns, or all of it. */
static void take(struct dsf_part *p, const struct dsf_tensor *t)
{
    const int64_t rows = t->vector ? t->cols : t->rows;
    const int64_t cols = t->vector ? 1 : t->cols;
    int32_t first, n;

    p->at[t->number] = dsf_part_align(p);
    if (t->cut == DSFLOW_CUT_ROWS) {
        n = dsf_share((int32_t)rows, p->parts, p->part, &first);
        dsf_part_take(p, t->offset + first * cols, n, cols, cols);
    } else if (t->cut == DSFLOW_CUT_COLUMNS) {
        n = dsf_share((int32_t)cols, p->parts, p->part, &first);
        dsf_part_take(p, t->offset + first, rows, n, cols);
    } else {
        dsf_part_take(p, t->offset, rows, cols, cols);
    }
}

void dsf_part_list(struct dsf_part *p, const struct dsf_unit *u)
{
    const bool shared = p->part == p->parts;

    for (unsigned i = 0; i < u->ntensors; i++) {
        const struct dsf_tensor *t = &u->tensors[i];

        if ((t->cut == 0) != shared)
            continue;
        take(p, t);
        if (t->role == DSFLOW_TENSOR_NORM_W)
            p->norm_w = p->at[t->number];
        else if (t->role == DSFLOW_TENSOR_NORM_B)
            p->norm_b = p->at[t->number];
        else if (t->role == DSFLOW_TENSOR_BIAS)
            p->b = p->at[t->number];
        if (t->offset < u->decay)
            p->decay = dsf_part_align(p);
    }
}
