/* segment_table.c - the segments there are, and which ones a layer has. */
#include "segments/segment.h"

#include "base/alloc.h"
#include "base/fatal.h"
#include "base/returned.h"
#include "codelets/codelets.h"
#include "tasks/components.h"

#include <stdlib.h>
#include <string.h>

static const void *const builtin[] = {
    &dsf_segment_embed,
    &dsf_segment_qkv,
    &dsf_segment_attention,
    &dsf_segment_out,
    &dsf_segment_mlp,
    &dsf_segment_head,
    NULL,
};

/* What a segment brings along. */
static int add_codelets(const struct dsflow_segment *s, const char *origin,
                        struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned i = 0;
         status == DSFLOW_OK && s->codelets != NULL && s->codelets[i] != NULL;
         i++) {
        status = dsf_task_kinds.add(s->codelets[i]->op, origin, err);
        if (status == DSFLOW_OK)
            status = dsf_codelet_kinds.add(s->codelets[i], origin, err);
    }
    return status;
}

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_segment *s = thing;
    int status =
        dsf_registry_check(&dsf_segments, s->abi, s->name, s->summary, err);
    char *name;

    if (status == DSFLOW_OK)
        status = add_codelets(s, origin, err);
    if (status < 0)
        return status;
    status = s->replaces != NULL ? dsf_segment_check_replaces(s, err)
                                 : dsf_segment_check(s, err);
    if (status < 0)
        return status;
    name = s->replaces == NULL ? dsf_xstrdup(s->name)
                               : dsf_xasprintf("%s.%s", s->replaces, s->name);
    status = dsf_registry_add(&dsf_segments, name, s, origin, err);
    free(name);
    return status;
}

/* Named "attention", or "attention.mine", which takes its place. */
struct dsf_registry dsf_segments = {
    .sort = "segment",
    .abi = DSFLOW_SEGMENT_ABI,
    .add = add,
    .builtin = builtin,
};

int dsflow_segment_register(const struct dsflow_segment *segment,
                            struct dsflow_err *err)
{
    size_t ntasks = dsf_registry_count(&dsf_task_kinds);
    size_t ncodelets = dsf_registry_count(&dsf_codelet_kinds);
    int status = dsf_segments.add(segment, DSF_PROGRAM, err);

    if (status < 0) { /* nor what it brought along */
        dsf_registry_cut(&dsf_task_kinds, ntasks);
        dsf_registry_cut(&dsf_codelet_kinds, ncodelets);
    }
    return status;
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
        if ((s->replaces == NULL) == (replaces == NULL) &&
            strcmp(s->name, name) == 0 &&
            (replaces == NULL || strcmp(s->replaces, replaces) == 0))
            return s;
    return NULL;
}

const struct dsflow_segment *dsf_segment_at(unsigned i)
{
    const struct dsf_registered *all;
    const size_t n = dsf_registry_all(&dsf_segments, &all);

    for (size_t k = 0; k < n; k++) {
        const struct dsflow_segment *s = all[k].thing;

        if (s->replaces == NULL && i-- == 0)
            return s;
    }
    return NULL;
}

unsigned dsf_segment_number(const struct dsflow_segment *segment)
{
    const struct dsf_registered *all;
    const size_t n = dsf_registry_all(&dsf_segments, &all);
    unsigned number = 0;

    for (size_t i = 0; i < n && all[i].thing != segment; i++)
        number +=
            ((const struct dsflow_segment *)all[i].thing)->replaces == NULL;
    return number;
}

const struct dsflow_op *dsf_segment_op(const struct dsflow_segment *s,
                                       unsigned i)
{
    const struct dsflow_op *const ops[DSF_SEGMENT_OPS] = {
        s->forward, s->hidden, s->backward_input, s->backward_weight, s->logits
    };

    return ops[i];
}

static bool is_in_columns(const struct dsflow_segment *s,
                          const struct dsflow_op *op)
{
    return s->hooks != NULL &&
           (op == s->hooks->forward_columns ||
            op == s->hooks->backward_columns || op == s->hooks->input_columns ||
            op == s->hooks->weight_columns);
}

const struct dsflow_segment *dsf_segment_of_op(const struct dsflow_op *op)
{
    const struct dsf_registered *all;
    const size_t n = dsf_registry_all(&dsf_segments, &all);

    for (size_t i = 0; i < n; i++) {
        const struct dsflow_segment *s = all[i].thing;

        if (s->replaces == NULL &&
            (op == s->forward || op == s->hidden || op == s->backward_input ||
             op == s->backward_weight || op == s->logits ||
             is_in_columns(s, op)))
            return s;
    }
    return NULL;
}

const char *dsf_segment_unit(const struct dsflow_segment *s, unsigned i)
{
    if (s->hooks != NULL)
        return s->hooks->units[i];
    return s->tensors != NULL && i == 0 ? s->name : NULL;
}

int dsf_segment_needs(const struct dsflow_segment *segment,
                      const struct dsflow_site *site, struct dsflow_need *need,
                      struct dsflow_err *err)
{
    _Alignas(16) unsigned char args[DSFLOW_SEGMENT_ARGS] = { 0 };

    segment->fill(site, args);
    dsf_no_message(err);
    return dsf_returned(segment->needs(segment->forward, args, need, err),
                        DSFLOW_OK, "segment", segment->name, "needs", err);
}

/* The model has asked before. */
struct dsflow_need dsf_segment_need(const struct dsflow_segment *segment,
                                    const struct dsflow_site *site,
                                    unsigned port)
{
    struct dsflow_need need[DSFLOW_SEGMENT_PORTS] = { { 0 } };
    struct dsflow_err err;

    if (dsf_segment_needs(segment, site, need, &err) < 0)
        dsf_fatal("bug: %s", err.msg);
    return need[port];
}

static bool is_of_layers(const struct dsflow_segment *s)
{
    return s->hooks == NULL || !s->hooks->of_model;
}

/* "qkv, attention, out, mlp". */
struct names {
    char s[200];
};
static struct names names_in_layers(void)
{
    struct names names = { .s = "" };
    const struct dsflow_segment *s;
    size_t at = 0;

    for (unsigned i = 0; (s = dsf_segment_at(i)) != NULL; i++)
        if (is_of_layers(s) && at < sizeof(names.s))
            at += (size_t)snprintf(names.s + at, sizeof(names.s) - at, "%s%s",
                                   at == 0 ? "" : ", ", s->name);
    return names;
}

static bool is_before(const struct dsflow_strings *list, unsigned i,
                      const char *name)
{
    while (i-- > 0)
        if (strcmp(list->v[i], name) == 0)
            return true;
    return false;
}

/* What a segment reads of others stands before it, and what gives it gradients
 * behind it. */
static const char *missing(const struct dsflow_segment *s,
                           const struct dsflow_strings *list, unsigned i,
                           bool *before)
{
    const char *next = s->hooks != NULL ? s->hooks->next : NULL;

    for (unsigned p = 0; p < s->nports; p++) {
        *before = true;
        if (s->ports[p].other != NULL && !is_before(list, i, s->ports[p].other))
            return s->ports[p].other;
    }
    *before = false;
    if (next != NULL &&
        (is_before(list, i, next) || !is_before(list, list->n, next)))
        return next;
    return NULL;
}

static const struct dsflow_segment *
find_in_layers(const struct dsf_job *job, unsigned i, struct dsflow_err *err)
{
    const struct dsflow_strings *list = &job->model.segments;
    const struct dsflow_segment *s = dsflow_segment_find(NULL, list->v[i]);
    int axis = dsf_axis_sharing(job->mesh.size, DSFLOW_SHARE_TENSORS);
    const char *other;
    bool before;

    if (s == NULL || !is_of_layers(s))
        dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "segments",
                     "\"%.60s\": expected some of %s", list->v[i],
                     names_in_layers().s);
    else if (is_before(list, i, list->v[i]))
        dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "segments",
                     "\"%s\": expected it once", s->name);
    else if (s->rules == NULL && axis >= 0)
        dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "segments",
                     "\"%s\": works on whole layers: expected mesh.%s = 1, "
                     "not %lld",
                     s->name, dsflow_axis_at((unsigned)axis)->name,
                     (long long)job->mesh.size[axis]);
    else if ((other = missing(s, list, i, &before)) != NULL)
        dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "segments",
                     "\"%s\": expected \"%.60s\" %s it", s->name, other,
                     before ? "before" : "behind");
    else
        return s;
    return NULL;
}

static bool has_port(const struct dsflow_segment *s, enum dsflow_from from)
{
    for (unsigned p = 0; p < s->nports; p++)
        if (s->ports[p].from == from)
            return true;
    return false;
}

/* Each stream has one gradient: where several segments read it, one of them
 * gives it. */
static int check_streams(const struct dsf_job *job,
                         const struct dsflow_segment *const *of,
                         struct dsflow_err *err)
{
    const struct dsflow_segment *gives = NULL;
    bool writes = false;

    for (; *of != NULL; of++) {
        if (has_port(*of, DSFLOW_FROM_DIN) && gives != NULL)
            return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "segments",
                                "\"%s\": reads what \"%s\" reads: expected it "
                                "before that one, or behind the next that adds "
                                "to the stream",
                                (*of)->name, gives->name);
        if (has_port(*of, DSFLOW_FROM_DIN))
            gives = *of;
        if (has_port(*of, DSFLOW_FROM_OUT)) {
            writes = true;
            gives = NULL;
        }
    }
    return writes ? DSFLOW_OK
                  : dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "segments",
                                 "expected at least one that adds to the "
                                 "stream, such as \"mlp\"");
}

/* Is data of a layer made for the port, and called after it? That of the stream
 * after stands at the segment that leaves it. */
static bool makes_data(const struct dsflow_segment *s, unsigned p)
{
    switch (s->ports[p].from) {
    case DSFLOW_FROM_DOUT:
        return has_port(s, DSFLOW_FROM_OUT);
    case DSFLOW_FROM_OUT:
    case DSFLOW_FROM_KEPT:
    case DSFLOW_FROM_PASSING:
    case DSFLOW_FROM_BRIEF:
        return true;
    default:
        return false;
    }
}

/* Does one of the first `n` ports make data of this name? */
static bool makes(const struct dsflow_segment *s, unsigned n, const char *name)
{
    for (unsigned p = 0; p < n; p++)
        if (makes_data(s, p) && strcmp(s->ports[p].name, name) == 0)
            return true;
    return false;
}

/* Who else makes data of the name of this port: one behind it in the layer, or
 * the embedding, whose stream comes in. NULL: nobody. */
static const struct dsflow_segment *
find_maker(const struct dsflow_segment *const *of, unsigned p)
{
    const char *name = (*of)->ports[p].name;

    if (makes(*of, p, name))
        return *of;
    while (*++of != NULL)
        if (makes(*of, (*of)->nports, name))
            return *of;
    return makes(&dsf_segment_embed, DSFLOW_EMBED_NPORTS, name)
               ? &dsf_segment_embed
               : NULL;
}

static int check_names(const struct dsf_job *job,
                       const struct dsflow_segment *const *of,
                       struct dsflow_err *err)
{
    const struct dsflow_segment *other;

    for (; *of != NULL; of++)
        for (unsigned p = 0; p < (*of)->nports; p++)
            if (makes_data(*of, p) && (other = find_maker(of, p)) != NULL)
                return dsf_job_fail(
                    job, err, DSFLOW_EINVAL, "model", "segments",
                    "\"%s\": port %.40s: data of \"%s\" is "
                    "called so, too: expected another name",
                    (*of)->name, (*of)->ports[p].name, other->name);
    return DSFLOW_OK;
}

const struct dsflow_segment **dsf_job_segments(const struct dsf_job *job,
                                               struct dsflow_err *err)
{
    const struct dsflow_strings *list = &job->model.segments;
    const struct dsflow_segment **of = dsf_xcalloc(list->n + 1u, sizeof(*of));
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < list->n && status == DSFLOW_OK; i++) {
        of[i] = find_in_layers(job, i, err);
        status = of[i] != NULL ? DSFLOW_OK : DSFLOW_EINVAL;
    }
    if (status == DSFLOW_OK)
        status = check_streams(job, of, err);
    if (status == DSFLOW_OK)
        status = check_names(job, of, err);
    if (status == DSFLOW_OK)
        return of;
    free(of);
    return NULL;
}
