/* segments.c - the pieces of a layer, and what may take the place of each. */
#include "tasks/tasks.h"

#include "base/alloc.h"
#include "config/job_tables.h"
#include "tasks/components.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BUILTIN(what, text, ...)                                               \
    {                                                                          \
        .abi = DSFLOW_SEGMENT_ABI, .name = "builtin", .summary = text,         \
        .replaces = what, __VA_ARGS__                                          \
    }

/* The first of each is what the others replace. */
static const struct dsflow_segment segments[] = {
    BUILTIN("embed", "rows of the embedding of tokens, and of positions",
            .forward = &dsf_op_embed_forward,
            .backward_weight = &dsf_op_embed_backward_weight),
    BUILTIN("qkv", "norm, then queries, keys and values",
            .forward = &dsf_op_qkv_forward,
            .backward_input = &dsf_op_qkv_backward_input,
            .backward_weight = &dsf_op_qkv_backward_weight),
    BUILTIN("attention", "causal softmax attention",
            .forward = &dsf_op_attention_forward,
            .backward_input = &dsf_op_attention_backward_input),
    BUILTIN("out", "projection of the attention's output",
            .forward = &dsf_op_out_forward,
            .backward_input = &dsf_op_out_backward_input,
            .backward_weight = &dsf_op_out_backward_weight),
    BUILTIN("mlp", "norm, then two layers with GELU or SwiGLU",
            .forward = &dsf_op_mlp_forward, .hidden = &dsf_op_mlp_hidden,
            .backward_input = &dsf_op_mlp_backward_input,
            .backward_weight = &dsf_op_mlp_backward_weight),
    BUILTIN("head", "norm, logits and their loss",
            .forward = &dsf_op_head_forward,
            .backward_input = &dsf_op_head_backward_input,
            .backward_weight = &dsf_op_head_backward_weight,
            .logits = &dsf_op_head_logits),
};

enum { NSEGMENTS = sizeof(segments) / sizeof(*segments) };

static const void *const builtin[] = { &segments[0], &segments[1], &segments[2],
                                       &segments[3], &segments[4], &segments[5],
                                       NULL };

const char *dsf_segment_name(unsigned i)
{
    return i < NSEGMENTS ? segments[i].replaces : NULL;
}

static const struct dsflow_segment *replaced(const char *name)
{
    for (unsigned i = 0; i < NSEGMENTS; i++)
        if (strcmp(segments[i].replaces, name) == 0)
            return &segments[i];
    return NULL;
}

/* The kinds of task of a segment, by position. */
enum { NOPS = 5 };
static const struct dsflow_op *op_at(const struct dsflow_segment *s, unsigned i)
{
    const struct dsflow_op *const ops[NOPS] = { s->forward, s->hidden,
                                                s->backward_input,
                                                s->backward_weight, s->logits };

    return ops[i];
}

/* Is the port the one of the original? Left out is what that may leave out: it
 * is for parts. */
static bool is_same_port(const struct dsflow_port *own,
                         const struct dsflow_port *its)
{
    if (own->name == NULL || its->name == NULL)
        return own->name == NULL && (its->name == NULL || its->optional);
    return strcmp(own->name, its->name) == 0 && own->access == its->access;
}

/* Can `op` stand where `old` does? */
static int check_op(const struct dsflow_segment *s, const struct dsflow_op *op,
                    const struct dsflow_op *old, struct dsflow_err *err)
{
    char what[160];

    snprintf(what, sizeof(what), "segment %.40s for %.20s: task %.60s", s->name,
             s->replaces, op->name != NULL ? op->name : "(no name)");
    if (op->name == NULL || dsflow_op_find(op->name) != op)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: is not registered", what);
    if (op->args_size != old->args_size)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: args_size: %zu: expected the %zu of %s", what,
                           op->args_size, old->args_size, old->name);
    if (op->nports > old->nports || op->repeats != old->repeats ||
        op->comm != old->comm)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %u ports: expected %u, as %s has", what,
                           op->nports, old->nports, old->name);
    if (op->segment == NULL || strcmp(op->segment, old->segment) != 0 ||
        op->direction != old->direction)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: segment %.40s, direction %u: expected %s, %u, "
                           "as %s has",
                           what, op->segment != NULL ? op->segment : "NULL",
                           op->direction, old->segment, old->direction,
                           old->name);
    for (unsigned i = 0; i < old->nports; i++) {
        const struct dsflow_port none = { 0 }, *its = &old->ports[i];
        const struct dsflow_port *own = i < op->nports ? &op->ports[i] : &none;

        if (!is_same_port(own, its))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: port %u is %.40s: expected %s with the "
                               "same access as in %s",
                               what, i,
                               own->name != NULL ? own->name : "missing",
                               its->name != NULL ? its->name : "none",
                               old->name);
    }
    return DSFLOW_OK;
}

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_segment *s = thing;
    int status =
        dsf_registry_check(&dsf_segments, s->abi, s->name, s->summary, err);
    const struct dsflow_segment *old;
    char *name;

    if (status < 0)
        return status;
    old = s->replaces != NULL ? replaced(s->replaces) : NULL;
    if (old == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "segment %.60s: replaces: %.60s: expected embed, "
                           "qkv, attention, out, mlp or head",
                           s->name, s->replaces != NULL ? s->replaces : "NULL");
    if (s->forward == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "segment %.60s for %s: has no forward", s->name,
                           s->replaces);
    for (unsigned i = 0; i < NOPS && status == DSFLOW_OK; i++) {
        if (op_at(s, i) == NULL)
            continue;
        if (op_at(old, i) == NULL)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.60s for %s: task %.60s: there is no "
                               "such task in %s",
                               s->name, s->replaces, op_at(s, i)->name,
                               s->replaces);
        status = check_op(s, op_at(s, i), op_at(old, i), err);
    }
    if (status < 0)
        return status;
    name = dsf_xasprintf("%s.%s", s->replaces, s->name);
    status = dsf_registry_add(&dsf_segments, name, s, origin, err);
    free(name);
    return status;
}

/* Named "attention.mine": each segment has names of its own. */
struct dsf_registry dsf_segments = {
    .sort = "segment",
    .abi = DSFLOW_SEGMENT_ABI,
    .add = add,
    .builtin = builtin,
};

int dsflow_segment_register(const struct dsflow_segment *segment,
                            struct dsflow_err *err)
{
    return dsf_segments.add(segment, DSF_PROGRAM, err);
}

const struct dsflow_segment *dsflow_segment_at(unsigned i)
{
    return dsf_registry_thing_at(&dsf_segments, i);
}

const struct dsflow_segment *dsflow_segment_find(const char *replaces,
                                                 const char *name)
{
    const struct dsflow_segment *s;

    for (unsigned i = 0; (s = dsflow_segment_at(i)) != NULL; i++)
        if (strcmp(s->replaces, replaces) == 0 && strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

/* Of those that replace the segment that the key is called after. */
const char *dsf_job_segment_name(const struct dsflow_option *option, unsigned i)
{
    const struct dsflow_segment *s;

    for (unsigned k = 0; (s = dsflow_segment_at(k)) != NULL; k++)
        if (strcmp(s->replaces, option->key) == 0 && i-- == 0)
            return s->name;
    return NULL;
}

const struct dsflow_segment *dsf_job_segment(const struct dsf_job *job,
                                             const char *replaces,
                                             struct dsflow_err *err)
{
    const struct dsf_job_model *m = &job->model;
    const char *const keys[NSEGMENTS] = { m->embed, m->qkv, m->attention,
                                          m->out,   m->mlp, m->head };
    const struct dsflow_segment *old = replaced(replaces), *s;
    const char *name = keys[old - segments];
    int axis = dsf_axis_sharing(job->mesh.size, DSFLOW_SHARE_TENSORS);

    s = dsflow_segment_find(replaces, name);
    if (s != old && axis >= 0) {
        dsf_job_fail(job, err, DSFLOW_EINVAL, "model", replaces,
                     "\"%s\": works on whole layers: expected mesh.%s = 1, "
                     "not %lld",
                     s->name, dsflow_axis_at((unsigned)axis)->name,
                     (long long)job->mesh.size[axis]);
        s = NULL;
    }
    return s;
}

/* The built-in segment that `op` is of, and its position there; or NULL. */
static const struct dsflow_segment *segment_of(const struct dsflow_op *op,
                                               unsigned *at)
{
    for (unsigned k = 0; k < NSEGMENTS; k++)
        for (*at = 0; *at < NOPS; ++*at)
            if (op_at(&segments[k], *at) == op)
                return &segments[k];
    return NULL;
}

const struct dsflow_op *dsf_job_op(const struct dsf_job *job,
                                   const struct dsflow_op *op)
{
    const struct dsflow_segment *old, *s;
    unsigned at;

    old = job != NULL ? segment_of(op, &at) : NULL;
    if (old == NULL)
        return op;
    s = dsf_job_segment(job, old->replaces, NULL);
    return s != NULL && op_at(s, at) != NULL ? op_at(s, at) : op;
}
