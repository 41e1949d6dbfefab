/* same_bits_rows.c - random cases of gradients that go as the rows that tokens
 * have touched: few rows or all, of any width, pieces that begin and end
 * anywhere, and more terms than one launch is told of. */
#include "gpu/same_bits.h"
#include "tasks/tasks.h"

#include <string.h>

/* Some numbers of a row that is not all zeroes, of which only few rows are: -0
 * is one of them. */
static void fill_dense(struct trial *t, float *v, int64_t elems)
{
    const struct dsf_rows_args *a = (const void *)t->args;
    const int64_t few = any(t, 1, 4);
    bool has = false;

    for (int64_t i = 0; i < elems; i++) {
        if ((i - a->at) % a->width == 0)
            has = one_in(t, few);
        v[i] = has && one_in(t, 2) ? any_float(t, false) : 0;
    }
}

/* Now and then more than fit. */
static void fill_packed(struct trial *t, int64_t *count)
{
    const struct dsf_rows_args *a = (const void *)t->args;
    const bool plain = one_in(t, 2);
    char *at = (char *)(count + 1);
    int64_t row = any(t, -1, 3);

    *count = one_in(t, 64) ? -1 : any(t, 0, a->most);
    for (int64_t i = 0; i < *count; i++, at += dsf_row_bytes(a)) {
        row += any(t, 1, 3);
        memcpy(at, &row, sizeof(row));
        for (int64_t k = 0; k < a->width; k++) {
            const float v = any_float(t, plain);

            memcpy(at + sizeof(row) + 4 * k, &v, sizeof(v));
        }
    }
}

bool fill_rows(struct trial *t, unsigned port)
{
    const bool packs = strcmp(t->op, "pack_rows") == 0;

    if (packs && port == 0)
        fill_dense(t, t->before[0], t->shapes[0].elems);
    else if (strcmp(t->op, "add_rows") == 0 && port > 0)
        fill_packed(t, t->before[port]);
    else
        return packs;
    return true;
}

void make_pack_rows(struct trial *t)
{
    struct dsf_rows_args *a = (void *)t->args;

    a->width = one_in(t, 2) ? any(t, 1, 40) : 4 * any(t, 1, 40);
    a->most = any(t, 1, one_in(t, 4) ? 1500 : 60);
    a->elems = one_in(t, 8) ? a->width * any(t, 900, 1500) : any_size(t);
    a->at = any_start(t);
    t->n = 2;
    t->fresh = 2;
    t->shapes[0] = floats(a->at + a->elems + any(t, 0, 3));
    t->shapes[1] = dsflow_shape_of(DSFLOW_BYTES, dsf_rows_bytes(a));
}

/* A piece that begins and ends anywhere; now and then more terms than one
 * launch adds. */
void make_add_rows(struct trial *t)
{
    struct dsf_rows_args *a = (void *)t->args;
    const bool many = one_in(t, 8);

    a->width = any(t, 1, 40);
    a->most = any(t, 1, many ? 4 : 60);
    a->elems = many ? any(t, 0, 200) : any_size(t);
    a->at = any(t, 0, 3 * a->width);
    a->into_at = any_start(t);
    t->n = (unsigned)(many ? any(t, 30, MOST_PORTS) : any(t, 2, 20));
    t->fresh = one_in(t, 2);
    t->shapes[0] = floats(a->into_at + a->elems + any(t, 0, 3));
    for (unsigned i = 1; i < t->n; i++)
        t->shapes[i] = dsflow_shape_of(DSFLOW_BYTES, dsf_rows_bytes(a));
}
