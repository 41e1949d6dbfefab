/* kept_of_groups.c - what is kept of each group of micro-batches, or of those
 * of a node: which it is says its name. */
#include "policies/compress.h"

#include "plan/stretch.h"
#include "policies/onebit.h"

#include <stdio.h>
#include <string.h>

/* "error.3of8", "node_error.1of2": other groups have other errors. */
static const char *const of_groups[] = { DSF_OF_GROUPS(DSF_CHOICE_NAME) };

struct group_name {
    char s[40];
};
static struct group_name name_of(const struct dsflow_plan *plan,
                                 enum dsf_of_group what, int32_t number)
{
    struct group_name name;

    snprintf(name.s, sizeof(name.s), "%s.%dof%d", of_groups[what], (int)number,
             (int)dsf_kept_count(plan, what));
    return name;
}

/* So many groups keep it together. */
static int32_t kept_together(const struct dsflow_plan *plan,
                             enum dsf_of_group what)
{
    const int32_t node = dsf_compress_node(plan);

    return what == DSF_OF_NODE_ERROR && node > 0 ? node : 1;
}

int32_t dsf_kept_count(const struct dsflow_plan *plan, enum dsf_of_group what)
{
    return dsf_plan_sums(plan) / kept_together(plan, what);
}

uint16_t dsf_group_kept(const struct dsflow_plan *plan, enum dsf_of_group what,
                        int32_t number)
{
    return dsflow_plan_kept(plan, name_of(plan, what, number).s);
}

static bool is_of(const struct dsflow_kept *kept, enum dsf_of_group what)
{
    const size_t n = strlen(of_groups[what]);

    return kept->kind == DSFLOW_KEPT_TENSORS &&
           strncmp(kept->name, of_groups[what], n) == 0 && kept->name[n] == '.';
}

/* They follow each other. */
int32_t dsf_kept_group(const struct dsflow_plan *plan, uint16_t kept,
                       enum dsf_of_group *what)
{
    if (kept == 0 || kept > plan->kept.n)
        return -1;
    for (int i = 0; i < DSF_NOF_GROUPS; i++) {
        *what = (enum dsf_of_group)i;
        if (is_of(&plan->kept.v[kept - 1], *what))
            return (kept - dsf_group_kept(plan, *what, 0)) *
                   kept_together(plan, *what);
    }
    return -1;
}

int dsf_keep_of_groups(struct dsflow_plan *plan, enum dsf_of_group what,
                       struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (int32_t i = 0; i < dsf_kept_count(plan, what) && status == DSFLOW_OK;
         i++)
        status = dsflow_plan_keep(plan,
                                  &DSFLOW_KEPT(.name = name_of(plan, what, i).s,
                                               .kind = DSFLOW_KEPT_TENSORS,
                                               .dtype = DSFLOW_FP32),
                                  err);
    return status;
}

bool dsf_unit_keeps(const struct dsf_job *job, const struct dsf_model *model,
                    const struct dsf_unit *unit, const struct dsflow_kept *kept)
{
    return !(is_of(kept, DSF_OF_ERROR) || is_of(kept, DSF_OF_NODE_ERROR) ||
             dsf_onebit_keeps(job, kept)) ||
           dsf_has_errors(job, model, unit);
}
