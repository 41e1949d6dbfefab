/* session.c - from a job.toml to a model that runs. */
#include "cli/session.h"

#include "base/alloc.h"
#include "base/units.h"
#include "cli/disks.h"
#include "cli/fit.h"
#include "cli/machine_cache.h"
#include "cli/params.h"
#include "plugin/plugin.h"
#include "tasks/components.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

bool dsf_is_run(const char *path)
{
    char *job = dsf_xasprintf("%s/job.toml", path);
    struct stat st;
    bool is =
        stat(path, &st) == 0 && S_ISDIR(st.st_mode) && access(job, R_OK) == 0;

    free(job);
    return is;
}

char *dsf_session_checkpoints(const struct dsf_session *s)
{
    return dsf_xasprintf("%s/checkpoints", s->job.main.output);
}

static int read_job(struct dsf_session *s, const char *path,
                    const struct dsf_words *words, struct dsflow_err *err)
{
    unsigned nsets;
    const char **sets = dsf_flag_values(words, "set", &nsets);
    bool is_run = dsf_is_run(path);
    char *file =
        is_run ? dsf_xasprintf("%s/job.toml", path) : dsf_xstrdup(path);
    int status =
        dsf_job_read(file, sets, nsets, dsflow_plugin_load, &s->job, err);

    if (status == DSFLOW_OK)
        status = dsf_job_check_components(&s->job, err);
    /* A run that was moved is where it was found. */
    if (status == DSFLOW_OK && is_run) {
        free(s->job.main.output);
        s->job.main.output = dsf_xstrdup(path);
    }
    free(file);
    free(sets);
    return status;
}

/* A link that is slowed down is that of some device. */
static int check_link(const struct dsf_job *job, struct dsflow_err *err)
{
    if (job->machine.virtual_link < 0 || job->machine.virtuals > 0)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "machine", "virtual_link",
                        "there is no virtual device: expected machine.virtual "
                        "of 1 or more");
}

static int check_vocab(const struct dsf_session *s, struct dsflow_err *err)
{
    int32_t tokens = dsf_tokenizer_vocab(s->tok);

    if (s->model.dims.vocab >= tokens)
        return DSFLOW_OK;
    return dsf_job_fail(&s->job, err, DSFLOW_EINVAL, "model", "vocab",
                        "%d: expected at least the %d tokens of %s",
                        s->model.dims.vocab, tokens, s->job.data.tokenizer);
}

int dsf_session_model(struct dsf_session *s, const char *path,
                      const struct dsf_words *words, struct dsflow_err *err)
{
    int status;

    memset(s, 0, sizeof(*s));
    status = read_job(s, path, words, err);
    if (status == DSFLOW_OK)
        status = check_link(&s->job, err);
    if (status == DSFLOW_OK)
        status = dsf_disks_check_keys(&s->job, err);
    if (status < 0)
        return status;
    status = dsf_tokenizer_open(s->job.data.tokenizer, &s->tok, err);
    if (status < 0)
        return status;
    if (s->job.model.vocab < 0)
        s->job.model.vocab = dsf_tokenizer_vocab(s->tok);
    status = dsf_model_init(&s->model, &s->job, err);
    if (status < 0)
        return status;
    return check_vocab(s, err);
}

int dsf_session_plan(struct dsf_session *s, const char *until,
                     struct dsflow_err *err)
{
    struct dsf_machine_model m = { 0 };
    int status = dsf_machine_probe(&s->machine, err);

    if (status == DSFLOW_OK)
        status = dsf_disks_check(&s->job, err);
    if (status == DSFLOW_OK && dsf_fit_is_open(s))
        status = dsf_machine_of_job(&s->machine, &s->job, &m, err);
    if (status == DSFLOW_OK)
        status = dsf_fit(s, &m, until, err);
    dsf_machine_model_fini(&m);
    return status;
}

/* The built-in optimizers by number, as in checkpoints from before there were
 * others; then what others bring, where the job names it. */
static void name_components(const struct dsf_job *j, char *optimizer,
                            char *others, size_t size)
{
    const char *name;
    size_t at = 0;
    unsigned i = 0;

    while (strcmp(dsflow_optimizer_at(i)->name, j->optimizer.kind) != 0)
        i++;
    if (strcmp(dsf_registry_at(&dsf_optimizers, i)->origin, DSF_BUILTIN) == 0)
        snprintf(optimizer, size, "%u", i);
    else
        snprintf(optimizer, size, "%s", j->optimizer.kind);
    others[0] = '\0';
    for (i = 0; (name = dsf_segment_name(i)) != NULL && at < size; i++) {
        const struct dsflow_segment *s = dsf_job_segment(j, name, NULL);

        if (strcmp(s->name, "builtin") != 0)
            at += (size_t)snprintf(others + at, size - at, "%s %s\n", name,
                                   s->name);
    }
    if (j->offload.states != DSF_STATES_FP32 && at < size)
        snprintf(others + at, size - at, "states %d\n", j->offload.states);
}

/* What must stay the same for a checkpoint to be continued bit for bit. */
static uint64_t find_identity(const struct dsf_session *s)
{
    const struct dsf_dims *d = &s->model.dims;
    const struct dsf_job *j = &s->job;
    char optimizer[256], others[256], *text;
    uint64_t hash;

    name_components(j, optimizer, others, sizeof(others));
    text = dsf_xasprintf(
        "%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %.9g %.17g\n"
        "%.17g %.17g %.17g %lld\n%s %.17g\n"
        "%lld %d %d %d %d %d %d %lld %d\n%016" PRIx64 " %016" PRIx64 "\n%s",
        (int)s->model.family, s->model.layers, d->width, d->heads, d->kv_heads,
        d->head_dim, d->ffn, d->context, d->vocab, d->qkv_bias,
        (int)s->model.tied, d->rms, d->swiglu, d->rope,
        (int)s->model.rope_llama3, (double)d->eps, s->model.rope_theta,
        s->model.rope_factor, s->model.rope_low_freq_factor,
        s->model.rope_high_freq_factor,
        (long long)s->model.rope_original_context, optimizer,
        j->optimizer.momentum, (long long)j->batch.sequences, s->plan->sequence,
        s->plan->micro, s->plan->groups, s->plan->reduce_micro,
        s->plan->mesh.tensor, s->plan->ntiles, (long long)j->main.seed,
        (int)j->data.shuffle, s->text.content, dsf_tokenizer_hash(s->tok),
        others);
    hash = XXH3_64bits(text, strlen(text));
    free(text);
    return hash;
}

int dsf_session_text(struct dsf_session *s, struct dsflow_err *err)
{
    char *cache = dsf_xasprintf("%s/cache", s->job.main.output);
    int status = dsf_corpus_open(&s->job, s->tok, s->plan->sequence,
                                 s->model.dims.vocab, cache, &s->corpus, err);

    free(cache);
    if (status < 0)
        return status;
    dsf_corpus_info(s->corpus, &s->text);
    s->identity = find_identity(s);
    return DSFLOW_OK;
}

static dsflow_data_id find(const struct dsf_session *s, const char *name)
{
    dsflow_data_id id = { 0 };

    if (!dsflow_graph_find(s->graph, name, &id)) {
        fprintf(stderr, "dsflow: bug: the graph has no %s\n", name);
        abort();
    }
    return id;
}

/* Budgets that were given do not make memory: is there as much as is needed? */
static int check_present(const struct dsf_session *s,
                         const struct dsf_weights *w, struct dsflow_err *err)
{
    double total = 0, disk = 0;

    for (unsigned r = 0; r < w->nranks; r++) {
        total += w->ranks[r].peak + w->ranks[r].tier_bytes[DSFLOW_HOST];
        disk += w->ranks[r].tier_bytes[DSFLOW_NVME];
    }
    if (s->machine.available >= 0 && total > (double)s->machine.available)
        return dsflow_fail(
            err, DSFLOW_EFIT,
            "%s: the job needs %s of memory and %s are free (dsflow plan says "
            "for what)",
            s->job.path, dsf_size_text(total).s,
            dsf_size_text((double)s->machine.available).s);
    return dsf_disks_check_room(&s->job, disk, err);
}

int dsf_session_check_memory(struct dsf_session *s, struct dsflow_err *err)
{
    struct dsf_weights w;
    int status = dsf_fit_check(s, NULL, err);

    if (status < 0)
        return status;
    dsf_fit_weigh(s, NULL, &w);
    status = check_present(s, &w, err);
    dsf_weights_fini(&w);
    return status;
}

static int exec_kind(const struct dsf_words *words, enum dsflow_exec_kind *kind,
                     struct dsflow_err *err)
{
    const char *name = dsf_flag_value(words, "executor");

    *kind = DSFLOW_STARPU;
    if (name == NULL || strcmp(name, "starpu") == 0)
        return DSFLOW_OK;
    *kind = DSFLOW_SERIAL;
    if (strcmp(name, "serial") == 0)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "--executor: %.60s: expected serial or starpu", name);
}

int dsf_session_check(struct dsf_session *s, const struct dsf_words *words,
                      struct dsflow_err *err)
{
    enum dsflow_exec_kind kind;
    int status = exec_kind(words, &kind, err);

    return status == DSFLOW_OK ? dsf_session_check_memory(s, err) : status;
}

/* The rotary table, on every rank that uses it. */
static void fill_constants(struct dsf_session *s)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(s->graph); i++)
        if (dsflow_graph_data(s->graph, (dsflow_data_id){ i })->constant)
            dsf_model_rope_table(
                &s->model,
                dsflow_exec_map(s->exec, (dsflow_data_id){ i }, DSFLOW_RW));
}

int dsf_session_open(struct dsf_session *s, const struct dsf_words *words,
                     const struct dsflow_host *host, struct dsflow_err *err)
{
    const struct dsf_job_machine *m = &s->job.machine;
    struct dsflow_exec_options options = {
        .workers = s->plan->workers - (unsigned)m->virtuals,
        .ranks = (unsigned)s->plan->nranks,
        .virtuals = (unsigned)m->virtuals,
        .virtual_memory = m->virtual_memory < 0 ? 0 : (size_t)m->virtual_memory,
        .virtual_link = m->virtual_link < 0 ? 0 : (size_t)m->virtual_link,
        .scheduler = strcmp(m->scheduler, "auto") == 0 ? NULL : m->scheduler,
        .disk = dsf_disks_options(&s->job),
    };
    int status = exec_kind(words, &options.kind, err);

    if (status == DSFLOW_OK)
        status = dsflow_exec_open(s->graph, &options, host, &s->exec, err);
    if (status < 0)
        return status;
    dsf_contents_init(&s->contents, &s->model, s->graph, s->exec,
                      dsf_job_optimizer(&s->job, NULL), s->plan->mesh.tensor,
                      (enum dsf_states)s->job.offload.states);
    fill_constants(s);
    return DSFLOW_OK;
}

int dsf_session_start(struct dsf_session *s, struct dsflow_err *err)
{
    struct dsf_params *params;
    int64_t from;
    int status = dsf_params_open(s, DSF_START, &params, &from, err);

    if (status < 0)
        return status;
    for (unsigned u = 0; u < s->model.nunits && status == DSFLOW_OK; u++)
        status = dsf_contents_fill(&s->contents, u, DSF_KEPT_PARAM,
                                   dsf_params_read, params, err);
    dsf_params_close(params);
    return status;
}

/* A checkpoint as lists of whole tensors: "params" are the units, "states" all
 * else that lives from step to step. Units pass by one at a time. */
struct passing {
    struct dsf_session *s;
    struct dsf_holding *what; /* by tensor: its unit and kind */
};

struct contents {
    struct dsf_st_tensor *tensors;
    struct dsf_ckpt_part parts[2];
    struct passing passing[2];
};

static int put_unit(void *user, unsigned i, struct dsf_st_writer *out,
                    struct dsflow_err *err)
{
    const struct passing *p = user;

    return dsf_contents_write(&p->s->contents, p->what[i].unit, p->what[i].kind,
                              out, err);
}

static int take_unit(void *user, unsigned i, const struct dsf_st_file *file,
                     const struct dsf_st_tensor *from, struct dsflow_err *err)
{
    const struct passing *p = user;

    return dsf_contents_read(&p->s->contents, p->what[i].unit, p->what[i].kind,
                             file, from, err);
}

static void add_tensor(struct dsf_ckpt_part *part, const char *prefix,
                       const char *name, enum dsf_dtype dtype, size_t bytes,
                       void *data)
{
    part->tensors[part->n++] = (struct dsf_st_tensor){
        .name = dsf_xasprintf("%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                              name),
        .dtype = dtype,
        .ndims = 1,
        .dims = { (int64_t)(bytes / (dtype == DSF_F32 ? 4 : 8)) },
        .data = data,
        .bytes = bytes,
    };
}

static void add_unit(struct dsf_session *s, struct contents *c, unsigned u,
                     unsigned kind)
{
    const struct dsf_unit *unit = &s->model.units[u];
    int p = kind != DSF_KEPT_PARAM;

    if (!dsf_contents_has(&s->contents, u, kind))
        return;
    c->passing[p].what[c->parts[p].n].unit = u;
    c->passing[p].what[c->parts[p].n].kind = kind;
    add_tensor(&c->parts[p], dsf_contents_name(&s->contents, kind), unit->name,
               DSF_F32, (size_t)unit->elems * sizeof(float), NULL);
}

static void list_contents(struct dsf_session *s, struct contents *c,
                          enum dsflow_access access)
{
    static const char *const names[] = { "params", "states" };
    static const char *const counters[] = { "cursor", "control" };
    size_t most = (size_t)s->model.nunits * DSF_NKEPT + 2;

    c->tensors = dsf_xcalloc(2 * most, sizeof(*c->tensors));
    for (int p = 0; p < 2; p++) {
        c->passing[p].s = s;
        c->passing[p].what = dsf_xcalloc(most, sizeof(*c->passing[p].what));
        c->parts[p] = (struct dsf_ckpt_part){
            .name = names[p],
            .tensors = c->tensors + (size_t)p * most,
            .put = put_unit,
            .take = take_unit,
            .user = &c->passing[p],
        };
    }
    for (int i = 0; i < 2; i++) {
        dsflow_data_id id = find(s, counters[i]);

        add_tensor(&c->parts[1], "", counters[i], DSF_I64,
                   dsflow_graph_data(s->graph, id)->bytes,
                   dsflow_exec_map(s->exec, id, access));
    }
    for (unsigned u = 0; u < s->model.nunits; u++)
        for (unsigned k = 0; k < DSF_NKEPT; k++)
            add_unit(s, c, u, k);
}

static void forget_contents(struct contents *c)
{
    for (int p = 0; p < 2; p++) {
        for (unsigned t = 0; t < c->parts[p].n; t++)
            free(c->parts[p].tensors[t].name);
        free(c->passing[p].what);
    }
    free(c->tensors);
}

int dsf_session_save(struct dsf_session *s, int64_t step,
                     struct dsflow_err *err)
{
    struct dsf_ckpt_meta meta = { .step = step, .identity = s->identity };
    char *dir = dsf_session_checkpoints(s);
    struct contents c;
    int status;

    snprintf(meta.job, sizeof(meta.job), "%s", s->job.main.name);
    list_contents(s, &c, DSFLOW_R);
    status = dsf_ckpt_save(dir, &meta, c.parts, 2, s->job.checkpoint.keep, err);
    forget_contents(&c);
    free(dir);
    return status;
}

int dsf_session_load(struct dsf_session *s, const char *folder,
                     struct dsflow_err *err)
{
    struct contents c;
    int status;

    list_contents(s, &c, DSFLOW_RW);
    status = dsf_ckpt_load(folder, c.parts, 2, err);
    forget_contents(&c);
    return status;
}

double dsf_session_copies(const struct dsf_session *s)
{
    double bytes = 0;

    for (unsigned u = 0; u < s->model.nunits; u++)
        if (!dsf_contents_stands(&s->contents, u, DSF_KEPT_PARAM))
            bytes += (double)s->model.units[u].elems * sizeof(float);
    return bytes;
}

int dsf_session_units(struct dsf_session *s, float ***out,
                      struct dsflow_err *err)
{
    float **params = dsf_xcalloc(s->model.nunits, sizeof(*params));
    int status = DSFLOW_OK;

    *out = params;
    for (unsigned u = 0; u < s->model.nunits && status == DSFLOW_OK; u++) {
        if (dsf_contents_stands(&s->contents, u, DSF_KEPT_PARAM)) {
            params[u] =
                dsf_contents_map(&s->contents, u, DSF_KEPT_PARAM, DSFLOW_R);
            continue;
        }
        status = dsf_unit_alloc(&s->model, u, &params[u], err);
        if (status == DSFLOW_OK)
            status = dsf_contents_get(&s->contents, u, DSF_KEPT_PARAM,
                                      params[u], err);
    }
    return status;
}

void dsf_session_units_free(struct dsf_session *s, float **params)
{
    for (unsigned u = 0; params != NULL && u < s->model.nunits; u++)
        if (!dsf_contents_stands(&s->contents, u, DSF_KEPT_PARAM))
            free(params[u]);
    free(params);
}

void dsf_session_close(struct dsf_session *s)
{
    dsflow_exec_close(s->exec);
    dsflow_graph_free(s->graph);
    dsf_plan_free(s->plan);
    dsf_corpus_close(s->corpus);
    dsf_model_fini(&s->model);
    dsf_tokenizer_free(s->tok);
    dsf_job_fini(&s->job);
    dsf_contents_fini(&s->contents);
    free(s->why);
}
