/* starpu_exec.c - a graph submitted to StarPU: a handle for each piece of
 * data, registered once, and a StarPU task for each task, at every step. Handles
 * have no memory: where data is, and what is copied when, is known without it.
 *
 * Dependencies are StarPU's own, from the order of submission and the access
 * modes (sequential consistency), also from one step to the next: nothing
 * waits at the end of a step.
 */
#include "exec/bound.h"
#include "exec/races.h"
#include "exec/starpu_private.h"

#include "base/alloc.h"
#include "base/log.h"
#include "graph/task.h"
#include "machine/machine.h"
#include "machine/schedulers.h"
#include "tasks/portion.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

/* One StarPU codelet for each kind of task, so that names, traces and costs
 * are per kind; and one for those of it that are staged. */
struct kind {
    const struct dsflow_codelet *codelet;
    bool staged;
    struct starpu_codelet cl;
    struct starpu_perfmodel model;
};

struct starpu_state {
    starpu_data_handle_t *handles; /* by data */
    struct kind **kinds;
    struct kind **kind_of; /* by task */
    unsigned nkinds;
    size_t cap_kinds;
    bool started;
    unsigned first, ranks; /* of them those of this process, from `first` on */
    uint32_t *masks; /* by rank: the workers that it may use, as StarPU has it */
    unsigned mask_words;
    struct dsf_starpu_submitter *submitter;
    struct dsf_starpu_touch *touched;
};

/* The worker that the calling thread is. */
static unsigned this_worker(void)
{
    return (unsigned)starpu_worker_get_id_check();
}

static void run_cpu(void *buffers[], void *arg)
{
    const struct dsf_exec_call *call = arg;
    unsigned worker = this_worker();
    struct dsflow_buf *bufs = call->exec->workers[worker].bufs;

    for (unsigned p = 0; p < call->task->ndata; p++)
        bufs[p] = dsf_exec_buf(call, p, call->exec->mem[call->task->data[p].i]);
    dsf_races_begin(call);
    dsf_exec_run(call, bufs, worker);
    dsf_races_end(call);
}

static void run_staged(void *buffers[], void *arg)
{
    dsf_exec_staged_run(arg, this_worker());
}

/* Microseconds, for the schedulers that want a model. All workers here are
 * cores of one machine, so that only the ratio between kinds matters. */
static double microseconds(const struct dsf_exec_call *call)
{
    struct dsflow_cost cost = dsf_task_cost(call->exec->graph, call->task);

    return 1 + cost.flops / 100e3 + cost.bytes / 10e3;
}

static double cost_us(struct starpu_task *task, unsigned nimpl)
{
    return microseconds(task->cl_arg);
}

static double staged_us(struct starpu_task *task, unsigned nimpl)
{
    return microseconds(dsf_exec_staged_call(task->cl_arg));
}

static struct kind *new_kind(struct starpu_state *s,
                             const struct dsf_exec_call *call)
{
    const struct dsflow_codelet *codelet = call->codelet;
    struct kind *k = dsf_xcalloc(1, sizeof(*k));

    k->codelet = codelet;
    k->staged = call->staged;
    starpu_codelet_init(&k->cl);
    k->cl.name = codelet->op->name;
    k->cl.nbuffers = STARPU_VARIABLE_NBUFFERS;
    k->cl.cpu_funcs[0] = k->staged ? run_staged : run_cpu;
    k->model.type = STARPU_COMMON;
    k->model.cost_function = k->staged ? staged_us : cost_us;
    k->model.symbol = codelet->op->name;
    k->cl.model = &k->model;

    dsf_grow(&s->kinds, &s->cap_kinds, s->nkinds + 1, sizeof(*s->kinds));
    return s->kinds[s->nkinds++] = k;
}

static void find_kinds(struct dsflow_exec *exec)
{
    struct starpu_state *s = exec->priv;
    uint32_t n = dsflow_graph_ntasks(exec->graph);

    s->kind_of = dsf_xcalloc(n + 1, sizeof(*s->kind_of));
    for (uint32_t i = 0; i < n; i++) {
        const struct dsf_exec_call *call = &exec->calls[i];

        if (call->by != DSF_BY_CORE)
            continue;
        for (unsigned k = 0; k < s->nkinds; k++)
            if (s->kinds[k]->codelet == call->codelet &&
                s->kinds[k]->staged == call->staged)
                s->kind_of[i] = s->kinds[k];
        if (s->kind_of[i] == NULL)
            s->kind_of[i] = new_kind(s, call);
    }
}

/* Are there too few cores for each worker to have one? Where no number of
 * workers is asked for, there are enough. */
static bool is_crowded(const struct dsflow_exec_options *options)
{
    struct dsf_machine machine = { .cores = options->cores };

    if (options->wire != NULL)
        return true;
    return options->workers > 0 &&
           (machine.cores > 0 ||
            dsf_machine_probe(&machine, NULL) == DSFLOW_OK) &&
           options->workers + options->virtuals > machine.cores;
}

static bool is_alone(void)
{
    bool alone = dsf_bound_claim();

    if (!alone)
        dsf_info("another dsflow has bound its workers to cores: those of this "
                 "one are bound to none");
    return alone;
}

/* StarPU binds each worker to a core; where several share one, the system does
 * better. What the user has set stays, and says that others want the cores, too.
 * Returns whether workers share cores. */
static bool set_binding(bool crowded)
{
    static bool ours;

    if (!ours && getenv("STARPU_WORKERS_NOBIND") != NULL)
        return true;
    crowded = crowded || !is_alone();
    if (crowded)
        setenv("STARPU_WORKERS_NOBIND", "1", 1);
    else
        unsetenv("STARPU_WORKERS_NOBIND");
    ours = crowded;
    return crowded;
}

/* There is one StarPU in a process. A second executor would get the workers and
 * the scheduler that the first one asked for. */
static atomic_flag in_use = ATOMIC_FLAG_INIT;

static int start(const struct dsflow_exec_options *options,
                 struct dsflow_err *err)
{
    struct starpu_conf conf;
    bool shared;
    int status;

    if (atomic_flag_test_and_set(&in_use))
        return dsflow_fail(err, DSFLOW_EFAIL,
                           "StarPU has an executor in this process already: "
                           "expected it to be closed first");
    setenv("STARPU_SILENT", "1", 0); /* its remarks help nobody here */
    shared = set_binding(is_crowded(options));
    starpu_conf_init(&conf);
    conf.precedence_over_environment_variables = 1;
    conf.ncpus = options->workers > 0 ? (int)options->workers : -1;
    conf.ncuda = 0;
    conf.nopencl = 0;
    conf.catch_signals = 0; /* they are the program's */
    /* Threads of devices want the cores that are idle. */
    dsf_starpu_set_scheduler(&conf, options->scheduler,
                             shared || options->virtuals + options->gpus > 0);
    status = dsf_starpu_init(&conf, err);
    if (status < 0) {
        dsf_bound_release();
        atomic_flag_clear(&in_use);
    }
    return status;
}

/* Those of tasks: of one of several processes, its own. */
static void find_ranks(const struct dsflow_exec *exec, struct starpu_state *s)
{
    int first = INT_MAX, last = -1;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++) {
        int rank = exec->calls[i].task->rank;

        first = rank >= 0 && rank < first ? rank : first;
        last = rank > last ? rank : last;
    }
    s->first = last < 0 ? 0 : (unsigned)first;
    s->ranks = last < 0 ? 1 : (unsigned)(last - first) + 1;
}

static void share_workers(struct starpu_state *s)
{
    unsigned n = starpu_worker_get_count(), ranks = s->ranks;

    s->mask_words = (n + 31) / 32;
    s->masks = dsf_xcalloc((size_t)ranks * s->mask_words, sizeof(*s->masks));
    for (unsigned r = 0; r < ranks; r++)
        for (unsigned w = 0; w < n; w++)
            if (dsf_exec_works_for(w, n, r, ranks))
                s->masks[r * s->mask_words + w / 32] |= 1u << w % 32;
}

/* The cores that may run a task; NULL: any. What calls the host is of no rank. */
static uint32_t *mask_of(const struct starpu_state *s,
                         const struct dsf_exec_call *call)
{
    int rank = call->task->rank;

    if (rank < 0 || s->masks == NULL || call->codelet->host_only)
        return NULL;
    return s->masks + ((size_t)rank - s->first) * s->mask_words;
}

static enum starpu_data_access_mode mode_of(enum dsflow_access access)
{
    return access == DSFLOW_R   ? STARPU_R
           : access == DSFLOW_W ? STARPU_W
                                : STARPU_RW;
}

/* Tasks beside each other write parts of the same data; but what goes through a
 * buffer whole is written back whole. */
static enum dsflow_access order_of(const struct dsf_exec_call *call, unsigned p)
{
    const struct dsflow_exec *exec = call->exec;
    const dsflow_data_id data = call->task->data[p];
    bool part = dsflow_task_is_apart(call->task, p);

    if (part && call->staged && exec->on[data.i] != NULL)
        part = dsf_portion_of(exec->graph, call->task, p).bytes <
               dsflow_graph_data(exec->graph, data)->bytes;
    return part ? DSFLOW_R : dsflow_task_access(call->task, p);
}

void dsf_starpu_describe(struct starpu_task *task,
                         const struct dsf_exec_call *call,
                         starpu_data_handle_t *handles)
{
    const struct dsflow_task_spec *t = call->task;

    task->name = t->op->name;
    task->priority = t->priority;
    if (t->ndata > STARPU_NMAXBUFS) { /* freed with the task */
        task->dyn_handles = dsf_xcalloc(t->ndata, sizeof(*task->dyn_handles));
        task->dyn_modes = dsf_xcalloc(t->ndata, sizeof(*task->dyn_modes));
    }
    for (unsigned p = 0; p < t->ndata; p++) {
        STARPU_TASK_SET_HANDLE(task, handles[t->data[p].i], task->nbuffers);
        STARPU_TASK_SET_MODE(task, mode_of(order_of(call, p)), task->nbuffers);
        task->nbuffers++;
    }
}

static int submit_kernel(struct dsflow_exec *exec, uint32_t i)
{
    struct starpu_state *s = exec->priv;
    struct dsf_exec_call *call = &exec->calls[i];
    struct starpu_task *task = starpu_task_create();
    uint32_t *mask = mask_of(s, call);
    int ret;

    task->cl = &s->kind_of[i]->cl;
    task->cl_arg = call;
    dsf_starpu_describe(task, call, s->handles);
    if (mask != NULL) {
        task->workerids = mask;
        task->workerids_len = s->mask_words;
    }
    ret = call->staged ? dsf_starpu_submit_staged(task, s->handles)
                       : starpu_task_submit(task);
    if (ret != 0) {
        task->destroy = 0;
        starpu_task_destroy(task);
    }
    return ret;
}

static int submit_task(struct dsflow_exec *exec, uint32_t i,
                       struct dsflow_err *err)
{
    struct starpu_state *s = exec->priv;
    struct dsf_exec_call *call = &exec->calls[i];
    int ret;

    dsf_races_hand_over(call);
    ret = call->by == DSF_BY_CORE ? submit_kernel(exec, i)
                                  : dsf_starpu_submit_nowhere(call, s->handles);
    return ret == 0 ? DSFLOW_OK
                    : dsflow_fail(err, DSFLOW_ENOSYS,
                                  "task %s: no worker can run it",
                                  call->task->op->name);
}

static int starpu_exec_open(struct dsflow_exec *exec,
                            const struct dsflow_exec_options *options,
                            struct dsflow_err *err)
{
    struct starpu_state *s = dsf_xcalloc(1, sizeof(*s));
    uint32_t n = dsflow_graph_ndata(exec->graph);
    int status;

    exec->priv = s;
    status = dsf_scheduler_check(options->scheduler, err);
    if (status < 0)
        return dsflow_fail_in(err, status, "machine: scheduler");
    status = start(options, err);
    if (status < 0)
        return status;
    s->started = true;
    status = dsf_exec_add_workers(exec, starpu_worker_get_count(), err);
    if (status == DSFLOW_OK)
        status = dsf_exec_stage_open(exec, err);
    if (status < 0)
        return status;

    s->ranks = options->ranks;
    if (options->wire != NULL)
        find_ranks(exec, s);
    if (s->ranks > 1)
        share_workers(s);
    s->handles = dsf_xcalloc(n + 1, sizeof(*s->handles));
    for (uint32_t i = 0; i < n; i++)
        starpu_void_data_register(&s->handles[i]);
    find_kinds(exec);
    s->submitter = dsf_starpu_submitter_new(exec, submit_task);
    return s->submitter != NULL
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EFAIL, "no thread for StarPU's tasks");
}

static void starpu_exec_close(struct dsflow_exec *exec)
{
    struct starpu_state *s = exec->priv;

    if (s == NULL)
        return;
    dsf_starpu_submitter_free(s->submitter);
    dsf_starpu_touch_end(s->touched);
    if (s->started) {
        starpu_task_wait_for_all();
        /* Their threads end tasks, and know StarPU until they are back. */
        dsf_exec_wait_devices(exec);
        dsf_exec_disk_close(exec);
        if (s->handles != NULL)
            for (uint32_t i = 0; i < dsflow_graph_ndata(exec->graph); i++)
                if (s->handles[i] != NULL)
                    starpu_data_unregister_no_coherency(s->handles[i]);
        starpu_shutdown();
        dsf_bound_release();
        atomic_flag_clear(&in_use);
    }
    dsf_starpu_touch_free(s->touched);
    for (unsigned k = 0; k < s->nkinds; k++)
        free(s->kinds[k]);
    free(s->kinds);
    free(s->kind_of);
    free(s->handles);
    free(s->masks);
    free(s);
}

/* Has a step time in which cores do nothing? A device whose kernels are the
 * CPU's takes cores itself. */
static bool has_idle_cores(const struct dsflow_exec *exec)
{
    return exec->ndevices > 0 && exec->devices[0].class->side != NULL;
}

static void touch_ahead(struct dsflow_exec *exec, uint32_t first, uint32_t last)
{
    struct starpu_state *s = exec->priv;
    const unsigned n = s->masks != NULL ? s->ranks : 1;

    for (unsigned r = 0; r < n; r++)
        s->touched = dsf_starpu_touch(
            exec, first, last, s->masks != NULL ? (int)(s->first + r) : -1,
            s->masks != NULL ? s->masks + (size_t)r * s->mask_words : NULL,
            s->mask_words, s->touched);
}

static bool is_first_time(const struct dsflow_exec *exec, uint32_t first)
{
    return exec->submitted[exec->calls[first].task->program] == 1;
}

static int starpu_exec_submit(struct dsflow_exec *exec, uint32_t first,
                              uint32_t last, struct dsflow_err *err)
{
    struct starpu_state *s = exec->priv;

    if (has_idle_cores(exec) && first < last && is_first_time(exec, first))
        touch_ahead(exec, first, last);
    dsf_starpu_submitter_add(s->submitter, first, last);
    return DSFLOW_OK;
}

static int starpu_exec_wait(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct starpu_state *s = exec->priv;

    dsf_starpu_submitter_wait(s->submitter);
    starpu_task_wait_for_all();
    dsf_exec_wait_devices(exec);
    dsf_races_wait(exec);
    return DSFLOW_OK;
}

/* The rank that has worker `w` for itself. */
static int rank_of(const struct starpu_state *s, unsigned w)
{
    if (s->masks == NULL)
        return (int)s->first;
    if (s->ranks > starpu_worker_get_count())
        return DSFLOW_ANYWHERE;
    for (unsigned r = 0; r < s->ranks; r++)
        if (s->masks[r * s->mask_words + w / 32] >> w % 32 & 1)
            return (int)(s->first + r);
    return DSFLOW_ANYWHERE;
}

/* Ranks that have devices compute there: cores are what is beside them. */
static void starpu_exec_lanes(const struct dsflow_exec *exec,
                              struct dsf_timeline *timeline)
{
    const struct starpu_state *s = exec->priv;
    unsigned cores = exec->nworkers - exec->ndevices;
    unsigned own = exec->nranks - exec->first_rank;

    for (unsigned d = 0; d < exec->ndevices; d++)
        dsf_timeline_add_lane(timeline, DSF_LANE_WORKER,
                              own <= exec->ndevices && d < own
                                  ? (int)(exec->first_rank + d)
                                  : DSFLOW_ANYWHERE,
                              "device %u", exec->devices[d].index);
    for (unsigned w = 0; w < cores; w++)
        dsf_timeline_add_lane(
            timeline, exec->ndevices > 0 ? DSF_LANE_HOST : DSF_LANE_WORKER,
            rank_of(s, w), "core %u", w);
}

const struct dsf_exec_class dsf_exec_starpu = {
    .open = starpu_exec_open,
    .close = starpu_exec_close,
    .submit = starpu_exec_submit,
    .wait = starpu_exec_wait,
    .lanes = starpu_exec_lanes,
};
