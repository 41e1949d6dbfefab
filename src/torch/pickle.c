/* pickle.c - the operations of Python's pickles (Lib/pickletools.py), protocols
 * 2 to 5, as far as torch.save uses them. They make nodes and run nothing. */
#include "torch/pickle_machine.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define MOST_OPS 20000000u

/* The names of pickletools; NULL: no such code. What `run` has no case for is
 * refused by its name. */
static const char *const names[256] = {
    ['('] = "MARK",
    ['.'] = "STOP",
    ['0'] = "POP",
    ['1'] = "POP_MARK",
    ['2'] = "DUP",
    ['F'] = "FLOAT",
    ['I'] = "INT",
    ['J'] = "BININT",
    ['K'] = "BININT1",
    ['L'] = "LONG",
    ['M'] = "BININT2",
    ['N'] = "NONE",
    ['P'] = "PERSID",
    ['Q'] = "BINPERSID",
    ['R'] = "REDUCE",
    ['S'] = "STRING",
    ['T'] = "BINSTRING",
    ['U'] = "SHORT_BINSTRING",
    ['V'] = "UNICODE",
    ['X'] = "BINUNICODE",
    ['a'] = "APPEND",
    ['b'] = "BUILD",
    ['c'] = "GLOBAL",
    ['d'] = "DICT",
    ['}'] = "EMPTY_DICT",
    ['e'] = "APPENDS",
    ['g'] = "GET",
    ['h'] = "BINGET",
    ['i'] = "INST",
    ['j'] = "LONG_BINGET",
    ['l'] = "LIST",
    [']'] = "EMPTY_LIST",
    ['o'] = "OBJ",
    ['p'] = "PUT",
    ['q'] = "BINPUT",
    ['r'] = "LONG_BINPUT",
    ['s'] = "SETITEM",
    ['t'] = "TUPLE",
    [')'] = "EMPTY_TUPLE",
    ['u'] = "SETITEMS",
    ['G'] = "BINFLOAT",
    [0x80] = "PROTO",
    [0x81] = "NEWOBJ",
    [0x82] = "EXT1",
    [0x83] = "EXT2",
    [0x84] = "EXT4",
    [0x85] = "TUPLE1",
    [0x86] = "TUPLE2",
    [0x87] = "TUPLE3",
    [0x88] = "NEWTRUE",
    [0x89] = "NEWFALSE",
    [0x8a] = "LONG1",
    [0x8b] = "LONG4",
    ['B'] = "BINBYTES",
    ['C'] = "SHORT_BINBYTES",
    [0x8c] = "SHORT_BINUNICODE",
    [0x8d] = "BINUNICODE8",
    [0x8e] = "BINBYTES8",
    [0x8f] = "EMPTY_SET",
    [0x90] = "ADDITEMS",
    [0x91] = "FROZENSET",
    [0x92] = "NEWOBJ_EX",
    [0x93] = "STACK_GLOBAL",
    [0x94] = "MEMOIZE",
    [0x95] = "FRAME",
    [0x96] = "BYTEARRAY8",
    [0x97] = "NEXT_BUFFER",
    [0x98] = "READONLY_BUFFER",
};

/* A length of so many bytes, and a text or bytes. */
static int push_sized(struct dsf_pickle *m, size_t count,
                      int (*put)(struct dsf_pickle *m, uint64_t n))
{
    uint64_t n;

    if (dsf_pickle_take_count(m, count, &n) < 0)
        return DSFLOW_EINVAL;
    return put(m, n);
}

static int push_tuple(struct dsf_pickle *m, size_t n)
{
    struct node *node;

    if (dsf_pickle_has(m, n) < 0)
        return DSFLOW_EINVAL;
    node = dsf_torch_node_new(m->file, DSF_TORCH_TUPLE);
    dsf_torch_put(m->file, node, m->stack + m->n - n, n);
    m->n -= n;
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

static int run_call(struct dsf_pickle *m, bool keywords)
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

static int run_build(struct dsf_pickle *m)
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

static int run_persistent(struct dsf_pickle *m)
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

static int fill_few(struct dsf_pickle *m, enum dsf_torch_kind kind, size_t n)
{
    if (dsf_pickle_has(m, n + 1) < 0)
        return DSFLOW_EINVAL;
    m->n -= n;
    return fill(m, kind, m->stack + m->n, n);
}

static int fill_marked(struct dsf_pickle *m, enum dsf_torch_kind kind)
{
    struct dsf_torch_node **v = NULL;
    size_t n = 0;

    if (dsf_pickle_pop_mark(m, &v, &n) < 0)
        return DSFLOW_EINVAL;
    return fill(m, kind, v, n);
}

/* A TUPLE or a frozen SET of what is above the mark. */
static int push_marked(struct dsf_pickle *m, enum dsf_torch_kind kind)
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

static int push_empty(struct dsf_pickle *m, enum dsf_torch_kind kind)
{
    return dsf_pickle_push(m, &dsf_torch_node_new(m->file, kind)->pub);
}

/* --- the operations --- */

static int run_proto(struct dsf_pickle *m)
{
    uint64_t version;

    if (dsf_pickle_take_count(m, 1, &version) < 0)
        return DSFLOW_EINVAL;
    if (version < 2 || version > 5)
        return dsf_pickle_refuse(m, "protocol %d: expected 2 to 5",
                                 (int)version);
    return DSFLOW_OK;
}

/* A frame is a hint of how much to read at once. */
static int run_frame(struct dsf_pickle *m)
{
    uint64_t n;

    if (dsf_pickle_take_count(m, 8, &n) < 0)
        return DSFLOW_EINVAL;
    return dsf_pickle_need(m, n);
}

static int run_pop(struct dsf_pickle *m)
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

static int run_number(struct dsf_pickle *m, unsigned char op)
{
    uint64_t x = 0;
    size_t bytes = op == 'J' ? 4 : op == 'M' ? 2 : 1;

    if (dsf_pickle_take_count(m, bytes, &x) < 0)
        return DSFLOW_EINVAL;
    return dsf_pickle_push_int(m, op == 'J' ? (int32_t)x : (int64_t)x);
}

static int run_memo(struct dsf_pickle *m, unsigned char op)
{
    uint64_t i = m->memo_count;

    if (op != 0x94 &&
        dsf_pickle_take_count(m, op == 'r' || op == 'j' ? 4 : 1, &i) < 0)
        return DSFLOW_EINVAL;
    return op == 'h' || op == 'j' ? dsf_pickle_get_memo(m, i)
                                  : dsf_pickle_put_memo(m, i);
}

static int run_marked(struct dsf_pickle *m, unsigned char op)
{
    struct dsf_torch_node **v = NULL;
    size_t n = 0;

    switch (op) {
    case '1':
        return dsf_pickle_pop_mark(m, &v, &n);
    case 't':
        return push_marked(m, DSF_TORCH_TUPLE);
    case 0x91:
        return push_marked(m, DSF_TORCH_SET);
    case 'e':
        return fill_marked(m, DSF_TORCH_LIST);
    case 'u':
        return fill_marked(m, DSF_TORCH_DICT);
    default:
        return fill_marked(m, DSF_TORCH_SET);
    }
}

static int run_sized(struct dsf_pickle *m, unsigned char op)
{
    uint64_t n;

    switch (op) {
    case 0x8a: /* LONG1, LONG4 */
        return push_sized(m, 1, dsf_pickle_push_long);
    case 0x8b:
        return push_sized(m, 4, dsf_pickle_push_long);
    case 'X': /* BINUNICODE, SHORT_, and of 8 bytes */
        return push_sized(m, 4, dsf_pickle_push_str);
    case 0x8c:
        return push_sized(m, 1, dsf_pickle_push_str);
    case 0x8d:
        return push_sized(m, 8, dsf_pickle_push_str);
    case 'T': /* BINSTRING, SHORT_ */
        if (dsf_pickle_take_count(m, 4, &n) < 0)
            return DSFLOW_EINVAL;
        return dsf_pickle_push_old_str(m, n);
    case 'U':
        return push_sized(m, 1, dsf_pickle_push_old_str);
    case 'B': /* BINBYTES, SHORT_, of 8 bytes; BYTEARRAY8 */
        return push_sized(m, 4, dsf_pickle_push_bytes);
    case 'C':
        return push_sized(m, 1, dsf_pickle_push_bytes);
    default:
        return push_sized(m, 8, dsf_pickle_push_bytes);
    }
}

static int run_one(struct dsf_pickle *m, unsigned char op)
{
    switch (op) {
    case 0x80:
        return run_proto(m);
    case 0x95:
        return run_frame(m);
    case '(':
        return dsf_pickle_mark(m);
    case '0':
        return run_pop(m);
    case '2': /* DUP */
        return dsf_pickle_has(m, 1) < 0
                   ? DSFLOW_EINVAL
                   : dsf_pickle_push(m, m->stack[m->n - 1]);
    case 'N':
        return dsf_pickle_push(m, dsf_torch_leaf(m->file, DSF_TORCH_NONE));
    case 0x88:
        return dsf_pickle_push_bool(m, true);
    case 0x89:
        return dsf_pickle_push_bool(m, false);
    case 'J':
    case 'K':
    case 'M':
        return run_number(m, op);
    case 'G':
        return dsf_pickle_push_float(m);
    case 0x8a:
    case 0x8b:
    case 'X':
    case 0x8c:
    case 0x8d:
    case 'T':
    case 'U':
    case 'B':
    case 'C':
    case 0x8e:
    case 0x96:
        return run_sized(m, op);
    case ')':
        return push_empty(m, DSF_TORCH_TUPLE);
    case 0x85:
    case 0x86:
    case 0x87:
        return push_tuple(m, op - 0x84u);
    case ']':
        return push_empty(m, DSF_TORCH_LIST);
    case '}':
        return push_empty(m, DSF_TORCH_DICT);
    case 0x8f:
        return push_empty(m, DSF_TORCH_SET);
    case 'a':
        return fill_few(m, DSF_TORCH_LIST, 1);
    case 's':
        return fill_few(m, DSF_TORCH_DICT, 2);
    case '1':
    case 't':
    case 'e':
    case 'u':
    case 0x90:
    case 0x91:
        return run_marked(m, op);
    case 'h':
    case 'j':
    case 'q':
    case 'r':
    case 0x94:
        return run_memo(m, op);
    case 'c':
        return dsf_pickle_push_global(m);
    case 0x93:
        return dsf_pickle_push_stack_global(m);
    case 'R':
    case 0x81:
        return run_call(m, false);
    case 0x92:
        return run_call(m, true);
    case 'b':
        return run_build(m);
    case 'Q':
        return run_persistent(m);
    default:
        if (names[op] == NULL)
            return dsf_pickle_refuse(m, "0x%02x is no operation of a pickle",
                                     op);
        return dsf_pickle_refuse(m, "torch.save writes no such operation");
    }
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
        m->op = names[op] != NULL ? names[op] : "";
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
