/* each_number.h - ops that do the same with each number of a unit: which of
 * their ports have one for each, and where their arguments say where these
 * begin. Their checks, costs and slices follow from that. */
#ifndef DSF_TASKS_EACH_NUMBER_H
#define DSF_TASKS_EACH_NUMBER_H

#include <stddef.h>
#include <dsflow/op.h>

/* Numbers of fp32, or of another type. Places are offsets of an int64_t in the
 * arguments; 0: there is none, and numbers begin with the first of the port. */
struct dsf_number_port {
    unsigned port; /* the task may leave it out where the op says so */
    size_t at;
    unsigned times; /* that each is read or written */
    enum dsflow_dtype other;
};

struct dsf_each_number {
    size_t elems; /* how many */
    size_t first; /* the number of the unit that the first of them is: where
                     ports begin that are not sliced */
    size_t decay; /* so many of them decay */
    unsigned flops, control; /* 1: port 0 is a struct dsflow_control */
    struct dsf_number_port
        ports[8]; /* with one behind them that has no times */
};

int dsf_each_number_check(const struct dsf_each_number *n,
                          const struct dsflow_case *c, struct dsflow_err *err);
void dsf_each_number_cost(const struct dsf_each_number *n,
                          const struct dsflow_case *c,
                          struct dsflow_cost *cost);
void dsf_each_number_slice(const struct dsf_each_number *n, void *args,
                           int64_t from, int64_t elems, const int64_t *gone);

/* `name`_each, and cost and slice of the op. */
#define DSF_EACH_NUMBER(name, ...)                                             \
    static const struct dsf_each_number name##_each = { __VA_ARGS__ };         \
    static void name##_cost(const struct dsflow_case *c,                       \
                            struct dsflow_cost *cost)                          \
    {                                                                          \
        dsf_each_number_cost(&name##_each, c, cost);                           \
    }                                                                          \
    static void name##_slice(void *args, int64_t from, int64_t elems,          \
                             const int64_t *gone)                              \
    {                                                                          \
        dsf_each_number_slice(&name##_each, args, from, elems, gone);          \
    }

#endif
