/* test_once.c - what a job is planned and run with is asked once: the machine,
 * its memory, the file that says how fast it is; and the graph, what it weighs.
 */
#include <dsflow.h>

#include "lib/train.h"
#include "machine/machine_model.h"
#include "machine/memory.h"
#include "sim/weights.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How often: the linker puts these functions in front of those they call. */
static struct {
    unsigned machine, memory, file, weights;
} asked;

int __real_dsf_machine_probe(struct dsf_machine *m, struct dsflow_err *err);
int __wrap_dsf_machine_probe(struct dsf_machine *m, struct dsflow_err *err);
int __wrap_dsf_machine_probe(struct dsf_machine *m, struct dsflow_err *err)
{
    asked.machine++;
    return __real_dsf_machine_probe(m, err);
}

struct dsf_memory __real_dsf_memory_probe(const char *root);
struct dsf_memory __wrap_dsf_memory_probe(const char *root);
struct dsf_memory __wrap_dsf_memory_probe(const char *root)
{
    asked.memory++;
    return __real_dsf_memory_probe(root);
}

int __real_dsf_machine_model_read(const char *path, struct dsf_machine_model *m,
                                  struct dsflow_err *err);
int __wrap_dsf_machine_model_read(const char *path, struct dsf_machine_model *m,
                                  struct dsflow_err *err);
int __wrap_dsf_machine_model_read(const char *path, struct dsf_machine_model *m,
                                  struct dsflow_err *err)
{
    asked.file++;
    return __real_dsf_machine_model_read(path, m, err);
}

void __real_dsf_weights_init(struct dsf_weights *w, struct dsflow_graph *g,
                             unsigned nranks, const int32_t *node_of);
void __wrap_dsf_weights_init(struct dsf_weights *w, struct dsflow_graph *g,
                             unsigned nranks, const int32_t *node_of);
void __wrap_dsf_weights_init(struct dsf_weights *w, struct dsflow_graph *g,
                             unsigned nranks, const int32_t *node_of)
{
    asked.weights++;
    __real_dsf_weights_init(w, g, nranks, node_of);
}

static int load(void *user, int64_t index, int64_t pos, int64_t n,
                int32_t *tokens, int32_t *targets)
{
    for (int64_t i = 0; i < n; i++)
        tokens[i] = targets[i] = (int32_t)((index + pos + i) % 50);
    return 0;
}

/* Its micro-batches are of `micro` sequences. */
static struct dsflow_job *job_of(const char *micro)
{
    struct dsflow_job *job;
    struct dsflow_err err;
    char text[512];

    snprintf(text, sizeof(text),
             "[job]\nsteps = 1\noutput = \"%s/run\"\n"
             "[model]\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 16\n"
             "[batch]\nsequences = 4\nmicro = %s\n"
             "[machine]\nworkers = 1\n",
             folder, micro);
    must(dsflow_job_parse(text, "test", &job, &err), &err);
    return job;
}

static void plan(const struct dsflow_job *job)
{
    struct dsflow_prediction p = DSFLOW_PREDICTION();
    struct dsflow_planned *planned;
    struct dsflow_err err;

    must(dsflow_plan_job(job, NULL, NULL, &planned, &err), &err);
    must(dsflow_predict(planned, &p, &err), &err);
    assert_true(p.step_seconds > 0);
    dsflow_planned_free(planned);
}

static void train(const struct dsflow_job *job)
{
    const struct dsflow_batches batches =
        DSFLOW_BATCHES(.vocab = 50, .train = load);
    struct dsflow_err err;

    must(dsflow_train(job,
                      &DSFLOW_TRAIN_OPTIONS(.start = DSFLOW_START_OVERWRITE,
                                            .batches = &batches),
                      &err),
         &err);
}

/* With a size that follows from the machine, and without. */
static void check(void (*what)(const struct dsflow_job *job))
{
    static const char *const micro[] = { "2", "\"auto\"" };

    for (int i = 0; i < 2; i++) {
        struct dsflow_job *job = job_of(micro[i]);

        memset(&asked, 0, sizeof(asked));
        what(job);
        assert_int_equal(asked.machine, 1);
        assert_int_equal(asked.memory, 1);
        assert_int_equal(asked.file, 1);
        /* Of those that are compared, each has a graph of its own. */
        if (i == 0)
            assert_int_equal(asked.weights, 1);
        dsflow_job_free(job);
    }
}

static void a_plan_asks_what_the_machine_is_once(void **state)
{
    check(plan);
}

static void a_run_asks_what_the_machine_is_once(void **state)
{
    check(train);
}

/* The file of this machine is there then. */
static int measure(void **state)
{
    struct dsflow_machine *machine;

    if (make_folder(state) < 0 || dsflow_machine_present(&machine, NULL) < 0)
        return -1;
    dsflow_machine_free(machine);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_asks_what_the_machine_is_once),
        cmocka_unit_test(a_run_asks_what_the_machine_is_once),
    };

    return cmocka_run_group_tests(tests, measure, remove_folder);
}
