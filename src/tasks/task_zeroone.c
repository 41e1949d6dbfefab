/* task_zeroone.c - 0/1 Adam: updates with second moments that are held, steps
 * that workers take by themselves, and what comes of them. */
#include "tasks/each_number.h"
#include "tasks/shapes.h"
#include "tasks/signs.h"
#include "tasks/tasks.h"

/* --- held_update ---------------------------------------------------------- */

enum { GRAD = 1, PARAM, M, V };

#define HELD(place) offsetof(struct dsf_held_args, place)
DSF_EACH_NUMBER(held_update, .elems = HELD(elems), .decay = HELD(decay),
                .flops = 9, .control = 1,
                .ports = { { GRAD, HELD(grad_at), 1 },
                           { PARAM, HELD(param_at), 2 },
                           { M, HELD(m_at), 2 },
                           { V, HELD(v_at), 1 } })

static int held_update_check(const struct dsflow_case *c,
                             struct dsflow_err *err)
{
    return dsf_each_number_check(&held_update_each, c, err);
}

DSF_OP(held_update,
       .summary = "0/1 Adam: an update with second moments that do not change",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_held_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "grad", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "param", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "v", DSFLOW_R, .slice = DSFLOW_ELEMS }),
       .check = held_update_check, .cost = held_update_cost,
       .slice = held_update_slice);

/* --- local_step ----------------------------------------------------------- */

static int check_schedule(const struct dsflow_case *c,
                          const struct dsf_zeroone_schedule *s,
                          struct dsflow_err *err)
{
    return s->var_freeze_step > 0 && s->var_update_scaler > 0 &&
                   s->local_step_scaler > 0 && s->local_step_clipper > 0
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: a schedule of steps: expected whole numbers "
                             "from 1 on",
                             c->op->name);
}

/* Is port `p` a struct dsf_zeroone_step? */
static int step_check(const struct dsflow_case *c, unsigned p,
                      struct dsflow_err *err)
{
    return dsf_port_check(c, p, DSFLOW_FP64, DSF_ZEROONE_STEP_FIELDS, err);
}

static int local_step_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_local_step_args *a = c->args;
    int status = check_schedule(c, &a->schedule, err);

    if (status == DSFLOW_OK)
        status = dsf_control_check(c, 0, err);
    return status < 0 ? status : step_check(c, 1, err);
}

DSF_OP(local_step,
       .summary = "0/1 Adam: what workers have to know of the number of a step",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_local_step_args),
       DSFLOW_PORTS({ "control", DSFLOW_R }, { "step", DSFLOW_W, DSFLOW_FP64 }),
       .check = local_step_check, .cost = dsf_few_cost);

/* --- local_weights -------------------------------------------------------- */

enum { WHOLE = 1, MOVED, WEIGHTS };

#define OF(place) offsetof(struct dsf_local_args, place)
#define LOCALLY   .elems = OF(elems), .first = OF(at), .decay = OF(decay)
DSF_EACH_NUMBER(local_weights, LOCALLY, .flops = 1,
                .ports = { { WHOLE, OF(at), 1 },
                           { MOVED, OF(local_at), 1 },
                           { WEIGHTS, OF(weights_at), 1 } })

static int local_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_local_args *a = c->args;
    int status = step_check(c, 0, err);

    return status < 0 ? status : dsf_groups_check(c, a->groups, err);
}

static int local_weights_check(const struct dsflow_case *c,
                               struct dsflow_err *err)
{
    int status = local_check(c, err);

    return status < 0 ? status
                      : dsf_each_number_check(&local_weights_each, c, err);
}

DSF_OP(local_weights, .summary = "0/1 Adam: the weights of a worker",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_local_args),
       DSFLOW_PORTS({ "step", DSFLOW_R, DSFLOW_FP64 }, { "param", DSFLOW_R },
                    { "local", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "weights", DSFLOW_W, .slice = DSFLOW_ELEMS }),
       .check = local_weights_check, .cost = local_weights_cost,
       .slice = local_weights_slice);

/* --- local_update --------------------------------------------------------- */

enum { SECOND = 3, FIRST, OWN, LOCAL };

/* Of m and own one is read. */
DSF_EACH_NUMBER(local_update, LOCALLY, .flops = 11,
                .ports = { { GRAD, OF(grad_at), 1 },
                           { PARAM, OF(at), 1 },
                           { SECOND, OF(at), 1 },
                           { FIRST, OF(at), 1 },
                           { OWN, OF(own_at), 1 },
                           { LOCAL, OF(local_at), 2 } })

static int local_update_check(const struct dsflow_case *c,
                              struct dsflow_err *err)
{
    int status = local_check(c, err);

    return status < 0 ? status
                      : dsf_each_number_check(&local_update_each, c, err);
}

DSF_OP(local_update,
       .summary = "0/1 Adam: the step that a worker takes by itself",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_local_args),
       DSFLOW_PORTS({ "step", DSFLOW_R, DSFLOW_FP64 },
                    { "grad", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "param", DSFLOW_R }, { "v", DSFLOW_R }, { "m", DSFLOW_R },
                    { "own", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "local", DSFLOW_RW, .slice = DSFLOW_ELEMS }),
       .check = local_update_check, .cost = local_update_cost,
       .slice = local_update_slice);

/* --- feed_local ----------------------------------------------------------- */

enum { FED = 1, BY, INTO, ERROR };

#define FEED(place) offsetof(struct dsf_feed_local_args, place)
DSF_EACH_NUMBER(feed_local, .elems = FEED(elems), .first = FEED(at), .flops = 7,
                .control = 1,
                .ports = { { FED, FEED(local_at), 1 },
                           { BY, FEED(at), 1 },
                           { INTO, FEED(grad_at), 2 },
                           { ERROR, FEED(error_at), 2, DSFLOW_BF16 } })

static int feed_local_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_feed_local_args *a = c->args;
    int status = dsf_each_number_check(&feed_local_each, c, err);

    return status < 0 ? status
                      : dsf_feed_check(c, a->elems, a->groups, ERROR, err);
}

DSF_OP(
    feed_local,
    .summary = "0/1 Adam: what a worker has done, with what coding has taken "
               "from the last of it",
    .direction = DSFLOW_DIR_UPDATE,
    .args_size = sizeof(struct dsf_feed_local_args),
    DSFLOW_PORTS({ "control", DSFLOW_R },
                 { "local", DSFLOW_R, .slice = DSFLOW_ELEMS },
                 { "v", DSFLOW_R },
                 { "grad", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                 { "error", DSFLOW_RW, .slice = DSFLOW_ELEMS, .optional = 1 }),
    .check = feed_local_check, .cost = feed_local_cost,
    .scratch = dsf_errors_scratch, .slice = feed_local_slice);

/* --- serve_mean ----------------------------------------------------------- */

enum { MEAN = 1, SERVER = 3 };

#define CHUNK(place) offsetof(struct dsf_chunk_args, place)
DSF_EACH_NUMBER(serve_mean, .elems = CHUNK(elems), .first = CHUNK(at),
                .flops = 2, .control = 1,
                .ports = { { MEAN, CHUNK(grad_at), 2 },
                           { SERVER, CHUNK(server_at), 2 } })

static int serve_mean_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    int status = dsf_served_check(c, err);

    return status < 0 ? status
                      : dsf_each_number_check(&serve_mean_each, c, err);
}

DSF_OP(serve_mean, .summary = "0/1 Adam: the mean that all have",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_chunk_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "mean", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "scales", DSFLOW_R, DSFLOW_FP64 },
                    { "server", DSFLOW_RW, .slice = DSFLOW_ELEMS }),
       .check = serve_mean_check, .cost = serve_mean_cost,
       .slice = serve_mean_slice);

/* --- local_settle --------------------------------------------------------- */

#define SETTLE(place) offsetof(struct dsf_settle_args, place)
DSF_EACH_NUMBER(local_settle, .elems = SETTLE(elems), .flops = 5,
                .ports = { { MEAN, SETTLE(mean_at), 1 },
                           { PARAM, SETTLE(param_at), 2 },
                           { M, SETTLE(m_at), 1 },
                           { V, SETTLE(v_at), 1 } })

static int local_settle_check(const struct dsflow_case *c,
                              struct dsflow_err *err)
{
    int status = step_check(c, 0, err);

    return status < 0 ? status
                      : dsf_each_number_check(&local_settle_each, c, err);
}

DSF_OP(local_settle,
       .summary = "0/1 Adam: weights and momentum that all have, from the mean "
                  "of what workers have done",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_settle_args),
       DSFLOW_PORTS({ "step", DSFLOW_R, DSFLOW_FP64 },
                    { "mean", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "param", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "v", DSFLOW_R, .slice = DSFLOW_ELEMS }),
       .check = local_settle_check, .cost = local_settle_cost,
       .slice = local_settle_slice);
