/* generation_types.c - the types in which text is made. The rules are those of
 * the policy precision, but that there are no casts in the middle of a model: a
 * segment that knows fp32 only makes all of it fp32. */
#include "train/generation_types.h"

#include "policies/keys.h"

const struct dsflow_op *dsf_generation_op(const struct dsf_job *job,
                                          const struct dsflow_segment *s)
{
    return dsf_job_op(job, s->logits != NULL ? s->logits : s->forward);
}

static bool takes_fp32_only(const struct dsflow_op *op, unsigned port)
{
    return port >= op->nports || op->ports[port].floats == DSFLOW_FP32_ONLY;
}

/* Does whoever wrote the data of another segment leave it in the type in which
 * the port reads it? */
static bool agrees_with_other(const struct dsf_job *job,
                              const struct dsflow_segment_port *p,
                              const struct dsflow_op *op, unsigned port)
{
    const struct dsflow_segment *other = dsflow_segment_find(NULL, p->other);

    return takes_fp32_only(op, port) ==
           takes_fp32_only(dsf_generation_op(job, other), p->unit);
}

static bool takes_type(const struct dsf_job *job,
                       const struct dsflow_segment *s)
{
    const struct dsflow_op *op = dsf_generation_op(job, s);
    bool takes = false;

    for (unsigned p = 0; p < op->nports; p++) {
        if (op->ports[p].name == NULL)
            continue;
        takes = takes || !takes_fp32_only(op, p);
        if (s->ports[p].from == DSFLOW_FROM_OTHER &&
            !agrees_with_other(job, &s->ports[p], op, p))
            return false;
    }
    return takes;
}

static bool all_take_type(const struct dsf_model *m, const struct dsf_job *job)
{
    for (int32_t l = -1; l < m->layers; l++) {
        const struct dsflow_segment *const *s = dsf_model_layer(m, l)->segments;

        for (; *s != NULL; s++)
            if (!takes_type(job, *s))
                return false;
    }
    return true;
}

static bool is_of_head(const struct dsf_model *m, unsigned unit)
{
    const struct dsflow_segment *head =
        dsf_model_layer(m, m->layers)->segments[0];

    for (unsigned i = 0; dsf_segment_unit(head, i) != NULL; i++)
        if (dsf_model_unit(m, m->layers, head, i) == unit)
            return true;
    return false;
}

/* May the embedding have the matrix of the head in fp32? */
static bool embeds_any(const struct dsf_model *m, const struct dsf_job *job)
{
    const struct dsflow_segment *s = dsf_model_layer(m, -1)->segments[0];
    const struct dsflow_op *op = dsf_generation_op(job, s);

    for (unsigned p = 0; p < op->nports; p++)
        if (op->ports[p].name != NULL &&
            s->ports[p].from == DSFLOW_FROM_PARAMETERS &&
            is_of_head(m, dsf_model_unit(m, -1, s, s->ports[p].unit)) &&
            op->ports[p].floats != DSFLOW_NARROW_ALONE)
            return false;
    return true;
}

struct dsf_generation_types dsf_generation_types(const struct dsf_model *m,
                                                 const struct dsf_job *job)
{
    struct dsf_generation_types types = { DSFLOW_FP32, DSFLOW_FP32 };
    enum dsflow_dtype type = job == NULL ? DSFLOW_FP32 : dsf_compute_type(job);

    if (type == DSFLOW_FP32 || !all_take_type(m, job))
        return types;
    if (dsf_precision_keys(job)->head == DSF_HEAD_COMPUTE &&
        takes_type(job, dsf_model_layer(m, m->layers)->segments[0]))
        types.head = type;
    if (types.head == type || embeds_any(m, job))
        types.body = type;
    return types;
}

enum dsflow_dtype dsf_generation_unit_type(const struct dsf_model *m,
                                           struct dsf_generation_types types,
                                           unsigned unit)
{
    return is_of_head(m, unit) ? types.head : types.body;
}

enum dsflow_dtype dsf_generation_port_type(struct dsf_generation_types types,
                                           const struct dsf_job *job,
                                           const struct dsflow_segment *s,
                                           unsigned port)
{
    return takes_fp32_only(dsf_generation_op(job, s), port) ? DSFLOW_FP32
                                                            : types.body;
}
