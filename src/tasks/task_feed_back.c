/* task_feed_back.c - what coding takes from a gradient, for the next one (LoCo:
 * Xie et al. 2024).
 */
#include "base/multiple.h"
#include "tasks/each_number.h"
#include "tasks/tasks.h"

enum { GRAD = 1, ERROR };

int64_t dsf_feed_back_step(const struct dsf_feed_back_args *a)
{
    return dsf_common_multiple(a->coding.block, DSFLOW_BLOCK_ELEMS);
}

static int args_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_feed_back_args *a = c->args;

    if (!(a->beta >= 0 && a->beta <= 1) || a->reset < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: beta %g, reset %lld: expected 0 to 1, and "
                           "steps",
                           c->op->name, a->beta, (long long)a->reset);
    if (a->at % DSFLOW_BLOCK_ELEMS != 0 ||
        a->error_at % DSFLOW_BLOCK_ELEMS != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: from number %lld on, and from %lld of the "
                           "errors: expected multiples of %d",
                           c->op->name, (long long)a->at,
                           (long long)a->error_at, DSFLOW_BLOCK_ELEMS);
    return DSFLOW_OK;
}

#define FEED(place) offsetof(struct dsf_feed_back_args, place)
DSF_EACH_NUMBER(feed_back, .elems = FEED(elems), .first = FEED(at), .flops = 5,
                .control = 1,
                .ports = { { GRAD, FEED(grad_at), 2 },
                           { ERROR, FEED(error_at), 2, DSFLOW_INT8_BLOCK } })

static int feed_back_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_feed_back_args *a = c->args;
    int status =
        dsf_coding_check(&a->coding, c->op->name, a->at, a->elems, err);

    if (status == DSFLOW_OK)
        status = dsf_coding_check_whole(&a->coding, c->op->name, a->at,
                                        a->elems, err);
    if (status == DSFLOW_OK)
        status = args_check(c, err);
    return status < 0 ? status : dsf_each_number_check(&feed_back_each, c, err);
}

/* Some numbers coded, decoded, and the errors of as many. */
static size_t feed_back_scratch(const struct dsflow_case *c)
{
    return 3 * dsflow_dtype_bytes(DSFLOW_FP32, dsf_feed_back_step(c->args));
}

DSF_OP(feed_back,
       .summary =
           "what coding has taken from a gradient, added to it, and what "
           "coding will take from that",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_feed_back_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "grad", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "error", DSFLOW_RW, .slice = DSFLOW_ELEMS }),
       .check = feed_back_check, .cost = feed_back_cost,
       .scratch = feed_back_scratch, .slice = feed_back_slice);
