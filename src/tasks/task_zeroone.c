/* task_zeroone.c - 0/1 Adam: updates with second moments that are held, steps
 * that workers take by themselves, and what comes of them. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

/* Numbers of fp32 on ports `first` .. first + n, from at[i] on, behind a
 * control. */
static int check_floats(const struct dsflow_case *c, unsigned first, unsigned n,
                        const int64_t *at, int64_t elems,
                        struct dsflow_err *err)
{
    int status = dsf_control_check(c, 0, err);

    for (unsigned i = 0; i < n && status == DSFLOW_OK; i++)
        status = dsf_range_check(c, first + i, DSFLOW_FP32, at[i], elems, err);
    return status;
}

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

/* --- held_update ---------------------------------------------------------- */

enum { GRAD = 1, PARAM, M, V };

static int held_update_check(const struct dsflow_case *c,
                             struct dsflow_err *err)
{
    const struct dsf_held_args *a = c->args;

    return check_floats(
        c, GRAD, 4,
        (const int64_t[]){ a->grad_at, a->param_at, a->m_at, a->v_at },
        a->elems, err);
}

static void held_update_cost(const struct dsflow_case *c,
                             struct dsflow_cost *cost)
{
    const double n = (double)((const struct dsf_held_args *)c->args)->elems;

    cost->flops = 9 * n;
    cost->bytes = 24 * n;
}

static void held_update_slice(void *args, int64_t from, int64_t elems,
                              const int64_t *gone)
{
    struct dsf_held_args *a = args;

    a->elems = elems;
    if (from < 0)
        return;
    a->decay -= from;
    a->grad_at += from - gone[GRAD];
    a->param_at += from - gone[PARAM];
    a->m_at += from - gone[M];
    a->v_at += from - gone[V];
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

/* --- local_weights -------------------------------------------------------- */

enum { WHOLE = 1, MOVED, WEIGHTS };

static int local_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_local_args *a = c->args;
    int status = check_schedule(c, &a->schedule, err);

    return status < 0 ? status : dsf_groups_check(c, a->groups, err);
}

static int local_weights_check(const struct dsflow_case *c,
                               struct dsflow_err *err)
{
    const struct dsf_local_args *a = c->args;
    int status = local_check(c, err);

    return status < 0 ? status
                      : check_floats(c, WHOLE, 3,
                                     (const int64_t[]){ a->at, a->local_at,
                                                        a->weights_at },
                                     a->elems, err);
}

static void local_weights_cost(const struct dsflow_case *c,
                               struct dsflow_cost *cost)
{
    const double n = (double)((const struct dsf_local_args *)c->args)->elems;

    cost->flops = n;
    cost->bytes = 12 * n;
}

static void local_weights_slice(void *args, int64_t from, int64_t elems,
                                const int64_t *gone)
{
    struct dsf_local_args *a = args;

    a->elems = elems;
    if (from < 0)
        return;
    a->at += from;
    a->decay -= from;
    a->local_at += from - gone[MOVED];
    a->weights_at += from - gone[WEIGHTS];
}

DSF_OP(local_weights, .summary = "0/1 Adam: the weights of a worker",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_local_args),
       DSFLOW_PORTS({ "control", DSFLOW_R }, { "param", DSFLOW_R },
                    { "local", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "weights", DSFLOW_W, .slice = DSFLOW_ELEMS }),
       .check = local_weights_check, .cost = local_weights_cost,
       .slice = local_weights_slice);

/* --- local_update --------------------------------------------------------- */

enum { OWN = 5, LOCAL };

static int local_update_check(const struct dsflow_case *c,
                              struct dsflow_err *err)
{
    const struct dsf_local_args *a = c->args;
    int status = local_check(c, err);

    return status < 0 ? status
                      : check_floats(c, GRAD, 6,
                                     (const int64_t[]){ a->grad_at, a->at,
                                                        a->at, a->at, a->own_at,
                                                        a->local_at },
                                     a->elems, err);
}

static void local_update_cost(const struct dsflow_case *c,
                              struct dsflow_cost *cost)
{
    const double n = (double)((const struct dsf_local_args *)c->args)->elems;

    cost->flops = 11 * n;
    cost->bytes = 28 * n;
}

static void local_update_slice(void *args, int64_t from, int64_t elems,
                               const int64_t *gone)
{
    struct dsf_local_args *a = args;

    a->elems = elems;
    if (from < 0)
        return;
    a->at += from;
    a->decay -= from;
    a->grad_at += from - gone[GRAD];
    a->own_at += from - gone[OWN];
    a->local_at += from - gone[LOCAL];
}

DSF_OP(local_update,
       .summary = "0/1 Adam: the step that a worker takes by itself",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_local_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "grad", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "param", DSFLOW_R }, { "v", DSFLOW_R }, { "m", DSFLOW_R },
                    { "own", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "local", DSFLOW_RW, .slice = DSFLOW_ELEMS }),
       .check = local_update_check, .cost = local_update_cost,
       .slice = local_update_slice);

/* --- feed_local ----------------------------------------------------------- */

enum { FED = 1, SECOND, INTO, ERROR };

static int feed_local_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_feed_local_args *a = c->args;
    int status = dsf_groups_check(c, a->groups, err);

    if (status == DSFLOW_OK)
        status = check_floats(
            c, FED, 3, (const int64_t[]){ a->local_at, a->at, a->grad_at },
            a->elems, err);
    if (status < 0 || !dsf_has_port(c, ERROR))
        return status;
    status = dsf_coding_check(&a->coding, c->op->name, 0, a->elems, err);
    if (status == DSFLOW_OK)
        status =
            dsf_coding_check_whole(&a->coding, c->op->name, 0, a->elems, err);
    return status < 0 ? status
                      : dsf_range_check(c, ERROR,
                                        c->shapes[ERROR].dtype == DSFLOW_BF16
                                            ? DSFLOW_BF16
                                            : DSFLOW_FP32,
                                        a->error_at, a->elems, err);
}

static void feed_local_cost(const struct dsflow_case *c,
                            struct dsflow_cost *cost)
{
    const int64_t n = ((const struct dsf_feed_local_args *)c->args)->elems;

    cost->flops = 7 * (double)n;
    cost->bytes = 16 * (double)n + 2 * dsf_port_bytes(c, ERROR, n);
}

/* A block coded, decoded, and its errors. */
static size_t feed_local_scratch(const struct dsflow_case *c)
{
    const struct dsf_feed_local_args *a = c->args;

    return 3 * dsflow_dtype_bytes(DSFLOW_FP32, a->coding.block);
}

static void feed_local_slice(void *args, int64_t from, int64_t elems,
                             const int64_t *gone)
{
    struct dsf_feed_local_args *a = args;

    a->elems = elems;
    if (from < 0)
        return;
    a->at += from;
    a->local_at += from - gone[FED];
    a->grad_at += from - gone[INTO];
    a->error_at += from - gone[ERROR];
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
    .scratch = feed_local_scratch, .slice = feed_local_slice);

/* --- serve_mean ----------------------------------------------------------- */

enum { MEAN = 1, SCALES, SERVER };

static int serve_mean_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_chunk_args *a = c->args;
    int status = dsf_groups_check(c, a->groups, err);

    if (status == DSFLOW_OK)
        status =
            dsf_coding_check(&a->coding, c->op->name, a->at, a->elems, err);
    if (status == DSFLOW_OK)
        status = check_floats(c, MEAN, 1, &a->grad_at, a->elems, err);
    if (status == DSFLOW_OK)
        status = check_floats(c, SERVER, 1, &a->server_at, a->elems, err);
    return status < 0 ? status
                      : dsf_port_check(c, SCALES, DSFLOW_FP64,
                                       a->coding.ntensors * a->groups, err);
}

static void serve_mean_cost(const struct dsflow_case *c,
                            struct dsflow_cost *cost)
{
    const double n = (double)((const struct dsf_chunk_args *)c->args)->elems;

    cost->flops = 2 * n;
    cost->bytes = 16 * n;
}

static void serve_mean_slice(void *args, int64_t from, int64_t elems,
                             const int64_t *gone)
{
    struct dsf_chunk_args *a = args;

    a->elems = elems;
    if (from < 0)
        return;
    a->at += from;
    a->grad_at += from - gone[MEAN];
    a->server_at += from - gone[SERVER];
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

static int local_settle_check(const struct dsflow_case *c,
                              struct dsflow_err *err)
{
    const struct dsf_settle_args *a = c->args;
    int status = check_schedule(c, &a->schedule, err);

    return status < 0 ? status
                      : check_floats(c, MEAN, 4,
                                     (const int64_t[]){ a->mean_at, a->param_at,
                                                        a->m_at, a->v_at },
                                     a->elems, err);
}

static void local_settle_cost(const struct dsflow_case *c,
                              struct dsflow_cost *cost)
{
    const double n = (double)((const struct dsf_settle_args *)c->args)->elems;

    cost->flops = 5 * n;
    cost->bytes = 20 * n;
}

static void local_settle_slice(void *args, int64_t from, int64_t elems,
                               const int64_t *gone)
{
    struct dsf_settle_args *a = args;

    a->elems = elems;
    if (from < 0)
        return;
    a->mean_at += from - gone[MEAN];
    a->param_at += from - gone[PARAM];
    a->m_at += from - gone[M];
    a->v_at += from - gone[V];
}

DSF_OP(local_settle,
       .summary = "0/1 Adam: weights and momentum that all have, from the mean "
                  "of what workers have done",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_settle_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "mean", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "param", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "v", DSFLOW_R, .slice = DSFLOW_ELEMS }),
       .check = local_settle_check, .cost = local_settle_cost,
       .slice = local_settle_slice);
