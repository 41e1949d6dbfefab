/* standstill.h - a run in which no task ends any more: said in words, with the
 * tasks that wait. */
#ifndef DSF_TRAIN_STANDSTILL_H
#define DSF_TRAIN_STANDSTILL_H

#include <stdbool.h>
#include <dsflow/exec.h>

struct dsf_standstill {
    double patience; /* seconds without an end of a task before it is said */
    uint64_t ended;  /* tasks, when it was last looked at, at … */
    double looked;
    double silent,
        next; /* seconds since one ended, and when it is said again */
};

/* A step should take `seconds`: 0 where nobody knows. */
double dsf_standstill_patience(double seconds);

/* Nothing was seen yet. */
void dsf_standstill_init(struct dsf_standstill *s, double patience);

/* To be called every second or so, at time `now`, while there is
 * something to wait for: is it to be said? Then, and again after twice the
 * time. What the program itself was stopped for does not count. */
bool dsf_standstill_look(struct dsf_standstill *s,
                         const struct dsflow_exec *exec, double now);

/* Warn, with the tasks that wait. Nothing where all have ended. */
void dsf_standstill_say(const struct dsf_standstill *s,
                        const struct dsflow_graph *graph,
                        struct dsflow_exec *exec);

#endif
