/* task_onebit.c - 1-bit Adam: what is sent of a momentum, and what comes of it.
 * Parameters are then changed by `lamb` without its ratio.
 */
#include "tasks/each_number.h"
#include "tasks/onebit.h"
#include "tasks/shapes.h"
#include "tasks/signs.h"
#include "tasks/tasks.h"

/* --- keys ----------------------------------------------------------------- */

#define KEYS                    struct dsf_onebit_keys
#define WITH_ONEBIT             "optimizer.kind = onebit_adam"
#define TYPE_NAME(name, dtype)  name,
#define TYPE_VALUE(name, dtype) dtype,
const char *const dsf_onebit_errors[] = { DSF_ONEBIT_ERRORS(TYPE_NAME) NULL };

const struct dsflow_option dsf_onebit_options[] = {
    DSFLOW_OPTION_INT(KEYS, freeze_step, "100000", 1, INT32_MAX,
                      "the last step that changes the second moments: from the "
                      "next one on ranks send each other momenta, in 1 bit",
                      WITH_ONEBIT),
    DSFLOW_OPTION_CHOICE(KEYS, errors, "\"fp32\"", dsf_onebit_errors,
                         "what is kept of what coding takes, for each group of "
                         "micro-batches: 4 or 2 bytes a parameter",
                         WITH_ONEBIT),
    { 0 },
};

enum dsflow_dtype dsf_onebit_error_type(const struct dsf_onebit_keys *keys)
{
    static const enum dsflow_dtype types[] = { DSF_ONEBIT_ERRORS(TYPE_VALUE) };

    return types[keys->errors];
}

/* --- chunks --------------------------------------------------------------- */

static int64_t first_block(int64_t blocks, int64_t groups, int64_t chunk)
{
    return blocks * chunk / groups;
}

int64_t dsf_chunk_of(const struct dsf_coding *c, int64_t groups, int64_t at)
{
    for (int64_t i = 0; i < c->ntensors; i++) {
        const struct dsf_coded_tensor *t = &c->tensors[i];
        const int64_t blocks = t->elems / c->block;
        int64_t block = (at - t->at) / c->block, chunk;

        if (at < t->at || at >= t->at + t->elems)
            continue;
        chunk = block * groups / blocks;
        while (first_block(blocks, groups, chunk + 1) <= block)
            chunk++;
        return i * groups + chunk;
    }
    return -1;
}

int64_t dsf_chunk_elems(const struct dsf_coding *c, int64_t groups,
                        int64_t chunk)
{
    const int64_t blocks = c->tensors[chunk / groups].elems / c->block;

    chunk %= groups;
    return (first_block(blocks, groups, chunk + 1) -
            first_block(blocks, groups, chunk)) *
           c->block;
}

int dsf_groups_check(const struct dsflow_case *c, int64_t groups,
                     struct dsflow_err *err)
{
    return groups > 0 && groups <= INT32_MAX
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: %lld groups: expected 1 or more", c->op->name,
                             (long long)groups);
}

/* --- feed_momentum -------------------------------------------------------- */

enum { CONTROL, GRAD, M, ERROR, LAMB };

#define FEED(place) offsetof(struct dsf_momentum_args, place)
DSF_EACH_NUMBER(feed_momentum, .elems = FEED(elems), .flops = 6, .control = 1,
                .ports = { { GRAD, FEED(grad_at), 3 },
                           { M, 0, 1 },
                           { ERROR, FEED(error_at), 2, DSFLOW_BF16 } })

int dsf_feed_check(const struct dsflow_case *c, int64_t elems, int64_t groups,
                   unsigned error, struct dsflow_err *err)
{
    int status = dsf_groups_check(c, groups, err);

    if (status == DSFLOW_OK && dsf_has_port(c, error))
        status = dsf_coding_check(c->args, c->op->name, 0, elems, err);
    return status == DSFLOW_OK && dsf_has_port(c, error)
               ? dsf_coding_check_whole(c->args, c->op->name, 0, elems, err)
               : status;
}

static int feed_momentum_check(const struct dsflow_case *c,
                               struct dsflow_err *err)
{
    const struct dsf_momentum_args *a = c->args;
    int status = dsf_each_number_check(&feed_momentum_each, c, err);

    if (status == DSFLOW_OK && !dsf_has_port(c, M) && a->beta1 != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "feed_momentum: beta1 %g without m: expected 0",
                           a->beta1);
    if (status == DSFLOW_OK)
        status = dsf_feed_check(c, a->elems, a->groups, ERROR, err);
    return status < 0 || !dsf_has_port(c, LAMB) ? status
                                                : dsf_lamb_check(c, LAMB, err);
}

DSF_OP(feed_momentum,
       .summary = "1-bit Adam: the momentum of a group, with what coding has "
                  "taken from the last one",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_momentum_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "grad", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "m", DSFLOW_R, .optional = 1 },
                    { "error", DSFLOW_RW, .slice = DSFLOW_ELEMS,
                      .optional = 1 },
                    { "lamb", DSFLOW_R, DSFLOW_FP64, .optional = 1 }),
       .check = feed_momentum_check, .cost = feed_momentum_cost,
       .scratch = dsf_errors_scratch, .slice = feed_momentum_slice);

/* --- chunk_squares -------------------------------------------------------- */

#define CHUNK(place) offsetof(struct dsf_chunk_args, place)
DSF_EACH_NUMBER(chunk_squares, .elems = CHUNK(elems), .first = CHUNK(at),
                .flops = 3,
                .ports = { { 0, CHUNK(grad_at), 1 },
                           { 1, CHUNK(server_at), 1 } })

static int chunk_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_chunk_args *a = c->args;
    int status =
        dsf_coding_check(&a->coding, c->op->name, a->at, a->elems, err);

    return status < 0 ? status : dsf_groups_check(c, a->groups, err);
}

static int chunk_squares_check(const struct dsflow_case *c,
                               struct dsflow_err *err)
{
    const struct dsf_chunk_args *a = c->args;
    int status = chunk_check(c, err);

    if (status == DSFLOW_OK)
        status = dsf_each_number_check(&chunk_squares_each, c, err);
    return status < 0 ? status
                      : dsf_port_check(c, 2, DSFLOW_FP64,
                                       a->elems / a->coding.block, err);
}

DSF_OP(chunk_squares,
       .summary = "1-bit Adam: the squares of the mean of momenta, block by "
                  "block",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_chunk_args),
       DSFLOW_PORTS({ "grad", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "server", DSFLOW_R, .slice = DSFLOW_ELEMS,
                      .optional = 1 },
                    { "sums", DSFLOW_W, DSFLOW_FP64, DSFLOW_BLOCKS }),
       .check = chunk_squares_check, .cost = chunk_squares_cost,
       .scratch = dsf_block_scratch, .slice = chunk_squares_slice);

/* --- chunk_scales --------------------------------------------------------- */

static int chunk_scales_check(const struct dsflow_case *c,
                              struct dsflow_err *err)
{
    const struct dsf_chunk_scales_args *a = c->args;
    int status = dsf_groups_check(c, a->groups, err);

    if (status == DSFLOW_OK)
        status = dsf_coding_check(&a->coding, c->op->name, 0, 0, err);
    if (status == DSFLOW_OK)
        status = dsf_port_check(c, 0, DSFLOW_FP64,
                                a->coding.ntensors * a->groups, err);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++)
        status = dsf_port_check(c, i, DSFLOW_FP64, 1, err);
    return status;
}

DSF_OP(chunk_scales, .summary = "1-bit Adam: the scale of each chunk",
       .direction = DSFLOW_DIR_UPDATE, .comm = DSFLOW_COMM_REDUCE, .repeats = 1,
       .joins = 1, .args_size = sizeof(struct dsf_chunk_scales_args),
       DSFLOW_PORTS({ "scales", DSFLOW_W, DSFLOW_FP64 },
                    { "sums", DSFLOW_R, DSFLOW_FP64 }),
       .check = chunk_scales_check);

/* --- serve ---------------------------------------------------------------- */

enum { SUM = 1, SCALES, SERVER, MOMENTUM };

DSF_EACH_NUMBER(serve, .elems = CHUNK(elems), .first = CHUNK(at), .flops = 2,
                .control = 1,
                .ports = { { SUM, CHUNK(grad_at), 1 },
                           { SERVER, CHUNK(server_at), 2 },
                           { MOMENTUM, CHUNK(m_at), 1 } })

int dsf_served_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_chunk_args *a = c->args;
    int status = chunk_check(c, err);

    return status < 0 ? status
                      : dsf_port_check(c, SCALES, DSFLOW_FP64,
                                       a->coding.ntensors * a->groups, err);
}

static int serve_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    int status = dsf_each_number_check(&serve_each, c, err);

    return status < 0 || !dsf_has_port(c, SERVER) ? status
                                                  : dsf_served_check(c, err);
}

DSF_OP(serve, .summary = "1-bit Adam: the momentum that all have from here on",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_chunk_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "grad", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "scales", DSFLOW_R, DSFLOW_FP64, .optional = 1 },
                    { "server", DSFLOW_RW, .slice = DSFLOW_ELEMS,
                      .optional = 1 },
                    { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS }),
       .check = serve_check, .cost = serve_cost, .slice = serve_slice);
