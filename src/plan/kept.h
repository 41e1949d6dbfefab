/* kept.h - the list of what is kept between steps. */
#ifndef DSF_PLAN_KEPT_H
#define DSF_PLAN_KEPT_H

#include <stdbool.h>
#include <dsflow/plan.h>

/* Places in the list: the states of the optimizer follow in its order, and then
 * what policies keep. */
enum {
    DSF_KEPT_PARAM,
    DSF_KEPT_CURSOR,
    DSF_KEPT_EVAL_CURSOR,
    DSF_KEPT_CONTROL,
    DSF_KEPT_STATE,
};

struct dsf_kept_list {
    struct dsflow_kept *v; /* by place; data has 1 + it (graph.h: kept) */
    size_t n, cap;
};

/* As dsflow_plan_keep. Once more with the same fields is no error. */
int dsf_kept_add(struct dsf_kept_list *list, const struct dsflow_kept *kept,
                 struct dsflow_err *err);
void dsf_kept_free(struct dsf_kept_list *list);

/* Elements of each piece of data. */
int64_t dsf_kept_elems(const struct dsflow_kept *kept);

/* "by rank"; "" of TENSORS and ONE. */
const char *dsf_kept_by(const struct dsflow_kept *kept);

/* The number of a field as text, from the data at `base`, and back:
 * DSFLOW_EINVAL where the text is no such number. */
struct dsf_kept_text {
    char s[40];
};
struct dsf_kept_text dsf_kept_field_text(const struct dsflow_kept_field *field,
                                         const void *base);
int dsf_kept_field_read(const struct dsflow_kept_field *field, const char *text,
                        void *base, struct dsflow_err *err);

#endif
