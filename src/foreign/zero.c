/* zero.c - a checkpoint folder of DeepSpeed: which layout it is, and what is
 * said beside the tensors. */
#include "foreign/zero.h"

#include "base/alloc.h"
#include "foreign/pipeline.h"
#include "foreign/zero_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* A name with another number behind `word`, of `digits` at least. */
static char *renumber(const char *name, const char *word, int digits,
                      int64_t number)
{
    const char *at = strstr(name, word) + strlen(word);

    return dsf_xasprintf("%.*s%0*lld%s", (int)(at - name), name, digits,
                         (long long)number, at + strspn(at, "0123456789"));
}

/* Of files like `like`, one of each of `n` ranks, that of rank `number` is not
 * there. */
static int fail_absent(const struct dsf_zero_source *z, const char *like,
                       const char *word, int digits, int64_t number, int64_t n,
                       const char *ranks, struct dsflow_err *err)
{
    char *name = renumber(like, word, digits, number);
    int status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s/%s: is not there: expected a file of each of "
                             "%lld %s (it may be on another node)",
                             z->folder.path, name, (long long)n, ranks);

    free(name);
    return status;
}

/* Of a model rank there are not as many files of the optimizer as it had ranks.
 */
static int fail_shards(const struct dsf_zero_source *z, int model, size_t n,
                       int64_t expected, struct dsflow_err *err)
{
    const struct dsf_folder_file *f;
    int64_t missing = 0;

    for (size_t i = 0; i < n; i++) {
        f = dsf_folder_at(&z->folder, DSF_FOLDER_OPTIM, model, i);
        missing += f->rank == missing;
    }
    if (missing >= expected)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: has %zu files …_optim_states.pt of model rank "
                           "%d: expected %lld, one of each rank (some may be "
                           "of an older save)",
                           z->folder.path, n, model, (long long)expected);
    return fail_absent(z, f->name, "zero_pp_rank_", 1, missing, expected,
                       "ranks", err);
}

static int open_shards(struct dsf_zero_source *z, int model,
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
        status = fail_shards(z, model, n, expected, err);
    return status;
}

static void forget_shards(struct dsf_zero_shards *shards)
{
    free(shards->files);
    free(shards->states);
}

static int find_stage(struct dsf_zero_source *z,
                      const struct dsf_zero_shards *shards,
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
    z->source->clips_updates =
        stage > 0 && strcasecmp(z->source->optimizer, "muon") == 0;
    return DSFLOW_OK;
}

/* The model's file of a model rank, and what it says beside tensors. */
static int open_model(struct dsf_zero_source *z, int model,
                      struct dsflow_err *err)
{
    const struct dsf_folder_file *f =
        dsf_folder_at(&z->folder, DSF_FOLDER_MODEL, model, 0);
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
    return status == DSFLOW_OK ? dsf_zero_numbers(z, err) : status;
}

/* How tensor ranks share tensors: in the model's file, or in the optimizer's.
 */
static void find_info(struct dsf_zero_source *z,
                      const struct dsf_zero_shards *shards)
{
    static const char key[] = "universal_checkpoint_info";

    z->info = dsf_torch_find(z->root, key);
    z->info_of = z->model;
    if ((z->info != NULL && z->info->kind == DSF_TORCH_DICT) || shards->n == 0)
        return;
    z->info = dsf_torch_find(shards->states[0], key);
    z->info_of = shards->files[0];
}

/* One model rank: all tensors, or those of a stage of a pipeline. */
static int read_rank(struct dsf_zero_source *z, int model,
                     struct dsflow_err *err)
{
    struct dsf_zero_shards shards;
    const struct dsf_torch_node *scaler;
    int status;

    z->before = z->source->n;
    z->rank = model;
    status = open_model(z, model, err);
    if (status < 0)
        return status;
    status = open_shards(z, model, &shards, err);
    if (status == DSFLOW_OK && z->info == NULL)
        find_info(z, &shards);
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
        dsf_zero_scale(z, shards.files[0], scaler);
    } else if (status == DSFLOW_OK) {
        dsf_zero_scale(z, z->model, dsf_torch_find(z->root, "optimizer"));
    }
    snprintf(z->source->what, sizeof(z->source->what),
             shards.n > 0 ? "DeepSpeed, ZeRO %d, %zu rank%s"
                          : "DeepSpeed without ZeRO",
             z->stage, shards.n, shards.n == 1 ? "" : "s");
    forget_shards(&shards);
    return status;
}

static int check_kind(const struct dsf_zero_source *z, struct dsflow_err *err)
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

/* How many ranks share tensors: of checkpoint_parallel_dimensions, or by the
 * names of the files of layers; without those, model ranks are such. */
static int64_t tensor_ranks(const struct dsf_zero_source *z, int64_t nmodels,
                            const struct dsf_torch_file *file)
{
    const struct dsf_torch_node *n = dsf_torch_find(
        dsf_torch_find(dsf_torch_root(file), "checkpoint_parallel_dimensions"),
        "tp_degree");
    int64_t ranks = nmodels;

    if (n != NULL && dsf_torch_int(file, n, &ranks, NULL) == DSFLOW_OK)
        return ranks;
    for (size_t i = 0; i < z->folder.n; i++)
        if (z->folder.files[i].kind == DSF_FOLDER_LAYER) {
            ranks = i == 0 || ranks == nmodels ? 1 : ranks;
            if (z->folder.files[i].model + 1 > ranks)
                ranks = z->folder.files[i].model + 1;
        }
    return ranks;
}

/* As many of them as the model had ranks? */
static int check_models(const struct dsf_zero_source *z,
                        const struct dsf_folder_file *f, int64_t n,
                        const struct dsf_torch_file *file,
                        struct dsflow_err *err)
{
    const struct dsf_torch_node *world =
        dsf_torch_find(dsf_torch_root(file), "mp_world_size");
    int64_t ranks;

    if (world == NULL || dsf_torch_int(file, world, &ranks, NULL) < 0 ||
        n >= ranks)
        return DSFLOW_OK;
    return fail_absent(z, f->name, "mp_rank_", 2, n, ranks, "model ranks", err);
}

/* Model ranks are numbered stage by stage, and in each by tensor rank. */
static int find_ranks(struct dsf_zero_source *z, int64_t *nmodels,
                      struct dsflow_err *err)
{
    const struct dsf_folder_file *f;
    struct dsf_torch_file *file;
    int64_t n = 0, tensors = 1;
    char *path;
    int status;

    while (dsf_folder_at(&z->folder, DSF_FOLDER_MODEL, (int)n, 0) != NULL ||
           dsf_folder_at(&z->folder, DSF_FOLDER_SHARD, (int)n, 0) != NULL)
        n++;
    *nmodels = n = n > 0 ? n : 1;
    z->tensors = 1;
    f = dsf_folder_at(&z->folder, DSF_FOLDER_MODEL, 0, 0);
    if (f == NULL)
        f = dsf_folder_at(&z->folder, DSF_FOLDER_SHARD, 0, 0);
    if (f == NULL)
        return DSFLOW_OK; /* what is missing is said when it is opened */
    path = dsf_xasprintf("%s/%s", z->folder.path, f->name);
    status = dsf_torch_open(path, &file, err);
    free(path);
    if (status < 0)
        return status;
    status = check_models(z, f, n, file, err);
    if (n > 1)
        tensors = tensor_ranks(z, n, file);
    dsf_torch_close(file);
    if (status < 0)
        return status;
    if (tensors < 1 || n % tensors != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: has files of %lld model ranks: expected a "
                           "multiple of its %lld tensor ranks",
                           z->folder.path, (long long)n, (long long)tensors);
    z->tensors = (int)tensors;
    return DSFLOW_OK;
}

/* One tensor rank: all tensors, or those of all stages of a pipeline. */
static int read_stages(struct dsf_zero_source *z, int64_t nmodels,
                       struct dsflow_err *err)
{
    int64_t stages = nmodels / z->tensors;
    int status = DSFLOW_OK;

    for (int64_t i = 0; i < stages && status == DSFLOW_OK; i++)
        status = read_rank(z, (int)i * z->tensors + z->tensor, err);
    if (status == DSFLOW_OK && stages > 1) {
        size_t at = strlen(z->source->what);

        snprintf(z->source->what + at, sizeof(z->source->what) - at,
                 ", %lld stages", (long long)stages);
    }
    for (size_t i = 0; i < z->nlayers; i++)
        free(z->layers[i].name);
    free(z->layers);
    return status == DSFLOW_OK ? dsf_pieces_end(z->source, err) : status;
}

static int read_universal(struct dsf_zero_source *z, struct dsflow_err *err)
{
    int status = open_model(z, 0, err);

    if (status == DSFLOW_OK)
        status = dsf_zero_universal(z, err);
    if (status == DSFLOW_OK)
        status = dsf_zero_shared(z, err);
    snprintf(z->source->what, sizeof(z->source->what), "DeepSpeed, universal");
    return status == DSFLOW_OK ? dsf_pieces_end(z->source, err) : status;
}

/* Whose names tensors have: those of layers by number get others. Megatron's
 * are in the order of its newest version, and its vocabulary may be padded. */
static void find_names(struct dsf_source *s)
{
    if (dsf_pipeline_is(s))
        dsf_pipeline_rename(s);
    for (size_t i = 0; i < s->n; i++)
        if (strstr(s->tensors[i].name, "language_model.") != NULL)
            s->names = DSF_NAMES_MEGATRON;
    if (s->names == DSF_NAMES_MEGATRON) {
        s->qkv = 2;
        s->padded_vocabulary = true;
    }
}

/* The order of queries, keys and values is that of a version of Megatron's, if
 * it is said. */
static void find_version(const struct dsf_zero_source *z)
{
    const struct dsf_torch_node *n =
        dsf_torch_find(z->root, "checkpoint_version");
    double version;

    if (n != NULL && dsf_torch_real(z->model, n, &version, NULL) == DSFLOW_OK)
        z->source->qkv = version < 1 ? 0 : version < 2 ? 1 : 2;
}

/* Each tensor rank as a source of its own, and one out of them. */
static int read_tensor_ranks(const struct dsf_zero_source *z, int64_t nmodels,
                             struct dsflow_err *err)
{
    int n = z->tensors, status = DSFLOW_OK;
    struct dsf_source *ranks = dsf_xcalloc((size_t)n, sizeof(*ranks));
    struct dsf_zero_source first = { 0 };

    for (int t = 0; t < n && status == DSFLOW_OK; t++) {
        struct dsf_zero_source one = { .folder = z->folder,
                                       .source = &ranks[t],
                                       .weights_only = z->weights_only,
                                       .tensor = t,
                                       .tensors = n };

        dsf_source_init(&ranks[t], z->folder.path);
        dsf_pieces_begin(&ranks[t]);
        status = read_stages(&one, nmodels, err);
        if (t == 0)
            first = one;
    }
    if (status == DSFLOW_OK) {
        status = dsf_zero_join(&first, ranks, n, find_names, z->source, err);
        first.source = z->source;
        find_version(&first);
        return status;
    }
    for (int t = 0; t < n; t++)
        dsf_source_fini(&ranks[t]);
    free(ranks);
    return status;
}

int dsf_zero_open(const char *path, const char *tag, bool weights_only,
                  struct dsf_source *source, struct dsflow_err *err)
{
    struct dsf_zero_source z = { .source = source,
                                 .weights_only = weights_only };
    int status = dsf_folder_open(&z.folder, path, tag, err);
    int64_t nmodels = 1;

    dsf_source_init(source, status == DSFLOW_OK ? z.folder.path : path);
    if (status == DSFLOW_OK)
        status = check_kind(&z, err);
    if (status == DSFLOW_OK && !z.folder.universal)
        status = find_ranks(&z, &nmodels, err);
    if (status == DSFLOW_OK && z.tensors > 1) {
        status = read_tensor_ranks(&z, nmodels, err);
    } else if (status == DSFLOW_OK) {
        dsf_pieces_begin(source);
        status = z.folder.universal ? read_universal(&z, err)
                                    : read_stages(&z, nmodels, err);
        if (status == DSFLOW_OK) {
            find_names(source);
            find_version(&z);
        }
    }
    dsf_folder_fini(&z.folder);
    if (status < 0)
        dsf_source_fini(source);
    return status;
}
