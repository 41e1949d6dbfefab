/* zero_joined.c - tensors that tensor ranks share: which share each has is said
 * by patterns of names in universal_checkpoint_info, which AutoTP and
 * Megatron-DeepSpeed keep with a checkpoint (checkpoint/ds_to_universal.py,
 * merge_tp_slices), or follows from the names of Megatron-LM
 * (runtime/state_dict_factory.py, MegatronSDLoader). */
#include "foreign/megatron_names.h"
#include "foreign/zero_affine.h"
#include "foreign/zero_joining.h"

#include "base/alloc.h"
#include "base/units.h"
#include "foreign/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- reading -------------------------------------------------------------- */

struct reading {
    const struct dsf_joined_source *j;
    const struct dsf_joined_of *of;
    enum dsf_source_state state;
};

static int read_rank(void *of, int rank, int64_t at, int64_t n, float *to,
                     struct dsflow_err *err)
{
    const struct reading *r = of;
    struct dsf_source *s = &r->j->ranks[rank];

    return s->read(s, &s->tensors[r->of->at[rank]], r->state, at, (size_t)n, to,
                   err);
}

static int read_joined(struct dsf_source *s, const struct dsf_source_tensor *t,
                       enum dsf_source_state state, int64_t first, size_t n,
                       float *to, struct dsflow_err *err)
{
    const struct dsf_joined_source *j = s->of;
    struct reading r = { j, &j->v[t->at], state };
    int status =
        dsf_merge_read(&r.of->merge, read_rank, &r, first, (int64_t)n, to, err);
    char *where;

    if (status != DSFLOW_EINVAL)
        return status;
    where = dsf_xasprintf("%s: %s (%s)", s->path, t->name,
                          dsf_source_state_str(state));
    dsflow_fail_in(err, status, where);
    free(where);
    return status;
}

static void close_joined(struct dsf_source *s)
{
    struct dsf_joined_source *j = s->of;

    for (size_t i = 0; i < j->count; i++) {
        dsf_merge_fini(&j->v[i].merge);
        free(j->v[i].at);
    }
    for (int r = 0; r < j->n; r++)
        dsf_source_fini(&j->ranks[r]);
    free(j->ranks);
    free(j->v);
    free(j);
}

/* --- what the checkpoint says --------------------------------------------- */

const struct dsf_source_tensor *dsf_joining_rank(const struct dsf_joining *g,
                                                 int r)
{
    return &g->j->ranks[r].tensors[g->of->at[r]];
}

/* Does a pattern match the name? 1, 0, or an error with its place. */
static int matches(const struct dsf_joining *g,
                   const struct dsf_torch_node *node, struct dsflow_err *err)
{
    struct dsflow_err why = { .msg = "" };
    const char *pattern;
    int found;

    if (dsf_torch_str(g->z->info_of, node, &pattern, err) < 0)
        return DSFLOW_EINVAL;
    found = dsf_pattern_match(pattern, g->name, &why);
    return found >= 0 ? found
                      : dsf_torch_fail(g->z->info_of, node, err, "%s", why.msg);
}

int dsf_joining_matches(const struct dsf_joining *g,
                        const struct dsf_torch_node *list,
                        const struct dsf_torch_node **which,
                        struct dsflow_err *err)
{
    int found = 0;

    for (uint32_t i = 0; list != NULL && found == 0 && i < list->n; i++) {
        const struct dsf_torch_node *node =
            list->kind == DSF_TORCH_DICT ? dsf_torch_key(list, i)
            : list->kind == DSF_TORCH_LIST || list->kind == DSF_TORCH_TUPLE
                ? dsf_torch_item(list, i)
                : NULL;

        if (node == NULL)
            break;
        found = matches(g, node, err);
        if (found > 0 && which != NULL)
            *which = node;
    }
    return found;
}

static int listed(const struct dsf_joining *g, const char *key,
                  struct dsflow_err *err)
{
    return dsf_joining_matches(g, dsf_torch_find(g->z->info, key), NULL, err);
}

int dsf_joining_fail(const struct dsf_joining *g, int rank,
                     const char *expected, struct dsflow_err *err)
{
    const struct dsf_source_tensor *t = dsf_joining_rank(g, rank);
    char has[200];

    return dsflow_fail(
        err, DSFLOW_EINVAL, "%s: %s: tensor rank %d has %s of it: expected %s",
        g->j->ranks[0].path, g->name, rank,
        dsf_shape_str(t->ndims, t->dims, has, sizeof(has)), expected);
}

/* All have the whole of it. */
static int all_whole(const struct dsf_joining *g, enum dsf_merge_kind kind,
                     struct dsflow_err *err)
{
    for (int r = 1; r < g->j->n; r++)
        if (dsf_joining_rank(g, r)->ndims != g->t->ndims ||
            memcmp(dsf_joining_rank(g, r)->dims, g->t->dims,
                   g->t->ndims * sizeof(*g->t->dims)) != 0)
            return dsf_joining_fail(g, r, "the shape that rank 0 has", err);
    g->of->merge = (struct dsf_merge){ .kind = kind, .ranks = g->j->n };
    return DSFLOW_OK;
}

/* Joined along a dimension, of which ranks may have different shares where it
 * is one block. */
static int join_along(const struct dsf_joining *g, unsigned dim,
                      unsigned blocks, struct dsflow_err *err)
{
    int64_t n = 0;

    if (g->t->ndims <= dim)
        return dsf_joining_fail(g, 0, "a matrix", err);
    for (int r = 0; r < g->j->n; r++) {
        const struct dsf_source_tensor *t = dsf_joining_rank(g, r);

        for (unsigned d = 0; d < g->t->ndims; d++)
            if (t->ndims != g->t->ndims ||
                ((d != dim || blocks > 1) && t->dims[d] != g->t->dims[d]))
                return dsf_joining_fail(g, r, "the shape that rank 0 has", err);
        n += t->dims[dim];
    }
    if (g->t->dims[dim] % blocks != 0)
        return dsf_joining_fail(g, 0, "a multiple of its parts", err);
    dsf_merge_join(&g->of->merge, g->j->n, blocks, dim, g->t->ndims,
                   g->t->dims);
    for (int r = 0; r < g->j->n && blocks == 1; r++)
        g->of->merge.widths[r] = dsf_joining_rank(g, r)->dims[dim];
    g->t->dims[dim] = n;
    return DSFLOW_OK;
}

/* --- how it is joined ----------------------------------------------------- */

/* Rows of the vocabulary, without those that fill it up. */
static int cut_vocabulary(const struct dsf_joining *g, struct dsflow_err *err)
{
    const struct dsf_torch_node *node;
    int64_t rows;
    int found = listed(g, "vocabulary_parameter_patterns", err);

    if (found <= 0)
        return found;
    if (dsf_torch_entry(g->z->info_of, g->z->info, "original_vocab_size",
                        DSF_TORCH_INT, &node, err) < 0 ||
        dsf_torch_int(g->z->info_of, node, &rows, err) < 0)
        return DSFLOW_EINVAL;
    if (rows < 1 || rows > g->t->dims[0])
        return dsf_torch_fail(g->z->info_of, node, err,
                              "%lld: %s has %lld rows in all", (long long)rows,
                              g->name, (long long)g->t->dims[0]);
    g->t->dims[0] = rows;
    return DSFLOW_OK;
}

/* In the order of merge_tp_slices. */
static int join_by_info(const struct dsf_joining *g, struct dsflow_err *err)
{
    const struct dsf_torch_node *unsupported =
        dsf_torch_find(g->z->info, "autotp_unsupported_parameter_patterns");
    struct dsf_parted parted;
    int status, found = dsf_joining_matches(g, unsupported, NULL, err);

    if (found > 0)
        return dsf_torch_fail(g->z->info_of, unsupported, err,
                              "%s: says that it cannot be joined", g->name);
    if (found == 0)
        found = listed(g, "tp_replicated_parameter_patterns", err);
    if (found > 0)
        return all_whole(g, DSF_MERGE_SAME, err);
    if (found == 0)
        found = listed(g, "parameter_to_average_patterns", err);
    if (found > 0)
        return all_whole(g, DSF_MERGE_AVERAGE, err);
    if (found == 0)
        found = listed(g, "parameter_with_2_sub_params_cat_dim_0", err);
    if (found > 0)
        return join_along(g, 0, 2, err);
    if (found == 0)
        found = dsf_parted_find(g, &parted, err);
    if (found < 0)
        return found;
    if (found > 0) {
        status = dsf_parted_join(g, &parted, err);
    } else {
        found = listed(g, "parameter_with_row_parallelism_patterns", err);
        status = found < 0 ? found : join_along(g, found > 0, 1, err);
    }
    return status == DSFLOW_OK ? cut_vocabulary(g, err) : status;
}

/* Has the first product of a feed-forward twice the rows that the second has
 * columns? Then it is gate and up. */
static bool is_gated(const struct dsf_source *names,
                     const struct dsf_source *rank, int layer)
{
    int64_t up = 0, down = 0;

    for (size_t i = 0; i < rank->n; i++) {
        const struct dsf_source_tensor *t = &rank->tensors[i];
        int of;
        enum dsf_megatron_role role =
            dsf_megatron_role_of(names->tensors[i].name, &of);

        if (of == layer && t->ndims == 2 && role == DSF_MEGATRON_UP_W)
            up = t->dims[0];
        if (of == layer && t->ndims == 2 && role == DSF_MEGATRON_DOWN_W)
            down = t->dims[1];
    }
    return up > 0 && up == 2 * down;
}

/* By its name in Megatron-LM; files of version 0 have queries, keys and values
 * one after the other on each rank. */
static int join_by_name(const struct dsf_joining *g,
                        const struct dsf_source *names, struct dsflow_err *err)
{
    const struct dsf_torch_node *node =
        dsf_torch_find(g->z->root, "checkpoint_version");
    double version = 0;
    int layer;
    enum dsf_megatron_role role = dsf_megatron_role_of(g->t->name, &layer);
    int along = dsf_megatron_shared_along(role);
    unsigned blocks = 1;

    if (role == DSF_MEGATRON_OTHER)
        return dsflow_fail(
            err, DSFLOW_ENOSYS,
            "%s: %s: is shared by %d ranks, and it does not say how "
            "(universal_checkpoint_info): expected a name of Megatron-LM's, or "
            "a universal checkpoint (ds_to_universal)",
            g->j->ranks[0].path, g->name, g->j->n);
    if (along < 0)
        return all_whole(g, DSF_MERGE_FIRST, err);
    if (node != NULL)
        dsf_torch_real(g->z->model, node, &version, NULL);
    if (role == DSF_MEGATRON_QKV_W || role == DSF_MEGATRON_QKV_B)
        blocks = version < 1 ? 3 : 1;
    else if (role == DSF_MEGATRON_UP_W || role == DSF_MEGATRON_UP_B)
        blocks = is_gated(names, &g->j->ranks[0], layer) ? 2 : 1;
    return join_along(g, (unsigned)along, blocks, err);
}

/* --- all of them ---------------------------------------------------------- */

/* Where each rank has the tensor; what all of them have of it. */
static int find_in_ranks(const struct dsf_joining *g, struct dsflow_err *err)
{
    for (int r = 0; r < g->j->n; r++) {
        const struct dsf_source *s = &g->j->ranks[r];
        const struct dsf_source_tensor *t = dsf_source_find(s, g->name);

        if (t == NULL || s->n != g->j->ranks[0].n)
            return dsflow_fail(
                err, DSFLOW_EINVAL,
                t == NULL ? "%s: %s: tensor rank %d does not have it"
                          : "%s: %s: tensor rank %d has other tensors beside "
                            "it than rank 0",
                s->path, g->name, r);
        g->of->at[r] = (size_t)(t - s->tensors);
        if (dsf_source_elems(t) > 0) /* or it has none of it */
            g->t->has &= t->has;
    }
    return DSFLOW_OK;
}

/* What is said beside tensors is alike on all ranks. */
static void take_said(struct dsf_source *out, const struct dsf_source *from)
{
    memcpy(out->what, from->what, sizeof(out->what));
    out->steps = from->steps;
    out->skipped = from->skipped;
    out->updates = from->updates;
    out->samples = from->samples;
    memcpy(out->optimizer, from->optimizer, sizeof(out->optimizer));
    out->lr = from->lr;
    memcpy(out->betas, from->betas, sizeof(out->betas));
    out->eps = from->eps;
    out->weight_decay = from->weight_decay;
    out->least_decay = from->least_decay;
    out->momentum = from->momentum;
    out->clips_updates = from->clips_updates;
    out->scale = from->scale;
}

int dsf_zero_join(const struct dsf_zero_source *first, struct dsf_source *ranks,
                  int n, void (*rename)(struct dsf_source *s),
                  struct dsf_source *out, struct dsflow_err *err)
{
    struct dsf_joined_source *j = dsf_xcalloc(1, sizeof(*j));
    bool said = first->info != NULL && first->info->kind == DSF_TORCH_DICT;
    size_t at;
    int status = DSFLOW_OK;

    *j = (struct dsf_joined_source){ .ranks = ranks,
                                     .n = n,
                                     .count = ranks[0].n };
    j->v = dsf_xcalloc(j->count + 1, sizeof(*j->v));
    out->of = j;
    out->read = read_joined;
    out->close = close_joined;
    take_said(out, &ranks[0]);
    at = strlen(out->what);
    snprintf(out->what + at, sizeof(out->what) - at, ", %d tensor ranks", n);
    for (size_t i = 0; i < j->count; i++) {
        const struct dsf_source_tensor *from = &ranks[0].tensors[i];
        struct dsf_source_tensor *t = dsf_source_add(out, from->name);
        char *name = t->name;

        *t = *from;
        t->name = name;
        t->at = i;
    }
    rename(out);
    for (size_t i = 0; i < j->count && status == DSFLOW_OK; i++) {
        const struct dsf_joining g = { first, j, &j->v[i],
                                       ranks[0].tensors[i].name,
                                       &out->tensors[i] };

        j->v[i].at = dsf_xcalloc((size_t)n, sizeof(*j->v[i].at));
        status = find_in_ranks(&g, err);
        if (status == DSFLOW_OK)
            status = said ? join_by_info(&g, err) : join_by_name(&g, out, err);
        if (status == DSFLOW_OK && said)
            status = dsf_zero_check_affine(first, g.name, &j->v[i].merge, err);
    }
    return status;
}
