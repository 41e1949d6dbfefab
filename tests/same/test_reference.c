/* The step against PyTorch: same weights, same batches, fp32. The losses and
 * norms of 20 steps of AdamW and every gradient of the first, for each model
 * of tests/reference, whose make_reference.py says where the numbers are from.
 *
 * How a step is cut changes the order of sums, so the same numbers must come
 * out within the same bounds whatever the tiles, micro-batches and groups. */
#include "base/safetensors.h"
#include "lib/train.h"
#include "model/hf.h"
#include "plan/sight.h"
#include "policies/policies.h"

#include <dsflow/exec.h>
#include <dsflow/rewrite.h>

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOSS_BOUND     1e-5 /* relative */
#define GRADIENT_BOUND 1e-4 /* relative, L2, each parameter alone */
#define LOGITS_BOUND   1e-4 /* absolute */

/* One model of tests/reference, trained with a few keys of its job changed. */
struct run {
    const char *folder;
    const char *of;      /* names of its files; NULL: they have the usual ones */
    const char *sets[4]; /* ends with NULL */
};

/* A run under way, and what its host needs. */
struct training {
    char folder[512];
    struct dsf_job job;
    struct dsf_model model;
    struct dsf_machine machine;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
    struct dsflow_exec *exec;
    struct dsflow_host host;

    struct dsf_st_file *batches;
    const struct dsf_st_tensor *tokens; /* [steps][sequences][length] … */
    uint8_t *text;                      /* … and what is in it */
    json_t *reference;

    double losses[64], norms[64]; /* as reported, [0] of step 1 */
    unsigned nreports;
    double eval_loss;    /* sum of what was reported */
    int32_t row, target; /* what load_one_target asks for */
};

/* Fail the test with the message when `status` says so. */
static void load_batch(void *user, const struct dsflow_batch *b)
{
    const struct training *tr = user;
    const struct dsf_st_tensor *t = tr->tokens;
    int32_t each = b->rows / b->nseq;

    for (int32_t i = 0; i < b->rows; i++) {
        int64_t row = b->step * t->dims[1] + b->seq + i / each;
        const uint8_t *at = tr->text + row * t->dims[2] + b->pos + i % each;

        b->tokens[i] = at[0];
        b->targets[i] = at[1];
    }
}

static void report(void *user, const struct dsflow_step_report *of)
{
    struct training *tr = user;

    if (strcmp(of->program, "eval") == 0) {
        tr->eval_loss += of->loss;
        return;
    }
    assert_true(of->step >= 1 && of->step < 64);
    tr->losses[of->step - 1] = of->loss;
    tr->norms[of->step - 1] = of->norm;
    tr->nreports++;
}

static void read_reference(struct training *tr, const struct run *run)
{
    char path[600];
    struct dsflow_err err;
    json_error_t where;

    snprintf(path, sizeof(path), "%s/%s.json", tr->folder,
             run->of != NULL ? run->of : "reference");
    tr->reference = json_load_file(path, 0, &where);
    if (tr->reference == NULL)
        fail_msg("%s:%d: %s", path, where.line, where.text);
    snprintf(path, sizeof(path), "%s/batches.safetensors", tr->folder);
    must(dsf_st_open(path, &tr->batches, &err), &err);
    tr->tokens = dsf_st_find(tr->batches, "tokens");
    assert_non_null(tr->tokens);
    assert_int_equal(tr->tokens->dtype, DSFLOW_UINT8);
    assert_int_equal(tr->tokens->ndims, 3);
    tr->text = malloc(tr->tokens->bytes);
    must(dsf_st_read(tr->batches, tr->tokens, 0, tr->tokens->bytes, tr->text,
                     &err),
         &err);
}

static void read_job(struct training *tr, const struct run *run)
{
    char path[600], init[600];
    const char *sets[24] = { init };
    unsigned nsets = 1;
    json_t *keys = json_object_get(tr->reference, "keys");
    struct dsflow_err err;

    snprintf(path, sizeof(path), "%s/job.toml", tr->folder);
    snprintf(init, sizeof(init), "model.init=\"%s\"", tr->folder);
    for (unsigned i = 0; run->sets[i] != NULL; i++)
        sets[nsets++] = run->sets[i];
    for (size_t i = 0; i < json_array_size(keys) && nsets < 24; i++)
        sets[nsets++] = json_string_value(json_array_get(keys, i));
    must(dsf_job_read(path, sets, nsets, NULL, &tr->job, &err), &err);
    must(dsf_model_init(&tr->model, &tr->job, &err), &err);
    assert_true(tr->job.batch.sequences <= tr->tokens->dims[1]);
    assert_true(tr->job.batch.sequence < tr->tokens->dims[2]);
}

static void *map(struct training *tr, const char *name,
                 enum dsflow_access access)
{
    dsflow_data_id id;

    if (!dsflow_graph_find(tr->graph, name, &id))
        fail_msg("the graph has no data called %s", name);
    return dsflow_exec_map(tr->exec, id, access);
}

static void fill_data(struct training *tr)
{
    const struct dsf_model *model = &tr->model;
    struct dsf_hf *hf;
    struct dsflow_err err;

    must(dsf_hf_open(model, tr->folder, &hf, &err), &err);
    for (unsigned u = 0; u < model->nunits; u++)
        must(dsf_hf_read(hf, u, map(tr, model->units[u].name, DSFLOW_W), &err),
             &err);
    dsf_hf_close(hf);
    for (uint32_t i = 0; i < dsflow_graph_ndata(tr->graph); i++) {
        const dsflow_data_id id = { i };

        if (dsflow_graph_data(tr->graph, id)->constant)
            dsf_plan_fill_constant(tr->plan, dsflow_graph_data(tr->graph, id),
                                   dsflow_exec_map(tr->exec, id, DSFLOW_W));
    }
}

/* The same graph without updates: gradients stay. */
static struct dsflow_graph *without_updates(struct dsflow_graph *g)
{
    struct dsflow_graph *out = dsflow_graph_new();
    struct dsflow_rewrite rw = dsflow_rewrite_begin(g, out);

    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });

        if (!t->op->update)
            dsflow_rewrite_task(&rw, t);
    }
    dsflow_rewrite_end(&rw);
    dsflow_graph_free(g);
    return out;
}

static struct training *start(const struct run *run, bool no_update)
{
    struct training *tr = calloc(1, sizeof(*tr));
    const char *srcdir = getenv("srcdir");
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL);
    struct dsflow_err err;

    snprintf(tr->folder, sizeof(tr->folder), "%s/tests/reference/%s",
             srcdir != NULL ? srcdir : ".", run->folder);
    read_reference(tr, run);
    read_job(tr, run);
    must(dsf_machine_probe(&tr->machine, &err), &err);
    must(dsf_plan_new(&tr->job, &tr->model, &tr->machine, &tr->plan, &err),
         &err);
    must(dsf_policies_build(tr->plan, NULL, &tr->graph, &err), &err);
    if (no_update)
        tr->graph = without_updates(tr->graph);
    tr->host = (struct dsflow_host){ tr, load_batch, report };
    must(dsflow_exec_open(tr->graph, &options, &tr->host, &tr->exec, &err),
         &err);
    fill_data(tr);
    return tr;
}

static void stop(struct training *tr)
{
    dsflow_exec_close(tr->exec);
    dsflow_graph_free(tr->graph);
    dsf_plan_free(tr->plan);
    dsf_model_fini(&tr->model);
    dsf_job_fini(&tr->job);
    free(tr->text);
    dsf_st_close(tr->batches);
    json_decref(tr->reference);
    free(tr);
}

static void submit(struct training *tr, const char *name, unsigned times)
{
    dsflow_program program;
    struct dsflow_err err;

    assert_true(dsflow_graph_find_program(tr->graph, name, &program));
    for (unsigned i = 0; i < times; i++)
        must(dsflow_exec_submit(tr->exec, program, &err), &err);
    must(dsflow_exec_wait(tr->exec, &err), &err);
}

static double tokens_of_step(const struct training *tr)
{
    return (double)(tr->job.batch.sequences * tr->job.batch.sequence);
}

static void check_near(const char *what, unsigned step, double got,
                       double expected)
{
    if (!(fabs(got - expected) <= LOSS_BOUND * fabs(expected)))
        fail_msg("%s of step %u: %.9g: expected %.9g, %.1e from it", what,
                 step + 1, got, expected, fabs(got / expected - 1));
}

/* Relative distance of a tensor of a unit's gradient from the file's. */
static double distance(const struct dsf_tensor *t, const float *got,
                       const struct dsf_st_file *file,
                       const struct dsf_st_tensor *expected)
{
    size_t n = (size_t)(t->rows * t->cols);
    float *want = calloc(n, sizeof(*want));
    double diff2 = 0, want2 = 0;
    struct dsflow_err err;

    assert_int_equal(expected->bytes, n * sizeof(float));
    must(dsf_st_read_f32(file, expected, 0, n, want, &err), &err);
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t c = 0; c < t->cols; c++) {
            int64_t at = t->transposed ? c * t->rows + r : r * t->cols + c;
            double diff = (double)got[r * t->cols + c] - want[at];

            diff2 += diff * diff;
            want2 += (double)want[at] * want[at];
        }
    free(want);
    assert_true(want2 > 0);
    return sqrt(diff2 / want2);
}

static void twenty_losses_and_norms_are_those_of_pytorch(void **state)
{
    struct training *tr = start(*state, false);
    json_t *losses = json_object_get(tr->reference, "losses");
    json_t *norms = json_object_get(tr->reference, "norms");
    unsigned nsteps = (unsigned)json_array_size(losses);

    assert_int_equal(nsteps, 20);
    assert_int_equal(json_array_size(norms), nsteps);
    submit(tr, "step", nsteps);
    assert_int_equal(tr->nreports, nsteps);
    for (unsigned i = 0; i < nsteps; i++) {
        check_near("loss", i, tr->losses[i] / tokens_of_step(tr),
                   json_number_value(json_array_get(losses, i)));
        check_near("norm", i, tr->norms[i],
                   json_number_value(json_array_get(norms, i)));
    }
    stop(tr);
}

static void every_gradient_is_that_of_pytorch(void **state)
{
    const struct run *run = *state;
    struct training *tr = start(run, true);
    struct dsf_st_file *file;
    struct dsflow_err err;
    char path[600];
    unsigned ncompared = 0;

    submit(tr, "step", 1);
    snprintf(path, sizeof(path), "%s/%s.safetensors", tr->folder,
             run->of != NULL ? run->of : "gradients");
    must(dsf_st_open(path, &file, &err), &err);
    for (unsigned u = 0; u < tr->model.nunits; u++) {
        const struct dsf_unit *unit = &tr->model.units[u];
        const float *grad;
        char name[64];

        snprintf(name, sizeof(name), "grad0.%s", unit->name);
        grad = map(tr, name, DSFLOW_R);
        for (unsigned i = 0; i < unit->ntensors; i++) {
            const struct dsf_tensor *t = &unit->tensors[i];
            const struct dsf_st_tensor *expected = dsf_st_find(file, t->name);
            double far;

            if (expected == NULL)
                fail_msg("%s: no %s", path, t->name);
            far = distance(t, grad + t->offset, file, expected);
            if (!(far <= GRADIENT_BOUND))
                fail_msg("gradient of %s: %.1e from PyTorch's", t->name, far);
            ncompared++;
        }
    }
    assert_int_equal(ncompared, dsf_st_count(file));
    dsf_st_close(file);
    stop(tr);
}

/* The evaluation loads one micro-batch at a time, as if it were a step. */
static void load_evaluation(void *user, const struct dsflow_batch *batch)
{
    const struct training *tr = user;
    struct dsflow_batch b = *batch;

    b.seq += b.step * tr->job.batch.micro;
    b.step = 0;
    load_batch(user, &b);
}

static void evaluation_gives_the_loss_of_the_first_step(void **state)
{
    struct training *tr = start(*state, false);
    const struct dsf_job_batch *batch = &tr->job.batch;
    json_t *losses = json_object_get(tr->reference, "losses");

    tr->host.load_batch = load_evaluation;
    submit(tr, "eval", (unsigned)(batch->sequences / batch->micro));
    check_near("loss", 0, tr->eval_loss / tokens_of_step(tr),
               json_number_value(json_array_get(losses, 0)));
    stop(tr);
}

/* The first tokens of all, and one target: the loss is that of one logit. */
static void load_one_target(void *user, const struct dsflow_batch *batch)
{
    const struct training *tr = user;
    struct dsflow_batch b = *batch;

    b.step = 0;
    load_batch(user, &b);
    for (int32_t i = 0; i < b.rows; i++)
        b.targets[i] = b.pos + i == tr->row ? tr->target : -1;
}

/* -log softmax of one of `n` logits. */
static double loss_of_logits(const float *logits, int64_t n, int32_t target)
{
    double max = -INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++)
        max = fmax(max, logits[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(logits[i] - max);
    return max + log(sum) - logits[target];
}

static void check_logit(struct training *tr, const float *logits, int64_t n)
{
    double want = loss_of_logits(logits + tr->row * n, n, tr->target);

    tr->eval_loss = 0;
    submit(tr, "eval", 1);
    if (!(fabs(tr->eval_loss - want) <= LOGITS_BOUND))
        fail_msg("token %d, logit %d: %.9g: expected %.9g", (int)tr->row,
                 (int)tr->target, -tr->eval_loss, -want);
}

/* Logits less what is the same for all of a token, which softmax drops. */
static void logits_are_those_of_pytorch(void **state)
{
    struct training *tr = start(*state, false);
    const struct dsf_st_tensor *t = dsf_st_find(tr->batches, "logits");
    int64_t vocab = tr->model.dims.vocab;
    int32_t rows = (int32_t)tr->job.batch.sequence;
    float *logits = calloc((size_t)(rows * vocab), sizeof(*logits));
    struct dsflow_err err;

    assert_non_null(t);
    assert_int_equal(t->dims[0], rows);
    assert_int_equal(t->dims[1], vocab);
    must(dsf_st_read_f32(tr->batches, t, 0, (size_t)(rows * vocab), logits,
                         &err),
         &err);
    tr->host.load_batch = load_one_target;
    for (tr->row = 0; tr->row < rows - 1; tr->row++) {
        tr->target = (int32_t)(7 * tr->row % vocab);
        check_logit(tr, logits, vocab);
    }
    for (tr->target = 0; tr->target < vocab; tr->target++)
        check_logit(tr, logits, vocab);
    free(logits);
    stop(tr);
}

/* The loss of some tokens of the first sequence: each is of one row of
 * logits. */
static void outputs_of_a_layout_are_those_of_pytorch(void **state)
{
    struct training *tr = start(*state, false);
    json_t *losses = json_object_get(tr->reference, "tokens");
    const size_t n = json_array_size(losses);

    assert_int_equal(n, tr->job.batch.sequence);
    tr->host.load_batch = load_one_target;
    for (size_t row = 3; row < n; row += 18) {
        const double want = json_number_value(json_array_get(losses, row));

        tr->row = (int32_t)row;
        tr->target = tr->text[row + 1];
        tr->eval_loss = 0;
        submit(tr, "eval", 1);
        check_near("token", (unsigned)row, tr->eval_loss, want);
    }
    stop(tr);
}

#define RUN(fn, label, dir, ...)                                               \
    RUN_OF(fn, label, dir, NULL, "", __VA_ARGS__)
#define RUN_OF(fn, label, dir, of, also, ...)                                  \
    {                                                                          \
        .name = #fn ", " dir also ", " label, .test_func = fn,                 \
        .initial_state = &(struct run)                                         \
        {                                                                      \
            dir, of,                                                           \
            {                                                                  \
                __VA_ARGS__                                                    \
            }                                                                  \
        }                                                                      \
    }

#define LOGITS(dir)                                                            \
    RUN(logits_are_those_of_pytorch, "one sequence", dir, "batch.sequences=1", \
        "batch.micro=1", "batch.sequence=13")

/* Layouts of make_sparse.py: both models, blocks of 16 and 64. */
#define LAID(dir, of, label, ...)                                              \
    RUN_OF(every_gradient_is_that_of_pytorch, label, dir, of, " " of,          \
           __VA_ARGS__)
#define LAID_OUT(dir, mode)                                                    \
    RUN_OF(twenty_losses_and_norms_are_those_of_pytorch, "tiles of 96", dir,   \
           mode "16", " " mode "16", "batch.tile=96"),                         \
        RUN_OF(twenty_losses_and_norms_are_those_of_pytorch, "as it is", dir,  \
               mode "64", " " mode "64", NULL),                                \
        RUN_OF(outputs_of_a_layout_are_those_of_pytorch, "one sequence", dir,  \
               mode "16", " " mode "16", "batch.sequences=1",                  \
               "batch.micro=1"),                                               \
        LAID(dir, mode "16", "as it is", NULL),                                \
        LAID(dir, mode "64", "tiles of 48", "batch.tile=48"),                  \
        LAID(dir, mode "64", "one micro-batch", "batch.micro=2")
#define ALL_LAYOUTS(dir)                                                       \
    LAID_OUT(dir, "fixed"), LAID_OUT(dir, "variable"),                         \
        LAID_OUT(dir, "bigbird"), LAID_OUT(dir, "bslongformer"),               \
        LAID_OUT(dir, "sliding")

/* `label` says what of the job is changed by the keys that follow it. */
#define STEPS_AND_GRADIENTS(label, ...)                                        \
    RUN(twenty_losses_and_norms_are_those_of_pytorch, label, __VA_ARGS__),     \
        RUN(every_gradient_is_that_of_pytorch, label, __VA_ARGS__)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEPS_AND_GRADIENTS("as it is", "gpt2", NULL),
        STEPS_AND_GRADIENTS("as it is", "gpt2_odd", NULL),
        STEPS_AND_GRADIENTS("as it is", "llama_gqa", NULL),
        STEPS_AND_GRADIENTS("as it is", "llama_rope", NULL),
        STEPS_AND_GRADIENTS("as it is", "qwen2", NULL),
        STEPS_AND_GRADIENTS("as it is", "mistral_window", NULL),
        STEPS_AND_GRADIENTS("as it is", "qwen2_window", NULL),
        STEPS_AND_GRADIENTS("tiles of 16", "mistral_window", "batch.tile=16"),
        STEPS_AND_GRADIENTS("tiles of 21", "qwen2_window", "batch.tile=21"),
        STEPS_AND_GRADIENTS("recomputed", "qwen2_window", "batch.tile=16",
                            "recompute.what=block", "batch.micro=1"),
        STEPS_AND_GRADIENTS("tiles of 16", "gpt2", "batch.tile=16"),
        STEPS_AND_GRADIENTS("tiles of 16", "gpt2_odd", "batch.tile=16"),
        STEPS_AND_GRADIENTS("tiles of 32", "llama_rope", "batch.tile=32"),
        STEPS_AND_GRADIENTS("tiles of a sequence", "llama_gqa",
                            "batch.tile=41"),
        STEPS_AND_GRADIENTS("one micro-batch", "gpt2", "batch.micro=6"),
        STEPS_AND_GRADIENTS("one micro-batch", "qwen2", "batch.micro=5",
                            "batch.tile=64"),
        STEPS_AND_GRADIENTS("three groups", "gpt2", "batch.groups=3"),
        STEPS_AND_GRADIENTS("five groups", "qwen2", "batch.groups=5"),
        LOGITS("gpt2"),
        LOGITS("gpt2_odd"),
        LOGITS("llama_gqa"),
        LOGITS("llama_rope"),
        LOGITS("qwen2"),
        LOGITS("mistral_window"),
        LOGITS("qwen2_window"),
        ALL_LAYOUTS("gpt2_sparse"),
        ALL_LAYOUTS("llama_sparse"),
        LAID("llama_sparse", "variable16", "recomputed", "batch.tile=32",
             "recompute.what=block", "batch.micro=1"),
        RUN(evaluation_gives_the_loss_of_the_first_step, "as it is", "gpt2",
            NULL),
        RUN(evaluation_gives_the_loss_of_the_first_step, "tiles of 16",
            "llama_gqa", "batch.tile=16"),
    };

    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
