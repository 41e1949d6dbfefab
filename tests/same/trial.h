/* trial.h - small jobs written in a line: "llama mesh.data=2 zero.stage=3" is
 * the small model of that family with these keys; "mixed", that of llama with
 * layers that are not alike. "logits=4096": the head works on so few rows at a
 * time that their logits take no more bytes. */
#ifndef DSF_TESTS_SAME_TRIAL_H
#define DSF_TESTS_SAME_TRIAL_H

#include "policies/keys.h"

#define MAX_SETS 48

struct trial {
    char text[1024]; /* cut in words */
    const char *family;
    const char *sets[MAX_SETS];
    unsigned nsets;
    int64_t logits; /* 0: it is not said */

    struct dsf_job job;
    struct dsf_model model;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
};

/* As far as the graph; fails the test if any of it is refused. */
void plan_trial(struct trial *trial, const char *text);
/* The graph that the policies up to `until` leave; NULL: all of them. */
void plan_trial_until(struct trial *trial, const char *text, const char *until);
void end_trial(struct trial *trial);

/* Fail the test with the message when `status` says so. */
void must(const char *text, int status, const struct dsflow_err *err);

#endif
