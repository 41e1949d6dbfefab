/* task_fake_quantize.c - weights as a model has them that is quantized or
 * pruned. */
#include "kernels/narrow.h"
#include "tasks/each_number.h"
#include "tasks/shapes.h"
#include "tasks/tasks.h"

enum { IN = 1, OUT };

#define OF(place) offsetof(struct dsf_fake_quantize_args, place)
DSF_EACH_NUMBER(fake_quantize, .elems = OF(elems), .first = OF(at),
                .flops = DSF_QUANTIZE_FLOPS, .control = 1,
                .ports = { { IN, OF(in_at), 1 }, { OUT, OF(out_at), 1 } })

static int fake_quantize_check(const struct dsflow_case *c,
                               struct dsflow_err *err)
{
    const struct dsf_fake_quantize_args *a = c->args;
    const enum dsflow_dtype out = c->shapes[OUT].dtype;
    int status =
        dsf_weight_form_check(&a->form, c->op->name, a->at, a->elems, err);

    if (status == DSFLOW_OK)
        status = dsf_control_check(c, 0, err);
    if (status == DSFLOW_OK)
        status = dsf_range_check(c, IN, DSFLOW_FP32, a->in_at, a->elems, err);
    if (status == DSFLOW_OK)
        status = dsf_range_check(c, OUT, dsf_is_narrow(out) ? out : DSFLOW_FP32,
                                 a->out_at, a->elems, err);
    return status;
}

static size_t fake_quantize_scratch(const struct dsflow_case *c)
{
    return dsf_is_narrow(c->shapes[OUT].dtype)
               ? dsflow_dtype_bytes(DSFLOW_FP32, DSF_FAKE_QUANTIZE_CHUNK)
               : 0;
}

DSF_OP(fake_quantize,
       .summary = "weights as a quantized or pruned model has them",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_fake_quantize_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "in", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "out", DSFLOW_RW, .slice = DSFLOW_ELEMS }),
       .check = fake_quantize_check, .cost = fake_quantize_cost,
       .scratch = fake_quantize_scratch, .slice = fake_quantize_slice);
