/* precision.c - what is computed and kept in fewer bits (Micikevicius et al.
 * 2018). The data says its type; kernels look at it.
 *
 * Segments whose kinds of task take the type compute in it (op.h: floats), the
 * others in fp32. Parameters get a copy in the type, which forward and backward
 * passes use; the optimizer works on the fp32 ones, the masters, which are
 * states from here on: whoever shares out or moves states and parameters does
 * the right thing with each. Activations and buffers have the type; a task that
 * wants fp32 of them has it in a buffer of a ring, with casts around it.
 *
 * States of the optimizer that are kept in fewer bits are cast where it is
 * known what each rank has of them, and masters that are not kept go there: in
 * offload_cut.c.
 *
 * The program `prepare` makes the copies from the masters: it runs before the
 * first step, and wherever somebody has written parameters.
 */
#include "policies/precision_private.h"

#include "base/alloc.h"
#include "plan/programs.h"
#include "tasks/components.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* The copy of a master. */
static dsflow_data_id copy_of(struct dsf_precision *p, dsflow_data_id id)
{
    struct dsflow_data_spec spec = *dsf_precision_spec(p, id);

    if (dsf_is_data(p->copy[id.i]))
        return p->copy[id.i];
    spec.dtype = (uint8_t)p->type;
    spec.kept = 0;
    return p->copy[id.i] = dsflow_rewrite_named(p->rw.out, &spec, "%s.%s",
                                                spec.name,
                                                dsflow_dtype_str(p->type));
}

static dsflow_data_id port(struct dsf_precision *p,
                           const struct dsflow_task_spec *t, unsigned i)
{
    dsflow_data_id id = t->data[i];

    if (p->becomes[id.i] == DSF_MASTER && !dsf_precision_on_master(p, t))
        return copy_of(p, id);
    return dsf_precision_twin(p, t, i);
}

static void write_copy(struct dsf_precision *p,
                       const struct dsflow_task_spec *like, dsflow_data_id id)
{
    const struct dsflow_data_spec *spec = dsf_precision_spec(p, id);

    dsf_precision_cast(p, like, spec->home, spec, dsf_precision_data(p, id),
                       copy_of(p, id));
}

/* The port of the master that the task is the last one to write, of those that
 * follow each other; its number of data: there is none. */
static unsigned last_write(struct dsf_precision *p,
                           const struct dsflow_task_spec *t)
{
    const struct dsf_data_use *next;
    unsigned i = 0;

    for (; i < t->ndata; i++) {
        if (p->becomes[t->data[i].i] != DSF_MASTER ||
            !(dsflow_task_access(t, i) & DSFLOW_W))
            continue;
        next = dsf_precision_next(p, t->data[i]);
        if (next == NULL ||
            !dsf_precision_on_master(p, dsf_precision_user(p, next)))
            break;
    }
    return i;
}

/* Is the copy where it stays when the update runs? In a step that is skipped it
 * writes nothing: a buffer that passes by would have to be filled for it. What
 * is in main memory is used there by updates that run on cores. */
static bool stays_there(const struct dsf_precision *p,
                        const struct dsflow_task_spec *t)
{
    const struct dsf_offload_keys *keys = dsf_offload_keys(p->plan->job);

    return keys->home[DSFLOW_PARAMS] == DSFLOW_DEVICE ||
           (keys->home[DSFLOW_PARAMS] == DSFLOW_HOST &&
            keys->home[DSFLOW_STATES] != DSFLOW_DEVICE &&
            !dsf_offload_is_near(p->plan, t));
}

/* Does the update write the copy itself? */
static bool writes_copy(const struct dsf_precision *p,
                        const struct dsflow_task_spec *t)
{
    return dsf_optimizer_copy_port(t->op) > 0 &&
           dsf_keeps_masters(p->plan->job) &&
           !dsf_compresses_params(p->plan->job) &&
           !dsf_changes_weights(p->plan->job) && stays_there(p, t);
}

static void add_task(struct dsf_precision *p,
                     const struct dsflow_task_spec *task, dsflow_data_id *data)
{
    struct dsflow_task_spec t = *task;
    unsigned last = last_write(p, task);
    struct dsf_update_args args;

    t.data = data;
    if (last < t.ndata && writes_copy(p, task)) {
        args = *(const struct dsf_update_args *)task->args;
        args.copies = 1;
        t.args = &args;
        /* States that it has not are left out in front of the copy. */
        for (unsigned i = dsf_task_nports(&t);
             i < dsf_optimizer_copy_port(t.op); i++)
            t.without |= 1u << i;
        data[t.ndata++] = copy_of(p, task->data[last]);
    }
    dsflow_graph_add_task(p->rw.out, &t);
}

static void task_written(struct dsf_precision *p,
                         const struct dsflow_task_spec *t)
{
    unsigned last = last_write(p, t);

    if (last < t->ndata && !writes_copy(p, t))
        write_copy(p, t, t->data[last]);
    for (unsigned i = 0; i < t->ndata; i++)
        if (dsflow_task_access(t, i) & DSFLOW_W &&
            p->becomes[t->data[i].i] != DSF_MASTER)
            dsf_precision_written(p, t, i);
}

/* Tasks `first` to p->task, with the casts before all of them and behind. */
static void rewrite_tasks(struct dsf_precision *p, uint32_t first)
{
    dsflow_data_id *data;
    size_t n = 0, at = 0;

    for (uint32_t k = first; k <= p->task; k++)
        n += dsf_nth_task(p->rw.in, k)->ndata + 1;
    data = dsf_xcalloc(n + 1, sizeof(*data));
    for (uint32_t k = first; k <= p->task; k++) {
        const struct dsflow_task_spec *t = dsf_nth_task(p->rw.in, k);

        for (unsigned i = 0; i < t->ndata; i++)
            data[at + i] = port(p, t, i);
        at += t->ndata + 1; /* and maybe a copy */
    }
    at = 0;
    for (uint32_t k = first; k <= p->task; k++) {
        const struct dsflow_task_spec *t = dsf_nth_task(p->rw.in, k);

        add_task(p, t, data + at);
        at += t->ndata + 1;
    }
    for (uint32_t k = first; k <= p->task; k++)
        task_written(p, dsf_nth_task(p->rw.in, k));
    free(data);
}

/* The tasks of a collective stand together. */
static uint32_t last_together(const struct dsflow_graph *g, uint32_t first)
{
    const struct dsflow_task_spec *next;
    uint32_t id = dsf_nth_task(g, first)->collective;

    while (id != 0 && (next = dsf_nth_task(g, first + 1)) != NULL &&
           next->collective == id)
        first++;
    return first;
}

/* All copies, from the masters. */
static void add_prepare(struct dsf_precision *p)
{
    struct dsflow_task_spec like =
        DSFLOW_TASK(.microbatch = -1, .tile = -1, .pass = DSFLOW_UPDATE);

    like.program = dsflow_graph_add_program(p->rw.out, DSF_PREPARE);
    for (uint32_t i = 0; i < dsflow_graph_ndata(p->rw.in); i++) {
        dsflow_data_id id = { i };

        if (p->becomes[i] != DSF_MASTER)
            continue;
        like.layer = (int16_t)p->plan->model
                         ->units[dsf_precision_spec(p, id)->unit]
                         .layer;
        write_copy(p, &like, id);
    }
}

static int precision_rewrite(const void *part, const struct dsflow_plan *plan,
                             struct dsflow_graph *in, struct dsflow_graph *out,
                             struct dsflow_err *err)
{
    const struct dsf_precision_keys *keys = part;
    struct dsf_precision p = { .plan = plan,
                               .type = dsf_compute_type(plan->job),
                               .gradients = dsf_gradient_type(plan->job) };
    const struct dsflow_task_spec *t;
    int program = -1, status;

    if (p.type == DSFLOW_FP32)
        return DSFLOW_UNCHANGED;
    p.rw = dsflow_rewrite_begin(in, out);
    status = dsf_precision_begin(&p, keys->head == DSF_HEAD_COMPUTE, err);
    for (uint32_t i = 0;
         status == DSFLOW_OK && (t = dsf_nth_task(in, i)) != NULL;
         i = p.task + 1) {
        if (t->program != program)
            dsf_precision_forget(&p);
        program = t->program;
        p.task = last_together(in, i);
        rewrite_tasks(&p, i);
    }
    if (status == DSFLOW_OK)
        add_prepare(&p);
    dsf_precision_end(&p);
    dsflow_rewrite_end(&p.rw);
    return status;
}

static int precision_decide(void *part, struct dsflow_plan *plan,
                            struct dsflow_err *err)
{
    const struct dsf_precision_keys *keys = part;

    if (dsf_compute_type(plan->job) == DSFLOW_FP16 && keys->loss_scale == 0 &&
        keys->initial_scale < keys->min_scale)
        return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "precision",
                            "initial_scale", "%g: expected at least the %g of "
                            "precision.min_scale",
                            keys->initial_scale, keys->min_scale);
    return DSFLOW_OK;
}

#define PRECISION struct dsf_precision_keys
#define FP16      "precision.compute = fp16"
#define SCALED    FP16 " and precision.loss_scale = 0"
#define TYPE_NAME(name, dtype) name,
static const char *const types[] = { DSF_COMPUTES(TYPE_NAME) NULL };
static const char *const formats[] = { DSF_STATE_FORMATS(TYPE_NAME) NULL };
static const char *const gradients[] = { DSF_GRADIENTS(TYPE_NAME) NULL };
static const char *const heads[] = { DSF_HEADS(DSF_CHOICE_NAME) NULL };
static const struct dsflow_option precision_options[] = {
    DSFLOW_OPTION_CHOICE(
        PRECISION, compute, "\"fp32\"", types,
        "type of the parameters, activations and products of "
        "a step; sums and what the optimizer works on are fp32 "
        "all the same"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, PRECISION, tf32, "false",
                     "whether GPUs round the operands of products of matrices "
                     "to TF32, with 10 bits behind the point, which is several "
                     "times as fast; sums stay fp32. Cores never do. Times are "
                     "predicted without it",
                     "precision.compute = fp32"),
    DSFLOW_OPTION_CHOICE(
        PRECISION, gradients, "\"fp32\"", gradients,
        "type in which the gradients of parameters are kept, "
        "added up over micro-batches and summed over ranks; "
        "bf16: half the bytes, and each sum is rounded when it "
        "is stored",
        "precision.compute != fp32"),
    DSFLOW_OPTION_CHOICE(PRECISION, head, "\"compute\"", heads,
                         "type in which the head computes; logits and loss are "
                         "summed in fp32 and fp64 in any case",
                         "precision.compute != fp32"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, PRECISION, master, "true",
                     "whether the optimizer works on parameters that are kept "
                     "in fp32 beside those in bf16; false: there are those in "
                     "bf16 only, rounded at random after each update",
                     "precision.compute = bf16"),
    DSFLOW_OPTION_CHOICE(
        PRECISION, states, "\"fp32\"", formats,
        "what the states of the optimizer are kept as, rounded at random: "
        "bf16, half the bytes, with errors below 1/128 of a "
        "number; int8, a quarter, with errors below 1/8 of a "
        "number or of a thousandth of the largest one in its "
        "block of 256. The losses are not those of fp32"),
    DSFLOW_OPTION_FLOAT(PRECISION, loss_scale, "0", 0, 1e10,
                        "what gradients are multiplied by until they are "
                        "complete, so that small ones do not become 0; 0: it "
                        "is halved where they overflow, and doubled where they "
                        "have not for some time. A step that overflows updates "
                        "nothing",
                        FP16),
    DSFLOW_OPTION_FLOAT(PRECISION, initial_scale, "65536", 0.0001, 1e10,
                        "the loss scale of the first step", SCALED),
    DSFLOW_OPTION_INT(PRECISION, scale_window, "1000", 1, 1000000000,
                      "steps without an overflow after which the loss scale is "
                      "doubled",
                      SCALED),
    DSFLOW_OPTION_INT(PRECISION, hysteresis, "2", 1, 1000000,
                      "overflows of which the last halves the loss scale, as "
                      "does each after it until the scale is doubled",
                      SCALED),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, PRECISION, consecutive_hysteresis, "false",
                     "count overflows for precision.hysteresis anew after each "
                     "step without one",
                     SCALED " and precision.hysteresis > 1"),
    DSFLOW_OPTION_FLOAT(PRECISION, min_scale, "1", 0.0001, 1e10,
                        "the least loss scale; where gradients overflow with "
                        "it, train.on_nonfinite says what follows",
                        SCALED),
    { 0 },
};

const struct dsflow_policy dsf_policy_precision = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "precision",
    .summary = "bf16 or fp16 where they are enough, fp32 where sums are",
    .after = "replace",
    .options = precision_options,
    .part_size = sizeof(struct dsf_precision_keys),
    .decide = precision_decide,
    .rewrite = precision_rewrite,
};
