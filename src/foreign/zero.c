/* zero.c - a checkpoint folder of DeepSpeed: which layout it is, and what is
 * said beside the tensors. */
#include "foreign/zero.h"

#include "base/alloc.h"
#include "foreign/zero_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An optional whole number; `value` stays where there is none. */
static int take_int(const struct dsf_zero *z, const char *key, int64_t *value,
                    struct dsflow_err *err)
{
    const struct dsf_torch_node *n = dsf_torch_find(z->root, key);

    return n == NULL || n->kind == DSF_TORCH_NONE
               ? DSFLOW_OK
               : dsf_torch_int(z->model, n, value, err);
}

/* The optimizer of the configuration that is kept with it. */
static void take_optimizer(struct dsf_zero *z)
{
    const struct dsf_torch_node *type = dsf_torch_find(
        dsf_torch_find(dsf_torch_find(z->root, "ds_config"), "optimizer"),
        "type");

    if (type != NULL && type->kind == DSF_TORCH_STR)
        snprintf(z->source->optimizer, sizeof(z->source->optimizer), "%s",
                 type->str);
}

static int take_numbers(struct dsf_zero *z, struct dsflow_err *err)
{
    struct dsf_source *s = z->source;
    int status = take_int(z, "global_steps", &s->steps, err);

    if (status == DSFLOW_OK)
        status = take_int(z, "skipped_steps", &s->skipped, err);
    if (status == DSFLOW_OK)
        status = take_int(z, "global_samples", &s->samples, err);
    take_optimizer(z);
    return status;
}

/* The loss scaler of ZeRO's optimizers, an object; of FP16_Optimizer the same
 * numbers stand in its dict. */
static void take_scale(struct dsf_zero *z, const struct dsf_torch_file *file,
                       const struct dsf_torch_node *in)
{
    static const struct {
        const char *name;
        size_t at;
    } numbers[] = {
        { "cur_iter", offsetof(struct dsf_source_scale, steps) },
        { "last_overflow_iter",
          offsetof(struct dsf_source_scale, last_overflow) },
        { "cur_hysteresis", offsetof(struct dsf_source_scale, hysteresis) },
    };
    struct dsf_source_scale scale = { .is_there = true, .hysteresis = 1 };
    const struct dsf_torch_node *n = dsf_torch_find(in, "cur_scale");

    if (n == NULL || dsf_torch_real(file, n, &scale.scale, NULL) < 0 ||
        dsf_torch_find(in, "last_overflow_iter") == NULL)
        return; /* none, or one that does not change */
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        n = dsf_torch_find(in, numbers[i].name);
        if (n != NULL)
            dsf_torch_int(file, n, (int64_t *)((char *)&scale + numbers[i].at),
                          NULL);
    }
    z->source->scale = scale;
}

int dsf_zero_shape(struct dsf_zero *z, const struct dsf_torch_file *file,
                   const struct dsf_torch_node *shape,
                   struct dsf_source_tensor *t, struct dsflow_err *err)
{
    int64_t dims[8], elems = 1;
    char text[200];
    int status = dsf_torch_expect(file, shape, DSF_TORCH_LIST, err);

    if (status < 0)
        return status;
    if (shape->n > 8)
        return dsf_torch_fail(file, shape, err,
                              "%u dimensions: expected at "
                              "most 8",
                              shape->n);
    for (uint32_t d = 0; d < shape->n; d++) {
        status = dsf_torch_int(file, dsf_torch_item(shape, d), &dims[d], err);
        if (status < 0)
            return status;
        if (dims[d] < 1 || elems > ((int64_t)1 << 50) / dims[d])
            return dsf_torch_fail(file, shape, err,
                                  "%s: %lld: expected sizes "
                                  "of 1 and more, of at most 2^50 numbers",
                                  t->name, (long long)dims[d]);
        elems *= dims[d];
    }
    if (t->ndims > 0 && (t->ndims != shape->n ||
                         memcmp(dims, t->dims, t->ndims * sizeof(*dims)) != 0))
        return dsf_torch_fail(
            file, shape, err,
            "%s: another shape than in a file before: "
            "expected %s",
            t->name, dsf_source_shape(t->ndims, t->dims, text, sizeof(text)));
    t->ndims = shape->n;
    memcpy(t->dims, dims, shape->n * sizeof(*dims));
    return DSFLOW_OK;
}

int dsf_zero_whole(struct dsf_zero *z, const struct dsf_torch_file *file,
                   const char *name, const struct dsf_torch_node *node,
                   enum dsf_source_state state, struct dsflow_err *err)
{
    const struct dsf_torch_tensor *tensor;
    struct dsf_source_tensor *t;
    int status = dsf_torch_tensor(file, node, &tensor, err);

    if (status < 0)
        return status;
    t = dsf_pieces_tensor(z->source, name);
    if (t->ndims == 0) {
        t->ndims = tensor->ndims;
        memcpy(t->dims, tensor->dims, tensor->ndims * sizeof(*t->dims));
    }
    return dsf_pieces_add(z->source, t, state, file, node, 0, tensor->elems,
                          err);
}

bool dsf_zero_state_of(const char *name, enum dsf_source_state *state)
{
    static const struct {
        const char *name;
        enum dsf_source_state state;
    } states[] = {
        { "exp_avg", DSF_SOURCE_FIRST },
        { "momentum_buffer", DSF_SOURCE_FIRST },
        { "sum", DSF_SOURCE_FIRST },
        { "exp_avg_sq", DSF_SOURCE_SECOND },
    };

    for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++)
        if (strcmp(states[i].name, name) == 0) {
            *state = states[i].state;
            return true;
        }
    return false;
}

/* A number, or a tensor of one. */
static bool read_number(const struct dsf_torch_file *file,
                        const struct dsf_torch_node *n, double *x)
{
    float f;

    if (n == NULL)
        return false;
    if (n->kind == DSF_TORCH_TENSOR && n->tensor->elems == 1) {
        if (dsf_torch_read_f32(file, n->tensor, 0, 1, &f, NULL) < 0)
            return false;
        *x = (double)f;
        return true;
    }
    return dsf_torch_real(file, n, x, NULL) == DSFLOW_OK;
}

void dsf_zero_updates(struct dsf_zero *z, const struct dsf_torch_file *file,
                      const struct dsf_torch_node *groups,
                      const struct dsf_torch_node *state)
{
    struct dsf_source *s = z->source;
    const struct dsf_torch_node *group =
        groups != NULL && groups->kind == DSF_TORCH_LIST && groups->n > 0
            ? dsf_torch_item(groups, 0)
            : NULL;
    double x;

    if (s->updates < 0 &&
        (read_number(file, dsf_torch_find(state, "step"), &x) ||
         read_number(file, dsf_torch_find(group, "step"), &x)) &&
        x >= 0 && x < 0x1p62)
        s->updates = (int64_t)x;
    if (isnan(s->lr) && read_number(file, dsf_torch_find(group, "lr"), &x))
        s->lr = x;
}

bool dsf_zero_is_buffer(const struct dsf_zero *z, const char *name)
{
    const struct dsf_torch_node *list = dsf_torch_find(z->root, "buffer_names");

    for (uint32_t i = 0;
         list != NULL && list->kind == DSF_TORCH_LIST && i < list->n; i++) {
        const struct dsf_torch_node *n = dsf_torch_item(list, i);

        if (n->kind == DSF_TORCH_STR && strcmp(n->str, name) == 0)
            return true;
    }
    return false;
}

int dsf_zero_shared(struct dsf_zero *z, struct dsflow_err *err)
{
    const struct dsf_torch_node *shared =
        dsf_torch_find(z->root, "shared_params");
    struct dsf_source *s = z->source;

    for (uint32_t i = 0;
         shared != NULL && shared->kind == DSF_TORCH_DICT && i < shared->n;
         i++) {
        const char *name, *other;
        struct dsf_source_tensor *t, *of;
        int status =
            dsf_torch_str(z->model, dsf_torch_key(shared, i), &name, err);

        if (status == DSFLOW_OK)
            status = dsf_torch_str(z->model, dsf_torch_value(shared, i), &other,
                                   err);
        if (status < 0)
            return status;
        if (dsf_source_find(s, other) == NULL ||
            dsf_source_find(s, name) != NULL)
            continue;
        t = dsf_pieces_tensor(s, name);
        of = dsf_source_find(s, other);
        dsf_pieces_again(s, of, t);
    }
    return DSFLOW_OK;
}

/* Of one rank, or of several whose fragments follow each other; zeroes behind
 * them fill the last. */
static int add_fragments(struct dsf_zero *z, struct dsf_source_tensor *t,
                         int model, struct dsflow_err *err)
{
    int64_t left = dsf_source_elems(t);
    const struct dsf_folder_file *f;
    int status = DSFLOW_OK;

    for (size_t i = 0;
         status == DSFLOW_OK && left > 0 &&
         (f = dsf_folder_at(&z->folder, DSF_FOLDER_SHARD, model, i)) != NULL;
         i++) {
        const struct dsf_torch_file *file = z->model;
        const struct dsf_torch_node *node, *all;
        const struct dsf_torch_tensor *tensor;
        int64_t n;

        if (i > 0)
            status =
                dsf_pieces_open(z->source, z->folder.path, f->name, &file, err);
        if (status == DSFLOW_OK)
            status = dsf_torch_entry(file, dsf_torch_root(file),
                                     "frozen_param_fragments", DSF_TORCH_DICT,
                                     &all, err);
        if (status == DSFLOW_OK)
            status = dsf_torch_entry(file, all, t->name, DSF_TORCH_TENSOR,
                                     &node, err);
        if (status == DSFLOW_OK)
            status = dsf_torch_tensor(file, node, &tensor, err);
        if (status < 0)
            break;
        n = tensor->elems < left ? tensor->elems : left;
        status = dsf_pieces_add(z->source, t, DSF_SOURCE_WEIGHT, file, node, 0,
                                n, err);
        left -= n;
    }
    return status;
}

int dsf_zero_frozen(struct dsf_zero *z, const struct dsf_zero_shards *shards,
                    struct dsflow_err *err)
{
    const struct dsf_torch_node *shapes =
        dsf_torch_find(z->root, "frozen_param_shapes");
    const struct dsf_torch_node *module = dsf_torch_find(z->root, "module");
    struct dsf_source *s = z->source;
    const char *name;
    int status = DSFLOW_OK;

    for (uint32_t i = 0;
         z->stage == 3 && shapes != NULL && shapes->kind == DSF_TORCH_DICT &&
         i < shapes->n && status == DSFLOW_OK;
         i++) {
        struct dsf_source_tensor *t;

        status = dsf_torch_str(z->model, dsf_torch_key(shapes, i), &name, err);
        if (status < 0)
            break;
        t = dsf_pieces_tensor(s, name);
        t->frozen = true;
        status =
            dsf_zero_shape(z, z->model, dsf_torch_value(shapes, i), t, err);
        if (status == DSFLOW_OK)
            status = add_fragments(z, t, 0, err);
    }
    /* Before stage 3 the module has all of them. */
    for (uint32_t i = 0;
         z->stage != 3 && module != NULL && module->kind == DSF_TORCH_DICT &&
         i < module->n && status == DSFLOW_OK;
         i++) {
        status = dsf_torch_str(z->model, dsf_torch_key(module, i), &name, err);
        if (status < 0 || dsf_zero_is_buffer(z, name) ||
            dsf_torch_value(module, i)->kind != DSF_TORCH_TENSOR ||
            dsf_source_find(s, name) != NULL)
            continue;
        status = dsf_zero_whole(z, z->model, name, dsf_torch_value(module, i),
                                DSF_SOURCE_WEIGHT, err);
        if (status == DSFLOW_OK)
            dsf_source_find(s, name)->frozen = true;
    }
    return status;
}

/* partition_count, a number or one for each group: the largest. */
static int64_t partitions(const struct dsf_torch_file *file,
                          const struct dsf_torch_node *state)
{
    const struct dsf_torch_node *n = dsf_torch_find(state, "partition_count");
    int64_t count = -1, most = -1;

    if (n != NULL && n->kind == DSF_TORCH_LIST) {
        for (uint32_t i = 0; i < n->n; i++)
            if (dsf_torch_int(file, dsf_torch_item(n, i), &count, NULL) ==
                    DSFLOW_OK &&
                count > most)
                most = count;
    } else if (n != NULL) {
        dsf_torch_int(file, n, &most, NULL);
    }
    return most;
}

static int open_shards(struct dsf_zero *z, int model,
                       struct dsf_zero_shards *shards, struct dsflow_err *err)
{
    size_t n = dsf_folder_count(&z->folder, DSF_FOLDER_OPTIM, model);
    int64_t expected;
    int status = DSFLOW_OK;

    *shards = (struct dsf_zero_shards){
        .n = n,
        .files = dsf_xcalloc(n + 1, sizeof(*shards->files)),
        .states = dsf_xcalloc(n + 1, sizeof(*shards->states)),
    };
    for (size_t i = 0; i < n && status == DSFLOW_OK; i++) {
        const struct dsf_folder_file *f =
            dsf_folder_at(&z->folder, DSF_FOLDER_OPTIM, model, i);

        status = dsf_pieces_open(z->source, z->folder.path, f->name,
                                 &shards->files[i], err);
        if (status == DSFLOW_OK)
            status = dsf_torch_entry(shards->files[i],
                                     dsf_torch_root(shards->files[i]),
                                     "optimizer_state_dict", DSF_TORCH_DICT,
                                     &shards->states[i], err);
    }
    if (status < 0 || n == 0)
        return status;
    expected = partitions(shards->files[0], shards->states[0]);
    if (expected >= 0 && (size_t)expected != n)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: has %zu files …_optim_states.pt of model "
                             "rank %d: expected %lld, one of each rank (others "
                             "may be on other nodes, or of an older save)",
                             z->folder.path, n, model, (long long)expected);
    return status;
}

static void forget_shards(struct dsf_zero_shards *shards)
{
    free(shards->files);
    free(shards->states);
}

static int find_stage(struct dsf_zero *z, const struct dsf_zero_shards *shards,
                      struct dsflow_err *err)
{
    const struct dsf_torch_node *n =
        dsf_torch_find(shards->states[0], "zero_stage");
    int64_t stage;

    z->stage = 1; /* BF16_Optimizer does not say */
    if (n == NULL)
        return DSFLOW_OK;
    if (dsf_torch_int(shards->files[0], n, &stage, err) < 0)
        return DSFLOW_EINVAL;
    if (stage < 0 || stage > 3)
        return dsf_torch_fail(shards->files[0], n, err,
                              "stage %lld: expected 0 to 3", (long long)stage);
    z->stage = (int)stage;
    return DSFLOW_OK;
}

/* One model rank: all tensors, or those of a stage of a pipeline. */
static int read_rank(struct dsf_zero *z, int model, struct dsflow_err *err)
{
    const struct dsf_folder_file *f =
        dsf_folder_at(&z->folder, DSF_FOLDER_MODEL, model, 0);
    struct dsf_zero_shards shards;
    const struct dsf_torch_node *scaler;
    int status;

    if (f == NULL)
        f = dsf_folder_at(&z->folder, DSF_FOLDER_SHARD, model, 0);
    if (f == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: has no mp_rank_%02d_model_states.pt",
                           z->folder.path, model);
    status =
        dsf_pieces_open(z->source, z->folder.path, f->name, &z->model, err);
    if (status < 0)
        return status;
    z->root = dsf_torch_root(z->model);
    status = dsf_torch_expect(z->model, z->root, DSF_TORCH_DICT, err);
    if (status == DSFLOW_OK)
        status = take_numbers(z, err);
    if (status < 0)
        return status;
    status = open_shards(z, model, &shards, err);
    if (status == DSFLOW_OK && shards.n > 0)
        status = find_stage(z, &shards, err);
    if (status == DSFLOW_OK && shards.n == 0)
        status = dsf_zero_plain(z, err);
    else if (status == DSFLOW_OK && z->stage == 3)
        status = dsf_zero_3(z, &shards, err);
    else if (status == DSFLOW_OK)
        status = dsf_zero_flat(z, &shards, err);
    if (status == DSFLOW_OK)
        status = dsf_zero_shared(z, err);
    if (status == DSFLOW_OK)
        status = dsf_zero_frozen(z, &shards, err);
    if (status == DSFLOW_OK) /* frozen ones, too */
        status = dsf_zero_shared(z, err);
    if (status == DSFLOW_OK && shards.n > 0) {
        scaler = dsf_torch_find(shards.states[0], "loss_scaler");
        take_scale(z, shards.files[0], scaler);
    } else if (status == DSFLOW_OK) {
        take_scale(z, z->model, dsf_torch_find(z->root, "optimizer"));
    }
    snprintf(z->source->what, sizeof(z->source->what),
             shards.n > 0 ? "DeepSpeed, ZeRO %d, %zu rank%s"
                          : "DeepSpeed without ZeRO",
             z->stage, shards.n, shards.n == 1 ? "" : "s");
    forget_shards(&shards);
    return status;
}

static int check_kind(const struct dsf_zero *z, struct dsflow_err *err)
{
    const struct dsf_folder_file *expert =
        dsf_folder_find(&z->folder, DSF_FOLDER_EXPERT);

    if (expert != NULL)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "%s/%s: experts: dsflow has no mixture of experts",
                           z->folder.path, expert->name);
    if (dsf_folder_find(&z->folder, DSF_FOLDER_MODEL) == NULL &&
        dsf_folder_find(&z->folder, DSF_FOLDER_SHARD) == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: has no mp_rank_00_model_states.pt",
                           z->folder.path);
    return DSFLOW_OK;
}

int dsf_zero_open(const char *path, const char *tag, bool weights_only,
                  struct dsf_source *source, struct dsflow_err *err)
{
    struct dsf_zero z = { .source = source, .weights_only = weights_only };
    int status = dsf_folder_open(&z.folder, path, tag, err);

    dsf_source_init(source, status == DSFLOW_OK ? z.folder.path : path);
    dsf_pieces_begin(source);
    if (status == DSFLOW_OK)
        status = check_kind(&z, err);
    if (status == DSFLOW_OK)
        status = read_rank(&z, 0, err);
    if (status == DSFLOW_OK)
        status = dsf_pieces_end(source, err);
    dsf_folder_fini(&z.folder);
    if (status < 0)
        dsf_source_fini(source);
    return status;
}
