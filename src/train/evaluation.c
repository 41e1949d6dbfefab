/* evaluation.c - the loss of a model on the validation text. */
#include "train/evaluation.h"

#include "train/early.h"
#include "train/feed.h"
#include "train/params.h"

#include <math.h>

/* The plan, the text, the executor and the weights. Where files are for
 * validation alone, what was trained on need not be there, and is not read. */
static int open_all(struct dsf_session *s, struct dsf_feed *feed,
                    enum dsflow_exec_kind kind, int64_t step, int64_t *from,
                    struct dsflow_err *err)
{
    static const char *const without[] = { "data.train=[]" };
    const bool alone = s->job->data.validation_files.n > 0;
    int status =
        alone ? dsf_session_set(s, DSF_FOLLOWS, without, 1, err) : DSFLOW_OK;

    if (status == DSFLOW_OK)
        status = dsf_early_check(s, kind, err);
    if (status == DSFLOW_OK)
        status = dsf_session_plan(s, err);
    if (status == DSFLOW_OK)
        status = dsf_session_check_memory(s, err);
    if (status == DSFLOW_OK)
        status = dsf_session_text(s, err);
    if (status == DSFLOW_OK)
        status = dsf_session_open(s, kind, &feed->host, err);
    return status == DSFLOW_OK ? dsf_session_start(s, step, from, err) : status;
}

int dsf_session_evaluate(struct dsf_session *s, enum dsflow_exec_kind kind,
                         int64_t step, struct dsf_validation *v,
                         struct dsflow_err *err)
{
    struct dsf_feed feed;
    int64_t from = 0;
    double loss;
    int status;

    dsf_feed_init(&feed, s);
    status = open_all(s, &feed, kind, step, &from, err);
    if (status == DSFLOW_OK) {
        dsf_params_say(s, step, from);
        status = dsf_validate(&feed, s->job->validation.sequences, &loss, err);
    }
    if (status == DSFLOW_OK)
        *v = (struct dsf_validation){ .step = from > 0 ? from : 0,
                                      .loss = loss,
                                      .per_byte = dsf_per_byte(s, loss),
                                      .perplexity = exp(loss) };
    dsf_session_close(s);
    dsf_feed_fini(&feed);
    return status;
}
