/* feed.c - batches in, reports out. */
#include "train/feed.h"
#include "train/together.h"

#include "base/units.h"

#include <assert.h>
#include <string.h>
#include <time.h>

/* Rows of sequences past the end of the validation text count for nothing. */
static void load_nothing(int32_t rows, int32_t *tokens, int32_t *targets)
{
    for (int32_t i = 0; i < rows; i++) {
        tokens[i] = 0;
        targets[i] = -1;
    }
}

/* Of sequence `seq` + `i`. */
static void load_train(const struct dsf_feed *feed,
                       const struct dsflow_batch *b, int32_t i, int32_t rows,
                       int32_t *tokens, int32_t *targets)
{
    const struct dsf_session *s = feed->session;
    int64_t index = s->first + b->step * s->job->batch.sequences + b->seq + i;

    dsf_corpus_train(s->corpus, index, b->pos, rows, tokens, targets);
}

/* A step of this program is one micro-batch. */
static void load_validation(const struct dsf_feed *feed,
                            const struct dsflow_batch *b, int32_t i,
                            int32_t rows, int32_t *tokens, int32_t *targets)
{
    const struct dsf_session *s = feed->session;
    int64_t index = b->step * s->plan->micro + b->seq + i;

    if (index < feed->nvalidation)
        dsf_corpus_validation(s->corpus, index, b->pos, rows, tokens, targets);
    else
        load_nothing(rows, tokens, targets);
}

static void load_batch(void *user, const struct dsflow_batch *b)
{
    bool validates = strcmp(b->program, "eval") == 0;
    int32_t rows = b->rows / b->nseq;

    for (int32_t i = 0; i < b->nseq; i++)
        (validates ? load_validation : load_train)(
            user, b, i, rows, b->tokens + i * rows, b->targets + i * rows);
}

bool dsf_feed_is_stopped(const struct dsf_feed *feed)
{
    return feed->is_stopped != NULL && feed->is_stopped(feed->user);
}

static void report(void *user, const struct dsflow_step_report *of)
{
    struct dsf_feed *feed = user;
    struct dsf_report *r;

    pthread_mutex_lock(&feed->lock);
    assert(feed->n < DSF_FEED_RING);
    r = &feed->ring[(feed->first + feed->n++) % DSF_FEED_RING];
    *r = (struct dsf_report){ *of, dsf_now() };
    r->of.loss = dsf_unsigned_nan(of->loss);
    r->of.norm = dsf_unsigned_nan(of->norm);
    pthread_cond_signal(&feed->filled);
    pthread_mutex_unlock(&feed->lock);
}

void dsf_feed_init(struct dsf_feed *feed, struct dsf_session *session)
{
    pthread_condattr_t attr;

    memset(feed, 0, sizeof(*feed));
    feed->session = session;
    feed->host = (struct dsflow_host){ feed, load_batch, report };
    dsf_standstill_init(&feed->standstill, dsf_standstill_patience(0));
    pthread_mutex_init(&feed->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&feed->filled, &attr);
    pthread_condattr_destroy(&attr);
}

void dsf_feed_fini(struct dsf_feed *feed)
{
    pthread_cond_destroy(&feed->filled);
    pthread_mutex_destroy(&feed->lock);
}

/* For a report, or a second. */
static void wait_a_second(struct dsf_feed *feed)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_cond_timedwait(&feed->filled, &feed->lock, &until);
}

struct dsf_report dsf_feed_next(struct dsf_feed *feed)
{
    const struct dsf_session *s = feed->session;
    struct dsf_report r;

    pthread_mutex_lock(&feed->lock);
    while (feed->n == 0) {
        wait_a_second(feed);
        if (feed->n == 0 &&
            dsf_standstill_look(&feed->standstill, s->exec, dsf_now())) {
            pthread_mutex_unlock(&feed->lock);
            dsf_standstill_say(&feed->standstill, s->graph, s->exec);
            pthread_mutex_lock(&feed->lock);
        }
    }
    r = feed->ring[feed->first];
    feed->first = (feed->first + 1) % DSF_FEED_RING;
    feed->n--;
    pthread_mutex_unlock(&feed->lock);
    return r;
}

int dsf_validate(struct dsf_feed *feed, int64_t most, double *loss,
                 struct dsflow_err *err)
{
    enum { AHEAD = 4 };
    struct dsf_session *s = feed->session;
    int64_t n = s->text.validation_sequences, nmicro, submitted = 0;
    dsflow_program eval;
    double sum = 0;
    int status;

    if (most >= 0 && most < n)
        n = most;
    if (n == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: data: validation: no text to validate on",
                           s->job->path);
    if (!dsflow_graph_find_program(s->graph, "eval", &eval))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "validation: the graph has no program eval");
    status = dsf_session_prepare(s, err);
    if (status < 0)
        return status;
    *(int64_t *)dsf_contents_map(&s->contents, 0, DSF_KEPT_EVAL_CURSOR,
                                 DSFLOW_RW) = 0;
    feed->nvalidation = n;
    dsf_together_tell(s, n);
    nmicro = (n + s->plan->micro - 1) / s->plan->micro;
    for (int64_t done = 0; done < nmicro && status == DSFLOW_OK; done++) {
        if (dsf_feed_is_stopped(feed)) /* only what was submitted still comes */
            nmicro = submitted;
        for (; submitted < nmicro && submitted < done + AHEAD; submitted++)
            if (status == DSFLOW_OK)
                status = dsflow_exec_submit(s->exec, eval, err);
        if (status == DSFLOW_OK && done < submitted) {
            sum += dsf_feed_next(feed).of.loss;
            status = dsflow_exec_failed(s->exec, err);
        }
        if (status == DSFLOW_OK)
            status = dsf_corpus_failed(s->corpus, err);
    }
    if (status == DSFLOW_OK)
        status = dsflow_exec_wait(s->exec, err);
    *loss = dsf_unsigned_nan(sum / ((double)n * s->plan->sequence));
    return status;
}

double dsf_per_byte(const struct dsf_session *s, double loss)
{
    return loss / s->text.bytes_per_token;
}
