/* megatron.c - a checkpoint of Megatron-LM as a source: its files, its version,
 * how far the run was. */
#include "foreign/megatron.h"
#include "foreign/megatron_names.h"
#include "foreign/megatron_private.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last stage has the embedding once more, for a head that is tied to it:
 * under a name of its own, or as the head. */
static void find_again(struct dsf_source *s, const struct dsf_megatron *m)
{
    bool untied =
        dsf_megatron_flag(m, "untie_embeddings_and_output_weights", true);

    for (size_t i = 0; i < s->n; i++) {
        int layer;
        enum dsf_megatron_role role =
            dsf_megatron_role_of(s->tensors[i].name, &layer);

        if (role == DSF_MEGATRON_WORDS_AGAIN ||
            (role == DSF_MEGATRON_HEAD && !untied))
            s->tensors[i].again = true;
    }
}

/* --- the files ------------------------------------------------------------ */

static int open_files(struct dsf_megatron *m, struct dsflow_err *err)
{
    const struct dsf_megatron_folder *f = &m->folder;
    size_t n = (size_t)f->tensor * (size_t)f->stages;
    int status = DSFLOW_OK;

    m->files = dsf_xcalloc(n, sizeof(*m->files));
    for (size_t i = 0; i < n && status == DSFLOW_OK; i++) {
        m->files[i].tensor = (int)i % f->tensor;
        status = dsf_torch_open(f->files[i], &m->files[i].torch, err);
        if (status == DSFLOW_OK)
            status = dsf_torch_expect(m->files[i].torch,
                                      dsf_torch_root(m->files[i].torch),
                                      DSF_TORCH_DICT, err);
    }
    m->first = m->files[0].torch;
    return status;
}

/* "checkpoint_version": 0 where there is none (state_dict_factory.py). */
static int read_version(struct dsf_megatron *m, struct dsflow_err *err)
{
    const struct dsf_torch_node *root = dsf_torch_root(m->first);
    const struct dsf_torch_node *node =
        dsf_torch_find(root, "checkpoint_version");
    double version = 0;
    int status = node != NULL ? dsf_torch_real(m->first, node, &version, err)
                              : DSFLOW_OK;

    if (status < 0)
        return status;
    if (version != 0 && version != 1 && version != 2 && version != 3)
        return dsf_torch_fail(m->first, node, err, "%g: expected 0, 1, 2 or 3",
                              version);
    m->version = (int)version;
    m->args = dsf_torch_find(root, "args");
    if (m->args != NULL && m->args->kind != DSF_TORCH_DICT)
        m->args = NULL;
    return DSFLOW_OK;
}

/* There are not as many files as the first says: which one is not there? */
static int fail_files(const struct dsf_megatron *m, double tensor,
                      double stages, struct dsflow_err *err)
{
    const struct dsf_megatron_folder *f = &m->folder;
    char *file;
    int status;

    if (tensor <= f->tensor && stages <= f->stages)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: args say %g tensor ranks and %g stages: there "
                           "are files of %d and %d",
                           dsf_torch_path(m->first), tensor, stages, f->tensor,
                           f->stages);
    file = tensor > f->tensor
               ? dsf_megatron_name_file(f, f->tensor, 0, stages > 1)
               : dsf_megatron_name_file(f, 0, f->stages, true);
    status = dsflow_fail(err, DSFLOW_EINVAL,
                         "%s: is not there: expected a file of each of %g "
                         "tensor ranks and %g stages, as args say",
                         file, tensor, stages);
    free(file);
    return status;
}

/* What the files say of how they were shared out. */
static int check_ranks_of_args(const struct dsf_megatron *m,
                               struct dsflow_err *err)
{
    double experts = dsf_megatron_number(m, "num_experts", 0);
    double stages = dsf_megatron_number(m, "pipeline_model_parallel_size",
                                        m->folder.stages);
    double tensor = dsf_megatron_number(
        m,
        m->version < 3 ? "model_parallel_size" : "tensor_model_parallel_size",
        m->folder.tensor);

    if (experts > 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: args.num_experts: %g: dsflow does not have "
                           "mixtures of experts",
                           dsf_torch_path(m->first), experts);
    if (m->folder.layout == DSF_MEGATRON_DEEPSPEED ||
        (tensor == m->folder.tensor && stages == m->folder.stages))
        return DSFLOW_OK;
    return fail_files(m, tensor, stages, err);
}

/* --- what zero.h reads ---------------------------------------------------- */

/* The first file of a folder alone: its version, args and tree. */
static int open_first(struct dsf_megatron *m, const char *path, const char *tag)
{
    int status;

    *m = (struct dsf_megatron){ 0 };
    m->files = dsf_xcalloc(1, sizeof(*m->files));
    status = dsf_megatron_folder_open(&m->folder, path, tag, NULL);
    if (status == DSFLOW_OK)
        status = dsf_torch_open(m->folder.files[0], &m->files[0].torch, NULL);
    m->first = m->files[0].torch;
    return status == DSFLOW_OK ? read_version(m, NULL) : status;
}

static void close_first(struct dsf_megatron *m)
{
    dsf_torch_close(m->files[0].torch);
    free(m->files);
    dsf_megatron_folder_fini(&m->folder);
}

bool dsf_megatron_is_in_deepspeed(const char *path, const char *tag)
{
    struct dsf_megatron m;
    const struct dsf_torch_node *module = NULL;
    bool is;

    if (open_first(&m, path, tag) == DSFLOW_OK &&
        m.folder.layout == DSF_MEGATRON_DEEPSPEED)
        module = dsf_torch_find(dsf_torch_root(m.first), "module");
    is = module != NULL && dsf_megatron_has_qkv(module);
    close_first(&m);
    return is;
}

void dsf_megatron_recognize(struct dsf_source *s, const char *path,
                            const char *tag)
{
    struct dsf_megatron m;
    bool has = false;
    int layer;

    for (size_t i = 0; i < s->n && !has; i++)
        has = dsf_megatron_role_of(s->tensors[i].name, &layer) ==
              DSF_MEGATRON_QKV_W;
    if (!has)
        return;
    /* Where the model is in files of ZeRO 3 alone, zero.c has found its
     * version, or it is a late one. */
    if (s->names != DSF_NAMES_MEGATRON)
        s->qkv = 2;
    if (open_first(&m, path, tag) == DSFLOW_OK)
        s->qkv = m.version < 2 ? m.version : 2;
    close_first(&m);
    s->names = DSF_NAMES_MEGATRON;
    s->padded_vocabulary = true;
}

unsigned dsf_megatron_model(const char *path, const char *tag,
                            char *sets[DSF_MEGATRON_SETS])
{
    struct dsf_megatron m;
    unsigned n = open_first(&m, path, tag) == DSFLOW_OK && m.args != NULL
                     ? dsf_megatron_keys(&m, sets)
                     : 0;

    close_first(&m);
    return n;
}

/* --- the source ----------------------------------------------------------- */

static void close_megatron(struct dsf_source *s)
{
    struct dsf_megatron *m = s->of;
    size_t nfiles = (size_t)m->folder.tensor * (size_t)m->folder.stages;

    for (size_t i = 0; i < m->n; i++) {
        dsf_merge_fini(&m->tensors[i].merge);
        free(m->tensors[i].shards);
    }
    for (size_t i = 0; m->files != NULL && i < nfiles; i++) {
        dsf_torch_close(m->files[i].torch);
        free(m->files[i].params);
    }
    free(m->tensors);
    free(m->files);
    dsf_megatron_folder_fini(&m->folder);
    free(m);
}

/* One state of a tensor, as dsf_merge_read asks for it. */
struct reading {
    const struct dsf_shared *shared;
    enum dsf_source_state state;
};

static int read_shard(void *of, int rank, int64_t at, int64_t n, float *to,
                      struct dsflow_err *err)
{
    const struct reading *r = of;
    const struct dsf_shard *shard = &r->shared->shards[rank];

    return dsf_torch_read_f32(shard->file, shard->state[r->state], at, n, to,
                              err);
}

static int read_megatron(struct dsf_source *s,
                         const struct dsf_source_tensor *t,
                         enum dsf_source_state state, int64_t first, size_t n,
                         float *to, struct dsflow_err *err)
{
    const struct dsf_megatron *m = s->of;
    struct reading r = { &m->tensors[t->at], state };

    return dsf_merge_read(&r.shared->merge, read_shard, &r, first, (int64_t)n,
                          to, err);
}

static void read_progress(struct dsf_source *s, const struct dsf_megatron *m)
{
    const struct dsf_torch_node *root = dsf_torch_root(m->first);
    const struct dsf_torch_node *steps = dsf_torch_find(root, "iteration");
    double samples = dsf_megatron_number(m, "consumed_train_samples", -1);

    if (steps == NULL)
        steps = dsf_torch_find(root, "total_iters");
    if (steps != NULL && steps->kind == DSF_TORCH_INT &&
        steps->integer.value >= 0)
        s->steps = steps->integer.value;
    if (samples >= 0)
        s->samples = (int64_t)samples;
    snprintf(s->what, sizeof(s->what),
             "Megatron-LM, version %d%s, %d tensor rank%s x %d stage%s",
             m->version, m->version < 3 ? ".0" : "", m->folder.tensor,
             m->folder.tensor == 1 ? "" : "s", m->folder.stages,
             m->folder.stages == 1 ? "" : "s");
    s->names = DSF_NAMES_MEGATRON;
    s->qkv = m->version < 2 ? m->version : 2;
    s->padded_vocabulary = true;
}

int dsf_megatron_open(const char *path, const char *tag, bool weights_only,
                      struct dsf_source *s, struct dsflow_err *err)
{
    struct dsf_megatron *m = dsf_xcalloc(1, sizeof(*m));
    int status;

    dsf_source_init(s, path);
    s->of = m;
    s->read = read_megatron;
    s->close = close_megatron;
    s->check = dsf_megatron_check;
    status = dsf_megatron_folder_open(&m->folder, path, tag, err);
    if (status == DSFLOW_OK)
        status = open_files(m, err);
    if (status == DSFLOW_OK)
        status = read_version(m, err);
    if (status == DSFLOW_OK)
        status = check_ranks_of_args(m, err);
    if (status == DSFLOW_OK)
        status = dsf_megatron_take_model(s, m, err);
    if (status == DSFLOW_OK) {
        find_again(s, m);
        read_progress(s, m);
        if (!weights_only)
            status = dsf_megatron_optimizer(s, m, err);
    }
    if (status < 0)
        dsf_source_fini(s);
    return status;
}
