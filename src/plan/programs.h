/* programs.h - which program of the graph a step runs. */
#ifndef DSF_PLAN_PROGRAMS_H
#define DSF_PLAN_PROGRAMS_H

#include "plan/plan.h"

/* Makes copies of parameters in other types: of no step, it runs before the
 * first one, and wherever somebody has written parameters. */
#define DSF_PREPARE "prepare"

/* The program of a step, from 1, in the graph of the plan. */
dsflow_program dsf_plan_program(const struct dsflow_plan *plan,
                                const struct dsflow_graph *g, int64_t step);

/* How many of the steps from 1 to `steps` run the program of this name. */
int64_t dsf_plan_count_steps(const struct dsflow_plan *plan, const char *name,
                             int64_t steps);

/* Whether the program is what some step runs: not so `eval`. */
bool dsf_plan_runs_in_steps(const struct dsflow_plan *plan, const char *name);

/* Whether the graph has the programs that steps are to run, and each reports
 * once, as the one that validates does. */
int dsf_plan_check_programs(const struct dsflow_plan *plan,
                            const struct dsflow_graph *g,
                            struct dsflow_err *err);

/* When it runs, for people: "steps 5, 10, …", "validations". */
void dsf_plan_write_runs(const struct dsflow_plan *plan, const char *name,
                         FILE *out);

void dsf_plan_free_programs(struct dsflow_plan *plan);

#endif
