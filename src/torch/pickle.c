/* pickle.c - the operations of Python's pickles (Lib/pickletools.py), protocols
 * 2 to 5, as far as torch.save uses them. They make nodes and run nothing. */
#include "torch/pickle_machine.h"

#include "base/alloc.h"

#include <stdlib.h>

#define MOST_OPS 20000000u

/* --- making --- */

static int push_none(struct dsf_pickle *m)
{
    return dsf_pickle_push(m, dsf_torch_leaf(m->file, DSF_TORCH_NONE));
}

static int push_truth(struct dsf_pickle *m, unsigned x)
{
    return dsf_pickle_push_bool(m, x);
}

static int push_signed(struct dsf_pickle *m, uint64_t x)
{
    return dsf_pickle_push_int(m, (int32_t)x);
}

static int push_unsigned(struct dsf_pickle *m, uint64_t x)
{
    return dsf_pickle_push_int(m, (int64_t)x);
}

static int push_empty(struct dsf_pickle *m, unsigned kind)
{
    return dsf_pickle_push(m, &dsf_torch_node_new(m->file, kind)->pub);
}

static int push_tuple(struct dsf_pickle *m, unsigned n)
{
    struct node *node;

    if (dsf_pickle_has(m, n) < 0)
        return DSFLOW_EINVAL;
    node = dsf_torch_node_new(m->file, DSF_TORCH_TUPLE);
    dsf_torch_put(m->file, node, m->stack + m->n - n, n);
    m->n -= n;
    return dsf_pickle_push(m, &node->pub);
}

/* A TUPLE or a frozen SET of what is above the mark. */
static int push_marked(struct dsf_pickle *m, unsigned kind)
{
    struct dsf_torch_node **v = NULL;
    struct node *node;
    size_t n = 0;

    if (dsf_pickle_pop_mark(m, &v, &n) < 0)
        return DSFLOW_EINVAL;
    node = dsf_torch_node_new(m->file, kind);
    dsf_torch_put(m->file, node, v, n);
    return dsf_pickle_push(m, &node->pub);
}

/* --- calls --- */

/* What is called, and with what: a name and a tuple. */
static int check_call(struct dsf_pickle *m, const struct dsf_torch_node *what,
                      const struct dsf_torch_node *args)
{
    if (what->kind != DSF_TORCH_GLOBAL)
        return dsf_pickle_refuse(m, "calls %s: expected a name",
                                 dsf_torch_kind_str(what->kind));
    if (args->kind != DSF_TORCH_TUPLE)
        return dsf_pickle_refuse(m, "calls %.100s with %s: expected a tuple",
                                 what->global, dsf_torch_kind_str(args->kind));
    return DSFLOW_OK;
}

static int call(struct dsf_pickle *m, unsigned keywords)
{
    const struct dsf_torch_node *what, *words = NULL;
    struct dsf_torch_node *args, *made;
    struct dsflow_err why = { .msg = "" };

    if (dsf_pickle_has(m, keywords ? 3 : 2) < 0)
        return DSFLOW_EINVAL;
    if (keywords)
        words = m->stack[--m->n];
    args = m->stack[--m->n];
    what = m->stack[--m->n];
    if (check_call(m, what, args) < 0)
        return DSFLOW_EINVAL;
    if (words != NULL && words->kind != DSF_TORCH_DICT)
        return dsf_pickle_refuse(m, "keywords in %s: expected a dict",
                                 dsf_torch_kind_str(words->kind));
    if (words != NULL && words->n > 0) {
        struct node *both = dsf_torch_node_new(m->file, DSF_TORCH_TUPLE);

        dsf_torch_put(m->file, both, args->items, args->n);
        dsf_torch_put(m->file, both,
                      (struct dsf_torch_node *const *)(const void *)&words, 1);
        args = &both->pub;
    }
    made = dsf_torch_call(m->file, what->global, args, &why);
    return made != NULL ? dsf_pickle_push(m, made)
                        : dsf_pickle_refuse_for(m, &why);
}

static int build(struct dsf_pickle *m)
{
    struct dsf_torch_node *state;
    struct dsflow_err why = { .msg = "" };

    if (dsf_pickle_has(m, 2) < 0)
        return DSFLOW_EINVAL;
    state = m->stack[--m->n];
    if (dsf_torch_build(m->file, m->stack[m->n - 1], state, &why) < 0)
        return dsf_pickle_refuse_for(m, &why);
    return DSFLOW_OK;
}

static int persistent(struct dsf_pickle *m)
{
    struct dsf_torch_node *made;
    struct dsflow_err why = { .msg = "" };

    if (dsf_pickle_has(m, 1) < 0)
        return DSFLOW_EINVAL;
    made = dsf_torch_persistent(m->file, m->stack[m->n - 1], &why);
    if (made == NULL)
        return dsf_pickle_refuse_for(m, &why);
    m->stack[m->n - 1] = made;
    return DSFLOW_OK;
}

/* --- filling --- */

/* The node that is filled: an object of a class that is one gets what it is
 * filled with beside it. */
static int filled(struct dsf_pickle *m, struct dsf_torch_node *node,
                  enum dsf_torch_kind kind, struct node **to)
{
    struct node *fresh;

    if (node->kind == DSF_TORCH_OBJECT && kind != DSF_TORCH_SET) {
        if (node->object.filled == NULL) {
            fresh = dsf_torch_node_new(m->file, kind);
            node->object.filled = &fresh->pub;
        }
        node = (struct dsf_torch_node *)(void *)node->object.filled;
    }
    if (node->kind != kind)
        return dsf_pickle_refuse(m, "fills %s: expected %s",
                                 dsf_torch_kind_str(node->kind),
                                 dsf_torch_kind_str(kind));
    *to = node_of(node);
    return DSFLOW_OK;
}

static int fill(struct dsf_pickle *m, enum dsf_torch_kind kind,
                struct dsf_torch_node **v, size_t n)
{
    struct node *to = NULL;

    if (dsf_pickle_has(m, 1) < 0 ||
        filled(m, m->stack[m->n - 1], kind, &to) < 0)
        return DSFLOW_EINVAL;
    if (kind == DSF_TORCH_DICT && n % 2 != 0)
        return dsf_pickle_refuse(m, "a key without a value");
    if (n > UINT32_MAX / 2 - to->pub.n)
        return dsf_pickle_refuse(m, "too many things");
    dsf_torch_put(m->file, to, v, n);
    return DSFLOW_OK;
}

/* What is on top: a thing of a list, a key and a value of a dict. */
static int fill_one(struct dsf_pickle *m, unsigned kind)
{
    const size_t n = kind == DSF_TORCH_DICT ? 2 : 1;

    if (dsf_pickle_has(m, n + 1) < 0)
        return DSFLOW_EINVAL;
    m->n -= n;
    return fill(m, kind, m->stack + m->n, n);
}

static int fill_marked(struct dsf_pickle *m, unsigned kind)
{
    struct dsf_torch_node **v = NULL;
    size_t n = 0;

    if (dsf_pickle_pop_mark(m, &v, &n) < 0)
        return DSFLOW_EINVAL;
    return fill(m, kind, v, n);
}

/* --- the stack, the memo and the protocol --- */

static int duplicate(struct dsf_pickle *m)
{
    return dsf_pickle_has(m, 1) < 0 ? DSFLOW_EINVAL
                                    : dsf_pickle_push(m, m->stack[m->n - 1]);
}

static int pop(struct dsf_pickle *m)
{
    if (m->nmarks > 0 && m->marks[m->nmarks - 1] == m->n) {
        m->nmarks--;
        return DSFLOW_OK;
    }
    if (dsf_pickle_has(m, 1) < 0)
        return DSFLOW_EINVAL;
    m->n--;
    return DSFLOW_OK;
}

static int pop_marked(struct dsf_pickle *m)
{
    struct dsf_torch_node **v = NULL;
    size_t n = 0;

    return dsf_pickle_pop_mark(m, &v, &n);
}

static int memoize(struct dsf_pickle *m)
{
    return dsf_pickle_put_memo(m, m->memo_count);
}

static int check_protocol(struct dsf_pickle *m, uint64_t version)
{
    if (version < 2 || version > 5)
        return dsf_pickle_refuse(m, "protocol %d: expected 2 to 5",
                                 (int)version);
    return DSFLOW_OK;
}

/* --- the operations --- */

/* By code, with the names of pickletools. One that torch.save does not write
 * has a name only; what has none is no operation. */
static const struct operation {
    const char *name;
    int (*run)(struct dsf_pickle *m);
    int (*run_of)(struct dsf_pickle *m, unsigned of);
    int (*counted)(struct dsf_pickle *m, uint64_t n); /* that follows, … */
    unsigned of;                                      /* … in so many bytes */
} operations[256] = {
    ['('] = { "MARK", .run = dsf_pickle_mark },
    ['.'] = { "STOP" },
    ['0'] = { "POP", .run = pop },
    ['1'] = { "POP_MARK", .run = pop_marked },
    ['2'] = { "DUP", .run = duplicate },
    ['F'] = { "FLOAT" },
    ['I'] = { "INT" },
    ['J'] = { "BININT", .counted = push_signed, .of = 4 },
    ['K'] = { "BININT1", .counted = push_unsigned, .of = 1 },
    ['L'] = { "LONG" },
    ['M'] = { "BININT2", .counted = push_unsigned, .of = 2 },
    ['N'] = { "NONE", .run = push_none },
    ['P'] = { "PERSID" },
    ['Q'] = { "BINPERSID", .run = persistent },
    ['R'] = { "REDUCE", .run_of = call, .of = false },
    ['S'] = { "STRING" },
    ['T'] = { "BINSTRING", .counted = dsf_pickle_push_old_str, .of = 4 },
    ['U'] = { "SHORT_BINSTRING", .counted = dsf_pickle_push_old_str, .of = 1 },
    ['V'] = { "UNICODE" },
    ['X'] = { "BINUNICODE", .counted = dsf_pickle_push_str, .of = 4 },
    ['a'] = { "APPEND", .run_of = fill_one, .of = DSF_TORCH_LIST },
    ['b'] = { "BUILD", .run = build },
    ['c'] = { "GLOBAL", .run = dsf_pickle_push_global },
    ['d'] = { "DICT" },
    ['}'] = { "EMPTY_DICT", .run_of = push_empty, .of = DSF_TORCH_DICT },
    ['e'] = { "APPENDS", .run_of = fill_marked, .of = DSF_TORCH_LIST },
    ['g'] = { "GET" },
    ['h'] = { "BINGET", .counted = dsf_pickle_get_memo, .of = 1 },
    ['i'] = { "INST" },
    ['j'] = { "LONG_BINGET", .counted = dsf_pickle_get_memo, .of = 4 },
    ['l'] = { "LIST" },
    [']'] = { "EMPTY_LIST", .run_of = push_empty, .of = DSF_TORCH_LIST },
    ['o'] = { "OBJ" },
    ['p'] = { "PUT" },
    ['q'] = { "BINPUT", .counted = dsf_pickle_put_memo, .of = 1 },
    ['r'] = { "LONG_BINPUT", .counted = dsf_pickle_put_memo, .of = 4 },
    ['s'] = { "SETITEM", .run_of = fill_one, .of = DSF_TORCH_DICT },
    ['t'] = { "TUPLE", .run_of = push_marked, .of = DSF_TORCH_TUPLE },
    [')'] = { "EMPTY_TUPLE", .run_of = push_empty, .of = DSF_TORCH_TUPLE },
    ['u'] = { "SETITEMS", .run_of = fill_marked, .of = DSF_TORCH_DICT },
    ['G'] = { "BINFLOAT", .run = dsf_pickle_push_float },
    [0x80] = { "PROTO", .counted = check_protocol, .of = 1 },
    [0x81] = { "NEWOBJ", .run_of = call, .of = false },
    [0x82] = { "EXT1" },
    [0x83] = { "EXT2" },
    [0x84] = { "EXT4" },
    [0x85] = { "TUPLE1", .run_of = push_tuple, .of = 1 },
    [0x86] = { "TUPLE2", .run_of = push_tuple, .of = 2 },
    [0x87] = { "TUPLE3", .run_of = push_tuple, .of = 3 },
    [0x88] = { "NEWTRUE", .run_of = push_truth, .of = true },
    [0x89] = { "NEWFALSE", .run_of = push_truth, .of = false },
    [0x8a] = { "LONG1", .counted = dsf_pickle_push_long, .of = 1 },
    [0x8b] = { "LONG4", .counted = dsf_pickle_push_long, .of = 4 },
    ['B'] = { "BINBYTES", .counted = dsf_pickle_push_bytes, .of = 4 },
    ['C'] = { "SHORT_BINBYTES", .counted = dsf_pickle_push_bytes, .of = 1 },
    [0x8c] = { "SHORT_BINUNICODE", .counted = dsf_pickle_push_str, .of = 1 },
    [0x8d] = { "BINUNICODE8", .counted = dsf_pickle_push_str, .of = 8 },
    [0x8e] = { "BINBYTES8", .counted = dsf_pickle_push_bytes, .of = 8 },
    [0x8f] = { "EMPTY_SET", .run_of = push_empty, .of = DSF_TORCH_SET },
    [0x90] = { "ADDITEMS", .run_of = fill_marked, .of = DSF_TORCH_SET },
    [0x91] = { "FROZENSET", .run_of = push_marked, .of = DSF_TORCH_SET },
    [0x92] = { "NEWOBJ_EX", .run_of = call, .of = true },
    [0x93] = { "STACK_GLOBAL", .run = dsf_pickle_push_stack_global },
    [0x94] = { "MEMOIZE", .run = memoize },
    [0x95] = { "FRAME", .counted = dsf_pickle_need, .of = 8 },
    [0x96] = { "BYTEARRAY8", .counted = dsf_pickle_push_bytes, .of = 8 },
    [0x97] = { "NEXT_BUFFER" },
    [0x98] = { "READONLY_BUFFER" },
};

static int run_one(struct dsf_pickle *m, unsigned char code)
{
    const struct operation *op = &operations[code];
    uint64_t n;

    if (op->run != NULL)
        return op->run(m);
    if (op->run_of != NULL)
        return op->run_of(m, op->of);
    if (op->counted != NULL)
        return dsf_pickle_take_count(m, op->of, &n) < 0 ? DSFLOW_EINVAL
                                                        : op->counted(m, n);
    if (op->name == NULL)
        return dsf_pickle_refuse(m, "0x%02x is no operation of a pickle", code);
    return dsf_pickle_refuse(m, "torch.save writes no such operation");
}

static int run(struct dsf_pickle *m)
{
    int status = DSFLOW_OK;

    for (unsigned ops = 0; status == DSFLOW_OK; ops++) {
        unsigned char op;

        m->op = "";
        m->op_at = m->at;
        if (m->at >= m->end)
            return dsf_pickle_refuse(m, "ends without STOP");
        if (ops >= MOST_OPS)
            return dsf_pickle_refuse(m, "more than %u operations", MOST_OPS);
        if (dsf_pickle_take(m, &op, 1) < 0 || dsf_pickle_room(m, 0) < 0)
            return m->err != NULL ? (int)m->err->status : DSFLOW_EINVAL;
        m->op = operations[op].name != NULL ? operations[op].name : "";
        if (op == '.' && m->n == 1 && m->nmarks == 0)
            return DSFLOW_OK;
        if (op == '.')
            return dsf_pickle_refuse(
                m,
                "the stack has %zu things and %zu marks: expected "
                "what is to be loaded",
                m->n, m->nmarks);
        if (ops == 0 && op != 0x80)
            return dsf_pickle_refuse(
                m, "expected PROTO, which a pickle of protocol 2 to "
                   "5 begins with");
        status = run_one(m, op);
    }
    /* Reading says what went wrong in its own words. */
    return status < 0 && m->err->status != DSFLOW_OK ? (int)m->err->status
                                                     : status;
}

int dsf_torch_unpickle(struct dsf_torch_file *f, int64_t *at, int64_t end,
                       int64_t base, const struct dsf_torch_node **root,
                       struct dsflow_err *err)
{
    struct dsflow_err own = { .msg = "" };
    struct dsf_pickle m = { .file = f,
                            .base = base,
                            .at = *at,
                            .end = end,
                            .err = &own,
                            .window =
                                dsf_xrealloc(NULL, DSF_PICKLE_WINDOW, 1) };
    int status = run(&m);

    if (status == DSFLOW_OK)
        *root = m.stack[m.n - 1];
    else
        dsflow_fail(err, status, "%s", own.msg);
    *at = m.at;
    free(m.window);
    free(m.stack);
    free(m.marks);
    free(m.memo);
    return status;
}
