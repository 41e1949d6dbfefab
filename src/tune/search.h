/* search.h - every choice among the values of some rows of the table. */
#ifndef DSF_TUNE_SEARCH_H
#define DSF_TUNE_SEARCH_H

#include "tune/evaluate.h"

enum dsf_search_kind {
    DSF_SEARCH_OPEN, /* of what is auto, each value */
    DSF_SEARCH_LESS, /* of what may need less memory, what the job has and then
                        each value; with other memories, the last one only */
};

/* Rows and their values; all vary, those first that cost least. */
struct dsf_search {
    struct dsf_evaluator e; /* the caller's, up to what is its own */
    enum dsf_search_kind kind;
    bool (*visit)(struct dsf_search *h); /* `now`; returns whether to stop */
    void *user;

    struct dsf_choice now; /* by row that varies, in the order of the table */
    struct dsf_changes level[DSF_MAX_CHANGES]; /* likewise */
    unsigned nest[DSF_MAX_CHANGES]; /* which of them varies least, … */
    struct dsf_tunables table;
};

/* Visits every choice; returns whether one of them stopped it. `plan`: of the
 * job, or NULL. To be ended in any case. */
bool dsf_search_run(struct dsf_search *h);
void dsf_search_end(struct dsf_search *h);

#endif
