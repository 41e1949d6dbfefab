/* trainer.c - a folder that Hugging Face's Trainer, or Accelerate, wrote
 * without DeepSpeed:
 *
 *   model.safetensors                 or shards of it: the weights by name
 *   optimizer.pt (optimizer.bin)      state [0] exp_avg, exp_avg_sq, step; [1]
 *                                     … param_groups params [0, 1, …], lr, …
 *   trainer_state.json                global_step
 *   scaler.pt                         the loss scale of fp16
 *
 * The optimizer numbers parameters in the order of the module: all in one
 * group, or those that decay in the first and the others in the second
 * (Trainer.get_decay_parameter_names: no biases and no norms decay, which are
 * the vectors of the models that are known here). Shapes must bear that out. */
#include "foreign/trainer.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/units.h"
#include "foreign/module_order.h"
#include "foreign/state_dict.h"
#include "model/hf_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STATE = 256 << 20 }; /* bytes of trainer_state.json */

static const char *const optimizers[] = { "optimizer.pt", "optimizer.bin" };
static const char with_flag[] =
    "--weights-only goes on without the state of the optimizer";

/* What a source is read from. */
struct trainer {
    struct dsf_hf_files files;
    struct dsf_torch_file *optimizer; /* or NULL */
    /* As the tensors of the source. */
    struct trainer_of {
        const struct dsf_st_file *file;
        const struct dsf_st_tensor *weight;
        const struct dsf_torch_tensor *moments[DSF_SOURCE_STATES];
    } * v;
    size_t *order; /* the tensors in the order of the module */
};

bool dsf_trainer_is(const char *path)
{
    bool weights = dsf_file_is_in(path, "model.safetensors") ||
                   dsf_file_is_in(path, "model.safetensors.index.json");

    /* Old weights of the Trainer's are said not to be read. */
    return (dsf_file_is_in(path, optimizers[0]) &&
            (weights || dsf_file_is_in(path, "trainer_state.json"))) ||
           (dsf_file_is_in(path, optimizers[1]) && weights);
}

static int read_trainer(struct dsf_source *s, const struct dsf_source_tensor *t,
                        enum dsf_source_state state, int64_t first, size_t n,
                        float *to, struct dsflow_err *err)
{
    const struct trainer *x = s->of;
    const struct trainer_of *of = &x->v[t->at];

    return state == DSF_SOURCE_WEIGHT
               ? dsf_st_read_f32(of->file, of->weight, (size_t)first, n, to,
                                 err)
               : dsf_torch_read_f32(x->optimizer, of->moments[state], first,
                                    (int64_t)n, to, err);
}

static void close_trainer(struct dsf_source *s)
{
    struct trainer *x = s->of;

    dsf_hf_files_close(&x->files);
    dsf_torch_close(x->optimizer);
    free(x->v);
    free(x->order);
    free(x);
}

/* --- weights -------------------------------------------------------------- */

static int add_weight(struct dsf_source *s, struct trainer *x,
                      const struct dsf_st_file *file,
                      const struct dsf_st_tensor *in, struct dsflow_err *err)
{
    struct dsf_source_tensor *t;

    if (!dsf_st_is_float(in->dtype))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: dtype %s: expected F32, F64, BF16 or F16",
                           dsf_st_path(file), in->name,
                           dsf_st_dtype_name(in->dtype));
    if (dsf_source_find(s, in->name) != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: is also in another file: expected it once",
                           dsf_st_path(file), in->name);
    t = dsf_source_add(s, in->name);
    t->ndims = in->ndims;
    memcpy(t->dims, in->dims, in->ndims * sizeof(*t->dims));
    t->has = 1u << DSF_SOURCE_WEIGHT;
    t->at = s->n - 1;
    x->v[t->at] = (struct trainer_of){ .file = file, .weight = in };
    return DSFLOW_OK;
}

static int take_weights(struct dsf_source *s, struct trainer *x,
                        struct dsflow_err *err)
{
    size_t n = 0;
    int status = dsf_hf_files_open(&x->files, s->path, err);

    for (size_t f = 0; f < x->files.n; f++)
        n += dsf_st_count(x->files.files[f]);
    x->v = dsf_xcalloc(n + 1, sizeof(*x->v));
    for (size_t f = 0; f < x->files.n; f++) {
        const struct dsf_st_file *file = x->files.files[f];

        for (unsigned i = 0; i < dsf_st_count(file) && status == DSFLOW_OK; i++)
            if (!dsf_hf_is_buffer(dsf_st_at(file, i)->name))
                status = add_weight(s, x, file, dsf_st_at(file, i), err);
    }
    return status;
}

/* --- the optimizer -------------------------------------------------------- */

struct ordered {
    int64_t place;
    size_t tensor;
};

static int by_place(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;

    return x->place < y->place ? -1 : x->place > y->place;
}

static int find_order(struct dsf_source *s, struct trainer *x,
                      struct dsflow_err *err)
{
    struct ordered *v = dsf_xcalloc(s->n + 1, sizeof(*v));
    int status = DSFLOW_OK;

    x->order = dsf_xcalloc(s->n + 1, sizeof(*x->order));
    for (size_t i = 0; i < s->n && status == DSFLOW_OK; i++) {
        v[i].tensor = i;
        if (!dsf_module_place(s->tensors[i].name, &v[i].place))
            status = dsflow_fail(
                err, DSFLOW_ENOSYS,
                "%s: %s: the order of such a module, by which its optimizer "
                "counts parameters, is not known (of GPT-2, LLaMA, Mistral and "
                "Qwen2 it is); %s",
                s->path, s->tensors[i].name, with_flag);
    }
    qsort(v, s->n, sizeof(*v), by_place);
    for (size_t i = 0; i < s->n; i++)
        x->order[i] = v[i].tensor;
    free(v);
    return status;
}

static int fail_groups(const struct dsf_source *s, const struct trainer *x,
                       const struct dsf_torch_node *groups,
                       struct dsflow_err *err)
{
    uint32_t n = 0;

    for (uint32_t g = 0; g < groups->n; g++) {
        const struct dsf_torch_node *list =
            dsf_torch_find(dsf_torch_item(groups, g), "params");

        n += list != NULL && list->kind == DSF_TORCH_LIST ? list->n : 0;
    }
    return dsf_torch_fail(x->optimizer, groups, err,
                          "%u group%s of %u parameters without names, beside "
                          "%zu tensors: which ones they are is known of one "
                          "group of all, and of two, of matrices and of "
                          "vectors; %s",
                          groups->n, groups->n == 1 ? "" : "s", n, s->n,
                          with_flag);
}

/* The moments of a tensor, as large as it is. */
static int take_moments(struct dsf_source_tensor *t, struct trainer *x,
                        const struct dsf_torch_node *states, int64_t id,
                        struct dsflow_err *err)
{
    const struct dsf_torch_node *state = dsf_torch_find_int(states, id), *node;
    enum dsf_source_state which;
    char has[200], wanted[200];
    uint32_t i = 0;

    if (states->n == 0) /* as of SGD without momentum */
        return DSFLOW_OK;
    if (state == NULL || state->kind != DSF_TORCH_DICT)
        return dsf_torch_fail(x->optimizer, states, err,
                              "[%lld]: expected the moments of %s; %s",
                              (long long)id, t->name, with_flag);
    while (dsf_state_dict_next(state, &i, &which, &node)) {
        const struct dsf_torch_tensor *in;

        if (node->kind == DSF_TORCH_NONE)
            continue;
        if (dsf_torch_floats(x->optimizer, node, &in, err) < 0)
            return DSFLOW_EINVAL;
        if (in->ndims != t->ndims ||
            memcmp(in->dims, t->dims, t->ndims * sizeof(*t->dims)) != 0)
            return dsf_torch_fail(
                x->optimizer, node, err,
                "shape %s: in the order of the module it is of %s, which has "
                "%s; %s",
                dsf_shape_str(in->ndims, in->dims, has, sizeof(has)), t->name,
                dsf_shape_str(t->ndims, t->dims, wanted, sizeof(wanted)),
                with_flag);
        x->v[t->at].moments[which] = in;
        t->has |= 1u << which;
    }
    return DSFLOW_OK;
}

/* The next parameters of the module that are matrices (0), vectors (1) or any
 * (2), as those of a group. */
static int take_group(struct dsf_source *s, struct trainer *x,
                      const struct dsf_torch_node *states,
                      const struct dsf_torch_node *groups, uint32_t g,
                      size_t *taken, struct dsflow_err *err)
{
    const struct dsf_torch_node *ids;
    uint32_t sort = groups->n == 1 ? 2 : g, i = 0;
    int64_t id;
    int status = dsf_torch_entry(x->optimizer, dsf_torch_item(groups, g),
                                 "params", DSF_TORCH_LIST, &ids, err);

    for (size_t k = 0; k < s->n && status == DSFLOW_OK; k++) {
        struct dsf_source_tensor *t = &s->tensors[x->order[k]];

        if (sort != 2 && (t->ndims < 2) != sort)
            continue;
        if (i >= ids->n)
            return fail_groups(s, x, groups, err);
        status =
            dsf_torch_int(x->optimizer, dsf_torch_item(ids, i++), &id, err);
        if (status == DSFLOW_OK)
            status = take_moments(t, x, states, id, err);
        if (status == DSFLOW_OK)
            dsf_state_dict_said(s, x->optimizer, groups,
                                dsf_torch_find_int(states, id));
        (*taken)++;
    }
    return status == DSFLOW_OK && i != ids->n ? fail_groups(s, x, groups, err)
                                              : status;
}

static int take_optimizer(struct dsf_source *s, struct trainer *x,
                          struct dsflow_err *err)
{
    char *path = dsf_xasprintf(
        "%s/%s", s->path, optimizers[!dsf_file_is_in(s->path, optimizers[0])]);
    const struct dsf_torch_node *root, *states, *groups;
    size_t taken = 0;
    int status = dsf_torch_open(path, &x->optimizer, err);

    free(path);
    if (status < 0)
        return status;
    root = dsf_torch_root(x->optimizer);
    status = dsf_torch_entry(x->optimizer, root, "state", DSF_TORCH_DICT,
                             &states, err);
    if (status == DSFLOW_OK)
        status = dsf_torch_entry(x->optimizer, root, "param_groups",
                                 DSF_TORCH_LIST, &groups, err);
    if (status == DSFLOW_OK)
        status = find_order(s, x, err);
    if (status == DSFLOW_OK && (groups->n < 1 || groups->n > 2))
        status = fail_groups(s, x, groups, err);
    for (uint32_t g = 0; status == DSFLOW_OK && g < groups->n; g++)
        status = take_group(s, x, states, groups, g, &taken, err);
    if (status == DSFLOW_OK && taken != s->n)
        status = fail_groups(s, x, groups, err);
    return status;
}

/* --- what is said beside -------------------------------------------------- */

/* Accelerate's folders have no trainer_state.json: every step was an update. */
static int take_steps(struct dsf_source *s, struct dsflow_err *err)
{
    static const char name[] = "trainer_state.json";
    char *path = dsf_xasprintf("%s/%s", s->path, name);
    json_t *root = NULL, *step;
    int status = dsf_file_is_in(s->path, name)
                     ? dsf_json_load(path, MOST_STATE, &root, err)
                     : DSFLOW_OK;

    step = json_object_get(root, "global_step");
    if (root != NULL &&
        (!json_is_integer(step) || json_integer_value(step) < 0))
        status =
            dsflow_fail(err, DSFLOW_EINVAL,
                        "%s: global_step: expected a number of steps", path);
    s->steps = root != NULL ? json_integer_value(step) : s->updates;
    if (s->updates >= 0 && s->steps > s->updates)
        s->skipped = s->steps - s->updates; /* overflows of fp16 */
    json_decref(root);
    free(path);
    return status;
}

/* torch's GradScaler: steps since the last overflow, and no hysteresis. */
static int take_scale(struct dsf_source *s, struct dsflow_err *err)
{
    static const char name[] = "scaler.pt";
    char *path = dsf_xasprintf("%s/%s", s->path, name);
    struct dsf_torch_file *file = NULL;
    const struct dsf_torch_node *scale, *growth;
    double value;
    int64_t steps;
    int status = dsf_file_is_in(s->path, name)
                     ? dsf_torch_open(path, &file, err)
                     : DSFLOW_OK;

    free(path);
    if (file == NULL)
        return status;
    scale = dsf_torch_find(dsf_torch_root(file), "scale");
    growth = dsf_torch_find(dsf_torch_root(file), "_growth_tracker");
    if (scale != NULL && growth != NULL) { /* else it is off: {} */
        status = dsf_torch_real(file, scale, &value, err);
        if (status == DSFLOW_OK)
            status = dsf_torch_int(file, growth, &steps, err);
        if (status == DSFLOW_OK)
            s->scale = (struct dsf_source_scale){ true, value, steps, -1, 1 };
    }
    dsf_torch_close(file);
    return status;
}

int dsf_trainer_open(const char *path, bool weights_only, struct dsf_source *s,
                     struct dsflow_err *err)
{
    struct trainer *x = dsf_xcalloc(1, sizeof(*x));
    int status;

    dsf_source_init(s, path);
    s->of = x;
    s->read = read_trainer;
    s->close = close_trainer;
    snprintf(s->what, sizeof(s->what), "%s without DeepSpeed",
             dsf_file_is_in(path, "trainer_state.json")
                 ? "Hugging Face's Trainer"
                 : "Accelerate");
    status = take_weights(s, x, err);
    if (status == DSFLOW_OK && !weights_only)
        status = take_optimizer(s, x, err);
    if (status == DSFLOW_OK)
        status = take_steps(s, err);
    if (status == DSFLOW_OK)
        status = take_scale(s, err);
    if (status < 0)
        dsf_source_fini(s);
    return status;
}
