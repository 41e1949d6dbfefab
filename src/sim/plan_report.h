/* plan_report.h - a plan, its graph and what it will take: `dsflow plan`. */
#ifndef DSF_SIM_PLAN_REPORT_H
#define DSF_SIM_PLAN_REPORT_H

#include "sim/predict.h"

/* Lines for people, and the plan.json of DESIGN 9. Without a prediction (NULL)
 * nothing is said about time; `machine` is what it is for. */
int dsf_plan_report(const struct dsflow_plan *plan, struct dsflow_graph *g,
                    const struct dsf_machine_model *machine,
                    const struct dsf_prediction *prediction, FILE *out);
int dsf_plan_report_json(const struct dsflow_plan *plan, struct dsflow_graph *g,
                         const struct dsf_machine_model *machine,
                         const struct dsf_prediction *prediction, FILE *out,
                         struct dsflow_err *err);

#endif
