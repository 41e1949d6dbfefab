/* hand.h - graphs of a few data and tasks, written by hand. */
#ifndef TESTS_UNIT_POLICIES_HAND_H
#define TESTS_UNIT_POLICIES_HAND_H

#include <dsflow/graph.h>

#include "lib/test.h"

static inline int hand_check(const struct dsflow_case *c,
                             struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static const struct dsflow_op op_make = {
    .abi = DSFLOW_OP_ABI,
    .name = "make",
    DSFLOW_PORTS({ "out", DSFLOW_W }),
    .check = hand_check,
};
static const struct dsflow_op op_use = {
    .abi = DSFLOW_OP_ABI,
    .name = "use",
    DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }),
    .repeats = 1,
    .check = hand_check,
};

static inline dsflow_data_id hand_data(struct dsflow_graph *g, const char *name,
                                       int home)
{
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = 8, .dtype = DSFLOW_FP32,
                        .role = DSFLOW_ACTIVATIONS, .home = (int16_t)home,
                        .unit = -1));
}

static inline dsflow_task_id hand_make(struct dsflow_graph *g, int rank,
                                       dsflow_data_id out)
{
    return dsflow_graph_add_task(
        g,
        &DSFLOW_TASK(.op = &op_make, .rank = (int16_t)rank, .layer = -1,
                     .microbatch = -1, .tile = -1, .ndata = 1, .data = &out));
}

/* `out`, which is new, from `in`. */
static inline dsflow_task_id hand_use(struct dsflow_graph *g,
                                      const struct dsflow_op *op,
                                      dsflow_program program, int rank,
                                      dsflow_data_id out, dsflow_data_id in)
{
    return dsflow_graph_add_task(
        g,
        &DSFLOW_TASK(.op = op, .rank = (int16_t)rank, .layer = 3,
                     .microbatch = 2, .tile = 1, .program = program, .fresh = 1,
                     .ndata = 2, .data = (dsflow_data_id[]){ out, in }));
}

static inline const struct dsflow_task_spec *
hand_task(const struct dsflow_graph *g, uint32_t i)
{
    return dsflow_graph_task(g, (dsflow_task_id){ i });
}

/* The name of what task `i` has on port `p`. */
static inline const char *hand_name(const struct dsflow_graph *g, uint32_t i,
                                    unsigned p)
{
    return dsflow_graph_data(g, hand_task(g, i)->data[p])->name;
}

#endif
