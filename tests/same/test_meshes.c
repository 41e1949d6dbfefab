/* test_meshes.c - a job gives the same bits on every mesh. Each trial is a job
 * with some keys changed, trained for a few steps; its parameters, states,
 * losses and norms must be those of the same job on one rank, run by the serial
 * executor. Only keys that order the sums (`counts` below) are kept there.
 *
 *     tests/same/test_meshes "llama mesh.data=2 zero.stage=3"
 *
 * runs that trial alone; SEED=7 TRIALS=500, other random ones; SHARD=2/4, every
 * fourth of all, from the second on; ONLY='apart*', those of such names. In
 * bf16 each trial is run by one of the two executors, those of a list by turns.
 * Several of it that mpirun starts run trials together, each in all of them: the
 * named ones, or random ones of at least a rank for each.
 *
 * With ON_GPUS=1 (tests/gpu/meshes.sh) trials are random ones on GPUs: their
 * bits must be those of one GPU, and their losses nearly those of cores;
 * STEPS=20: after so many steps; MORE='machine.gpus=8': with these keys. */
#include "mesh_trials.h"
#include "net/net.h"
#include "policies/onebit.h"
#include "trained.h"
#include "unit_ops.h"

#include <dsflow/plugin.h>

#include "lib/test.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NRANDOM     40
#define TENSOR_NEAR 1e-5 /* relative, of the loss: tensor parallel, and */
#define GROUPS_NEAR 1e-6 /* other groups, sum in another order */
#define BF16_NEAR   1e-2 /* the same where numbers have eight bits */
#define BF16        " precision.compute=bf16"

/* What GPUs compute in, by turns. */
static const char *const gpu_types[] = {
    "",
    BF16,
    " precision.compute=fp16 precision.initial_scale=1024",
    BF16 " precision.master=false",
    BF16 " precision.gradients=bf16",
};
static bool on_gpus;

/* Keys that say how sums are grouped, or what is computed at all. */
static const char *const counts[] = {
    "batch.groups",      "batch.micro",   "batch.sequence",
    "batch.tile",        "job.steps",     "model.",
    "optimizer.",        "zero.reduce",   "precision.",
    "shrink.",           "lamb.",         "muon.",
    "onebit_adam.",      "onebit_lamb.",  "compress.",
    "sparse_attention.", "zeroone_adam.", "batch.head_columns",
    "weights.",          "activations.",
};

/* But for those of them that only say what is sent: where gradients are coded,
 * rows of an embedding are not. */
static bool changes_no_bit(const struct trial *of, const char *set)
{
    static const char second[] = "compress.secondary=";
    static const char rows[] = "compress.embedding=";

    return strncmp(set, second, strlen(second)) == 0 ||
           (strncmp(set, rows, strlen(rows)) == 0 &&
            !dsf_compresses_gradients(&of->job));
}

/* Who runs a trial: the serial executor, StarPU, or a serial executor for each
 * of several processes. */
enum way { IN_ORDER, BY_STARPU, APART };

static enum dsflow_exec_kind executor_of(enum way way)
{
    return way == BY_STARPU ? DSFLOW_STARPU : DSFLOW_SERIAL;
}

/* Where mpirun started several of these (tests/same/processes.sh): to the
 * others. All run the same trials, and the first one compares. */
static struct dsf_wire *wire;

static struct result *references;

/* The same job on one rank, with the keys that order the sums: one `tensor`
 * group and the same slices of the head, or really one rank and whole tiles; on
 * one GPU, or on cores. */
static char *reference_text(const struct trial *of, bool tensor, bool gpu)
{
    char *text = calloc(1, sizeof(of->text) + 128);

    strcpy(text, of->family);
    for (unsigned i = 0; i < of->nsets; i++)
        for (unsigned k = 0; k < sizeof(counts) / sizeof(*counts); k++)
            if (strncmp(of->sets[i], counts[k], strlen(counts[k])) == 0 &&
                !changes_no_bit(of, of->sets[i]))
                strcat(strcat(text, " "), of->sets[i]);
    if (strstr(text, "batch.groups=") == NULL)
        sprintf(text + strlen(text), " batch.groups=%d", (int)of->plan->groups);
    /* Each data rank is a worker: there is no mesh of one rank. */
    if (strcmp(of->job.optimizer.kind, "zeroone_adam") == 0)
        sprintf(text + strlen(text), " mesh.data=%d", (int)of->plan->groups);
    if (strstr(text, "batch.sequence_groups=") == NULL &&
        of->plan->sequence_groups > 1)
        sprintf(text + strlen(text), " batch.sequence_groups=%d",
                (int)of->plan->sequence_groups);
    if (tensor && of->plan->nparts > 1)
        sprintf(text + strlen(text), " mesh.tensor=%d",
                (int)of->plan->nparts);
    if (tensor && of->logits > 0)
        sprintf(text + strlen(text), " logits=%" PRId64, of->logits);
    return gpu ? strcat(text, " machine.gpus=1") : text;
}

static const struct result *reference(const struct trial *of, bool tensor,
                                      bool gpu)
{
    char *text = reference_text(of, tensor, gpu);
    struct training tr = { .text = text };
    struct result *r;

    for (r = references; r != NULL; r = r->next)
        if (strcmp(r->text, text) == 0) {
            free(text);
            return r;
        }
    plan_trial(&tr.trial, text);
    r = train(&tr, gpu ? DSFLOW_STARPU : DSFLOW_SERIAL);
    end_trial(&tr.trial);
    r->text = text;
    r->next = references;
    references = r;
    return r;
}

static void compare_reports(const struct training *tr,
                            const struct result *expected)
{
    const struct result *got = tr->result;

    for (int i = 0; i < expected->steps; i++) {
        if (memcmp(&got->losses[i], &expected->losses[i], 8) != 0)
            fail_msg("%s: loss of step %d is %.17g: expected %.17g", tr->text,
                     i + 1, got->losses[i], expected->losses[i]);
        if (memcmp(&got->norms[i], &expected->norms[i], 8) != 0)
            fail_msg("%s: norm of step %d is %.17g: expected %.17g", tr->text,
                     i + 1, got->norms[i], expected->norms[i]);
    }
    if (memcmp(&got->evaluation, &expected->evaluation, 8) != 0)
        fail_msg("%s: evaluation is %.17g: expected %.17g", tr->text,
                 got->evaluation, expected->evaluation);
}

/* The same sums in another order. */
static void compare_losses(const struct training *tr,
                           const struct result *expected, double near)
{
    for (int i = 0; i < expected->steps; i++) {
        double got = tr->result->losses[i], want = expected->losses[i];

        if (!(fabs(got - want) <= near * fabs(want)))
            fail_msg("%s: loss of step %d is %.9g: %.9g on one rank, %.1e "
                     "from it",
                     tr->text, i + 1, got, want, fabs(got / want - 1));
    }
}

static void compare_unit(const struct training *tr, unsigned u, int kind,
                         const struct result *expected)
{
    const struct dsf_model *model = &tr->trial.model;
    int64_t first = first_of_unit(model, u);

    for (int64_t i = first; i < first + model->units[u].elems; i++) {
        const float *a = &tr->result->numbers[kind][i];
        const float *b = &expected->numbers[kind][i];

        assert_int_equal(tr->result->known[kind][i] > 0,
                         expected->known[kind][i] > 0);
        if (memcmp(a, b, sizeof(*a)) != 0)
            fail_msg("%s: number %lld of the %s of %s is %.9g: expected %.9g",
                     tr->text, (long long)(i - first), kind_names[kind],
                     model->units[u].name, (double)*a, (double)*b);
    }
}

/* To cores, where states in few bits are rounded another way now and then. An
 * input that is off by its last bit may have another code. Parts of tensor
 * ranks are coded in blocks of their own. */
static double near(const struct trial *of)
{
    bool narrow = dsf_compute_type(&of->job) != DSFLOW_FP32 ||
                  dsf_compresses_gradients(&of->job) ||
                  dsf_compresses_params(&of->job) ||
                  dsf_sends_signs(&of->job) ||
                  of->job.activations.quantize != DSF_INPUTS_EXACT ||
                  (on_gpus && dsf_job_states(&of->job) != DSFLOW_FP32);

    return narrow ? BF16_NEAR : TENSOR_NEAR;
}

/* Streams are late, and warps run, in another order than before. */
static void change_order(void)
{
    static unsigned seed;
    char text[16];

    snprintf(text, sizeof(text), "%u", ++seed);
    setenv("DSFLOW_EMULATED_SEED", text, 1);
}

/* Of a trial in several processes: in 2, 3, 4, … of them by turns. */
static int32_t roll_processes(const struct trial *of)
{
    static int32_t turn;
    int32_t most = of->plan->nranks < 8 ? of->plan->nranks : 8;

    return most < 2 ? 1 : 2 + turn++ % (most - 1);
}

static void run_trial(const char *text, enum way way)
{
    struct training tr = { .text = text };
    const struct result *expected;

    plan_trial(&tr.trial, text);
    change_order();
    if (wire != NULL && wire->process > 0) {
        serve_first(&tr, executor_of(way), wire);
        end_trial(&tr.trial);
        return;
    }
    if (wire != NULL)
        train_as_first(&tr, executor_of(way), wire);
    else if (way == APART)
        train_apart(&tr, roll_processes(&tr.trial));
    else
        train(&tr, executor_of(way));
    expected = reference(&tr.trial, true, on_gpus);
    compare_reports(&tr, expected);
    for (unsigned u = 0; u < tr.trial.model.nunits; u++)
        for (int k = 0; k < NKINDS; k++)
            compare_unit(&tr, u, k, expected);
    compare_losses(&tr, reference(&tr.trial, false, false), near(&tr.trial));
    free_result(tr.result);
    end_trial(&tr.trial);
}

static void in_order_the_bits_are_those_of_one_rank(void **state)
{
    run_trial(*state, IN_ORDER);
}

static void by_two_workers_the_bits_are_those_of_one_rank(void **state)
{
    run_trial(*state, BY_STARPU);
}

static void in_several_processes_the_bits_are_those_of_one_rank(void **state)
{
    run_trial(*state, APART);
}

/* Without groups of their own, data ranks sum their micro-batches first. */
static void data_ranks_are_nearly_one_rank_with_all_micro_batches(void **state)
{
    static const char *const texts[] = {
        "gpt2 mesh.data=2",
        "gpt2 mesh.data=4 zero.stage=2",
        "llama mesh.data=8 zero.stage=3 zero.keep=0",
        "llama mesh.data=2 zero.stage=1 zero.reduce=micro",
    };

    for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct training tr = { .text = texts[i] };
        struct trial one;

        plan_trial(&tr.trial, texts[i]);
        plan_trial(&one, tr.trial.family);
        train(&tr, DSFLOW_STARPU);
        compare_losses(&tr, reference(&one, true, false), GROUPS_NEAR);
        free_result(tr.result);
        end_trial(&tr.trial);
        end_trial(&one);
    }
}

static unsigned add_test(struct CMUnitTest *tests, unsigned n,
                         const char *trial, enum way way)
{
    static const struct {
        const char *name;
        CMUnitTestFunction run;
    } ways[] = {
        [IN_ORDER] = { "serial", in_order_the_bits_are_those_of_one_rank },
        [BY_STARPU] = { "starpu",
                        by_two_workers_the_bits_are_those_of_one_rank },
        [APART] = { "apart",
                    in_several_processes_the_bits_are_those_of_one_rank },
    };
    char name[1024];

    snprintf(name, sizeof(name), "%s: %s", ways[way].name, trial);
    tests[n] = (struct CMUnitTest){
        .name = strdup(name),
        .test_func = ways[way].run,
        .initial_state = strdup(trial),
    };
    return n + 1;
}

/* The trial with more keys. */
static unsigned add_with(struct CMUnitTest *tests, unsigned n,
                         const char *trial, const char *more, enum way way)
{
    char text[1024];

    snprintf(text, sizeof(text), "%s%s", trial, more);
    return add_test(tests, n, text, way);
}

/* In several processes, if it may have several ranks. */
static unsigned add_apart(struct CMUnitTest *tests, unsigned n,
                          const char *trial)
{
    return strstr(trial, "mesh.") == NULL ? n
                                          : add_test(tests, n, trial, APART);
}

/* Has a random trial a rank for each process? */
static bool is_for_all(const char *trial)
{
    int data = 1, pipeline = 1, tensor = 1, sequence = 1;

    sscanf(trial,
           "%*s mesh.data=%d mesh.pipeline=%d mesh.tensor=%d mesh.sequence=%d",
           &data, &pipeline, &tensor, &sequence);
    return wire == NULL ||
           data * pipeline * tensor * sequence >= wire->nprocesses;
}

static unsigned add_random(struct CMUnitTest *tests, unsigned n, unsigned i,
                           const char *trial)
{
    const char *steps = getenv("STEPS"), *last = getenv("MORE");
    char more[256];

    if (!on_gpus)
        return add_with(tests, n, trial, i % 2 == 0 ? "" : BF16, BY_STARPU);
    snprintf(more, sizeof(more), "%s optimizer.lr=1e-3 job.steps=%s %s",
             gpu_types[i % (sizeof(gpu_types) / sizeof(*gpu_types))],
             steps != NULL ? steps : "5", last != NULL ? last : "");
    return add_with(tests, n, trial, more, BY_STARPU);
}

/* Which of all trials are to be run here. */
struct shard {
    unsigned which, of; /* from 1 */
    unsigned at;        /* trials that were counted */
};

static bool read_shard(const char *text, struct shard *s)
{
    char end;

    *s = (struct shard){ 1, 1, 0 };
    return text == NULL || (sscanf(text, "%u/%u%c", &s->which, &s->of, &end) ==
                                2 &&
                            s->which >= 1 && s->which <= s->of);
}

static bool is_next_mine(struct shard *s)
{
    return s->at++ % s->of == s->which - 1;
}

static unsigned count_trials(void)
{
    unsigned n = 0;

    while (mesh_trials[n] != NULL)
        n++;
    return n;
}

/* Are there tests of such a name? cmocka says nothing where there are none. */
static bool has_named(const struct CMUnitTest *tests, unsigned n,
                      const char *name)
{
    for (unsigned i = 0; i < n; i++)
        if (fnmatch(name, tests[i].name, 0) == 0)
            return true;
    return false;
}

static void free_references(void)
{
    while (references != NULL) {
        struct result *r = references;

        references = r->next;
        free_result(r);
    }
}

int main(int argc, char **argv)
{
    const char *seed = getenv("SEED"), *count = getenv("TRIALS");
    const char *only = getenv("ONLY");
    struct dice dice = { seed != NULL ? strtoull(seed, NULL, 10) : 1 };
    struct shard shard;
    unsigned ntrials = count_trials();
    unsigned nrandom = count != NULL ? (unsigned)atoi(count) : NRANDOM;
    struct CMUnitTest *tests =
        calloc(4 * ((size_t)argc + ntrials) + 2 * nrandom + 1, sizeof(*tests));
    struct dsflow_err err;
    unsigned n = 0;
    int status;

    on_gpus = getenv("ON_GPUS") != NULL;
    if (dsf_net_is_one_of_several() && dsf_net_open(&wire, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 77;
    }
    if (!read_shard(getenv("SHARD"), &shard)) {
        fprintf(stderr, "SHARD=%s: expected one of several, such as 2/4\n",
                getenv("SHARD"));
        return 99;
    }
    add_unit_ops();
    if (dsflow_plugin_add(&dsflow_plugin, "a test", NULL) < 0)
        return 1;
    for (int i = 1; i < argc; i++) {
        if (!on_gpus && wire == NULL) {
            n = add_test(tests, n, argv[i], IN_ORDER);
            n = add_apart(tests, n, argv[i]);
        }
        n = add_test(tests, n, argv[i], BY_STARPU);
    }
    for (unsigned i = 0;
         i < ntrials && argc < 2 && !on_gpus && wire == NULL; i++) {
        if (!is_next_mine(&shard))
            continue;
        n = add_test(tests, n, mesh_trials[i], IN_ORDER);
        n = add_test(tests, n, mesh_trials[i], BY_STARPU);
        if (strstr(mesh_trials[i], BF16) == NULL)
            n = add_with(tests, n, mesh_trials[i], BF16,
                         n % 2 == 0 ? IN_ORDER : BY_STARPU);
        if (shard.at / shard.of % 2 == 0)
            n = add_apart(tests, n, mesh_trials[i]);
    }
    for (unsigned i = 0; i < nrandom && argc < 2;) {
        char *text = random_trial(&dice, on_gpus);

        if (is_for_all(text) && is_next_mine(&shard)) {
            n = add_random(tests, n, i, text);
            n = on_gpus || wire != NULL ? n : add_apart(tests, n, text);
        }
        i += is_for_all(text);
        free(text);
    }
    if (argc < 2 && !on_gpus && wire == NULL && is_next_mine(&shard))
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(
            data_ranks_are_nearly_one_rank_with_all_micro_batches);
    if (only != NULL && !has_named(tests, n, only)) {
        fprintf(stderr, "ONLY=%s: no trial has such a name\n", only);
        return 99;
    }
    if (only != NULL)
        cmocka_set_test_filter(only);
    status = _cmocka_run_group_tests("meshes", tests, n, NULL, NULL);

    free_references();
    for (unsigned i = 0; i < n; i++)
        if (tests[i].initial_state != NULL) {
            free((char *)tests[i].name);
            free(tests[i].initial_state);
        }
    free(tests);
    if (wire != NULL && dsf_net_close(&err) < 0)
        return 1;
    return status;
}
