/* cmd_plan.c - the step before it runs. */
#include "cli/session.h"
#include "policies/policies.h"

#include <string.h>

static int check_until(const char *until, struct dsflow_err *err)
{
    char known[256] = "";

    if (until == NULL)
        return DSFLOW_OK;
    for (unsigned i = 0; i < dsf_npolicies; i++) {
        size_t n = strlen(known);

        if (strcmp(dsf_policies[i]->name, until) == 0)
            return DSFLOW_OK;
        snprintf(known + n, sizeof(known) - n, "%s%s", i > 0 ? ", " : "",
                 dsf_policies[i]->name);
    }
    return dsflow_fail(err, DSFLOW_EINVAL, "--until: %.60s: expected one of %s",
                       until, known);
}

static int plan(const struct dsf_words *words, struct dsflow_err *err)
{
    const char *until = dsf_flag_value(words, "until");
    bool dot = dsf_flag_value(words, "dot") != NULL;
    bool json = dsf_flag_value(words, "json") != NULL;
    struct dsf_session s = { 0 };
    int status = check_until(until, err);

    if (status == DSFLOW_OK && dot && json)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "plan: --dot and --json: expected one of them");
    if (status == DSFLOW_OK)
        status = dsf_session_model(&s, words->words[0], words, err);
    if (status == DSFLOW_OK)
        status = dsf_session_plan(&s, until, err);
    if (status == DSFLOW_OK)
        status = dot    ? dsflow_graph_write_dot(s.graph, stdout, err)
                 : json ? dsf_plan_write_json(s.plan, s.graph, stdout, err)
                        : dsf_plan_print(s.plan, s.graph, stdout);
    dsf_session_close(&s);
    return status;
}

static const struct dsf_flag plan_flags[] = {
    DSF_FLAG_SET,
    { "dot", NULL, "the graph, for Graphviz: dsflow plan … --dot | dot -Tsvg" },
    { "json", NULL, "the summary as JSON, as in plan.json" },
    { "until", "POLICY", "the graph as it is after this policy" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_plan = {
    .name = "plan",
    .args = "job.toml [--dot|--json] [--until POLICY] [--set …]…",
    .summary = "show the graph of a step and its memory; run nothing",
    .help = "Builds the graph of a step and says what is in it: tasks of each\n"
            "kind, data, and memory by what it is for. Nothing is run, and the\n"
            "text is not read.",
    .flags = plan_flags,
    .least = 1,
    .most = 1,
    .run = plan,
};
