/* tunables.h - what may be changed in a job, or in what it runs on, and to
 * what: one table, for what is "auto", for what would fit, and for advice. */
#ifndef DSF_TUNE_TUNABLES_H
#define DSF_TUNE_TUNABLES_H

#include "explain/reasons.h"
#include "explain/times.h"
#include "policies/policies.h"

/* Whom a key is of: the job; the command line; or the machine, which is bought
 * and not set. */
enum dsf_tunable_of { DSF_OF_JOB, DSF_OF_COMMAND, DSF_OF_MACHINE };

/* A key with another value. */
enum { DSF_MAX_SETS = 8 };
struct dsf_change {
    const struct dsf_tunable *row;
    enum dsf_reason reason;
    char *from, *to;          /* as one writes them, without quotes */
    char *sets[DSF_MAX_SETS]; /* "batch.micro=4", and what goes with it */
    unsigned nsets;
    struct dsf_effect effect;
};

/* Changes of a row, and what they are listed for. */
struct dsf_changes {
    const struct dsf_tunable *row;
    const struct dsf_job *job;
    const struct dsflow_plan *plan;    /* NULL: what is auto is not known yet */
    const struct dsf_account *account; /* of a trace; NULL: there is none */
    const struct dsf_machine_model *machine; /* NULL: the present one */

    struct dsf_change **v;
    unsigned n;
    size_t cap;
    uint8_t cost; /* the row's, unless a list knows better */
};
typedef void (*dsf_list_fn)(struct dsf_changes *c);

/* One more; the texts become its own. */
struct dsf_change *dsf_changes_add(struct dsf_changes *c, char *from, char *to);
void dsf_changes_fini(struct dsf_changes *c);

/* Did the executor run one task at a time, whatever the job says? */
bool dsf_changes_serial(const struct dsf_changes *c);

/* A row. Lists that are NULL have nothing. */
struct dsf_tunable {
    char key[80];
    enum dsf_tunable_of of;
    enum dsf_reason reason; /* speaks for a change */
    bool regroups;          /* sums have another order: other last bits */
    bool narrows;           /* numbers are rounded to fewer bits */
    char open[120]; /* when it is filled in (config/when.h); "": never, … */
    int32_t most_ranks; /* … and not with more ranks; 0: with any number */
    dsf_list_fn values; /* … with one of these; the first does least */
    uint8_t cost; /* rank of what another value costs: searches vary first what
                     costs least */
    bool most;    /* each is faster than the one before: the last that
                     fits is taken */
    dsf_list_fn less;   /* instead of what the job has: less memory each, the
                           largest first */
    dsf_list_fn better; /* instead of what the job has: perhaps faster, the
                           smallest change first */
    const struct dsflow_try *how;       /* of a policy, or NULL */
    const struct dsf_table *table;      /* of a key of the job, with its … */
    const struct dsflow_option *option; /* … description */
};

struct dsf_tunables {
    struct dsf_tunable *v;
    unsigned n;
    size_t cap;
};
void dsf_tunables_init(struct dsf_tunables *t);
void dsf_tunables_fini(struct dsf_tunables *t);

/* NULL: there is none. */
const struct dsf_tunable *dsf_tunables_find(const struct dsf_tunables *t,
                                            const char *key);

/* Is its value to be filled in? */
bool dsf_tunable_is_open(const struct dsf_tunable *row,
                         const struct dsf_job *job);
bool dsf_tunables_any_open(const struct dsf_job *job);

/* tries.c: a row for a key of a policy, as the policy describes it; what `how`
 * of a row says is tried; and larger memories, each with all that is set
 * together. */
void dsf_tunable_of_policy(struct dsf_tunable *row,
                           const struct dsflow_policy *policy,
                           const struct dsflow_try *how);
void dsf_list_tries(struct dsf_changes *c);
void dsf_list_memories(struct dsf_changes *c);

#endif
