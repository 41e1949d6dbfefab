/* replaced.c - kinds of task of plug-ins in the place of those of a built-in
 * segment, where a job says so: [model] attention = "mine". */
#include "segments/segment.h"

#include "config/job_keys.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Keys of [model]. */
static const struct {
    const char *name;
    size_t at;
} keys[] = {
#define KEY(name)                                                              \
    {                                                                          \
#name, offsetof(struct dsf_job_model, name)                            \
    }
    KEY(embed), KEY(qkv), KEY(attention), KEY(out), KEY(mlp), KEY(head),
#undef KEY
};
enum { NKEYS = sizeof(keys) / sizeof(*keys) };

const char *dsf_segment_name(unsigned i)
{
    return i < NKEYS ? keys[i].name : NULL;
}

const char *dsf_job_replacing(const struct dsf_job *job, const char *replaces)
{
    unsigned i = 0;

    while (strcmp(keys[i].name, replaces) != 0)
        i++;
    return *(char *const *)((const char *)&job->model + keys[i].at);
}

/* NULL: it has no key. */
static const struct dsflow_segment *replaced(const char *name)
{
    for (unsigned i = 0; i < NKEYS; i++)
        if (strcmp(keys[i].name, name) == 0)
            return dsflow_segment_find(NULL, name);
    return NULL;
}

/* Is the port the one of the original? Left out is what that may leave out: it
 * is for parts. Keys and values, to which several tiles add theirs, are those
 * of one tile where qkv is replaced, which may write them only. */
static bool is_same_port(const struct dsflow_port *own,
                         const struct dsflow_port *its)
{
    const struct dsflow_port *kv = &dsf_op_qkv_forward.ports[DSFLOW_QKV_KV];

    if (own->name == NULL || its->name == NULL)
        return own->name == NULL && (its->name == NULL || its->optional);
    return strcmp(own->name, its->name) == 0 &&
           (own->access == its->access ||
            (its == kv && own->access == DSFLOW_W));
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
            return dsflow_fail(
                err, DSFLOW_EINVAL,
                "%s: port %u is %.40s: expected %s with the "
                "same access as in %s",
                what, i, own->name != NULL ? own->name : "missing",
                its->name != NULL ? its->name : "none", old->name);
    }
    return DSFLOW_OK;
}

int dsf_segment_check_replaces(const struct dsflow_segment *s,
                               struct dsflow_err *err)
{
    const struct dsflow_segment *old = replaced(s->replaces);
    int status = DSFLOW_OK;

    if (old == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "segment %.60s: replaces: %.60s: expected embed, "
                           "qkv, attention, out, mlp or head",
                           s->name, s->replaces);
    if (s->forward == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "segment %.60s for %s: has no forward", s->name,
                           s->replaces);
    for (unsigned i = 0; i < DSF_SEGMENT_OPS && status == DSFLOW_OK; i++) {
        const struct dsflow_op *op = dsf_segment_op(s, i);

        if (op == NULL)
            continue;
        if (dsf_segment_op(old, i) == NULL)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.60s for %s: task %.60s: there is no "
                               "such task in %s",
                               s->name, s->replaces, op->name, s->replaces);
        status = check_op(s, op, dsf_segment_op(old, i), err);
    }
    return status;
}

/* What may take the place of the segment that the key is called after. */
const char *dsf_job_segment_name(const struct dsflow_option *option, unsigned i)
{
    const struct dsflow_segment *s;

    if (i == 0)
        return "builtin";
    for (unsigned k = 0; (s = dsflow_segment_at(k)) != NULL; k++)
        if (s->replaces != NULL && strcmp(s->replaces, option->key) == 0 &&
            --i == 0)
            return s->name;
    return NULL;
}

const struct dsflow_segment *dsf_job_segment(const struct dsf_job *job,
                                             const char *replaces,
                                             struct dsflow_err *err)
{
    const struct dsflow_segment *old = replaced(replaces), *s;
    const char *name = dsf_job_replacing(job, replaces);
    int axis = dsf_axis_sharing(job->mesh.size, DSFLOW_SHARE_TENSORS);

    s = strcmp(name, "builtin") == 0 ? old
                                     : dsflow_segment_find(replaces, name);
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

int dsf_job_check_segments(const struct dsf_job *job, struct dsflow_err *err)
{
    const struct dsflow_segment **of = dsf_job_segments(job, err);
    bool is_wrong = of == NULL;

    free(of);
    for (unsigned i = 0; i < NKEYS && !is_wrong; i++)
        is_wrong = dsf_job_segment(job, keys[i].name, err) == NULL;
    return is_wrong ? DSFLOW_EINVAL : DSFLOW_OK;
}

const struct dsflow_op *dsf_job_op(const struct dsf_job *job,
                                   const struct dsflow_op *op)
{
    const struct dsflow_segment *old, *s;
    unsigned at = 0;

    old = job != NULL ? dsf_segment_of_op(op) : NULL;
    if (old == NULL || replaced(old->name) != old)
        return op;
    while (at < DSF_SEGMENT_OPS && dsf_segment_op(old, at) != op)
        at++;
    if (at == DSF_SEGMENT_OPS) /* in columns: nothing takes its place */
        return op;
    s = dsf_job_segment(job, old->name, NULL);
    return s != NULL && dsf_segment_op(s, at) != NULL ? dsf_segment_op(s, at)
                                                      : op;
}
