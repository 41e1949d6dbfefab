/* zero_plain.c - without ZeRO: the model's file has all weights, and the
 * optimizer with a number for each parameter, or flat groups of masters. */
#include "foreign/zero_private.h"

#include "base/alloc.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

/* Those of a module, or of a stage of a pipeline, in the order of the
 * optimizer.
 */
struct params {
    struct dsf_zero_source *z;
    struct dsf_zero_param *v;
    uint32_t n;
};

/* Two names of the same numbers: a tied head. */
static bool is_same(const struct dsf_torch_node *a,
                    const struct dsf_torch_node *b)
{
    return a->tensor->storage == b->tensor->storage &&
           a->tensor->offset == b->tensor->offset &&
           a->tensor->elems == b->tensor->elems;
}

/* Parameters, but buffers and those that are there under another name, which
 * are added as such. */
static int list_params(struct params *p, const struct dsf_torch_node *module,
                       struct dsflow_err *err)
{
    struct dsf_zero_source *z = p->z;

    p->v = dsf_xcalloc(module->n + 1, sizeof(*p->v));
    for (uint32_t i = 0; i < module->n; i++) {
        const struct dsf_torch_node *node = dsf_torch_value(module, i);
        const char *name;
        bool again = false;
        int status =
            dsf_torch_str(z->model, dsf_torch_key(module, i), &name, err);

        if (status < 0)
            return status;
        if (!dsf_zero_is_param(z, name, node))
            continue;
        for (uint32_t k = 0; k < p->n && !again; k++)
            again = is_same(p->v[k].node, node);
        if (!again)
            p->v[p->n++] = (struct dsf_zero_param){ .name = (char *)name,
                                                    .file = z->model,
                                                    .node = node };
    }
    return DSFLOW_OK;
}

static int64_t elems_of(const struct dsf_zero_param *p)
{
    return p->node->tensor->elems;
}

/* The tensor of the source for it, with its shape. */
static struct dsf_source_tensor *set_shape(const struct params *p,
                                           const struct dsf_zero_param *v)
{
    struct dsf_source_tensor *t = dsf_pieces_tensor(p->z->source, v->name);
    const struct dsf_torch_tensor *own = v->node->tensor;

    t->ndims = own->ndims;
    memcpy(t->dims, own->dims, own->ndims * sizeof(*t->dims));
    return t;
}

enum { MOST_GROUPS = 3 };

/* Does Muon move it, by DeepSpeed's rule (set_optimizer_flags)? */
static bool is_muons(const struct dsf_zero_param *v)
{
    return v->node->tensor->ndims > 1 && strcasestr(v->name, "embed") == NULL &&
           strcasestr(v->name, "lm_head") == NULL;
}

/* Is a tensor larger, by its first dimension that is not the same? */
static bool is_larger(const struct dsf_zero_param *a,
                      const struct dsf_zero_param *b)
{
    const struct dsf_torch_tensor *x = a->node->tensor, *y = b->node->tensor;
    unsigned d = 0;

    while (d < x->ndims && d < y->ndims && x->dims[d] == y->dims[d])
        d++;
    return d < x->ndims && (d == y->ndims || x->dims[d] > y->dims[d]);
}

/* The place of each in its group: in the order of the module, but for those of
 * Muon, which has the largest first (MuonWithAuxAdam). */
static void find_places(struct params *p, bool muon)
{
    for (uint32_t i = 0; i < p->n; i++) {
        p->v[i].place = 0;
        for (uint32_t k = 0; k < p->n; k++)
            if (p->v[k].group == p->v[i].group &&
                (muon && p->v[i].group == 0
                     ? is_larger(&p->v[k], &p->v[i]) ||
                           (k < i && !is_larger(&p->v[i], &p->v[k]))
                     : k < i))
                p->v[i].place++;
    }
}

/* Which parameters are in which group: all in one; or matrices in the first and
 * vectors in the second, as is usual where some decay; of Muon its matrices,
 * and those of AdamW, in one group or two; the numbers of all must come out. */
static bool share_out(struct params *p, const uint32_t *counts, uint32_t n,
                      bool muon)
{
    uint32_t got[MOST_GROUPS] = { 0 };
    bool fit = n >= 1 && n <= (muon ? 3u : 2u);

    for (uint32_t i = 0; i < p->n && fit; i++) {
        bool vector = p->v[i].node->tensor->ndims < 2;

        p->v[i].group = n == 1               ? 0
                        : !muon              ? vector
                        : is_muons(&p->v[i]) ? 0
                                             : 1 + (n == 3 && vector);
        got[p->v[i].group]++;
    }
    for (uint32_t g = 0; g < n && fit; g++)
        fit = got[g] == counts[g];
    if (fit)
        find_places(p, muon);
    return fit;
}

/* The first parameter whose moments have other numbers than it, and one of
 * them; NULL: none. */
static const struct dsf_zero_param *
find_misfit(const struct params *p, const struct dsf_torch_node *states,
            const uint32_t *counts, const struct dsf_torch_tensor **has)
{
    const uint32_t before[MOST_GROUPS] = { 0, counts[0],
                                           counts[0] + counts[1] };

    for (uint32_t i = 0; i < p->n; i++) {
        const struct dsf_torch_node *state =
            dsf_torch_find_int(states, before[p->v[i].group] + p->v[i].place);
        const struct dsf_torch_node *moment = dsf_torch_find(state, "exp_avg");

        if (moment == NULL)
            moment = dsf_torch_find(state, "momentum_buffer");

        if (moment != NULL && moment->kind == DSF_TORCH_TENSOR &&
            moment->tensor->elems != elems_of(&p->v[i])) {
            *has = moment->tensor;
            return &p->v[i];
        }
    }
    return NULL;
}

static int fail_groups(const struct params *p, const struct dsf_torch_node *at,
                       uint32_t n, struct dsflow_err *err)
{
    return dsf_torch_fail(
        p->z->model, at, err,
        "%u groups of parameters without names: which ones they are is known "
        "of "
        "one group of all %u, and of two, of matrices and of vectors "
        "(--weights-only goes without the moments)",
        n, p->n);
}

/* The order of layers is known by their files: it is a tensor that is wrong.
 */
static int fail_layer(const struct params *p, const struct dsf_zero_param *v,
                      const struct dsf_torch_tensor *moment,
                      struct dsflow_err *err)
{
    const struct dsf_torch_tensor *own = v->node->tensor;
    char has[200], wanted[200];

    return dsf_torch_fail(
        v->file, v->node, err, "shape %s: its moments, in %s, have %s",
        dsf_shape_str(own->ndims, own->dims, has, sizeof(has)),
        dsf_torch_path(p->z->model),
        dsf_shape_str(moment->ndims, moment->dims, wanted, sizeof(wanted)));
}

/* The moments of parameter `i`, whole or a part of a flat group. */
static int add_moments(const struct params *p, const char *name,
                       const struct dsf_torch_node *state, int64_t at,
                       int64_t n, struct dsflow_err *err)
{
    struct dsf_zero_source *z = p->z;
    const struct dsf_source_tensor *t = dsf_source_find(z->source, name);
    const struct dsf_torch_node *moment;
    enum dsf_source_state which;
    uint32_t i = 0;
    int status = DSFLOW_OK;

    while (status == DSFLOW_OK &&
           dsf_state_dict_next(state, &i, &which, &moment))
        status =
            dsf_pieces_add(z->source, t, which, z->model, moment, at, n, err);
    return status;
}

/* The weights of parameter `i` of its group: the master, where there are such,
 * with the shape of the module's. */
static int add_weight(const struct params *p, const struct dsf_zero_param *v,
                      const struct dsf_torch_node *masters, uint32_t i,
                      struct dsflow_err *err)
{
    const struct dsf_torch_node *group;
    int status;

    if (masters == NULL)
        return dsf_zero_whole(p->z, v->file, v->name, v->node,
                              DSF_SOURCE_WEIGHT, err);
    group = dsf_torch_item(masters, (uint32_t)v->group);
    status = dsf_torch_expect(p->z->model, group, DSF_TORCH_LIST, err);
    if (status == DSFLOW_OK && i >= group->n)
        status = fail_groups(p, masters, masters->n, err);
    if (status < 0)
        return status;
    set_shape(p, v);
    return dsf_pieces_add(p->z->source, dsf_source_find(p->z->source, v->name),
                          DSF_SOURCE_WEIGHT, p->z->model,
                          dsf_torch_item(group, i), 0, elems_of(v), err);
}

/* A state_dict of torch: parameters are numbered group after group. `masters`:
 * lists of them, by group, or NULL. */
static int read_numbered(struct params *p,
                         const struct dsf_torch_node *optimizer,
                         const struct dsf_torch_node *masters,
                         struct dsflow_err *err)
{
    struct dsf_zero_source *z = p->z;
    const struct dsf_torch_node *states, *groups;
    const struct dsf_torch_tensor *moment;
    const struct dsf_zero_param *misfit;
    uint32_t counts[MOST_GROUPS] = { 0 }, before[MOST_GROUPS] = { 0 };
    bool muon = false;
    int status = dsf_torch_entry(z->model, optimizer, "state", DSF_TORCH_DICT,
                                 &states, err);

    if (status == DSFLOW_OK)
        status = dsf_torch_entry(z->model, optimizer, "param_groups",
                                 DSF_TORCH_LIST, &groups, err);
    for (uint32_t g = 0;
         status == DSFLOW_OK && g < groups->n && g < MOST_GROUPS; g++) {
        const struct dsf_torch_node *list;

        status = dsf_torch_entry(z->model, dsf_torch_item(groups, g), "params",
                                 DSF_TORCH_LIST, &list, err);
        counts[g] = status == DSFLOW_OK ? list->n : 0;
        before[g] = g > 0 ? before[g - 1] + counts[g - 1] : 0;
        muon = muon ||
               dsf_torch_find(dsf_torch_item(groups, g), "use_muon") != NULL;
    }
    if (status < 0)
        return status;
    if (!share_out(p, counts, groups->n, muon))
        return fail_groups(p, groups, groups->n, err);
    misfit = find_misfit(p, states, counts, &moment);
    if (misfit != NULL)
        return misfit->file != z->model
                   ? fail_layer(p, misfit, moment, err)
                   : fail_groups(p, groups, groups->n, err);
    if (masters != NULL && masters->n != groups->n)
        return fail_groups(p, masters, masters->n, err);
    for (uint32_t i = 0; i < p->n && status == DSFLOW_OK; i++) {
        const struct dsf_zero_param *v = &p->v[i];
        uint32_t at = v->place;
        const struct dsf_torch_node *state =
            dsf_torch_find_int(states, at + before[v->group]);

        if (v->known)
            continue;
        status = add_weight(p, v, masters, at, err);
        if (status == DSFLOW_OK && !z->weights_only)
            status = add_moments(p, v->name, state, 0, elems_of(v), err);
        dsf_state_dict_said(z->source, z->model, groups, state);
    }
    return status;
}

/* FP16_Optimizer: masters and moments of a group are one vector each. */
static int read_flat(struct params *p, const struct dsf_torch_node *optimizer,
                     const struct dsf_torch_node *masters,
                     struct dsflow_err *err)
{
    struct dsf_zero_source *z = p->z;
    const struct dsf_torch_node *inner =
        dsf_torch_find(optimizer, "optimizer_state_dict");
    const struct dsf_torch_node *states = dsf_torch_find(inner, "state");
    int64_t at[2] = { 0, 0 };
    int status = DSFLOW_OK;

    for (uint32_t i = 0; i < p->n; i++)
        p->v[i].group = masters->n == 1 ? 0 : p->v[i].node->tensor->ndims < 2;
    if (masters->n < 1 || masters->n > 2)
        return fail_groups(p, masters, masters->n, err);
    for (uint32_t i = 0; i < p->n && status == DSFLOW_OK; i++) {
        const struct dsf_zero_param *v = &p->v[i];
        const struct dsf_torch_node *state =
            dsf_torch_find_int(states, v->group);
        const struct dsf_source_tensor *t = set_shape(p, v);

        status = dsf_pieces_add(z->source, t, DSF_SOURCE_WEIGHT, z->model,
                                dsf_torch_item(masters, (uint32_t)v->group),
                                at[v->group], elems_of(v), err);
        if (status == DSFLOW_OK && !z->weights_only)
            status =
                add_moments(p, v->name, state, at[v->group], elems_of(v), err);
        at[v->group] += elems_of(v);
        dsf_state_dict_said(z->source, z->model,
                            dsf_torch_find(inner, "param_groups"), state);
    }
    /* What is left over was another group's, or it is frozen. */
    for (uint32_t g = 0; g < masters->n && status == DSFLOW_OK; g++)
        if (dsf_torch_item(masters, g)->kind != DSF_TORCH_TENSOR ||
            at[g] != dsf_torch_item(masters, g)->tensor->elems)
            status = fail_groups(p, masters, masters->n, err);
    return status;
}

/* Without an optimizer, or without need of it. */
static int read_module(const struct params *p, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (uint32_t i = 0; i < p->n && status == DSFLOW_OK; i++)
        if (!p->v[i].known)
            status = add_weight(p, &p->v[i], NULL, 0, err);
    return status;
}

/* The names that are there twice: of the same numbers as another. */
static void add_again(struct params *p, const struct dsf_torch_node *module)
{
    struct dsf_source *s = p->z->source;

    for (uint32_t i = 0; i < module->n; i++) {
        const struct dsf_torch_node *node = dsf_torch_value(module, i);
        const char *name = dsf_torch_key(module, i)->str;

        for (uint32_t k = 0; node->kind == DSF_TORCH_TENSOR && k < p->n; k++) {
            struct dsf_source_tensor *t;

            if (!is_same(p->v[k].node, node) || p->v[k].name == name ||
                dsf_source_find(s, name) != NULL)
                continue;
            t = dsf_pieces_tensor(s, name);
            dsf_pieces_again(s, dsf_source_find(s, p->v[k].name), t);
        }
    }
}

/* How many parameters an optimizer of torch has; 0: it does not say. */
static uint32_t count_of(const struct dsf_torch_node *optimizer)
{
    const struct dsf_torch_node *groups =
        dsf_torch_find(optimizer, "param_groups");
    uint32_t n = 0;

    for (uint32_t g = 0;
         groups != NULL && groups->kind == DSF_TORCH_LIST && g < groups->n;
         g++) {
        const struct dsf_torch_node *list =
            dsf_torch_find(dsf_torch_item(groups, g), "params");

        if (list != NULL && list->kind == DSF_TORCH_LIST)
            n += list->n;
    }
    return n;
}

/* Does a matrix or vector of the last layers of a stage have the numbers that
 * the optimizer has last? Then these are the stage's. */
static bool ends_alike(const struct dsf_zero_source *z,
                       const struct dsf_torch_node *optimizer, size_t end,
                       uint32_t n)
{
    const struct dsf_torch_node *groups =
        dsf_torch_find(optimizer, "param_groups");
    const struct dsf_torch_node *last = dsf_torch_find(
        dsf_torch_find_int(dsf_torch_find(optimizer, "state"), n - 1),
        "exp_avg");

    return end <= z->nlayers && end > z->used &&
           (groups->n > 1 || last == NULL || last->kind != DSF_TORCH_TENSOR ||
            last->tensor->elems == elems_of(&z->layers[end - 1]));
}

/* What a stage has, of all layers: as many as its optimizer, from where the
 * stage before ended; and first, where those would not be them, what is tied:
 * the first layer again. */
static int list_stage(struct params *p, const struct dsf_torch_node *optimizer,
                      struct dsflow_err *err)
{
    struct dsf_zero_source *z = p->z;
    uint32_t n = count_of(optimizer), tied = 0;

    if (n == 0) /* no optimizer: all at once */
        n = (uint32_t)(z->nlayers - z->used);
    else if (z->used > 0 && z->first <= n &&
             !ends_alike(z, optimizer, z->used + n, n) &&
             (ends_alike(z, optimizer, z->used + n - z->first, n) ||
              z->used + n > z->nlayers))
        tied = (uint32_t)z->first;
    if (z->used + n - tied > z->nlayers)
        return dsf_torch_fail(z->model, optimizer, err,
                              "has %u parameters: the files of layers have %zu "
                              "of them: expected a file of each layer",
                              n, z->nlayers - z->used + tied);
    p->v = dsf_xcalloc(n + 1, sizeof(*p->v));
    for (uint32_t i = 0; i < n; i++) {
        p->v[i] = z->layers[i < tied ? i : z->used + i - tied];
        p->v[i].known = i < tied;
    }
    p->n = n;
    z->used += n - tied;
    return DSFLOW_OK;
}

/* ZeRO keeps masters and moments in files of ranks: without those there are the
 * narrow weights of stages 1 and 2, for a run that begins with them. */
static int check_no_shards(const struct dsf_zero_source *z,
                           struct dsflow_err *err)
{
    const struct dsf_torch_node *shapes =
        dsf_torch_find(z->root, "param_shapes");
    bool whole = dsf_folder_find(&z->folder, DSF_FOLDER_MODEL) != NULL;

    if (shapes == NULL || shapes->kind != DSF_TORCH_LIST ||
        (whole && z->weights_only))
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: is of ZeRO and has no files …_optim_states.pt: "
                       "expected those of all ranks (they may be on other "
                       "nodes)%s",
                       z->folder.path, whole ? ", or --weights-only" : "");
}

int dsf_zero_plain(struct dsf_zero_source *z, struct dsflow_err *err)
{
    const struct dsf_torch_node *optimizer =
        dsf_torch_find(z->root, "optimizer");
    const struct dsf_torch_node *flat =
        dsf_torch_find(optimizer, "fp32_groups_flat");
    const struct dsf_torch_node *masters =
        dsf_torch_find(optimizer, "fp32_groups");
    const struct dsf_torch_node *module = dsf_torch_find(z->root, "module");
    struct params p = { .z = z };
    int status = check_no_shards(z, err);

    z->stage = 0;
    if (status < 0)
        return status;
    if (dsf_folder_find(&z->folder, DSF_FOLDER_LAYER) != NULL) {
        status = dsf_zero_layers(z, err);
        if (status == DSFLOW_OK)
            status = list_stage(
                &p,
                masters != NULL
                    ? dsf_torch_find(optimizer, "optimizer_state_dict")
                    : optimizer,
                err);
        module = NULL;
    } else {
        status = dsf_torch_entry(z->model, z->root, "module", DSF_TORCH_DICT,
                                 &module, err);
        if (status == DSFLOW_OK)
            status = list_params(&p, module, err);
    }
    if (status == DSFLOW_OK && flat != NULL && flat->kind == DSF_TORCH_LIST)
        status = read_flat(&p, optimizer, flat, err);
    else if (status == DSFLOW_OK && masters != NULL &&
             masters->kind == DSF_TORCH_LIST)
        status =
            read_numbered(&p, dsf_torch_find(optimizer, "optimizer_state_dict"),
                          masters, err);
    else if (status == DSFLOW_OK && !z->weights_only && optimizer != NULL &&
             optimizer->kind == DSF_TORCH_DICT)
        status = read_numbered(&p, optimizer, NULL, err);
    else if (status == DSFLOW_OK)
        status = read_module(&p, err);
    if (status == DSFLOW_OK && module != NULL)
        add_again(&p, module);
    free(p.v);
    return status;
}
