/* task_onebit_lamb.c - 1-bit LAMB: the momenta of all tensors are sent with one
 * scale, and ratios of norms follow the variance of what comes back. Parameters
 * are changed by `lamb`. */
#include "tasks/each_number.h"
#include "tasks/lamb.h"
#include "tasks/onebit.h"
#include "tasks/shapes.h"
#include "tasks/signs.h"
#include "tasks/tasks.h"

/* --- keys ----------------------------------------------------------------- */

#define KEYS      struct dsf_onebit_lamb_keys
#define WITH_LAMB "optimizer.kind = onebit_lamb"

const struct dsflow_option dsf_onebit_lamb_options[] = {
    DSFLOW_OPTION_INT(KEYS, freeze_step, "100000", 1, INT32_MAX,
                      "the last step of LAMB: from the next one on ranks send "
                      "each other momenta, in 1 bit",
                      WITH_LAMB),
    DSFLOW_OPTION_CHOICE(KEYS, errors, "\"fp32\"", dsf_onebit_errors,
                         "what is kept of what coding takes, for each group of "
                         "micro-batches: 4 or 2 bytes a parameter",
                         WITH_LAMB),
    DSFLOW_OPTION_FLOAT(KEYS, coeff_beta, "0.9", 0, 1,
                        "decay of the running mean of the ratio of each "
                        "tensor, which freezes, too",
                        WITH_LAMB),
    DSFLOW_OPTION_FLOAT(KEYS, max_coeff, "10.0", 0, 1e12,
                        "largest ratio up to the freeze", WITH_LAMB),
    DSFLOW_OPTION_FLOAT(KEYS, min_coeff, "0.01", 0, 1e12, "smallest one",
                        WITH_LAMB),
    DSFLOW_OPTION_FLOAT(KEYS, factor_max, "4.0", 0, 1e12,
                        "largest factor of the frozen ratio of a tensor",
                        WITH_LAMB),
    DSFLOW_OPTION_FLOAT(KEYS, factor_min, "0.5", 0, 1e12, "smallest one",
                        WITH_LAMB),
    DSFLOW_OPTION_FLOAT(KEYS, factor_threshold, "0.1", 0, 1e12,
                        "by how much of itself a factor changes in a step, at "
                        "most",
                        WITH_LAMB),
    { 0 },
};

int dsf_onebit_lamb_check_keys(const struct dsf_onebit_lamb_keys *k,
                               struct dsflow_err *err)
{
    if (k->min_coeff > k->max_coeff)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "onebit_lamb.min_coeff: %g: expected at most "
                           "onebit_lamb.max_coeff, %g",
                           k->min_coeff, k->max_coeff);
    if (k->factor_min > k->factor_max)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "onebit_lamb.factor_min: %g: expected at most "
                           "onebit_lamb.factor_max, %g",
                           k->factor_min, k->factor_max);
    return DSFLOW_OK;
}

/* --- chunks --------------------------------------------------------------- */

int64_t dsf_united_chunk(const struct dsf_united_args *a, int64_t at,
                         int64_t *tensor)
{
    const struct dsf_coding *c = &a->at.coding;
    int64_t before = a->before;

    for (int64_t i = 0; i < c->ntensors; i++) {
        const struct dsf_coded_tensor *t = &c->tensors[i];

        if (at >= t->at && at < t->at + t->elems) {
            *tensor = t->number;
            return a->by_tensor ? t->number
                                : (before + at - t->at) * a->at.groups / a->all;
        }
        before += t->elems;
    }
    return -1;
}

int dsf_lamb_check(const struct dsflow_case *c, unsigned p,
                   struct dsflow_err *err)
{
    return dsf_port_check(c, p, DSFLOW_FP64,
                          DSF_LAMB_FIELDS * DSFLOW_MAX_TENSORS, err);
}

/* --- send_signs ----------------------------------------------------------- */

enum { GRAD, ERROR, SQUARES };

#define SEND(place) offsetof(struct dsf_send_args, place)
DSF_EACH_NUMBER(send_signs, .elems = SEND(elems), .flops = 2,
                .ports = { { GRAD, SEND(grad_at), 2 },
                           { ERROR, SEND(error_at), 2, DSFLOW_BF16 } })

static int send_signs_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_send_args *a = c->args;
    int status = dsf_feed_check(c, a->elems, 1, ERROR, err);

    if (status == DSFLOW_OK && a->all < 1)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: the mean of %lld squares: expected 1 or more",
                             c->op->name, (long long)a->all);
    if (status == DSFLOW_OK)
        status = dsf_each_number_check(&send_signs_each, c, err);
    return status < 0 ? status
                      : dsf_port_check(c, SQUARES, DSFLOW_FP64, 1, err);
}

DSF_OP(send_signs,
       .summary = "1-bit LAMB: the momentum of a group as it is when it has "
                  "been sent, and what that takes",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_send_args),
       DSFLOW_PORTS({ "grad", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "error", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "squares", DSFLOW_R, DSFLOW_FP64 }),
       .check = send_signs_check, .cost = send_signs_cost,
       .scratch = dsf_block_scratch, .slice = send_signs_slice);

/* --- chunks of all units -------------------------------------------------- */

static int united_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_united_args *a = c->args;
    int64_t coded = 0;

    for (int64_t i = 0; i < a->at.coding.ntensors; i++) {
        const struct dsf_coded_tensor *t = &a->at.coding.tensors[i];

        coded += t->elems;
        if (t->number < 0 ||
            t->number >= (a->by_tensor ? a->at.groups : DSFLOW_MAX_TENSORS))
            return dsflow_fail(
                err, DSFLOW_EINVAL, "%s: a piece of tensor %lld of %lld",
                c->op->name, (long long)t->number,
                (long long)(a->by_tensor ? a->at.groups : DSFLOW_MAX_TENSORS));
    }
    if (a->before < 0 || coded > a->all - a->before || a->at.groups < 1 ||
        a->all > INT64_MAX / a->at.groups)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld numbers behind %lld of %lld, in %lld "
                           "chunks",
                           c->op->name, (long long)coded, (long long)a->before,
                           (long long)a->all, (long long)a->at.groups);
    return DSFLOW_OK;
}

static int chunk_sums_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_united_args *a = c->args;
    int status = dsf_coding_check(&a->at.coding, c->op->name, 0, 0, err);

    if (status == DSFLOW_OK)
        status = united_check(c, err);
    if (status == DSFLOW_OK)
        status = dsf_port_check(c, 0, DSFLOW_FP64, 2 * a->at.groups, err);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++)
        status = dsf_port_check(c, i, DSFLOW_FP64, 1, err);
    return status;
}

DSF_OP(chunk_sums,
       .summary = "1-bit LAMB: what the blocks of a unit add to each chunk",
       .direction = DSFLOW_DIR_UPDATE, .comm = DSFLOW_COMM_REDUCE, .repeats = 1,
       .joins = 1, .args_size = sizeof(struct dsf_united_args),
       DSFLOW_PORTS({ "chunks", DSFLOW_W, DSFLOW_FP64 },
                    { "sums", DSFLOW_R, DSFLOW_FP64 }),
       .check = chunk_sums_check, .cost = dsf_few_cost);

static int tensor_scales_check(const struct dsflow_case *c,
                               struct dsflow_err *err)
{
    int status = dsf_port_check(c, 0, DSFLOW_FP64, 1, err);

    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++)
        status = dsf_port_check(c, i, DSFLOW_FP64, 2 * c->shapes[0].elems, err);
    return status;
}

DSF_OP(tensor_scales,
       .summary = "1-bit LAMB: the scale of the momenta of each tensor",
       .direction = DSFLOW_DIR_UPDATE, .comm = DSFLOW_COMM_REDUCE, .repeats = 1,
       .joins = 1,
       DSFLOW_PORTS({ "scales", DSFLOW_W, DSFLOW_FP64 },
                    { "sums", DSFLOW_R, DSFLOW_FP64, .optional = 1 }),
       .check = tensor_scales_check, .cost = dsf_few_cost);

static int sum_each_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < c->n && status == DSFLOW_OK; i++)
        status = dsf_port_check(c, i, DSFLOW_FP64, c->shapes[0].elems, err);
    return status;
}

DSF_OP(sum_each, .summary = "sums of numbers at the same place, left to right",
       .direction = DSFLOW_DIR_UPDATE, .comm = DSFLOW_COMM_REDUCE, .repeats = 1,
       .joins = 1,
       DSFLOW_PORTS({ "out", DSFLOW_W, DSFLOW_FP64 },
                    { "in", DSFLOW_R, DSFLOW_FP64, .optional = 1 }),
       .check = sum_each_check, .cost = dsf_few_cost);

/* --- serve_lamb ----------------------------------------------------------- */

enum { CONTROL, SUM, CHUNKS, LAMB, SERVER, MOMENTUM, FRESH };

#define UNITED(place) offsetof(struct dsf_united_args, place)
DSF_EACH_NUMBER(serve_lamb, .elems = UNITED(at.elems), .first = UNITED(at.at),
                .flops = 9, .control = 1,
                .ports = { { SUM, UNITED(at.grad_at), 1 },
                           { SERVER, UNITED(at.server_at), 2 },
                           { MOMENTUM, UNITED(at.m_at), 2 },
                           { FRESH, UNITED(fresh_at), 2 } })

static int serve_lamb_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_united_args *a = c->args;
    int status = dsf_each_number_check(&serve_lamb_each, c, err);

    if (status < 0 || !dsf_has_port(c, SERVER))
        return status;
    status = dsf_coding_check(&a->at.coding, c->op->name, a->at.at, a->at.elems,
                              err);
    if (status == DSFLOW_OK)
        status = united_check(c, err);
    if (status == DSFLOW_OK)
        status = dsf_port_check(c, CHUNKS, DSFLOW_FP64, 2 * a->at.groups, err);
    return status < 0 ? status : dsf_lamb_check(c, LAMB, err);
}

DSF_OP(
    serve_lamb,
    .summary = "1-bit LAMB: the momentum that all have from here on, and the "
               "variance of what it is made of",
    .direction = DSFLOW_DIR_UPDATE, .args_size = sizeof(struct dsf_united_args),
    DSFLOW_PORTS({ "control", DSFLOW_R },
                 { "grad", DSFLOW_R, .slice = DSFLOW_ELEMS },
                 { "chunks", DSFLOW_R, DSFLOW_FP64, .optional = 1 },
                 { "lamb", DSFLOW_R, DSFLOW_FP64, .optional = 1 },
                 { "server", DSFLOW_RW, .slice = DSFLOW_ELEMS, .optional = 1 },
                 { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                 { "fresh", DSFLOW_RW, .slice = DSFLOW_ELEMS }),
    .check = serve_lamb_check, .cost = serve_lamb_cost,
    .scratch = dsf_block_scratch, .slice = serve_lamb_slice);

/* --- ratios --------------------------------------------------------------- */

enum { PER_TENSOR = 4 };

static int lamb_norms_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    enum { V = 4 };
    const struct dsf_weigh_args *w = c->args;
    const struct dsf_update_args *a = &w->of;
    int status = dsf_op_lamb_moments.check(c, err);

    for (int32_t i = 0; i < a->at.ntensors && status == DSFLOW_OK; i++)
        if (PER_TENSOR * (int64_t)(a->at.tensors[i].number + 1) > a->width)
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "%s: %d sums for each block: expected %d for "
                                 "each tensor",
                                 c->op->name, (int)a->width, PER_TENSOR);
    return status < 0
               ? status
               : dsf_range_check(c, V, DSFLOW_FP32, w->v_at, a->at.elems, err);
}

static void lamb_norms_cost(const struct dsflow_case *c,
                            struct dsflow_cost *cost)
{
    const struct dsf_weigh_args *a = c->args;

    cost->flops = 16 * (double)a->of.at.elems;
    cost->bytes = 16 * (double)a->of.at.elems;
}

static void lamb_norms_slice(void *args, int64_t from, int64_t elems,
                             const int64_t *gone)
{
    enum { V = 4 };
    struct dsf_weigh_args *a = args;

    dsf_op_lamb_moments.slice(&a->of, from, elems, gone);
    if (from >= 0)
        a->v_at += from - gone[V];
}

DSF_OP(lamb_norms,
       .summary =
           "1-bit LAMB: norms of the steps of the tensors of a unit, and "
           "how far their variance has come, block by block",
       .direction = DSFLOW_DIR_UPDATE, .update = 1,
       .args_size = sizeof(struct dsf_weigh_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "fresh", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "param", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "m", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "v", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "sums", DSFLOW_W, DSFLOW_FP64, DSFLOW_BLOCKS }),
       .check = lamb_norms_check, .cost = lamb_norms_cost,
       .slice = lamb_norms_slice);

static int factor_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_factor_args *a = c->args;

    if (a->n < 0 || a->n > DSFLOW_MAX_TENSORS || a->width < PER_TENSOR * a->n ||
        !(a->least <= a->most) || !(a->threshold >= 0))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %d tensors, %d sums, limits %g and %g, "
                           "threshold %g",
                           c->op->name, (int)a->n, (int)a->width, a->least,
                           a->most, a->threshold);
    return DSFLOW_OK;
}

static int lamb_totals_check(const struct dsflow_case *c,
                             struct dsflow_err *err)
{
    const struct dsf_factor_args *a = c->args;
    int status = factor_check(c, err);

    if (status == DSFLOW_OK)
        status =
            dsf_port_check(c, 0, DSFLOW_FP64, PER_TENSOR * (int64_t)a->n, err);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++) {
        status = dsf_port_check(c, i, DSFLOW_FP64, a->width, err);
        if (status == DSFLOW_OK && c->shapes[i].elems % a->width != 0)
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "lamb_totals: %lld sums: expected %d for each "
                                 "block",
                                 (long long)c->shapes[i].elems, (int)a->width);
    }
    return status;
}

DSF_OP(lamb_totals, .summary = "1-bit LAMB: the same of whole tensors",
       .direction = DSFLOW_DIR_UPDATE, .comm = DSFLOW_COMM_REDUCE, .repeats = 1,
       .joins = 1, .args_size = sizeof(struct dsf_factor_args),
       DSFLOW_PORTS({ "totals", DSFLOW_W, DSFLOW_FP64 },
                    { "sums", DSFLOW_R, DSFLOW_FP64 }),
       .check = lamb_totals_check, .cost = dsf_few_cost);

static int lamb_factor_check(const struct dsflow_case *c,
                             struct dsflow_err *err)
{
    const struct dsf_factor_args *a = c->args;
    int status = factor_check(c, err);

    if (status == DSFLOW_OK)
        status = dsf_control_check(c, 0, err);
    if (status == DSFLOW_OK)
        status =
            dsf_port_check(c, 1, DSFLOW_FP64, PER_TENSOR * (int64_t)a->n, err);
    if (status == DSFLOW_OK)
        status = dsf_lamb_check(c, 2, err);
    return status < 0 ? status : dsf_port_check(c, 3, DSFLOW_FP64, a->n, err);
}

DSF_OP(lamb_factor,
       .summary = "1-bit LAMB: the frozen ratio of each tensor, by how far its "
                  "variance has come",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_factor_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "totals", DSFLOW_R, DSFLOW_FP64 },
                    { "lamb", DSFLOW_RW, DSFLOW_FP64 },
                    { "ratio", DSFLOW_W, DSFLOW_FP64 }),
       .check = lamb_factor_check, .cost = dsf_few_cost);

/* --- up to the freeze ----------------------------------------------------- */

static int lamb_mean_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_mean_args *a = c->args;
    int status = dsf_control_check(c, 0, err);

    if (status == DSFLOW_OK && (a->n < 0 || a->n > DSFLOW_MAX_TENSORS))
        return dsflow_fail(err, DSFLOW_EINVAL, "lamb_mean: %lld tensors",
                           (long long)a->n);
    if (status == DSFLOW_OK)
        status = dsf_port_check(c, 1, DSFLOW_FP64, a->n, err);
    return status < 0 ? status : dsf_lamb_check(c, 2, err);
}

DSF_OP(lamb_mean, .summary = "1-bit LAMB: the running mean of each ratio",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_mean_args),
       DSFLOW_PORTS({ "control", DSFLOW_R }, { "ratio", DSFLOW_R, DSFLOW_FP64 },
                    { "lamb", DSFLOW_RW, DSFLOW_FP64 }),
       .check = lamb_mean_check, .cost = dsf_few_cost);

static int unite_scales_check(const struct dsflow_case *c,
                              struct dsflow_err *err)
{
    const struct dsf_unite_args *a = c->args;
    int status = DSFLOW_OK;

    if (a->ntensors < 0 || a->ntensors > DSFLOW_MAX_TENSORS ||
        (dsf_has_port(c, 0) && a->n < 1))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "unite_scales: %lld tensors, %lld of all are coded",
                           (long long)a->ntensors, (long long)a->n);
    if (dsf_has_port(c, 0))
        status = dsf_port_check(c, 0, DSFLOW_FP64, a->ntensors, err);
    if (status == DSFLOW_OK && dsf_has_port(c, 1))
        status = dsf_port_check(c, 1, DSFLOW_FP64, 1, err);
    return status < 0 ? status : dsf_lamb_check(c, 2, err);
}

DSF_OP(unite_scales,
       .summary = "1-bit LAMB: by how much the momenta of each tensor are "
                  "multiplied, so that one scale fits all",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_unite_args),
       DSFLOW_PORTS({ "own", DSFLOW_R, DSFLOW_FP64, .optional = 1 },
                    { "total", DSFLOW_R, DSFLOW_FP64, .optional = 1 },
                    { "lamb", DSFLOW_RW, DSFLOW_FP64 }),
       .check = unite_scales_check, .cost = dsf_few_cost);
