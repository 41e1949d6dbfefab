/* test_names.c - names are for people. The data of a job is given other names
 * behind every policy, and its tasks other kinds that differ by name only; what
 * is left of names that say something says something else. The graph must be
 * the same, and so must its schedule, its pictures and, on both executors, every
 * bit that is kept. */
#include "trial.h"

#include "graph/task.h"
#include "sim/sim.h"
#include "trace/palette.h"

#include <dsflow/exec.h>
#include <dsflow/rewrite.h>

#include "lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 3 };

static const char *const trials[] = {
    "gpt2",
    "gpt2 mesh.data=2 zero.stage=3 zero.keep=0 recompute.what=block",
    "gpt2 mesh.data=2 zero.stage=2 batch.groups=8 batch.order=layer_major",
    "llama mesh.data=2 zero.stage=2 zero.reduce=micro model.tied=true "
    "batch.order=layer_major",
    "llama mesh.tensor=2 mesh.pipeline=2 recompute.what=attention "
    "pipeline.schedule=zero_bubble batch.tile=16",
    "gpt2 mesh.pipeline=2 mesh.data=2 mesh.tensor=2 zero.stage=3 zero.keep=0",
    "llama offload.optimizer=nvme offload.params=nvme offload.gradients=nvme "
    "offload.activations=nvme offload.piece=4KiB mesh.data=2",
    "gpt2 offload.optimizer=cpu precision.states=int8 offload.piece=4KiB "
    "mesh.data=2 zero.stage=1",
    "gpt2 offload.activations=cpu offload.gradients=cpu recompute.what=block "
    "offload.read_ahead=0 batch.groups=4",
    "llama precision.states=bf16 mesh.data=2 zero.stage=1",
};

/* Names that would say something else to whoever read them. */
static char *other_name(const char *const *words, uint32_t i)
{
    char *name = calloc(1, 64);
    uint32_t n = 0;

    while (words[n] != NULL)
        n++;
    snprintf(name, 64, "%s%u", words[i % n], i);
    return name;
}

/* --- data ---------------------------------------------------------------- */

static struct dsflow_graph *rename_data(const struct dsflow_graph *in)
{
    static const char *const words[] = { "v.layer0.qkv.", "m.",    "grad7.mlp.",
                                         "q.once0.",      "swap.", "x",
                                         "whole.",        NULL };
    struct dsflow_graph *out = dsflow_graph_new();

    dsf_rewrite_programs(in, out);
    for (uint32_t i = 0; i < dsflow_graph_ndata(in); i++) {
        struct dsflow_data_spec d =
            *dsflow_graph_data(in, (dsflow_data_id){ i });
        char *name = other_name(words, i);

        d.name = name;
        dsflow_graph_add_data(out, &d);
        free(name);
    }
    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++)
        dsflow_graph_add_task(out,
                              dsflow_graph_task(in, (dsflow_task_id){ i }));
    return out;
}

/* --- kinds of task ------------------------------------------------------- */

static struct twin {
    const struct dsflow_op *of;
    struct dsflow_op op;
    struct dsflow_codelet codelet;
} *twins[256];
static unsigned ntwins;

static const struct dsflow_op *twin_of(const struct dsflow_op *op)
{
    static const char *const words[] = { "swap_in.hidden",
                                         "mlp.backward_weight",
                                         "qkv_part.forward", "adam", NULL };
    struct dsflow_err err;
    struct twin *t;

    for (unsigned i = 0; i < ntwins; i++)
        if (twins[i]->of == op)
            return &twins[i]->op;
    assert_true(ntwins < sizeof(twins) / sizeof(*twins));
    t = calloc(1, sizeof(*t)); /* for good: registered */
    t->of = op;
    t->op = *op;
    t->op.name = other_name(words, ntwins);
    must(op->name, dsflow_op_register(&t->op, &err), &err);
    if (dsflow_codelet_find(op) != NULL) {
        t->codelet = *dsflow_codelet_find(op);
        t->codelet.op = &t->op;
        must(op->name, dsflow_codelet_register(&t->codelet, &err), &err);
    }
    twins[ntwins++] = t;
    return &t->op;
}

static void take_twin(void *user, struct dsflow_task_spec *t)
{
    (void)user;
    t->op = twin_of(t->op);
}

static struct dsflow_graph *rename_ops(struct dsflow_graph *in)
{
    struct dsflow_graph *out = dsflow_graph_new();

    dsf_rewrite_programs(in, out);
    dsflow_rewrite_all(in, out, take_twin, NULL);
    return out;
}

/* --- graphs -------------------------------------------------------------- */

static struct dsflow_graph *replaced(struct dsflow_graph *old,
                                     struct dsflow_graph *g)
{
    dsflow_graph_free(old);
    return g;
}

/* The graph of a plan that has been decided, with other names behind every
 * policy. The kinds of task differ once no policy has rules by kind any more. */
static struct dsflow_graph *build_renamed(const struct trial *trial)
{
    struct dsflow_plan *plan = trial->plan;
    struct dsflow_graph *g = dsflow_graph_new();
    const struct dsflow_policy *policy;
    struct dsflow_err err;
    int status;

    for (unsigned i = 0; (policy = dsflow_policy_at(i)) != NULL; i++) {
        struct dsflow_graph *next = dsflow_graph_new();

        dsf_rewrite_programs(g, next);
        status = policy->rewrite(plan->parts[i], plan, g, next, &err);
        must(policy->name, status, &err);
        if (status == DSFLOW_UNCHANGED)
            dsflow_graph_free(next);
        else
            g = replaced(g, next);
        g = replaced(g, rename_data(g));
        if (policy == &dsf_policy_offload)
            g = replaced(g, rename_ops(g));
    }
    must(trial->text, dsflow_graph_check(g, &err), &err);
    return g;
}

static void same_data(const struct dsflow_data_spec *a,
                      const struct dsflow_data_spec *b)
{
#define SAME(field)                                                            \
    if (a->field != b->field)                                                  \
    fail_msg("%s: " #field " is %lld: with other names %lld", a->name,         \
             (long long)a->field, (long long)b->field)
    SAME(bytes);
    SAME(role);
    SAME(home);
    SAME(tier);
    SAME(persistent);
    SAME(constant);
    SAME(unit);
    SAME(part);
    SAME(at);
    SAME(block);
    SAME(elems);
    SAME(dtype);
    SAME(stream);
    SAME(kept);
    SAME(ring_class);
    SAME(ring);
#undef SAME
}

static void same_tasks(const struct dsflow_task_spec *a,
                       const struct dsflow_task_spec *b)
{
    assert_ptr_equal(twin_of(a->op), b->op);
    if (a->op->args_size > 0 &&
        memcmp(a->args, b->args, a->op->args_size) != 0)
        fail_msg("%s: other arguments with other names", a->op->name);
    assert_int_equal(a->layer, b->layer);
    assert_int_equal(a->microbatch, b->microbatch);
    assert_int_equal(a->tile, b->tile);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->priority, b->priority);
    assert_int_equal(a->program, b->program);
    assert_int_equal(a->pass, b->pass);
    assert_int_equal(a->fresh, b->fresh);
    assert_int_equal(a->ndata, b->ndata);
    for (unsigned p = 0; p < a->ndata; p++)
        assert_int_equal(a->data[p].i, b->data[p].i);
}

static void same_graphs(const struct dsflow_graph *a,
                        const struct dsflow_graph *b)
{
    assert_int_equal(dsflow_graph_ndata(a), dsflow_graph_ndata(b));
    for (uint32_t i = 0; i < dsflow_graph_ndata(a); i++)
        same_data(dsflow_graph_data(a, (dsflow_data_id){ i }),
                  dsflow_graph_data(b, (dsflow_data_id){ i }));
    assert_int_equal(dsflow_graph_ntasks(a), dsflow_graph_ntasks(b));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(a); i++)
        same_tasks(dsflow_graph_task(a, (dsflow_task_id){ i }),
                   dsflow_graph_task(b, (dsflow_task_id){ i }));
}

/* --- schedules and pictures ---------------------------------------------- */

static double seconds_of(void *user, const struct dsflow_graph *g,
                         const struct dsflow_task_spec *t)
{
    struct dsflow_cost cost = dsf_task_cost(g, t);

    (void)user;
    return 1e-6 + cost.flops / 1e10 + cost.bytes / 1e10 + cost.scores / 1e9;
}

static void simulate(const struct trial *trial, struct dsflow_graph *g,
                     struct dsf_timeline *timeline)
{
    struct dsf_sim_spec spec = { .nranks = (unsigned)trial->plan->nranks,
                                 .workers = 4,
                                 .links = true,
                                 .program = DSFLOW_STEP,
                                 .steps = 3,
                                 .cost = seconds_of };
    struct dsf_sim_result result;
    struct dsflow_err err;

    must(trial->text, dsf_simulate(g, &spec, &result, timeline, &err), &err);
    dsf_sim_result_fini(&result);
}

static void same_schedules(const struct trial *trial, struct dsflow_graph *a,
                           struct dsflow_graph *b)
{
    struct dsf_timeline x = { 0 }, y = { 0 };

    simulate(trial, a, &x);
    simulate(trial, b, &y);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.v, y.v, x.n * sizeof(*x.v));
    dsf_timeline_fini(&x);
    dsf_timeline_fini(&y);
}

/* Families have the hues of a picture; work of a segment has its shade too. */
static void same_pictures(struct dsflow_graph *a, struct dsflow_graph *b)
{
    struct dsf_trace x = { .graph = a }, y = { .graph = b };
    struct dsf_kinds kx, ky;

    dsf_kinds_init(&kx, &x);
    dsf_kinds_init(&ky, &y);
    assert_int_equal(kx.n, ky.n);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(a); i++)
        assert_int_equal(kx.of_task[i], ky.of_task[i]);
    for (unsigned k = 0; k < kx.n; k++) {
        assert_int_equal(kx.v[k].family, ky.v[k].family);
        if (kx.v[k].op != NULL && kx.v[k].op->segment != NULL) {
            assert_int_equal(kx.v[k].colour, ky.v[k].colour);
            assert_int_equal(kx.v[k].texture, ky.v[k].texture);
        }
    }
    dsf_kinds_fini(&kx);
    dsf_kinds_fini(&ky);
}

/* --- bits ---------------------------------------------------------------- */

static void load_batch(void *user, const struct dsflow_batch *b)
{
    int32_t vocab = ((const struct trial *)user)->model.dims.vocab;
    int32_t each = b->rows / b->nseq;

    for (int32_t i = 0; i < b->rows; i++) {
        int64_t at = b->step * 31 + (b->seq + i / each) * 7 + b->pos + i;

        b->tokens[i] = (int32_t)(at * at / 3 % vocab);
        b->targets[i] = (int32_t)((at + 1) * (at + 1) / 3 % vocab);
    }
}

static void report(void *user, const struct dsflow_step_report *of)
{
    assert_true(isfinite(of->loss) && isfinite(of->norm));
}

/* Weights by their place in the graph: the same in both. */
static void fill(struct dsflow_exec *exec, const struct dsflow_graph *g)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(g); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(g, (dsflow_data_id){ i });
        float *to;

        if (d->kept != 1 + DSF_KEPT_PARAM && !d->constant)
            continue;
        to = dsflow_exec_map(exec, (dsflow_data_id){ i }, DSFLOW_RW);
        for (size_t k = 0; k < d->bytes / sizeof(*to); k++)
            to[k] = (float)((k * 2654435761u + i) % 1024) / 4096 - 0.1f;
    }
}

/* What is kept after some steps, one after the other. */
static char *train(struct trial *trial, struct dsflow_graph *g,
                   enum dsflow_exec_kind kind, size_t *n)
{
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".";
    struct dsflow_exec_options options = DSFLOW_EXEC_OPTIONS(
            .kind = kind, .workers = 2,
            .ranks = (unsigned)trial->plan->nranks,
            .disk = { .paths = &folder, .npaths = 1, .block = 64 << 10 });
    struct dsflow_host host = { trial, load_batch, report };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    char *kept = NULL;

    must(trial->text, dsflow_exec_open(g, &options, &host, &exec, &err), &err);
    fill(exec, g);
    for (int i = 0; i < STEPS; i++)
        must(trial->text, dsflow_exec_submit(exec, DSFLOW_STEP, &err), &err);
    must(trial->text, dsflow_exec_wait(exec, &err), &err);
    *n = 0;
    for (uint32_t i = 0; i < dsflow_graph_ndata(g); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(g, (dsflow_data_id){ i });

        if (!d->persistent)
            continue;
        kept = realloc(kept, *n + d->bytes);
        memcpy(kept + *n,
               dsflow_exec_map(exec, (dsflow_data_id){ i }, DSFLOW_R),
               d->bytes);
        *n += d->bytes;
    }
    dsflow_exec_close(exec);
    return kept;
}

static void same_bits(struct trial *trial, struct dsflow_graph *a,
                      struct dsflow_graph *b)
{
    size_t n, nb;
    char *expected = train(trial, a, DSFLOW_SERIAL, &n);

    for (int kind = DSFLOW_SERIAL; kind <= DSFLOW_STARPU; kind++) {
        char *got = train(trial, b, (enum dsflow_exec_kind)kind, &nb);

        assert_int_equal(n, nb);
        if (memcmp(expected, got, n) != 0)
            fail_msg("%s: other bits with other names, executor %d",
                     trial->text, kind);
        free(got);
    }
    free(expected);
}

/* --- the test ------------------------------------------------------------ */

static void other_names_change_nothing_but_words(void **state)
{
    struct dsflow_graph *renamed;
    struct trial trial;

    plan_trial(&trial, *state);
    renamed = build_renamed(&trial);
    same_graphs(trial.graph, renamed);
    same_schedules(&trial, trial.graph, renamed);
    same_pictures(trial.graph, renamed);
    same_bits(&trial, trial.graph, renamed);
    dsflow_graph_free(renamed);
    end_trial(&trial);
}

int main(void)
{
    enum { N = sizeof(trials) / sizeof(*trials) };
    struct CMUnitTest tests[N];

    for (unsigned i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){
            .name = trials[i],
            .test_func = other_names_change_nothing_but_words,
            .initial_state = (void *)trials[i],
        };
    return _cmocka_run_group_tests("names", tests, N, NULL, NULL);
}
