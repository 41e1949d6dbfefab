/* segment_check.c - is the description of a segment whole? */
#include "segments/segment.h"

#include <math.h>
#include <string.h>

enum { LONGEST_NAME = 64 }; /* of a tensor, without that of its layer */

static bool has_port(const struct dsflow_op *op, unsigned p)
{
    return p < op->nports && op->ports[p].name != NULL;
}

static int check_ports(const struct dsflow_segment *s, struct dsflow_err *err)
{
    for (unsigned p = 0; p < s->nports; p++) {
        const struct dsflow_segment_port *port = &s->ports[p];

        if (port->name == NULL || port->from >= DSFLOW_NFROMS ||
            port->cut >= DSFLOW_NCUTS ||
            port->dropped > DSFLOW_DROPPED_WITH_BLOCK)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: port %u: expected a name, and "
                               "values of dsflow/segment.h",
                               s->name, p);
        if ((port->from == DSFLOW_FROM_OTHER) != (port->other != NULL))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: port %.40s: expected `other` "
                               "with DSFLOW_FROM_OTHER, and only there",
                               s->name, port->name);
        if (s->hooks == NULL && (port->from == DSFLOW_FROM_LOGITS ||
                                 port->from == DSFLOW_FROM_LOSS))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: port %.40s: logits and loss are "
                               "the head's",
                               s->name, port->name);
        if (s->hooks == NULL && s->tensors == NULL &&
            (port->from == DSFLOW_FROM_PARAMETERS ||
             port->from == DSFLOW_FROM_GRADIENTS))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: port %.40s: is of parameters: "
                               "expected a function tensors",
                               s->name, port->name);
    }
    return DSFLOW_OK;
}

static int check_other(const struct dsflow_segment *s,
                       const struct dsflow_segment_port *port,
                       struct dsflow_err *err)
{
    const struct dsflow_segment *other;

    if (port->from != DSFLOW_FROM_OTHER)
        return DSFLOW_OK;
    other = dsflow_segment_find(NULL, port->other);
    if (other != NULL && port->unit < other->nports)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "segment %.40s: port %.40s: %.40s has no port %u",
                       s->name, port->name, port->other, port->unit);
}

static int check_op(const struct dsflow_segment *s, const struct dsflow_op *op,
                    struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (op->name == NULL || dsflow_op_find(op->name) != op)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "segment %.40s: task %.60s: is not registered",
                           s->name, op->name != NULL ? op->name : "(no name)");
    if (op->segment == NULL || strcmp(op->segment, s->name) != 0)
        return dsflow_fail(
            err, DSFLOW_EINVAL, "segment %.40s: task %.60s: segment: %.40s",
            s->name, op->name, op->segment != NULL ? op->segment : "NULL");
    if (op->args_size < sizeof(struct dsflow_tile) ||
        op->args_size > DSFLOW_SEGMENT_ARGS)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "segment %.40s: task %.60s: args_size: %zu: expected "
            "%zu to %d, which begin with the tile",
            s->name, op->name, op->args_size, sizeof(struct dsflow_tile),
            DSFLOW_SEGMENT_ARGS);
    for (unsigned p = 0; p < op->nports && status == DSFLOW_OK; p++) {
        if (!has_port(op, p))
            continue;
        if (p >= s->nports ||
            (s->ports[p].from == DSFLOW_FROM_NOTHING && !op->ports[p].optional))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: task %.60s: port %.40s: it is "
                               "not said what it is connected to",
                               s->name, op->name, op->ports[p].name);
        status = check_other(s, &s->ports[p], err);
    }
    return status;
}

/* The first task that has what it makes writes it: nothing is in it before. */
static int check_writes(const struct dsflow_segment *s,
                        const struct dsflow_op *op, uint32_t froms,
                        struct dsflow_err *err)
{
    for (unsigned p = 0; op != NULL && s->fresh == NULL && p < s->nports; p++)
        if ((froms >> s->ports[p].from & 1) && has_port(op, p) &&
            op->ports[p].access != DSFLOW_W)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: task %.60s: port %.40s: "
                               "expected DSFLOW_W: it has no contents before",
                               s->name, op->name, op->ports[p].name);
    return DSFLOW_OK;
}

/* What forward leaves is there in the backward pass only where it is kept. */
static int check_kept(const struct dsflow_segment *s, struct dsflow_err *err)
{
    for (unsigned p = 0; p < s->nports; p++)
        if ((s->ports[p].from == DSFLOW_FROM_PASSING ||
             s->ports[p].from == DSFLOW_FROM_BRIEF) &&
            has_port(s->forward, p))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: task %.60s: port %.40s: is made "
                               "in the backward pass: expected "
                               "DSFLOW_FROM_KEPT",
                               s->name, s->forward->name, s->ports[p].name);
    return DSFLOW_OK;
}

/* Does a task of it have a port that is connected so? */
static bool has_from(const struct dsflow_segment *s, const struct dsflow_op *op,
                     enum dsflow_from from)
{
    for (unsigned p = 0; op != NULL && p < s->nports; p++)
        if (s->ports[p].from == from && has_port(op, p))
            return true;
    return false;
}

/* Gradients of all that it reads. */
static int check_backward(const struct dsflow_segment *s,
                          struct dsflow_err *err)
{
    const struct {
        enum dsflow_from read, gradient;
        const char *text;
    } pairs[] = {
        { DSFLOW_FROM_IN, DSFLOW_FROM_DIN, "the stream" },
        { DSFLOW_FROM_PARAMETERS, DSFLOW_FROM_GRADIENTS, "its parameters" },
    };

    for (unsigned i = 0; i < 2; i++)
        if (has_from(s, s->forward, pairs[i].read) &&
            has_from(s, s->forward, DSFLOW_FROM_OUT) &&
            !has_from(s, s->backward_input, pairs[i].gradient) &&
            !has_from(s, s->backward_weight, pairs[i].gradient))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: no task has the gradient of %s",
                               s->name, pairs[i].text);
    return DSFLOW_OK;
}

/* Does one of the `n` before have this name, or is it none for a file? */
static int check_name(const struct dsflow_segment *s, const char *name,
                      const struct dsflow_tensor_spec *list, unsigned n,
                      struct dsflow_err *err)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    if (length == 0 || length > LONGEST_NAME || name[length] != '\0')
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "segment %.40s: tensor \"%.60s\": expected a name "
                           "of 1 to %d letters, digits, '.', '_' and '-'",
                           s->name, name, LONGEST_NAME);
    while (n-- > 0)
        if (list[n].name != NULL && strcmp(list[n].name, name) == 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: tensor %.60s: expected it once",
                               s->name, name);
    return DSFLOW_OK;
}

static int check_tensors(const struct dsflow_segment *s, struct dsflow_err *err)
{
    static const struct dsflow_layout small = {
        .sizes = { .width = 64,
                   .heads = 4,
                   .kv_heads = 2,
                   .head_dim = 16,
                   .ffn = 128,
                   .vocab = 97,
                   .context = 32,
                   .eps = 1e-5f },
        .layers = 2,
    };
    struct dsflow_tensor_spec list[DSFLOW_SEGMENT_TENSORS] = { { 0 } };
    bool vectors = false;

    if (s->tensors == NULL)
        return DSFLOW_OK;
    s->tensors(&small, list);
    for (unsigned i = 0; i < DSFLOW_SEGMENT_TENSORS; i++) {
        const struct dsflow_tensor_spec *t = &list[i];
        bool is_cut = t->cut == DSFLOW_CUT_ROWS ||
                      (t->cut == DSFLOW_CUT_COLUMNS && t->rows > 0);

        if (t->name == NULL)
            continue;
        if (t->rows < 0 || t->cols < 1 || (t->rows > 0 && vectors) ||
            (t->cut != 0 && !is_cut))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: tensor %.40s: %lld x %lld, cut "
                               "%u: expected matrices, then vectors, cut in "
                               "rows or columns or not at all",
                               s->name, t->name, (long long)t->rows,
                               (long long)t->cols, t->cut);
        if (!isfinite(t->value) || !isfinite(t->std) || t->std < 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: tensor %.40s: value %g, std %g: "
                               "expected numbers, and a std of at least 0",
                               s->name, t->name, (double)t->value,
                               (double)t->std);
        vectors |= t->rows == 0;
        if (check_name(s, t->name, list, i, err) < 0)
            return DSFLOW_EINVAL;
    }
    return DSFLOW_OK;
}

/* Where there are rules, tensor ranks have rows of streams, parts of units, and
 * what is said of the rest. */
static int check_cuts(const struct dsflow_segment *s, struct dsflow_err *err)
{
    static const struct {
        enum dsflow_cut cut;
        const char *text;
    } expected[DSFLOW_NFROMS] = {
        [DSFLOW_FROM_IN] = { DSFLOW_CUT_ROWS, "DSFLOW_CUT_ROWS" },
        [DSFLOW_FROM_OUT] = { DSFLOW_CUT_ROWS, "DSFLOW_CUT_ROWS" },
        [DSFLOW_FROM_DIN] = { DSFLOW_CUT_ROWS, "DSFLOW_CUT_ROWS" },
        [DSFLOW_FROM_DOUT] = { DSFLOW_CUT_ROWS, "DSFLOW_CUT_ROWS" },
        [DSFLOW_FROM_PARAMETERS] = { DSFLOW_CUT_UNIT, "DSFLOW_CUT_UNIT" },
        [DSFLOW_FROM_GRADIENTS] = { DSFLOW_CUT_UNIT, "DSFLOW_CUT_UNIT" },
    };

    for (unsigned p = 0; s->rules != NULL && p < s->nports; p++) {
        const struct dsflow_segment_port *port = &s->ports[p];
        enum dsflow_cut cut = expected[port->from].cut;

        if (port->from != DSFLOW_FROM_NOTHING &&
            (port->cut == DSFLOW_CUT_UNKNOWN ||
             (cut != DSFLOW_CUT_UNKNOWN && port->cut != cut)))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: port %.40s: cut: expected %s, "
                               "as it has rules for tensor ranks",
                               s->name, port->name,
                               cut != DSFLOW_CUT_UNKNOWN
                                   ? expected[port->from].text
                                   : "a DSFLOW_CUT_…");
    }
    return DSFLOW_OK;
}

static int check_rules(const struct dsflow_segment *s, struct dsflow_err *err)
{
    for (unsigned i = 0; s->rules != NULL && i < DSF_SEGMENT_OPS; i++) {
        const struct dsflow_op *op = dsf_segment_op(s, i);
        const struct dsflow_op_rules *r = s->rules;

        while (op != NULL && op != s->logits && r->op != NULL && r->op != op)
            r++;
        if (op != NULL && op != s->logits && r->op == NULL)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "segment %.40s: its rules have none for task "
                               "%.60s",
                               s->name, op->name);
    }
    return DSFLOW_OK;
}

int dsf_segment_check(const struct dsflow_segment *s, struct dsflow_err *err)
{
    int status;

    if (s->forward == NULL || s->fill == NULL || s->needs == NULL ||
        s->ports == NULL || s->nports > DSFLOW_SEGMENT_PORTS)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "segment %.40s: expected forward, fill, needs, and "
                           "at most %d ports; or `replaces`",
                           s->name, DSFLOW_SEGMENT_PORTS);
    if (s->hooks == NULL && dsf_segment_at(DSF_MAX_SEGMENTS - 1) != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "segment %.40s: expected no more than %d segments",
                           s->name, DSF_MAX_SEGMENTS);
    status = check_ports(s, err);
    for (unsigned i = 0; i < DSF_SEGMENT_OPS && status == DSFLOW_OK; i++)
        if (dsf_segment_op(s, i) != NULL)
            status = check_op(s, dsf_segment_op(s, i), err);
    if (status == DSFLOW_OK)
        status = check_writes(
            s, s->forward, 1u << DSFLOW_FROM_OUT | 1u << DSFLOW_FROM_KEPT, err);
    if (status == DSFLOW_OK)
        status = check_writes(s, s->backward_input, 1u << DSFLOW_FROM_DIN, err);
    if (status == DSFLOW_OK)
        status = check_kept(s, err);
    if (status == DSFLOW_OK && s->hooks == NULL)
        status = check_backward(s, err);
    if (status == DSFLOW_OK)
        status = check_tensors(s, err);
    if (status == DSFLOW_OK)
        status = check_rules(s, err);
    if (status == DSFLOW_OK)
        status = check_cuts(s, err);
    return status;
}
