/* task_muon.c - Muon: matrices of layers move by their momentum made
 * orthogonal, all else as in AdamW. A unit with matrices is never cut. */
#include "tasks/muon.h"

#include "config/choice.h"
#include "tasks/lamb.h"
#include "tasks/shapes.h"
#include "tasks/tasks.h"

/* --- keys ----------------------------------------------------------------- */

#define KEYS      struct dsf_muon_keys
#define WITH_MUON "optimizer.kind = muon"
static const char *const scales[] = { DSF_MUON_SCALES(DSF_CHOICE_NAME) NULL };
const struct dsflow_option dsf_muon_options[] = {
    DSFLOW_OPTION_FLOAT(KEYS, momentum, "0.95", 0, 0.999999,
                        "share of the mean of gradients that stays at each "
                        "step, of matrices of layers",
                        WITH_MUON),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, KEYS, nesterov, "true",
                     "mix the gradient into that mean once more", WITH_MUON),
    DSFLOW_OPTION_INT(KEYS, steps, "5", 1, 20,
                      "of Newton and Schulz, which make it nearly orthogonal",
                      WITH_MUON),
    DSFLOW_OPTION_CHOICE(KEYS, scale, "\"shape\"", scales,
                         "the length of a matrix's step: sqrt(max(1, rows / "
                         "columns)), or the 0.2 sqrt(max(rows, columns)) with "
                         "which its numbers are as long as AdamW's",
                         WITH_MUON),
    DSFLOW_OPTION_FLOAT(KEYS, adam_lr, "0.0", 0, 1e3,
                        "learning rate of what AdamW updates: embeddings, "
                        "head, norms and biases; the schedule multiplies it, "
                        "too; 0: optimizer.lr",
                        WITH_MUON),
    { 0 },
};

void dsf_muon_fill(const void *part, const struct dsflow_optimizer_keys *keys,
                   struct dsf_update_args *args)
{
    const struct dsf_muon_keys *k = part;

    args->momentum = (float)k->momentum;
    args->nesterov = k->nesterov;
    args->steps = (int32_t)k->steps;
    args->scale = (int32_t)k->scale;
    args->adam_rate =
        k->adam_lr > 0 && keys->lr > 0 ? k->adam_lr / keys->lr : 1;
    args->v_at = dsf_muon_second_from(&args->at);
}

/* Whole blocks of int8, as these are of the numbers of the unit. */
int64_t dsf_muon_second_from(const struct dsflow_update_args *a)
{
    int64_t from = a->elems;

    for (int32_t i = 0; i < a->ntensors; i++)
        if (!dsf_muon_turns(&a->tensors[i]) && a->tensors[i].at < from)
            from = a->tensors[i].at;
    return from == a->elems ? from : from - from % DSFLOW_BLOCK_ELEMS;
}

/* --- the task ------------------------------------------------------------- */

static int64_t least(const struct dsflow_tensor *t)
{
    return t->rows < t->cols ? t->rows : t->cols;
}

/* Numbers of scratch for a matrix: twice the matrix, and two squares of the
 * shorter of its sides. */
static int64_t room(const struct dsflow_tensor *t)
{
    return 2 * t->rows * t->cols + 2 * least(t) * least(t);
}

enum { V = 4, COPY };

/* Is there a second moment of all that AdamW updates? */
static int check_second(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_update_args *a = c->args;
    const int64_t left = a->at.elems - a->v_at;

    for (int32_t i = 0; i < a->at.ntensors; i++) {
        const struct dsflow_tensor *t = &a->at.tensors[i];

        if (!dsf_muon_turns(t) && t->at < a->v_at && a->v_at > 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "muon: v from number %lld on: expected it from "
                               "%lld on",
                               (long long)a->v_at, (long long)t->at);
    }
    if (a->v_at < 0 || left < 0 || (!dsf_has_port(c, V) && left > 0))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "muon: v from number %lld on, of %lld: expected it "
                           "to be there",
                           (long long)a->v_at, (long long)a->at.elems);
    return dsf_has_port(c, V) ? dsf_range_check(c, V, DSFLOW_FP32, 0, left, err)
                              : DSFLOW_OK;
}

static int muon_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_update_args *a = c->args;
    int status = dsf_update_check_but(c, V, err);

    if (status == DSFLOW_OK)
        status = check_second(c, err);

    for (int32_t i = 0; i < a->at.ntensors && status == DSFLOW_OK; i++) {
        const struct dsflow_tensor *t = &a->at.tensors[i];

        if (dsf_muon_turns(t) &&
            (t->at < 0 || t->at + t->rows * t->cols > a->at.elems))
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "muon: a matrix of %lld x %lld numbers from "
                                 "%lld on, of %lld: expected all of it",
                                 (long long)t->rows, (long long)t->cols,
                                 (long long)t->at, (long long)a->at.elems);
    }
    if (status == DSFLOW_OK && (a->steps < 1 || !(a->adam_rate >= 0)))
        status = dsflow_fail(err, DSFLOW_EINVAL, "muon: %d steps, rate %g",
                             (int)a->steps, a->adam_rate);
    return status < 0 ? status : dsf_update_copy_check(c, err);
}

/* A step: two products of squares, or of a square and the matrix. */
static void muon_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_update_args *a = c->args;

    dsflow_update_cost(c, 12, cost);
    if (dsf_has_port(c, V))
        cost->bytes -= 2.0 * (double)dsflow_dtype_bytes(DSFLOW_FP32, a->v_at);
    for (int32_t i = 0; i < a->at.ntensors; i++) {
        const struct dsflow_tensor *t = &a->at.tensors[i];
        const double n = (double)t->rows * (double)t->cols;
        const double side = (double)least(t);

        if (!dsf_muon_turns(t))
            continue;
        cost->flops += a->steps * (4 * n * side + 2 * side * side * side);
        cost->bytes += a->steps * (12 * n + 20 * side * side);
    }
}

static size_t muon_scratch(const struct dsflow_case *c)
{
    const struct dsf_update_args *a = c->args;
    int64_t most = 0;

    for (int32_t i = 0; i < a->at.ntensors; i++)
        if (dsf_muon_turns(&a->at.tensors[i]) && room(&a->at.tensors[i]) > most)
            most = room(&a->at.tensors[i]);
    return dsflow_dtype_bytes(DSFLOW_FP32, most);
}

static void muon_slice(void *args, int64_t from, int64_t elems,
                       const int64_t *gone)
{
    struct dsf_update_args *a = args;

    dsf_update_slice_with_copy(args, from, elems, gone, COPY);
    if (from >= 0)
        a->v_at += gone[V] - from;
}

DSF_OP(muon,
       .summary = "Muon update of a unit, or AdamW where it has no matrices of "
                  "layers",
       .direction = DSFLOW_DIR_UPDATE, .update = 1, .multiplies = 1,
       .args_size = sizeof(struct dsf_update_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "grad", DSFLOW_R, .slice = DSFLOW_ELEMS,
                      .floats = DSFLOW_NARROW_ALONE },
                    { "param", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "v", DSFLOW_RW, .slice = DSFLOW_ELEMS, .optional = 1 },
                    { "copy", DSFLOW_RW, .slice = DSFLOW_ELEMS,
                      .optional = 1 }),
       .check = muon_check, .cost = muon_cost, .scratch = muon_scratch,
       .slice = muon_slice);
