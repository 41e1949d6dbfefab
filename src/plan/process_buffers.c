/* process_buffers.c - buffers of what goes between processes. There are so many
 * of each that one task's may come, or go, while another's are used. */
#include "plan/process_buffers.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 2 };

/* Buffers of a size. */
struct turns {
    const char *name;
    int16_t rank;
    uint8_t dtype;
    int64_t elems;
    uint32_t turn;               /* of tasks with such buffers */
    struct dsf_left left[TURNS]; /* in those that leave */
    bool has[TURNS];
};

static struct turns *turns_of(struct dsf_process_buffers *b, const char *name,
                              int16_t rank, uint8_t dtype, int64_t elems)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].rank == rank && b->v[i].dtype == dtype &&
            b->v[i].elems == elems && strcmp(b->v[i].name, name) == 0)
            return &b->v[i];
    dsf_grow(&b->v, &b->cap, b->n + 1, sizeof(*b->v));
    b->v[b->n] = (struct turns){
        .name = name, .rank = rank, .dtype = dtype, .elems = elems
    };
    return &b->v[b->n++];
}

static dsflow_data_id buffer(struct dsflow_graph *g, const struct turns *t,
                             uint32_t turn, unsigned k)
{
    dsflow_data_id id;
    char name[128];

    snprintf(name, sizeof(name), "%s.%s.z%lld.%u.%u.r%d", t->name,
             dsflow_dtype_str((enum dsflow_dtype)t->dtype), (long long)t->elems,
             turn, k, t->rank);
    if (dsflow_graph_find(g, name, &id))
        return id;
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = t->elems, .dtype = t->dtype,
                        .role = DSFLOW_BUFFERS, .home = t->rank, .unit = -1));
}

dsflow_data_id dsf_process_buffer(struct dsf_process_buffers *b,
                                  struct dsflow_graph *g, const char *name,
                                  int16_t rank, uint8_t dtype, int64_t elems,
                                  unsigned k)
{
    const struct turns *t = turns_of(b, name, rank, dtype, elems);

    return buffer(g, t, t->turn % TURNS, k);
}

void dsf_process_buffers_turn(struct dsf_process_buffers *b, int16_t rank)
{
    for (size_t i = 0; i < b->n; i++)
        b->v[i].turn +=
            b->v[i].rank == rank && strcmp(b->v[i].name, DSF_LEAVING) != 0;
}

static bool is_same(const struct dsf_left *a, const struct dsf_left *b)
{
    return a->data.i == b->data.i && a->written == b->written &&
           a->from == b->from && a->program == b->program;
}

bool dsf_process_leaving(struct dsf_process_buffers *b, struct dsflow_graph *g,
                         int16_t rank, uint8_t dtype, int64_t elems,
                         const struct dsf_left *what, dsflow_data_id *id)
{
    struct turns *t = turns_of(b, DSF_LEAVING, rank, dtype, elems);
    uint32_t turn;

    for (turn = 0; turn < TURNS; turn++)
        if (t->has[turn] && is_same(&t->left[turn], what)) {
            *id = buffer(g, t, turn, 0);
            return true;
        }
    turn = t->turn++ % TURNS;
    t->left[turn] = *what;
    t->has[turn] = true;
    *id = buffer(g, t, turn, 0);
    return false;
}

void dsf_process_buffers_fini(struct dsf_process_buffers *b)
{
    free(b->v);
    *b = (struct dsf_process_buffers){ .v = NULL };
}
