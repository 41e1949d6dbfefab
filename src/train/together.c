/* together.c - a session that several processes have together. */
#include "train/together.h"

#include "base/alloc.h"
#include "config/toml_read.h"
#include "exec/nccl.h"
#include "exec/spread.h"
#include "kernels/kernels.h"
#include "net/pass.h"
#include "net/watch.h"
#include "policies/processes.h"
#include "sim/weights.h"
#include "train/by_all.h"
#include "train/feed.h"
#include "train/heard.h"
#include "train/machine_keys.h"
#include "train/origin.h"
#include "train/same_folder.h"
#include "train/transport.h"
#include "tune/budget.h"

#include <stdlib.h>
#include <string.h>

/* Beside those of src/exec/spread.c. */
enum tag { ORDER = DSF_OWN_TAGS + 16, JOB, OPENED, WEIGHTS };

/* What one of the others is to open; then comes the text of its job. */
struct order {
    size_t bytes;               /* of the job; 0: nothing, as there is no run */
    char path[512];             /* of the job, for messages */
    struct dsf_machine machine; /* of the plan */
    uint64_t text;              /* hash of it */
    int64_t first;              /* sequence of step 0 */
    uint64_t tasks;             /* hash of those of its process; … */
    uint64_t plain; /* … or, where it is `alone`, of the plain step */
    uint32_t kind;
    int32_t rank, ranks; /* its first, of so many that are its own */
    int32_t near;        /* ranks of all processes on its host */
    int32_t direct;      /* do messages go from GPU to GPU? */
    int32_t alone;       /* has the first one not the tasks of all? */
    struct dsf_nccl_version nccl; /* of the first one, where they do */
    char isa[32];        /* of the kernels of the first one */
    char marked[80];     /* a file in the output folder */
};

struct opened {
    int32_t status, zero;
    char msg[512];
};

/* --- the first one -------------------------------------------------------- */

static int32_t ranks_of(const struct dsf_processes *all, int32_t p)
{
    return dsf_process_first(all, p + 1) - dsf_process_first(all, p);
}

/* Of all processes on the host of this one. */
static int32_t ranks_near(const struct dsf_processes *all,
                          const struct dsf_wire *wire, int32_t p)
{
    int32_t n = 0;

    for (int32_t q = 0; q < all->n; q++)
        n += dsf_wire_is_near(wire, p, q) ? ranks_of(all, q) : 0;
    return n;
}

/* Of the workers of a host with so many cores, by ranks. */
static unsigned workers_of(const struct dsf_job *job, unsigned cores,
                           int32_t ranks, int32_t of)
{
    const unsigned virtuals = (unsigned)job->machine.virtuals;
    const unsigned beside = cores > virtuals ? cores - virtuals : 1;
    unsigned all =
        job->machine.workers < 0 ? beside : (unsigned)job->machine.workers;
    unsigned share = all * (unsigned)ranks / (unsigned)of;

    return share > 0 ? share : 1;
}

/* As it is written beside the run, but for what is another one here (kept.h): a
 * tokenizer that was given, and a model; freed by the caller. */
static char *text_of(const struct dsf_session *s, size_t *bytes)
{
    char *quoted = dsf_toml_quote(s->job->data.tokenizer), *text;
    char *set = dsf_xasprintf("data.tokenizer=%s", quoted);
    FILE *out = dsf_xmemstream(&text, bytes);
    struct dsf_job sized, said;
    bool lost = s->origin.lost && dsf_origin_say(s, &sized, NULL) == DSFLOW_OK;
    const struct dsf_job *job = lost ? &sized : s->job;

    if ((lost || dsf_job_has(job, "data", "tokenizer")) &&
        dsf_job_with(job, DSF_GIVEN, (const char *const *)&set, 1, &said,
                     NULL) == DSFLOW_OK) {
        dsf_job_write(&said, out);
        dsf_job_fini(&said);
    } else {
        dsf_job_write(job, out);
    }
    if (lost)
        dsf_job_fini(&sized);
    fclose(out);
    free(set);
    free(quoted);
    return text;
}

static int order(const struct dsf_session *s,
                 const struct dsflow_exec_options *options,
                 struct dsflow_err *err)
{
    const struct dsf_processes all = dsf_session_processes(s, s->together.wire);
    struct order o = { .machine = s->machine,
                       .text = s->text.content,
                       .first = s->first,
                       .kind = options->kind,
                       .direct = s->together.direct,
                       .alone = s->together.alone,
                       .plain = s->together.plain };
    char *text = text_of(s, &o.bytes);
    int status = DSFLOW_OK;

    o.machine.node_of = NULL; /* is in this process */
    if (s->together.direct)
        o.nccl = dsf_nccl_version(NULL);
    snprintf(o.isa, sizeof(o.isa), "%s", dsf_kernels_isa());
    snprintf(o.marked, sizeof(o.marked), "%s", s->together.folder.name);
    snprintf(o.path, sizeof(o.path), "%s", s->job->path);
    for (int32_t p = 1; p < all.n && status == DSFLOW_OK; p++) {
        o.near = ranks_near(&all, s->together.wire, p);
        o.tasks = s->together.alone ? 0 : s->together.part.hashes[p];
        o.rank = dsf_process_first(&all, p);
        o.ranks = ranks_of(&all, p);
        status = dsf_pass(s->together.wire, true, p, ORDER, &o, sizeof(o), err);
        if (status == DSFLOW_OK)
            status =
                dsf_pass(s->together.wire, true, p, JOB, text, o.bytes, err);
    }
    free(text);
    return status;
}

int dsf_together_check(const char *path, int64_t ranks, int64_t processes,
                       struct dsflow_err *err)
{
    if (processes <= ranks)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: mesh: %lld rank%s: expected one at least for each "
                       "of %lld processes",
                       path, (long long)ranks, ranks == 1 ? "" : "s",
                       (long long)processes);
}

int dsf_together_begin(struct dsf_session *s,
                       struct dsflow_exec_options *options,
                       struct dsflow_err *err)
{
    const struct dsf_processes all = dsf_session_processes(s, s->together.wire);
    int status = dsf_together_check(s->job->path, all.ranks, all.n, err);

    if (status < 0)
        return status;
    dsf_watch_ranks(0, dsf_process_first(&all, 1));
    status = dsf_transport_choose(s->job, &s->machine, &all,
                                  &s->together.direct, err);
    if (status < 0)
        return status;
    status = dsf_session_part(s, s->together.wire, err);
    if (status == DSFLOW_OK && s->together.alone) {
        dsf_session_weights(s); /* by what its tasks read of others, too */
        dsf_process_keep_own(&all, s->together.wire->process, &s->graph,
                             &s->together.part);
    }
    if (status == DSFLOW_OK)
        status = dsf_same_folder_begin(&s->together.folder, s->job, err);
    if (status == DSFLOW_OK)
        status = order(s, options, err);
    s->together.ordered = status == DSFLOW_OK;
    options->workers =
        workers_of(s->job, s->machine.node_cores, ranks_of(&all, 0),
                   ranks_near(&all, s->together.wire, 0));
    options->wire = s->together.wire;
    options->part = &s->together.part;
    return status;
}

/* Those of its ranks, of its part of the graph. */
static void take_weights(struct dsf_session *s, int32_t p,
                         const struct dsf_rank_weight *v)
{
    const struct dsf_processes all = dsf_session_processes(s, s->together.wire);
    const int32_t first = dsf_process_first(&all, p);

    for (int32_t r = first; r < dsf_process_first(&all, p + 1); r++)
        dsf_weights_take(s->weights, (unsigned)r, &v[r - first]);
}

/* What another process has weighed. */
static int hear_weights(struct dsf_session *s, int32_t p,
                        struct dsflow_err *err)
{
    const struct dsf_processes all = dsf_session_processes(s, s->together.wire);
    const size_t n = (size_t)ranks_of(&all, p);
    struct dsf_rank_weight *v = dsf_xcalloc(n, sizeof(*v));
    int status =
        dsf_pass(s->together.wire, false, p, WEIGHTS, v, n * sizeof(*v), err);

    if (status == DSFLOW_OK)
        take_weights(s, p, v);
    free(v);
    return status;
}

static int hear(struct dsf_session *s, int32_t p, struct dsflow_err *err)
{
    int status = s->together.alone ? dsf_heard_take(s, p, err) : DSFLOW_OK;

    return status == DSFLOW_OK ? hear_weights(s, p, err) : status;
}

/* Of the whole graph they were until now: each process has buffers for what
 * comes and goes. */
static void weigh_own(struct dsf_session *s)
{
    struct dsf_weights own;

    dsf_session_weights(s);
    dsf_fit_weigh(s->plan, s->together.part.graph, NULL, &own);
    take_weights(s, s->together.wire->process, own.ranks);
    dsf_weights_fini(&own);
}

int dsf_together_opened(struct dsf_session *s, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    weigh_own(s);
    for (int32_t p = 1; p < s->together.wire->nprocesses; p++) {
        struct opened o;
        int one = dsf_pass(s->together.wire, false, p, OPENED, &o, sizeof(o),
                           status == DSFLOW_OK ? err : NULL);

        if (one == DSFLOW_OK && o.status < 0)
            one = dsflow_fail(status == DSFLOW_OK ? err : NULL,
                              (enum dsflow_status)o.status, "%s: %s",
                              dsf_watch_name(p).s, o.msg);
        else if (one == DSFLOW_OK)
            one = hear(s, p, status == DSFLOW_OK ? err : NULL);
        status = status == DSFLOW_OK ? one : status;
    }
    dsf_same_folder_end(&s->together.folder);
    if (status == DSFLOW_OK && s->together.alone)
        status = dsf_heard_check(s, err);
    return status == DSFLOW_OK && s->together.direct
               ? dsf_spread_join(s->exec, err)
               : status;
}

void dsf_together_tell(const struct dsf_session *s, int64_t nvalidation)
{
    if (s->together.wire != NULL && s->exec != NULL)
        dsf_spread_tell(s->exec, (int64_t[]){ s->first, nvalidation });
}

void dsf_together_end(struct dsf_session *s, struct dsf_wire *wire)
{
    struct order none = { .bytes = 0 };

    dsf_same_folder_end(&s->together.folder);
    for (int32_t p = 1; p < wire->nprocesses && !s->together.ordered; p++)
        dsf_pass(wire, true, p, ORDER, &none, sizeof(none), NULL);
}

/* --- the others ----------------------------------------------------------- */

struct served {
    struct dsf_session s;
    struct dsf_feed feed;
    struct dsf_wire *wire;
};

/* By the thread that submits, between programs that read batches. */
static void told(void *user, const int64_t *numbers)
{
    struct served *x = user;

    x->s.first = numbers[0];
    x->feed.nvalidation = numbers[1];
}

static int asked(void *user, struct dsflow_err *err)
{
    struct served *x = user;

    return dsf_by_all_serve(&x->s, x->wire, err);
}

/* NCCL knows no other version than its own, and may wait for one for ever. */
static int check_nccl(const struct order *o, struct dsflow_err *err)
{
    struct dsflow_err why;
    const struct dsf_nccl_version own = dsf_nccl_version(&why);

    if (!o->direct || strcmp(own.s, o->nccl.s) == 0)
        return DSFLOW_OK;
    if (own.s[0] == '\0')
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: mesh: transport: no NCCL: expected %s, as in "
                           "process 0, or \"mpi\": %s",
                           o->path, o->nccl.s, why.msg);
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: mesh: transport: NCCL %s: expected %s, as in "
                       "process 0, or \"mpi\"",
                       o->path, own.s, o->nccl.s);
}

/* The job and its plan, as the first process has them, but only the tasks of
 * this one. */
static int open_plan(struct served *x, const struct order *o, const char *text,
                     struct dsflow_err *err)
{
    int status;

    if (strcmp(o->isa, dsf_kernels_isa()) != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "its kernels are those for %s: expected %s, as in "
                           "process 0, as others add up in another order "
                           "(DSFLOW_ISA)",
                           dsf_kernels_isa(), o->isa);
    status = dsf_session_parse_written(&x->s, text, o->path, err);
    x->s.machine = o->machine;
    x->s.first = o->first;
    x->s.together.direct = o->direct;
    if (status == DSFLOW_OK)
        status = check_nccl(o, err);
    if (status == DSFLOW_OK)
        status = dsf_machine_keys_share_gpus(x->s.job, o->rank, o->ranks,
                                             &x->s.machine, &x->s.model, err);
    if (status == DSFLOW_OK)
        status = dsf_session_plan_alone(&x->s, x->wire, err);
    if (status == DSFLOW_OK)
        status = dsf_session_part(&x->s, x->wire, err);
    if (status == DSFLOW_OK &&
        (o->alone ? x->s.together.plain != o->plain
                  : x->s.together.part.hashes[x->wire->process] != o->tasks))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "its plan is another than that of process 0: "
                             "expected the same dsflow and plug-ins");
    return status;
}

/* The first one looks at the memories of those ranks that it has a graph of. */
static int check_memory(struct served *x, const struct order *o,
                        struct dsflow_err *err)
{
    return o->alone ? dsf_session_check_part(&x->s, x->wire, err) : DSFLOW_OK;
}

/* Its host may have other cores than the first. */
static unsigned own_workers(const struct served *x, const struct order *o)
{
    struct dsf_machine own;

    if (dsf_machine_probe(&own, NULL) < 0)
        own.cores = o->machine.node_cores;
    return workers_of(x->s.job, own.cores, o->ranks, o->near);
}

static int open_served(struct served *x, const struct order *o,
                       const char *text, struct dsflow_err *err)
{
    int status = open_plan(x, o, text, err);

    if (status == DSFLOW_OK)
        status = check_memory(x, o, err);
    if (!o->alone)
        dsf_session_forget_graph(&x->s);
    if (status == DSFLOW_OK)
        status = dsf_session_text(&x->s, err);
    if (status == DSFLOW_OK && x->s.text.content != o->text)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: data: the text is another than that of "
                             "process 0",
                             o->path);
    if (status == DSFLOW_OK)
        status = dsf_same_folder_check(x->s.job, o->marked, err);
    if (status == DSFLOW_OK)
        status = dsf_session_serve(&x->s, x->wire, own_workers(x, o),
                                   (enum dsflow_exec_kind)o->kind,
                                   &x->feed.host, err);
    return status;
}

static int say_opened(struct dsf_wire *wire, int status,
                      const struct dsflow_err *why, struct dsflow_err *err)
{
    struct opened o = { .status = status };

    if (status < 0)
        snprintf(o.msg, sizeof(o.msg), "%.500s", why->msg);
    return dsf_pass(wire, true, 0, OPENED, &o, sizeof(o), err);
}

static int say_weights(struct served *x, const struct order *o,
                       struct dsflow_err *err)
{
    struct dsf_weights own;
    int status;

    dsf_fit_weigh(x->s.plan, x->s.together.part.graph, NULL, &own);
    status = dsf_pass(x->wire, true, 0, WEIGHTS, &own.ranks[o->rank],
                      (size_t)o->ranks * sizeof(*own.ranks), err);
    dsf_weights_fini(&own);
    return status;
}

static int serve(struct served *x, const struct order *o,
                 struct dsflow_err *err)
{
    const struct dsf_spread_served served = { x, told, asked };
    char *text = dsf_xcalloc(1, o->bytes + 1);
    struct dsflow_err why;
    int status, opened = DSFLOW_OK;

    dsf_feed_init(&x->feed, &x->s);
    status = dsf_pass(x->wire, false, 0, JOB, text, o->bytes, err);
    if (status == DSFLOW_OK) {
        opened = open_served(x, o, text, &why);
        status = say_opened(x->wire, opened, &why, err);
        if (status == DSFLOW_OK && opened == DSFLOW_OK && o->alone)
            status = dsf_heard_say(&x->s, x->wire, err);
        if (status == DSFLOW_OK && opened == DSFLOW_OK)
            status = say_weights(x, o, err);
        dsf_session_forget_graph(&x->s);
    }
    /* Also where it has no executor: the first one closes its own. */
    if (status == DSFLOW_OK)
        status = dsf_spread_serve(x->s.exec, &x->s.together.part, x->wire,
                                  &served, err);
    dsf_session_close(&x->s);
    dsf_feed_fini(&x->feed);
    free(text);
    return status;
}

int dsf_together_serve(struct dsf_wire *wire, struct dsflow_err *err)
{
    struct served x = { .wire = wire };
    struct order o;
    int status = dsf_pass(wire, false, 0, ORDER, &o, sizeof(o), err);

    return status == DSFLOW_OK && o.bytes > 0 ? serve(&x, &o, err) : status;
}
