/* programs.c - which program of the graph a step runs. */
#include "plan/programs.h"

#include <dsflow/plan.h>

#include "base/alloc.h"
#include "base/multiple.h"
#include "graph/task.h"
#include "tasks/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char step_name[] = "step", eval_name[] = "eval";

static int check(const struct dsflow_program_steps *s, struct dsflow_err *err)
{
    if (s->size != sizeof(*s) || s->name == NULL)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "a program of steps: expected its size and its name");
    if (strcmp(s->name, eval_name) == 0)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "program eval: it is of validations, and of no step");
    if (strcmp(s->name, DSF_PREPARE) == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "program " DSF_PREPARE
                           ": it is of what comes before steps");
    if (s->first < 1 || s->every < 1 || (s->last != 0 && s->last < s->first))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "program %.60s: first %lld, every %lld, last %lld: "
                           "expected steps from 1 on, in order",
                           s->name, (long long)s->first, (long long)s->every,
                           (long long)s->last);
    return DSFLOW_OK;
}

static bool is_same(const struct dsf_plan_program *p,
                    const struct dsflow_program_steps *s)
{
    return strcmp(p->name, s->name) == 0 && p->first == s->first &&
           p->every == s->every && p->last == s->last;
}

int dsflow_plan_add_program(struct dsflow_plan *plan,
                            const struct dsflow_program_steps *steps,
                            struct dsflow_err *err)
{
    int status = check(steps, err);

    if (status < 0)
        return status;
    for (unsigned i = 0; i < plan->nprograms; i++)
        if (is_same(&plan->programs[i], steps))
            return DSFLOW_OK;
    plan->programs = dsf_xrealloc(plan->programs, plan->nprograms + 1,
                                  sizeof(*plan->programs));
    plan->programs[plan->nprograms++] =
        (struct dsf_plan_program){ dsf_xstrdup(steps->name), steps->first,
                                   steps->every, steps->last };
    return DSFLOW_OK;
}

static bool runs(const struct dsf_plan_program *p, int64_t step)
{
    return step >= p->first && (p->last == 0 || step <= p->last) &&
           (step - p->first) % p->every == 0;
}

const char *dsflow_plan_program_of(const struct dsflow_plan *plan, int64_t step)
{
    for (unsigned i = plan->nprograms; i-- > 0;)
        if (runs(&plan->programs[i], step))
            return plan->programs[i].name;
    return step_name;
}

dsflow_program dsf_plan_program(const struct dsflow_plan *plan,
                                const struct dsflow_graph *g, int64_t step)
{
    dsflow_program program = DSFLOW_STEP;

    dsflow_graph_find_program(g, dsflow_plan_program_of(plan, step), &program);
    return program;
}

static int64_t count_steps(const struct dsflow_plan *plan, const char *name,
                           int64_t from, int64_t end)
{
    int64_t n = 0;

    for (int64_t step = from; step < end; step++)
        n += strcmp(dsflow_plan_program_of(plan, step), name) == 0;
    return n;
}

/* Where the programs of the step `from` are still those that may run, up to
 * `end` at most; and after how many steps they do so as before. */
static int64_t find_end(const struct dsflow_plan *plan, int64_t from,
                        int64_t end, int64_t *period)
{
    for (unsigned i = 0; i < plan->nprograms; i++) {
        const struct dsf_plan_program *p = &plan->programs[i];

        if (p->first > from && p->first < end)
            end = p->first;
        if (p->last >= from && p->last < end)
            end = p->last + 1;
    }
    *period = 1;
    for (unsigned i = 0; i < plan->nprograms && *period < end - from; i++) {
        const struct dsf_plan_program *p = &plan->programs[i];

        if (p->first <= from && (p->last == 0 || p->last >= from))
            *period = p->every < end - from
                          ? dsf_common_multiple(*period, p->every)
                          : end - from;
    }
    if (*period > end - from)
        *period = end - from;
    return end;
}

int64_t dsf_plan_count_steps(const struct dsflow_plan *plan, const char *name,
                             int64_t steps)
{
    int64_t n = 0;

    for (int64_t from = 1, end; from <= steps; from = end) {
        int64_t period, times;

        end = find_end(plan, from, steps + 1, &period);
        times = (end - from) / period;
        n += times * count_steps(plan, name, from, from + period);
        n += count_steps(plan, name, from + times * period, end);
    }
    return n;
}

bool dsf_plan_runs_in_steps(const struct dsflow_plan *plan, const char *name)
{
    if (strcmp(name, step_name) == 0)
        return true;
    for (unsigned i = 0; i < plan->nprograms; i++)
        if (strcmp(plan->programs[i].name, name) == 0)
            return true;
    return false;
}

static int check_reports(const struct dsflow_graph *g, dsflow_program program,
                         const struct dsflow_op *report, struct dsflow_err *err)
{
    uint32_t first, reports = 0;
    uint32_t n = dsflow_graph_program_tasks(g, program, &first);

    for (uint32_t i = first; i < first + n; i++)
        reports += dsf_nth_task(g, i)->op == report;
    if (reports == 1)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "program %.60s: %u tasks %s: expected 1, which the "
                       "training loop waits for",
                       dsflow_graph_program(g, program), reports, report->name);
}

int dsf_plan_check_programs(const struct dsflow_plan *plan,
                            const struct dsflow_graph *g,
                            struct dsflow_err *err)
{
    for (unsigned i = 0; i < plan->nprograms; i++) {
        const struct dsf_plan_program *p = &plan->programs[i];
        dsflow_program program;
        uint32_t first;

        if (!dsflow_graph_find_program(g, p->name, &program) ||
            dsflow_graph_program_tasks(g, program, &first) == 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "program %.60s: is to run in step %lld, and no "
                               "policy has made its tasks",
                               p->name, (long long)p->first);
    }
    for (unsigned i = 0; i < dsflow_graph_nprograms(g); i++) {
        const char *name = dsflow_graph_program(g, (dsflow_program)i);
        const struct dsflow_op *report =
            dsf_plan_runs_in_steps(plan, name) ? &dsf_op_report
            : strcmp(name, eval_name) == 0     ? &dsf_op_report_loss
                                               : NULL;

        if (report != NULL &&
            check_reports(g, (dsflow_program)i, report, err) < 0)
            return DSFLOW_EINVAL;
    }
    return DSFLOW_OK;
}

/* "step 5", "steps 1 to 100", "steps 5 and 10", "steps 5, 10 and 15", "steps 5,
 * 10, …", "steps 5, 10, … to 100" */
static void write_steps(const struct dsf_plan_program *p, FILE *out)
{
    const long long first = p->first, every = p->every, last = p->last;
    const long long n = last == 0 ? INT64_MAX : (last - first) / every + 1;

    if (n == 1)
        fprintf(out, "step %lld", first);
    else if (last != 0 && every == 1)
        fprintf(out, "steps %lld to %lld", first, last);
    else if (n == 2)
        fprintf(out, "steps %lld and %lld", first, first + every);
    else if (n == 3)
        fprintf(out, "steps %lld, %lld and %lld", first, first + every,
                first + 2 * every);
    else
        fprintf(out, "steps %lld, %lld, …", first, first + every);
    if (n > 3 && last != 0 && every > 1)
        fprintf(out, " to %lld", last);
}

static bool meet(const struct dsf_plan_program *a,
                 const struct dsf_plan_program *b)
{
    return (a->last == 0 || b->first <= a->last) &&
           (b->last == 0 || a->first <= b->last);
}

/* Who, of those that follow, has some of the steps of the i-th; NULL: nobody.
 */
static const char *who_has_some(const struct dsflow_plan *plan, unsigned i)
{
    const struct dsf_plan_program *p = &plan->programs[i];
    const char *who = NULL;

    for (unsigned k = i + 1; k < plan->nprograms && p->every == 1; k++) {
        const struct dsf_plan_program *other = &plan->programs[k];

        if (strcmp(other->name, p->name) == 0 || !meet(p, other))
            continue;
        who = who == NULL || strcmp(who, other->name) == 0 ? other->name
                                                           : "others";
    }
    return who;
}

void dsf_plan_write_runs(const struct dsflow_plan *plan, const char *name,
                         FILE *out)
{
    unsigned n = 0;

    if (strcmp(name, eval_name) == 0)
        fputs("validations", out);
    if (strcmp(name, DSF_PREPARE) == 0)
        fputs("before the first step", out);
    for (unsigned i = 0; i < plan->nprograms; i++)
        if (strcmp(plan->programs[i].name, name) == 0) {
            fputs(n++ > 0 ? "; " : "", out);
            write_steps(&plan->programs[i], out);
            if (who_has_some(plan, i) != NULL)
                fprintf(out, " less those of %s", who_has_some(plan, i));
        }
    if (n == 0 && strcmp(name, step_name) == 0)
        fputs(plan->nprograms > 0 ? "all other steps" : "every step", out);
}

void dsf_plan_free_programs(struct dsflow_plan *plan)
{
    for (unsigned i = 0; i < plan->nprograms; i++)
        free(plan->programs[i].name);
    free(plan->programs);
}
