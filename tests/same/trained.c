/* trained.c - a trial that is trained for some steps, and all that it leaves,
 * as whole units whatever held them. */
#include "trained.h"

#include "codelets/cast.h"
#include "exec/exec_memory.h"
#include "exec/spread.h"
#include "model/parts.h"
#include "plan/programs.h"
#include "plan/sight.h"
#include "policies/policies.h"
#include "policies/processes.h"
#include "tasks/components.h"

#include "lib/near_wire.h"
#include "lib/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const kind_names[] = { "parameters", "first moments",
                                   "second moments" };

int64_t first_of_unit(const struct dsf_model *model, unsigned u)
{
    int64_t first = 0;

    while (u-- > 0)
        first += model->units[u].elems;
    return first;
}

/* Text with something to learn in it: any place of any step, by any worker. */
static int32_t token_at(const struct training *tr, int64_t step, int64_t seq,
                        int64_t pos)
{
    uint64_t x = (uint64_t)(step * 1009 + seq * 31 + pos / 3);

    x = (x ^ x >> 7) * 0x9e3779b97f4a7c15u;
    return (int32_t)(x >> 40) % tr->trial.model.dims.vocab;
}

static void load_batch(void *user, const struct dsflow_batch *b)
{
    int32_t each = b->rows / b->nseq;

    for (int32_t i = 0; i < b->rows; i++) {
        int64_t seq = b->seq + i / each, pos = b->pos + i % each;

        b->tokens[i] = token_at(user, b->step, seq, pos);
        b->targets[i] = token_at(user, b->step, seq, pos + 1);
    }
}

static void report(void *user, const struct dsflow_step_report *of)
{
    struct result *r = ((struct training *)user)->result;

    if (strcmp(of->program, "eval") == 0) {
        r->evaluation += of->loss;
        return;
    }
    assert_true(of->step >= 1 && of->step <= r->steps);
    r->losses[of->step - 1] = of->loss;
    r->norms[of->step - 1] = of->norm;
    r->nreports++;
}

static struct result *new_result(const struct dsf_model *model)
{
    struct result *r = calloc(1, sizeof(*r));
    size_t n = (size_t)first_of_unit(model, model->nunits);

    for (int k = 0; k < NKINDS; k++) {
        r->numbers[k] = calloc(n, sizeof(float));
        r->known[k] = calloc(n, sizeof(float));
    }
    return r;
}

void free_result(struct result *r)
{
    for (int k = 0; k < NKINDS; k++) {
        free(r->numbers[k]);
        free(r->known[k]);
    }
    free(r->text);
    free(r);
}

/* Which of a result's numbers persistent data holds; -1: none. */
static int kind_of(const struct dsflow_data_spec *d)
{
    if (!d->persistent || d->kept == 0)
        return -1;
    return d->kept == 1 + DSF_KEPT_PARAM   ? PARAM
           : d->kept >= 1 + DSF_KEPT_STATE ? M + d->kept - 1 - DSF_KEPT_STATE
                                           : -1;
}

/* Part `index` of unit `u`, as this mesh cuts it; NULL where it is empty. From
 * mesh.tensor on they are shared ones, of which there is one. */
static float *new_part(const struct training *tr, unsigned u, int index,
                       struct dsf_part *part)
{
    dsf_part_init(part, &tr->trial.model, tr->trial.plan->nparts, u, index);
    return part->elems > 0 ? calloc((size_t)part->elems, sizeof(float)) : NULL;
}

static bool is_piece(const struct training *tr,
                     const struct dsflow_data_spec *d, int kind,
                     const struct dsf_part *part)
{
    int64_t elems = d->elems;

    if (kind_of(d) != kind || d->unit != (int32_t)part->unit ||
        d->part != part->part)
        return false;
    if (d->at < 0 || d->at + elems > part->elems)
        fail_msg("%s: %s has numbers %lld to %lld of the %lld of %s", tr->text,
                 d->name, (long long)d->at, (long long)(d->at + elems),
                 (long long)part->elems, part->name);
    return true;
}

/* All persistent data of a kind that is of this part, on any rank. */
static dsflow_data_id next_piece(const struct training *tr, uint32_t from,
                                 int kind, const struct dsf_part *part)
{
    const struct dsflow_graph *g = tr->trial.graph;

    while (from < dsflow_graph_ndata(g) &&
           !is_piece(tr, dsflow_graph_data(g, (dsflow_data_id){ from }), kind,
                     part))
        from++;
    return (dsflow_data_id){ from };
}

#define EACH_PIECE(tr, id, kind, part)                                         \
    for (dsflow_data_id id = next_piece(tr, 0, kind, part);                    \
         id.i < dsflow_graph_ndata((tr)->trial.graph);                         \
         id = next_piece(tr, id.i + 1, kind, part))

/* Weights of step 0, the same ones wherever they are. */
static void fill_part(struct training *tr, const float *whole, unsigned u,
                      int index)
{
    struct dsf_part part;
    float *own = new_part(tr, u, index, &part);

    if (own == NULL)
        return;
    dsf_part_split(&part, whole, own);
    EACH_PIECE(tr, id, PARAM, &part)
    {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(tr->trial.graph, id);

        dsf_pack(d->dtype, &(struct dsf_rounding){ .nearest = 1 }, own + d->at,
                 dsflow_exec_map(tr->exec, id, DSFLOW_RW), (size_t)d->elems);
    }
    free(own);
}

static void fill_data(struct training *tr)
{
    const struct dsf_model *model = &tr->trial.model;

    for (unsigned u = 0; u < model->nunits; u++) {
        float *whole = calloc((size_t)model->units[u].elems, sizeof(*whole));

        dsf_model_randomize(model, u, 1, whole);
        for (int i = 0; i < 2 * tr->trial.plan->nparts; i++)
            fill_part(tr, whole, u, i);
        free(whole);
    }
    for (uint32_t i = 0; i < dsflow_graph_ndata(tr->trial.graph); i++)
        if (dsflow_graph_data(tr->trial.graph, (dsflow_data_id){ i })->constant)
            dsf_plan_fill_constant(
                tr->trial.plan,
                dsflow_graph_data(tr->trial.graph, (dsflow_data_id){ i }),
                dsflow_exec_map(tr->exec, (dsflow_data_id){ i }, DSFLOW_RW));
}

/* Put what one piece of data holds in its place; a copy of what is already
 * there must equal it. */
static void collect_piece(struct training *tr, dsflow_data_id id,
                          float *numbers, float *known)
{
    const struct dsflow_data_spec *d = dsflow_graph_data(tr->trial.graph, id);
    size_t elems = (size_t)d->elems;
    float *from = calloc(elems + 1, sizeof(*from));

    dsf_unpack(d->dtype, dsflow_exec_map(tr->exec, id, DSFLOW_R), from, elems);
    for (size_t i = 0; i < elems; i++) {
        float *to = &numbers[d->at + (int64_t)i];

        if (known[d->at + (int64_t)i] > 0 &&
            memcmp(to, &from[i], sizeof(*to)) != 0)
            fail_msg("%s: number %zu of %s is %.9g: a copy of it is %.9g",
                     tr->text, i, d->name, (double)from[i], (double)*to);
        *to = from[i];
        known[d->at + (int64_t)i] = 1;
    }
    free(from);
}

static void collect_part(struct training *tr, int kind, unsigned u, int index)
{
    int64_t first = first_of_unit(&tr->trial.model, u);
    struct dsf_part part;
    float *numbers = new_part(tr, u, index, &part);
    float *known = new_part(tr, u, index, &part);

    bool any = false;

    if (numbers == NULL)
        goto out;
    EACH_PIECE(tr, id, kind, &part)
    {
        collect_piece(tr, id, numbers, known);
        any = true;
    }
    if (any) {
        dsf_part_merge(&part, numbers, tr->result->numbers[kind] + first);
        dsf_part_merge(&part, known, tr->result->known[kind] + first);
    }

out:
    free(numbers);
    free(known);
}

/* Every number of a unit is known, or (moments that there are not) none. */
static void check_known(const struct training *tr, int kind, unsigned u)
{
    const struct dsf_unit *unit = &tr->trial.model.units[u];
    const float *known =
        tr->result->known[kind] + first_of_unit(&tr->trial.model, u);
    const int64_t from =
        kind == PARAM
            ? 0
            : dsf_reference_state_from(unit,
                                       dsf_job_optimizer(&tr->trial.job, NULL),
                                       (unsigned)(kind - M));

    for (unsigned t = 0; t < unit->ntensors; t++)
        for (int64_t i = 0; i < unit->tensors[t].rows * unit->tensors[t].cols;
             i++) {
            const int64_t at = unit->tensors[t].offset + i;
            const float expected = at < from ? 0 : tr->result->known[kind][0];

            if (known[at] != expected)
                fail_msg("%s: %s holds number %lld of the %s of %s", tr->text,
                         known[at] > 0 ? "something" : "nothing", (long long)i,
                         kind_names[kind], unit->tensors[t].name);
        }
    assert_true(kind != PARAM || known[0] > 0);
}

static void collect_data(struct training *tr)
{
    for (int k = 0; k < NKINDS; k++)
        for (unsigned u = 0; u < tr->trial.model.nunits; u++) {
            for (int i = 0; i < 2 * tr->trial.plan->nparts; i++)
                collect_part(tr, k, u, i);
            check_known(tr, k, u);
        }
}

static void submit(struct training *tr, const char *name)
{
    dsflow_program program;
    struct dsflow_err err;

    assert_true(dsflow_graph_find_program(tr->trial.graph, name, &program));
    must(tr->text, dsflow_exec_submit(tr->exec, program, &err), &err);
}

static void wait_for_all(struct training *tr)
{
    struct dsflow_err err;

    must(tr->text, dsflow_exec_wait(tr->exec, &err), &err);
}

/* In main memory where nothing else is said: thousands of small transfers take
 * their time on a disk. */
static const char *disk_of(const struct dsf_job *job)
{
    if (job->nvme.path.n > 0)
        return job->nvme.path.v[0];
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".";
}

static void open_exec(struct training *tr, enum dsflow_exec_kind kind)
{
    const struct dsf_job *job = &tr->trial.job;
    const char *folder = disk_of(job);
    const char *scheduler = job->machine.scheduler;
    struct dsflow_exec_options options = DSFLOW_EXEC_OPTIONS(
            .kind = kind,
            .workers =
                job->machine.workers > 0 ? (unsigned)job->machine.workers : 2,
            .scheduler = strcmp(scheduler, "auto") == 0 ? NULL : scheduler,
            .virtuals = (unsigned)job->machine.virtuals,
            .virtual_memory = job->machine.virtuals > 0
                                  ? (size_t)job->machine.virtual_memory
                                  : 0,
            .virtual_link = job->machine.virtual_link > 0
                                ? (size_t)job->machine.virtual_link
                                : 0,
            .gpus = job->machine.gpus > 0 ? (unsigned)job->machine.gpus : 0,
            .ranks = (unsigned)tr->trial.plan->nranks, .wire = tr->wire,
            .part = tr->part,
            .disk = { .paths = &folder,
                      .npaths = 1,
                      .block = 64 << 10,
                      .verify = job->nvme.verify });
    struct dsflow_err err;

    tr->host = (struct dsflow_host){ tr, load_batch, report };
    must(
        tr->text,
        dsflow_exec_open(tr->trial.graph, &options, &tr->host, &tr->exec, &err),
        &err);
    if (tr->part != NULL)
        must(tr->text, dsf_spread_join(tr->exec, &err), &err);
}

static struct dsf_processes processes_of(const struct training *tr,
                                         const struct dsf_wire *wire)
{
    const struct dsf_job *job = &tr->trial.job;

    return (struct dsf_processes){
        .ranks = tr->trial.plan->nranks,
        .n = wire->nprocesses,
        .devices = job->machine.gpus > 0 || job->machine.virtuals > 0,
        .direct = job->mesh.transport == DSF_TRANSPORT_NCCL,
    };
}

/* Bytes on GPUs that the plan of each process says. */
static size_t planned_on_gpus(const struct training *tr)
{
    const struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.gpus = (unsigned)tr->trial.job.machine.gpus,
                            .workers = 2);
    const struct dsf_processes all = processes_of(tr, tr->wire);
    size_t bytes = 0;

    for (int32_t p = 0; p < all.n; p++) {
        struct dsf_graph_part part;
        struct dsf_exec_needs needs;
        struct dsflow_err err;

        must(tr->text, dsf_process_part(&all, p, tr->trial.graph, &part, &err),
             &err);
        must(tr->text, dsf_exec_needs_find(part.graph, &options, &needs, &err),
             &err);
        for (unsigned r = 0; r < needs.nranks; r++)
            bytes += needs.ranks[r].device;
        dsf_exec_needs_fini(&needs);
        dsf_graph_part_free(&part);
    }
    return bytes;
}

struct result *train(struct training *tr, enum dsflow_exec_kind kind)
{
    dsflow_program prepare;

    tr->result = new_result(&tr->trial.model);
    tr->result->steps = (int)tr->trial.job.main.steps;
    assert_in_range(tr->result->steps, 1, MOST_STEPS);
    open_exec(tr, kind);
    if (tr->part != NULL && kind == DSFLOW_STARPU &&
        tr->trial.job.machine.gpus > 0)
        assert_int_equal(dsf_exec_on_devices(tr->exec), planned_on_gpus(tr));
    fill_data(tr);
    if (dsflow_graph_find_program(tr->trial.graph, DSF_PREPARE, &prepare))
        submit(tr, DSF_PREPARE);
    wait_for_all(tr);
    for (int i = 1; i <= tr->result->steps; i++)
        submit(tr, dsflow_plan_program_of(tr->trial.plan, i));
    wait_for_all(tr);
    submit(tr, "eval");
    wait_for_all(tr);
    assert_int_equal(tr->result->nreports, tr->result->steps);
    collect_data(tr);
    dsflow_exec_close(tr->exec);
    return tr->result;
}

/* --- in several processes ------------------------------------------------- */

static void find_part(const struct training *tr, struct dsf_wire *wire,
                      struct dsf_graph_part *part)
{
    const struct dsf_processes all = processes_of(tr, wire);
    struct dsflow_err err;

    must(tr->text,
         dsf_process_part(&all, wire->process, tr->trial.graph, part, &err),
         &err);
}

/* One that serves process 0. */
struct server {
    struct training tr;
    struct dsf_graph_part part;
    pthread_t thread;
    int status;
    struct dsflow_err err;
};

static void open_server(struct server *s, const struct training *tr,
                        struct dsf_wire *wire, enum dsflow_exec_kind kind)
{
    find_part(tr, wire, &s->part);
    s->tr = *tr;
    s->tr.trial.graph = s->part.graph;
    s->tr.wire = wire;
    open_exec(&s->tr, kind);
}

static void *serve(void *arg)
{
    struct server *s = arg;

    s->status =
        dsf_spread_serve(s->tr.exec, &s->part, s->tr.wire, NULL, &s->err);
    return NULL;
}

static void close_server(struct server *s)
{
    must(s->tr.text, s->status, &s->err);
    dsflow_exec_close(s->tr.exec);
    dsf_graph_part_free(&s->part);
}

struct result *train_as_first(struct training *tr, enum dsflow_exec_kind kind,
                              struct dsf_wire *wire)
{
    struct dsf_graph_part part;

    find_part(tr, wire, &part);
    tr->wire = wire;
    tr->part = &part;
    train(tr, kind);
    dsf_graph_part_free(&part);
    return tr->result;
}

struct result *train_apart(struct training *tr, int32_t n)
{
    struct near_wire *wires = near_wires_new(n);
    struct server *servers = calloc((size_t)n, sizeof(*servers));

    for (int32_t i = 1; i < n; i++) {
        open_server(&servers[i], tr, near_wire(wires, i), DSFLOW_SERIAL);
        pthread_create(&servers[i].thread, NULL, serve, &servers[i]);
    }
    train_as_first(tr, DSFLOW_SERIAL, near_wire(wires, 0));
    for (int32_t i = 1; i < n; i++) {
        pthread_join(servers[i].thread, NULL);
        close_server(&servers[i]);
    }
    assert_int_equal(near_wires_free(wires), 0);
    free(servers);
    return tr->result;
}

void serve_first(struct training *tr, enum dsflow_exec_kind kind,
                 struct dsf_wire *wire)
{
    struct server s = { .status = DSFLOW_OK };

    open_server(&s, tr, wire, kind);
    serve(&s);
    close_server(&s);
}
