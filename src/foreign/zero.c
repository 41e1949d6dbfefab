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

/* The model's file of a model rank, and what it says beside tensors. */
static int open_model(struct dsf_zero *z, int model, struct dsflow_err *err)
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

/* One model rank: all tensors, or those of a stage of a pipeline. */
static int read_rank(struct dsf_zero *z, int model, struct dsflow_err *err)
{
    struct dsf_zero_shards shards;
    const struct dsf_torch_node *scaler;
    int status;

    z->before = z->source->n;
    status = open_model(z, model, err);
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

/* How many ranks share tensors: of checkpoint_parallel_dimensions, or by the
 * names of the files of layers; without those, model ranks are such. */
static int64_t tensor_ranks(const struct dsf_zero *z, int64_t nmodels)
{
    const struct dsf_torch_node *n = dsf_torch_find(
        dsf_torch_find(z->root, "checkpoint_parallel_dimensions"), "tp_degree");
    int64_t ranks = nmodels;

    if (n != NULL && dsf_torch_int(z->model, n, &ranks, NULL) == DSFLOW_OK)
        return ranks;
    for (size_t i = 0; i < z->folder.n; i++)
        if (z->folder.files[i].kind == DSF_FOLDER_LAYER) {
            ranks = i == 0 || ranks == nmodels ? 1 : ranks;
            if (z->folder.files[i].model + 1 > ranks)
                ranks = z->folder.files[i].model + 1;
        }
    return ranks;
}

/* All model ranks: one, or the stages of a pipeline. */
static int read_ranks(struct dsf_zero *z, struct dsflow_err *err)
{
    int64_t n = 0, tensor;
    int status = DSFLOW_OK;

    while (dsf_folder_at(&z->folder, DSF_FOLDER_MODEL, (int)n, 0) != NULL ||
           dsf_folder_at(&z->folder, DSF_FOLDER_SHARD, (int)n, 0) != NULL)
        n++;
    for (int64_t i = 0; i < (n > 0 ? n : 1) && status == DSFLOW_OK; i++) {
        status = read_rank(z, (int)i, err);
        tensor = i == 0 && status == DSFLOW_OK ? tensor_ranks(z, n) : 1;
        if (tensor > 1)
            return dsflow_fail(err, DSFLOW_ENOSYS,
                               "%s: tensors are shared by %lld ranks, and it "
                               "does not say how: expected a universal "
                               "checkpoint (ds_to_universal), or one of "
                               "Megatron-LM",
                               z->folder.path, (long long)tensor);
    }
    if (status == DSFLOW_OK && n > 1) {
        size_t at = strlen(z->source->what);

        snprintf(z->source->what + at, sizeof(z->source->what) - at,
                 ", %lld stages", (long long)n);
    }
    return status;
}

static int read_universal(struct dsf_zero *z, struct dsflow_err *err)
{
    int status = open_model(z, 0, err);

    if (status == DSFLOW_OK)
        status = dsf_zero_universal(z, err);
    if (status == DSFLOW_OK)
        status = dsf_zero_shared(z, err);
    snprintf(z->source->what, sizeof(z->source->what), "DeepSpeed, universal");
    return status;
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

int dsf_zero_open(const char *path, const char *tag, bool weights_only,
                  struct dsf_source *source, struct dsflow_err *err)
{
    struct dsf_zero z = { .source = source, .weights_only = weights_only };
    int status = dsf_folder_open(&z.folder, path, tag, err);

    dsf_source_init(source, status == DSFLOW_OK ? z.folder.path : path);
    dsf_pieces_begin(source);
    if (status == DSFLOW_OK)
        status = check_kind(&z, err);
    if (status == DSFLOW_OK && z.folder.universal)
        status = read_universal(&z, err);
    else if (status == DSFLOW_OK)
        status = read_ranks(&z, err);
    if (status == DSFLOW_OK)
        status = dsf_pieces_end(source, err);
    if (status == DSFLOW_OK)
        find_names(source);
    for (size_t i = 0; i < z.nlayers; i++)
        free(z.layers[i].name);
    free(z.layers);
    dsf_folder_fini(&z.folder);
    if (status < 0)
        dsf_source_fini(source);
    return status;
}
