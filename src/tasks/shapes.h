/* shapes.h - checks of the shapes that an op meets on its ports, and what
 * follows from them. */
#ifndef DSF_TASKS_SHAPES_H
#define DSF_TASKS_SHAPES_H

#include <stdbool.h>
#include <dsflow/op.h>

/* Is port `p` of this type, with at least `elems` elements? */
int dsf_port_check(const struct dsflow_case *c, unsigned p,
                   enum dsflow_dtype dtype, int64_t elems,
                   struct dsflow_err *err);

/* Has each port an element at least, of the type that the op says? The check of
 * an op without arguments. */
int dsf_ports_check(const struct dsflow_case *c, struct dsflow_err *err);

/* Are elements at .. at+elems within port `p`, which has this type? */
int dsf_range_check(const struct dsflow_case *c, unsigned p,
                    enum dsflow_dtype dtype, int64_t at, int64_t elems,
                    struct dsflow_err *err);

/* Is there something on port `p`, which may be left out? And how many bytes are
 * `elems` elements of its type; 0: there is nothing. */
bool dsf_has_port(const struct dsflow_case *c, unsigned p);
double dsf_port_bytes(const struct dsflow_case *c, unsigned p, int64_t elems);

/* The type that fp32 numbers on port `p` should have: where the port takes them
 * in others, the one that they have. */
enum dsflow_dtype dsf_float_type(const struct dsflow_case *c, unsigned p);

/* Does port `p` hold a struct dsflow_control? */
int dsf_control_check(const struct dsflow_case *c, unsigned p,
                      struct dsflow_err *err);

/* The cost of reading and making a few numbers. */
void dsf_few_cost(const struct dsflow_case *c, struct dsflow_cost *cost);

/* Scratch of an op whose arguments begin with a struct dsf_coding: a block of
 * fp32; or one that is coded, one decoded, and its errors. */
size_t dsf_block_scratch(const struct dsflow_case *c);
size_t dsf_errors_scratch(const struct dsflow_case *c);

#endif
