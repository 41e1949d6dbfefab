/* reasons.h - what in a trace speaks for a change of its job, in sentences. */
#ifndef DSF_EXPLAIN_REASONS_H
#define DSF_EXPLAIN_REASONS_H

#include "explain/account.h"

/* What makes steps slow that a change may help with. */
enum dsf_reason {
    DSF_REASON_SLOT,     /* tasks wait for a slot of a ring */
    DSF_REASON_STAGES,   /* stages have unequal work, or wait for each other */
    DSF_REASON_SMALL,    /* tasks are small */
    DSF_REASON_LARGE,    /* tasks are few: workers wait for them */
    DSF_REASON_BUSY,     /* all workers are busy */
    DSF_REASON_MOVING,   /* moving data is not hidden */
    DSF_REASON_TRANSFER, /* virtual devices wait for transfers */
    DSF_REASON_DISK,     /* a disk is busy */
    DSF_REASON_AGAIN,    /* what was computed is computed again */
    DSF_REASON_TYPE,     /* the machine is faster in another type */
    DSF_REASON_ORDER     /* workers wait for data */
};

/* The sentence for a change of `key`; `overhead`: seconds that the runtime adds
 * to a task. Freed by the caller. */
char *dsf_reason_text(const struct dsf_account *a, enum dsf_reason reason,
                      const char *key, double overhead);

/* What holds the step back, where nothing helps. Freed by the caller. */
char *dsf_limit_text(const struct dsf_account *a);

#endif
