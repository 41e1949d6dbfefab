/* advice.h - changes that would make the steps of a trace shorter. */
#ifndef DSF_EXPLAIN_ADVICE_H
#define DSF_EXPLAIN_ADVICE_H

#include "config/job.h"
#include "explain/account.h"

struct dsf_advice {
    char *cause; /* a sentence, of the trace */
    char *key;   /* of job.toml, or of the machine's file */
    char *from, *to;
    char *also;     /* another that is set with it: "machine.workers=2"; NULL */
    double seconds; /* of a step, predicted */
    double share;   /* of what it takes without: below 1 */
    double bytes;   /* more on the rank that needs most */
    double more;    /* share of its memory that they are; 0: no more */
    bool fits;
    bool rounds;  /* sums in another order: other last bits */
    bool narrows; /* numbers are rounded to fewer bits */
    bool machine; /* the key is not of the job, but of what it runs on */
};

struct dsf_advices {
    struct dsf_advice *v; /* most gain first */
    unsigned n;
    char *missing;        /* why nothing can be said; or NULL */
    char *limit;          /* what holds the step back, where nothing helps */
    double reproduced;    /* simulated / measured, with nothing changed */
    unsigned tried, left; /* left: those that would have taken too long */
};

/* Who finds them, as dsf_advise does. */
typedef void (*dsf_advise_fn)(struct dsf_advices *advices,
                              const struct dsf_account *a, dsf_load_fn load);

/* The last one goes. */
void dsf_advices_drop(struct dsf_advices *advices);
void dsf_advices_fini(struct dsf_advices *advices);

#endif
