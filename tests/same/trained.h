/* trained.h - a trial that is trained for some steps, and all that it
 * leaves. */
#ifndef DSF_TESTS_SAME_TRAINED_H
#define DSF_TESTS_SAME_TRAINED_H

#include "trial.h"

#include <dsflow/exec.h>

#include "net/wire.h"

/* A trial has 5 steps if it does not say. */
enum { MOST_STEPS = 20 };

/* What a run leaves, as whole units whatever held them. */
enum { PARAM, M, V, NKINDS };
extern const char *const kind_names[];

struct result {
    char *text;             /* of a reference, by which it is found again */
    float *numbers[NKINDS]; /* of all units, one after the other */
    float *known[NKINDS];   /* of each number: 1 where anything held it */
    double losses[MOST_STEPS], norms[MOST_STEPS], evaluation;
    int steps, nreports;
    struct result *next;
};

struct training {
    const char *text; /* of the trial */
    struct trial trial;
    struct dsf_wire *wire; /* of several processes; NULL: there is one */
    const struct dsf_graph_part *part;
    struct dsflow_exec *exec;
    struct dsflow_host host;
    struct result *result;
};

/* The place of the first number of a unit among those of all. */
int64_t first_of_unit(const struct dsf_model *model, unsigned u);

/* Train the trial, which is planned, evaluate one micro-batch, and keep what is
 * left; the result is that of `tr`, to be freed by free_result. */
struct result *train(struct training *tr, enum dsflow_exec_kind kind);
/* The same in `n` processes, each a serial executor with the tasks of its
 * ranks; there are at most as many as ranks. */
struct result *train_apart(struct training *tr, int32_t n);

/* The same in this process, the first of several; and what the others do. */
struct result *train_as_first(struct training *tr, enum dsflow_exec_kind kind,
                              struct dsf_wire *wire);
void serve_first(struct training *tr, enum dsflow_exec_kind kind,
                 struct dsf_wire *wire);
void free_result(struct result *r);

#endif
