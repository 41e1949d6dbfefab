/* try_cuda.c - the CUDA side of a codelet on random cases. The cases, and what
 * they are held against, are those of its CPU side (try_codelet.c). */
#include "verify/try_cuda.h"

#include "exec/cuda_module.h"
#include "verify/on_gpu.h"

#include <dsflow/optimizer.h>
#include <stdio.h>
#include <string.h>

static void find(const void *user, struct dsf_verdict *verdict)
{
    struct dsflow_err err = { .msg = "" };

    if (dsf_on_gpu_find(&err) < 0)
        snprintf(verdict->untried, sizeof(verdict->untried), "%.190s", err.msg);
}

int dsf_cuda_find(struct dsflow_err *err)
{
    enum { LIMIT = 60 }; /* seconds: a driver may take some to begin */
    struct dsf_verdict verdict = { .cases = 0 };

    dsf_child_run(find, NULL, LIMIT, &verdict);
    if (verdict.untried[0] != '\0' || verdict.fault[0] != '\0')
        return dsflow_fail(err, DSFLOW_ENOSYS, "%s%s", verdict.untried,
                           verdict.fault);
    return dsf_cuda_module(err) != NULL ? DSFLOW_OK : DSFLOW_ENOSYS;
}

bool dsf_cuda_has(const struct dsflow_codelet *codelet)
{
    return codelet->cuda != NULL || dsf_cuda_side(codelet->op) != NULL;
}

bool dsf_cuda_same_bits(const struct dsflow_codelet *codelet)
{
    const struct dsf_gpu_side *side = dsf_cuda_side(codelet->op);

    return codelet->cuda == NULL && side != NULL && side->same_bits;
}

/* Of the process. */
static struct dsf_on_gpu tried;
static struct dsflow_op tried_op;

static void compute(const struct dsflow_call *call)
{
    const char *why = dsf_on_gpu_run(&tried, call);

    if (why != NULL)
        dsf_child_fault("%s", why);
}

/* Scratch is on the GPU, so the call needs none. */
struct dsf_computes dsf_cuda_computes(const struct dsflow_codelet *codelet)
{
    tried_op = *codelet->op;
    tried_op.scratch = NULL;
    tried = (struct dsf_on_gpu){ codelet->op, codelet->cuda,
                                 dsf_cuda_side(codelet->op) };
    return (struct dsf_computes){ .op = &tried_op,
                                  .cpu = compute,
                                  .on_gpu = true };
}

bool dsf_cuda_takes(const struct dsf_case *c)
{
    return tried.side == NULL || tried.cuda != NULL ||
           tried.side->lacks == NULL || tried.side->lacks(c->args) == NULL;
}

void dsf_cuda_begin(void)
{
    const char *why = dsf_on_gpu_new_stream();

    if (why != NULL)
        dsf_child_fault("%s", why);
}

/* Are they the bytes before, or, where there were none, those that stand in such
 * memory? */
static bool is_as_before(const struct dsf_case *c, unsigned port,
                         const unsigned char *left)
{
    const unsigned char *before = c->before[port];

    for (size_t i = 0; i < c->shapes[port].bytes; i++)
        if (left[i] != (before != NULL ? before[i] : 0xff))
            return false;
    return true;
}

void dsf_cuda_try_skipped(const struct dsf_case *c,
                          const struct dsf_computes *gpu)
{
    struct dsflow_control *control = c->before[0];
    struct dsf_port_left left;

    if (!c->op->update || c->shapes[0].bytes != sizeof(*control))
        return;
    control->skip = DSFLOW_SKIP_STEP;
    dsf_case_run(c, gpu, &left);
    for (unsigned i = 0; i < c->n; i++)
        if (left.v[i] != NULL && !is_as_before(c, i, left.v[i]))
            dsf_child_fault("writes port %s although the control says skip",
                            dsf_case_port_name(c, i));
    control->skip = DSFLOW_SKIP_NONE;
    dsf_port_left_free(&left);
}
