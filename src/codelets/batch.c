/* batch.c - the tokens of a tile, and the step they are taken from. */
#include "codelets/codelets.h"

static void load_cpu(const struct dsflow_call *call)
{
    const struct dsf_load_args *a = call->args;
    const int64_t *cursor = call->bufs[0].ptr;
    int32_t *batch = call->bufs[1].ptr;

    call->host->load_batch(call->host->user,
                           &(struct dsflow_batch){
                               .size = sizeof(struct dsflow_batch),
                               .program = call->program,
                               .step = cursor[0],
                               .seq = a->seq,
                               .nseq = a->nseq,
                               .pos = a->pos,
                               .rows = a->rows,
                               .tokens = batch,
                               .targets = batch + a->rows,
                           });
}

DSF_CODELET(load_batch, .cpu = load_cpu, .host_only = 1);

static void advance_cpu(const struct dsflow_call *call)
{
    int64_t *cursor = call->bufs[0].ptr;

    cursor[0]++;
}

DSF_CODELET(advance, .cpu = advance_cpu);
