/* feed.h - what a running graph asks of the program around it: batches in,
 * reports out. */
#ifndef DSF_TRAIN_FEED_H
#define DSF_TRAIN_FEED_H

#include <pthread.h>
#include <dsflow/codelet.h>

#include "train/session.h"
#include "train/standstill.h"

enum { DSF_FEED_RING = 16 };

struct dsf_report {
    struct dsflow_step_report of;
    double at; /* when it was made, in seconds of dsf_now */
};

struct dsf_feed {
    struct dsf_session *session; /* borrowed */
    struct dsflow_host host;     /* give this to the executor */
    int64_t nvalidation;         /* sequences to validate on */
    struct dsf_standstill standstill;
    bool (*is_stopped)(void *user); /* true: end a validation; or NULL */
    void *user;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct dsf_report ring[DSF_FEED_RING];
    unsigned first, n;
};

void dsf_feed_init(struct dsf_feed *feed, struct dsf_session *session);
void dsf_feed_fini(struct dsf_feed *feed);

/* The next report, in order; waits for it, and warns when no task ends any
 * more. Where dsflow_exec_failed, there is one too, which means nothing. */
struct dsf_report dsf_feed_next(struct dsf_feed *feed);

/* Mean loss per token over the validation text, or its first `most` sequences
 * (-1: all). Nothing else may be running. Ended by `is_stopped`, it returns
 * DSFLOW_OK, and the loss means nothing. */
int dsf_validate(struct dsf_feed *feed, int64_t most, double *loss,
                 struct dsflow_err *err);

/* Was the last validation ended before its end? */
bool dsf_feed_is_stopped(const struct dsf_feed *feed);

/* The loss per byte of text that a loss per token makes. */
double dsf_per_byte(const struct dsf_session *session, double loss);

#endif
