/* cmd_plan.c - the step before it runs. */
#include "base/log.h"
#include "base/notice.h"
#include "cli/job_flags.h"
#include "cli/plan_layout.h"
#include "policies/keys.h"
#include "sim/plan_report.h"
#include "tasks/components.h"
#include "train/planned.h"
#include "train/record.h"
#include "train/traced.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the graph weighs and takes, and then whether it fits. */
static int report_on(struct dsf_planned *p, struct dsf_plan_facts *facts,
                     bool json, struct dsflow_err *err)
{
    const struct dsf_session *s = &p->s;
    struct dsf_setup setup = dsf_session_setup(&p->s);
    char *text = NULL;
    int status;

    dsf_fit_budgets(s->plan, p->machine, facts->weights, facts->budget);
    status = json ? dsf_plan_report_json(s->plan, s->graph, facts, stdout, err)
                  : dsf_plan_report(s->plan, s->graph, facts, stdout);
    if (status == DSFLOW_OK && !json && s->why != NULL)
        printf("\n%s\n", s->why);
    if (status == DSFLOW_OK && !json && p->whole)
        text = dsf_fit_gradients_text(&setup, p->machine);
    if (text != NULL)
        printf("\n%s\n", text);
    free(text);
    fflush(stdout); /* what is wrong with it stands below it, in a pipe too */
    return status == DSFLOW_OK && p->whole ? dsf_planned_check(p, err) : status;
}

static int report(struct dsf_planned *p, bool json, struct dsflow_err *err)
{
    const struct dsf_machine_model *m = p->machine;
    const struct dsf_session *s = &p->s;
    const struct dsf_plan_saves saves = dsf_session_saves(&p->s);
    struct dsf_prediction prediction;
    struct dsf_plan_facts facts = { .machine = m,
                                    .weights = dsf_session_weights(&p->s),
                                    .prediction = &prediction,
                                    .saves = &saves };
    int status;

    dsf_notice("simulating steps");
    status = dsf_predict(s->plan, s->graph, m, &prediction, err);
    if (status == DSFLOW_OK)
        status = dsf_predict_programs(s->plan, s->graph, m, &prediction, err);
    dsf_notice_end();
    if (status == DSFLOW_OK)
        status = report_on(p, &facts, json, err);
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

/* Flags that exclude each other. */
static int check_flags(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    static const char *const pairs[][2] = {
        { "dot", "json" },    { "trace", "until" },  { "layout", "dot" },
        { "layout", "json" }, { "layout", "trace" }, { "layout", "until" }
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
        if (dsf_flag_value(args, pairs[i][0]) != NULL &&
            dsf_flag_value(args, pairs[i][1]) != NULL)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "plan: --%s and --%s: expected one of them",
                               pairs[i][0], pairs[i][1]);
    return DSFLOW_OK;
}

static int make(struct dsf_planned *p, const struct dsf_cli_args *args,
                struct dsf_machine_model *m, struct dsflow_err *err)
{
    const char *until = dsf_flag_value(args, "until");
    const char *file = dsf_flag_value(args, "machine");
    bool predict = dsf_flag_value(args, "dot") == NULL ||
                   dsf_flag_value(args, "trace") != NULL;
    int64_t processes = 0;
    int status =
        dsf_flag_whole(args, "processes", 2, INT16_MAX, &processes, err);

    p->processes = (int32_t)processes;
    if (status == DSFLOW_OK)
        status = dsf_open_job(&p->s, args->words[0], args, err);
    if (status == DSFLOW_OK) /* a run would be refused */
        status = dsf_traced_check(p->s.job, err);
    if (status == DSFLOW_OK && dsf_planned_until(until, err) < 0)
        return dsflow_fail_in(err, DSFLOW_EINVAL, "--until");
    if (status == DSFLOW_OK && file != NULL)
        status = dsf_machine_model_read(file, m, err);
    return status == DSFLOW_OK ? dsf_planned_make(p, file != NULL ? m : NULL,
                                                  until, predict, err)
                               : status;
}

/* What the graph would be made from needs no graph. */
static int show_layout(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    struct dsf_planned p = { 0 };
    int status = dsf_open_job(&p.s, args->words[0], args, err);

    if (status == DSFLOW_OK)
        status = dsf_plan_layout(&p.s, dsf_flag_value(args, "layout"), err);
    dsf_planned_close(&p);
    return status;
}

/* Can there be such a file? Of what is no file nobody knows before. */
static int check_trace(const char *path, struct dsflow_err *err)
{
    struct stat st;
    bool is_new = lstat(path, &st) < 0;
    int fd;

    if (!is_new && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return DSFLOW_OK;
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    close(fd);
    if (is_new)
        unlink(path);
    return DSFLOW_OK;
}

static int plan(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const char *trace = dsf_flag_value(args, "trace");
    bool dot = dsf_flag_value(args, "dot") != NULL;
    bool json = dsf_flag_value(args, "json") != NULL;
    struct dsf_machine_model m = { 0 };
    struct dsf_planned p = { 0 };
    int status = check_flags(args, err);

    if (status == DSFLOW_OK && dsf_flag_value(args, "layout") != NULL)
        return show_layout(args, err);
    if (status == DSFLOW_OK && trace != NULL)
        status = check_trace(trace, err);
    if (status == DSFLOW_OK)
        status = make(&p, args, &m, err);
    if (status == DSFLOW_OK)
        dsf_job_warn(p.s.job);
    if (status == DSFLOW_OK && dot)
        warn_large(&p.s);
    if (status == DSFLOW_OK)
        status = dot ? dsflow_graph_write_dot(p.s.graph, stdout, err)
                     : report(&p, json, err);
    if (status == DSFLOW_OK && trace != NULL)
        status = dsf_record_simulation(&p.s, p.machine, trace, err);
    dsf_planned_close(&p);
    dsf_machine_model_fini(&m);
    return status;
}

static const struct dsf_flag plan_flags[] = {
    DSF_FLAG_SET,
    { "machine", "FILE",
      "plan for the machine that FILE describes, not for this one" },
    { "processes", "N", "with the ranks in so many processes", 'n' },
    { "dot", NULL, "the graph, for Graphviz: dsflow plan … --dot | dot -Tsvg" },
    { "json", NULL, "the summary as JSON, as in plan.json" },
    { "trace", "FILE", "also the simulated timeline, for dsflow trace FILE" },
    { "until", "POLICY", "the graph as it is after this policy" },
    { "layout", "[=HEAD]",
      "only the blocks of [sparse_attention] that a head sees, and how many" },
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
