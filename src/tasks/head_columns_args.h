/* head_columns_args.h - the arguments of the head where it takes some columns
 * of the vocabulary at a time: see dsflow/segments.h. */
#ifndef DSF_TASKS_HEAD_COLUMNS_ARGS_H
#define DSF_TASKS_HEAD_COLUMNS_ARGS_H

#include <dsflow/segments.h>

struct dsf_head_columns_args {
    struct dsflow_head_args head;
    int32_t columns; /* at a time, at least one */
    int32_t zero;    /* no padding: equal arguments have equal bytes */
};

#endif
