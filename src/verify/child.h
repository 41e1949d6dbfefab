/* child.h - run something that may crash, hang or exit, in a process of its
 * own, and say what became of it. */
#ifndef DSF_VERIFY_CHILD_H
#define DSF_VERIFY_CHILD_H

#include "verify/guarded.h"

/* What something was found to be. The child fills it. */
struct dsf_verdict {
    unsigned cases;      /* that were tried */
    char fault[400];     /* "": none */
    char note[200];      /* of one that is well, what else there is to say */
    char untried[200];   /* why it was not tried; "": it was */
    double seconds;      /* of the call that was timed; 0: none was */
    double flops, bytes; /* of that call */
    double reference;    /* seconds of the reference; 0: there is none */
};

/* Run `body` in a child that has `limit` seconds for each step. What is written
 * to streams has been flushed: the child may do so too. */
void dsf_child_run(void (*body)(const void *user, struct dsf_verdict *verdict),
                   const void *user, double limit, struct dsf_verdict *verdict);

/* This process is one that `body` may run in: what is wrong is `tell`'s to say,
 * and then ends the process; there is no limit of time, and no signal is
 * caught. For tools that do not follow children. The verdict is borrowed. */
void dsf_child_here(struct dsf_verdict *verdict,
                    void (*tell)(const struct dsf_verdict *verdict));

/* For `body`: what is wrong; ends the child. Where it happened is added. */
_Noreturn void dsf_child_fault(const char *fmt, ...) DSFLOW_PRINTF(1, 2);

/* For `body`: a step begins, in words that stand before what goes wrong in it
 * ("" or "its reference "); `where` stands behind (shapes and seed; copied).
 * The limit starts anew. */
void dsf_child_step(const char *who, const char *where);

/* For `body`: the memory that a call works on, so that a crash in it names the
 * port. Borrowed until the next. */
void dsf_child_memory(const struct dsf_guarded *v, unsigned n);

#endif
