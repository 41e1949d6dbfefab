/* cmd_plan.c - the step before it runs. */
#include "base/log.h"
#include "base/notice.h"
#include "cli/job_flags.h"
#include "machine/memory.h"
#include "measure/disks.h"
#include "measure/machine_cache.h"
#include "policies/keys.h"
#include "sim/plan_report.h"
#include "tasks/components.h"
#include "train/early.h"
#include "train/machine_keys.h"
#include "train/record.h"
#include "train/session.h"
#include "tune/fit.h"

#include <stdlib.h>
#include <string.h>

static int check_until(const char *until, struct dsflow_err *err)
{
    const struct dsflow_policy *policy;
    char known[512] = "";

    if (until == NULL || dsflow_policy_find(until) != NULL)
        return DSFLOW_OK;
    for (unsigned i = 0; (policy = dsflow_policy_at(i)) != NULL; i++) {
        size_t n = strlen(known);

        snprintf(known + n, sizeof(known) - n, "%s%s", i > 0 ? ", " : "",
                 policy->name);
    }
    return dsflow_fail(err, DSFLOW_EINVAL, "--until: %.60s: expected one of %s",
                       until, known);
}

/* What can be known before anything is measured or built. */
static int check(const struct dsf_session *s, int64_t available,
                 struct dsflow_err *err)
{
    struct dsflow_err text;

    /* The text of a job need not be here to plan it. */
    if (dsf_early_check_text(s, &text) == DSFLOW_EFIT)
        dsf_warn("%s", text.msg);
    return dsf_early_check_size(s, available, err);
}

/* The plan and the graph of a machine that is described, or of this one, which
 * is measured when time is to be predicted. */
static int build(struct dsf_session *s, const char *file, const char *until,
                 bool predict, struct dsf_machine_model *m,
                 struct dsflow_err *err)
{
    int status;

    if (file == NULL) {
        status = dsf_machine_probe(&s->machine, err);
        if (status == DSFLOW_OK)
            dsf_machine_keys_warn(s->job, &s->machine);
        if (status == DSFLOW_OK)
            status = dsf_disks_check(s->job, err);
        if (status == DSFLOW_OK)
            status = check(s, s->machine.available, err);
        if (status == DSFLOW_OK && (predict || dsf_fit_is_open(s->job)))
            status = dsf_machine_of_job(&s->machine, s->job, m, err);
        return status == DSFLOW_OK ? dsf_session_fit(s, m, until, err) : status;
    }
    status = dsf_machine_model_read(file, m, err);
    if (status < 0)
        return status;
    dsf_machine_of_model(m, &s->machine);
    status = check(s, dsf_memory_probe("").available, err);
    return status == DSFLOW_OK ? dsf_session_fit(s, m, until, err) : status;
}

/* What the graph weighs and takes, and then whether it fits. */
static int report_on(struct dsf_session *s, const struct dsf_machine_model *m,
                     struct dsf_plan_facts *facts, bool present, bool whole,
                     bool json, struct dsflow_err *err)
{
    struct dsf_setup setup = dsf_session_setup(s);
    int status;

    dsf_fit_budgets(s->plan, m, facts->weights, facts->budget);
    status = json ? dsf_plan_report_json(s->plan, s->graph, facts, stdout, err)
                  : dsf_plan_report(s->plan, s->graph, facts, stdout);
    if (status == DSFLOW_OK && !json && s->why != NULL)
        printf("\n%s\n", s->why);
    if (status == DSFLOW_OK && !json && whole) {
        char *text = dsf_fit_gradients_text(&setup, m);

        if (text != NULL)
            printf("\n%s\n", text);
        free(text);
    }
    fflush(stdout); /* what is wrong with it stands below it, in a pipe too */
    /* Only when every policy has been applied is it known what is where. */
    if (status < 0 || !whole)
        return status;
    return present ? dsf_session_check_memory(s, err)
                   : dsf_fit_check(&setup, m, facts->weights, err);
}

static int report(struct dsf_session *s, const struct dsf_machine_model *m,
                  bool present, bool whole, bool json, struct dsflow_err *err)
{
    struct dsf_prediction prediction;
    struct dsf_weights w;
    struct dsf_plan_facts facts = { m, &w, &prediction, { 0 } };
    int status;

    dsf_notice("simulating steps");
    status = dsf_predict(s->plan, s->graph, m, &prediction, err);
    if (status == DSFLOW_OK)
        status = dsf_predict_programs(s->plan, s->graph, m, &prediction, err);
    dsf_notice_end();
    if (status == DSFLOW_OK) {
        dsf_fit_weigh(s->plan, s->graph, m, &w);
        status = report_on(s, m, &facts, present, whole, json, err);
        dsf_weights_fini(&w);
    }
    dsf_prediction_fini(&prediction);
    return status;
}

/* The smallest job with the same mesh and the same kinds of task, as words of
 * a command line; "" where this one is no larger. */
static void find_smaller(const struct dsf_session *s, char *text, size_t size)
{
    const struct dsflow_plan *p = s->plan;
    int layers = p->nchunks > 2 ? p->nchunks : 2;
    int n = 0;

    text[0] = '\0';
    if (strcmp(s->job->model.init, "random") == 0 &&
        dsf_pipeline_keys(s->job)->split.n == 0 && layers < s->model.layers)
        n = snprintf(text, size, " --set model.layers=%d", layers);
    if (p->groups < p->nmicro)
        snprintf(text + n, size - (size_t)n, " --set batch.sequences=%d",
                 p->groups * p->micro);
}

/* Graphviz takes minutes for some thousands of tasks, and hours for more. */
static void warn_large(const struct dsf_session *s)
{
    enum { LARGE = 4000 };
    uint32_t n = dsflow_graph_ntasks(s->graph);
    char smaller[128];

    if (n <= LARGE)
        return;
    find_smaller(s, smaller, sizeof(smaller));
    dsf_warn(
        "the graph has %u tasks, and Graphviz takes long to draw more than "
        "some thousands: --until POLICY leaves out the policies after that "
        "one%s%s%s",
        n, smaller[0] != '\0' ? ";" : "", smaller,
        smaller[0] != '\0' ? " makes a small job of the same kind" : "");
}

static int plan(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const char *until = dsf_flag_value(args, "until");
    bool dot = dsf_flag_value(args, "dot") != NULL;
    bool json = dsf_flag_value(args, "json") != NULL;
    const char *trace = dsf_flag_value(args, "trace");
    struct dsf_machine_model m = { 0 };
    struct dsf_session s = { 0 };
    int status = DSFLOW_OK;

    if (dot && json)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "plan: --dot and --json: expected one of them");
    if (status == DSFLOW_OK && trace != NULL && until != NULL)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "plan: --trace and --until: expected one of them");
    if (status == DSFLOW_OK)
        status = dsf_open_job(&s, args->words[0], args, err);
    if (status == DSFLOW_OK) /* with the policies that the job has loaded */
        status = check_until(until, err);
    if (status == DSFLOW_OK)
        status = build(&s, dsf_flag_value(args, "machine"), until,
                       !dot || trace != NULL, &m, err);
    if (status == DSFLOW_OK)
        dsf_job_warn(s.job);
    if (status == DSFLOW_OK && dot)
        warn_large(&s);
    if (status == DSFLOW_OK)
        status = dot ? dsflow_graph_write_dot(s.graph, stdout, err)
                     : report(&s, &m, dsf_flag_value(args, "machine") == NULL,
                              until == NULL, json, err);
    if (status == DSFLOW_OK && trace != NULL)
        status = dsf_record_simulation(&s, &m, trace, err);
    dsf_machine_model_fini(&m);
    dsf_session_close(&s);
    return status;
}

static const struct dsf_flag plan_flags[] = {
    DSF_FLAG_SET,
    { "machine", "FILE",
      "plan for the machine that FILE describes, not for this one" },
    { "dot", NULL, "the graph, for Graphviz: dsflow plan … --dot | dot -Tsvg" },
    { "json", NULL, "the summary as JSON, as in plan.json" },
    { "trace", "FILE", "also the simulated timeline, for dsflow trace FILE" },
    { "until", "POLICY", "the graph as it is after this policy" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_plan = {
    .name = "plan",
    .args = "job.toml",
    .summary = "show the graph of a step, its memory and its time; run nothing",
    .help =
        "Builds the graph of a step and says what is in it: tasks of each\n"
        "kind, memory by what it is for, traffic between ranks; and what a\n"
        "step takes: the time of a simulation, the time that no order of\n"
        "tasks can beat, and the tasks that hold it back most. Costs are\n"
        "those of this machine, measured once (see dsflow bench), or of a\n"
        "machine file such as examples/machines/h200-8.toml. Nothing is\n"
        "run, and the text is not read.",
    .flags = plan_flags,
    .least = 1,
    .most = 1,
    .run = plan,
};
