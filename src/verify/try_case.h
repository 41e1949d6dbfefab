/* try_case.h - a random case of a kind of task: its shapes, and what its ports
 * have before it runs. */
#ifndef DSF_VERIFY_TRY_CASE_H
#define DSF_VERIFY_TRY_CASE_H

#include <stdbool.h>
#include <dsflow/codelet.h>

/* A case: everything a call begins with. */
struct dsf_case {
    uint64_t seed;
    const struct dsflow_trials *trials;
    const struct dsflow_op *op; /* whose ports they are */
    unsigned n, fresh;
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS];
    void *args;
    void *before[DSFLOW_TRIAL_PORTS]; /* contents; of W and fresh ones: none */
};

/* What is wrong with a case ends the child (child.h). */

/* The case of a seed: its shapes are accepted, its ports are filled. */
void dsf_case_make(struct dsf_case *c, const struct dsflow_op *op,
                   const struct dsflow_trials *trials, uint64_t seed);
void dsf_case_free(struct dsf_case *c);

/* The same, as the functions of `op` see it. */
struct dsflow_case dsf_case_of(const struct dsf_case *c,
                               const struct dsflow_op *op);

/* Numbers of a normal distribution, the same for the same seed and port: what a
 * port has that nobody fills. */
void dsf_case_fill(uint64_t seed, unsigned port, float *v, size_t n);

/* The shapes of a case and its seed, in words. */
void dsf_case_words(const struct dsf_case *c, char *to, size_t size);

/* What a call costs, as `op` says. */
struct dsflow_cost dsf_case_cost(const struct dsf_case *c,
                                 const struct dsflow_op *op);

/* bf16 or fp16, where a port has that in the place of fp32; else fp32. */
enum dsflow_dtype dsf_case_precision(const struct dsf_case *c);

/* The same numbers in fp32, freed by dsf_case_free. */
void dsf_case_widen(const struct dsf_case *c, struct dsf_case *wide);

/* Is there no port `i`, or does the case leave it out? */
bool dsf_case_lacks(const struct dsf_case *c, unsigned i);
const char *dsf_case_port_name(const struct dsf_case *c, unsigned i);

/* What the task does to the data there: what is fresh, it writes. */
enum dsflow_access dsf_case_access(const struct dsf_case *c, unsigned i);

/* Of the data `v` on a port: its elements, their size and one of them; of
 * structures and packed numbers, bytes. */
size_t dsf_case_count(const struct dsf_case *c, unsigned port);
size_t dsf_case_width(const struct dsf_case *c, unsigned port);
double dsf_case_number(const struct dsf_case *c, const void *v, unsigned port,
                       size_t e);

#endif
