/* pickle.c - the machine of Python's pickles (Lib/pickletools.py), protocols 2
 * to 5, as far as torch.save uses it. It makes nodes and runs nothing. */
#include "torch/torch_private.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 1 << 16,
    MOST_NAME = 1024,   /* bytes of a module or of a name in it */
    MOST_NUMBER = 1024, /* bytes of an integer */
};
#define MOST_OPS 20000000u

/* What a tree may take: so much, and so much for each byte of the pickle that
 * was read, of which a tensor takes some 170 and 1200 of memory. */
#define ROOM      ((size_t)16 << 20)
#define MOST_ROOM ((size_t)1 << 30)
enum { ROOM_BYTE = 24 };

struct machine {
    struct dsf_torch_file *file;
    int64_t base, at, end; /* of the next byte; in the file */
    int64_t op_at;
    const char *op; /* its name, for messages */
    struct dsflow_err *err;

    unsigned char *window;
    int64_t window_at;
    size_t window_n;

    struct dsf_torch_node **stack;
    size_t n, cap;
    size_t *marks; /* how much of the stack is below each */
    size_t nmarks, marks_cap;
    struct dsf_torch_node **memo;
    size_t memo_n, memo_cap, memo_count;
};

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

static const struct dsf_torch_node none = { .kind = DSF_TORCH_NONE };
static const struct dsf_torch_node yes = { .kind = DSF_TORCH_BOOL,
                                           .truth = true };
static const struct dsf_torch_node no = { .kind = DSF_TORCH_BOOL };

static int refuse(struct machine *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static int refuse(struct machine *m, const char *fmt, ...)
{
    va_list ap;
    char *why;
    int status;

    va_start(ap, fmt);
    why = dsf_xvasprintf(fmt, ap);
    va_end(ap);
    status =
        dsflow_fail(m->err, DSFLOW_EINVAL, "%s: its pickle, byte %lld: %s%s%s",
                    m->file->path, (long long)(m->op_at - m->base), m->op,
                    m->op[0] != '\0' ? ": " : "", why);
    free(why);
    return status;
}

/* Puts the place before what another file found. */
static int refuse_for(struct machine *m, const struct dsflow_err *why)
{
    if (why->status != DSFLOW_EINVAL)
        return dsflow_fail(m->err, why->status, "%s", why->msg);
    return refuse(m, "%s", why->msg);
}

/* What the tree takes, with `more`; it is checked before every operation. */
static int check_room(struct machine *m, size_t more)
{
    size_t all = m->file->mem.all + more + m->cap * sizeof(*m->stack) +
                 m->marks_cap * sizeof(*m->marks) +
                 m->memo_cap * sizeof(*m->memo);
    size_t most = ROOM + ROOM_BYTE * (size_t)(m->at - m->base);

    if (most > MOST_ROOM)
        most = MOST_ROOM;
    if (all <= most)
        return DSFLOW_OK;
    return refuse(m, "its tree would take more than %zu MiB of memory",
                  most >> 20);
}

/* --- bytes --- */

static int need(struct machine *m, uint64_t n)
{
    if (n > (uint64_t)(m->end - m->at))
        return refuse(m, "wants %llu bytes, and %lld are left",
                      (unsigned long long)n, (long long)(m->end - m->at));
    return DSFLOW_OK;
}

static int take(struct machine *m, void *to, size_t n)
{
    char *into = to;
    int status = need(m, n);

    while (status == DSFLOW_OK && n > 0) {
        int64_t skip = m->at - m->window_at;
        size_t some;

        if (skip < 0 || skip >= (int64_t)m->window_n) {
            m->window_at = m->at;
            m->window_n =
                m->end - m->at < WINDOW ? (size_t)(m->end - m->at) : WINDOW;
            skip = 0;
            status = dsf_torch_read_file(m->file, m->at, m->window, m->window_n,
                                         m->err);
            if (status < 0)
                return status;
        }
        some = m->window_n - (size_t)skip;
        if (some > n)
            some = n;
        memcpy(into, m->window + skip, some);
        into += some;
        m->at += (int64_t)some;
        n -= some;
    }
    return status;
}

/* A little-endian count of `bytes` bytes. */
static int take_count(struct machine *m, size_t bytes, uint64_t *x)
{
    uint64_t le = 0;
    int status = take(m, &le, bytes);

    *x = le64toh(le);
    return status;
}

/* --- the stack --- */

static int push(struct machine *m, const struct dsf_torch_node *node)
{
    if (m->n == m->cap)
        dsf_grow(&m->stack, &m->cap, m->n + 1, sizeof(*m->stack));
    m->stack[m->n++] = (struct dsf_torch_node *)(void *)node;
    return DSFLOW_OK;
}

/* Are there n above the last mark? */
static int has(struct machine *m, size_t n)
{
    size_t floor = m->nmarks > 0 ? m->marks[m->nmarks - 1] : 0;

    if (m->n - floor < n)
        return refuse(m, "the stack has %zu of the %zu things it needs",
                      m->n - floor, n);
    return DSFLOW_OK;
}

/* What is above the last mark is v[0 .. n), and off the stack. */
static int pop_mark(struct machine *m, struct dsf_torch_node ***v, size_t *n)
{
    size_t floor;

    if (m->nmarks == 0)
        return refuse(m, "there is no mark on the stack");
    floor = m->marks[--m->nmarks];
    *v = m->stack + floor;
    *n = m->n - floor;
    m->n = floor;
    return DSFLOW_OK;
}

static int push_tuple(struct machine *m, size_t n)
{
    struct node *node;

    if (has(m, n) < 0)
        return DSFLOW_EINVAL;
    node = dsf_torch_node_new(m->file, DSF_TORCH_TUPLE);
    dsf_torch_put(m->file, node, m->stack + m->n - n, n);
    m->n -= n;
    return push(m, &node->pub);
}

/* --- the memo --- */

static int put_memo(struct machine *m, uint64_t i)
{
    if (has(m, 1) < 0)
        return DSFLOW_EINVAL;
    /* Whoever writes counts up; each takes two bytes or more. */
    if (i > (uint64_t)(m->at - m->base))
        return refuse(m, "memo %llu: expected the next one",
                      (unsigned long long)i);
    if (i >= m->memo_n) {
        dsf_grow(&m->memo, &m->memo_cap, i + 1, sizeof(*m->memo));
        m->memo_n = i + 1;
    }
    m->memo_count += m->memo[i] == NULL;
    m->memo[i] = m->stack[m->n - 1];
    return DSFLOW_OK;
}

static int get_memo(struct machine *m, uint64_t i)
{
    if (i >= m->memo_n || m->memo[i] == NULL)
        return refuse(m, "memo %llu: nothing was put there",
                      (unsigned long long)i);
    return push(m, m->memo[i]);
}

/* --- scalars --- */

static int push_int(struct machine *m, int64_t x)
{
    return push(m, dsf_torch_number(m->file, x));
}

/* Two's complement of n bytes, lowest first. */
static int push_long(struct machine *m, uint64_t n)
{
    unsigned char raw[MOST_NUMBER];
    char text[2 * MOST_NUMBER + 4], *to = text;
    struct dsf_torch_node *node;
    bool negative;
    int64_t x = 0;

    if (need(m, n) < 0)
        return DSFLOW_EINVAL;
    if (n > MOST_NUMBER)
        return refuse(m, "a number of %llu bytes: expected %d at most",
                      (unsigned long long)n, MOST_NUMBER);
    if (take(m, raw, n) < 0)
        return DSFLOW_EINVAL;
    negative = n > 0 && raw[n - 1] & 0x80;
    while (n > 8 && raw[n - 1] == (negative ? 0xff : 0) &&
           (raw[n - 2] & 0x80) == (negative ? 0x80 : 0))
        n--;
    if (n <= 8) {
        memset(&x, negative ? 0xff : 0, sizeof(x));
        memcpy(&x, raw, n);
        return push_int(m, (int64_t)le64toh((uint64_t)x));
    }
    if (negative)
        for (uint64_t i = 0, carry = 1; i < n; i++) {
            carry += (unsigned char)~raw[i];
            raw[i] = (unsigned char)carry;
            carry >>= 8;
        }
    while (n > 1 && raw[n - 1] == 0)
        n--;
    to += sprintf(to, "%s0x%x", negative ? "-" : "", raw[n - 1]);
    for (uint64_t i = n - 1; i-- > 0;)
        to += sprintf(to, "%02x", raw[i]);
    node = dsf_torch_leaf(m->file, DSF_TORCH_INT);
    node->integer.big =
        dsf_blocks_copy(&m->file->mem, text, (size_t)(to - text) + 1, 1);
    return push(m, node);
}

static int push_float(struct machine *m)
{
    struct dsf_torch_node *node = dsf_torch_leaf(m->file, DSF_TORCH_FLOAT);
    uint64_t bits;

    if (take(m, &bits, sizeof(bits)) < 0)
        return DSFLOW_EINVAL;
    bits = be64toh(bits);
    memcpy(&node->real, &bits, sizeof(bits));
    return push(m, node);
}

/* Bytes stay where they are. */
static int push_bytes(struct machine *m, uint64_t n)
{
    struct dsf_torch_node *node;

    if (need(m, n) < 0)
        return DSFLOW_EINVAL;
    if (n > UINT32_MAX)
        return refuse(m, "%llu bytes: expected less than 4 GiB",
                      (unsigned long long)n);
    node = dsf_torch_leaf(m->file, DSF_TORCH_BYTES);
    node->n = (uint32_t)n;
    node->bytes.at = m->at;
    m->at += (int64_t)n;
    return push(m, node);
}

/* Of Python 2 (`old`), what is not UTF-8 is bytes. */
static int push_text(struct machine *m, uint64_t n, bool old)
{
    struct dsf_torch_node *node;
    char *text;

    if (need(m, n) < 0)
        return DSFLOW_EINVAL;
    if (n > MOST_ROOM)
        return refuse(m, "a text of %llu bytes: expected %zu at most",
                      (unsigned long long)n, MOST_ROOM);
    m->at += (int64_t)n;
    if (check_room(m, n) < 0)
        return DSFLOW_EINVAL;
    m->at -= (int64_t)n;
    text = dsf_blocks_take(&m->file->mem, n + 1, 1);
    if (take(m, text, n) < 0)
        return DSFLOW_EINVAL;
    text[n] = '\0';
    if (dsf_utf8_valid(text, n) != n) {
        if (!old)
            return refuse(m, "a text that is not UTF-8");
        node = dsf_torch_leaf(m->file, DSF_TORCH_BYTES);
        node->bytes.here = text;
    } else {
        node = dsf_torch_leaf(m->file, DSF_TORCH_STR);
        node->str = text;
    }
    node->n = (uint32_t)n;
    return push(m, node);
}

/* A length of so many bytes, and a text or bytes. */
static int push_sized(struct machine *m, size_t count,
                      int (*put)(struct machine *m, uint64_t n))
{
    uint64_t n;

    if (take_count(m, count, &n) < 0)
        return DSFLOW_EINVAL;
    return put(m, n);
}

static int push_str(struct machine *m, uint64_t n)
{
    return push_text(m, n, false);
}

static int push_old_str(struct machine *m, uint64_t n)
{
    return push_text(m, n, true);
}

/* --- names --- */

static int push_name(struct machine *m, const char *module, const char *name)
{
    struct dsf_torch_node *node = dsf_torch_leaf(m->file, DSF_TORCH_GLOBAL);
    size_t n = strlen(module) + 1 + strlen(name);
    char *full = dsf_blocks_take(&m->file->mem, n + 1, 1);

    snprintf(full, n + 1, "%s.%s", module, name);
    if (module[0] == '\0' || name[0] == '\0' ||
        strpbrk(full, " \t\r\n()'\"") != NULL)
        return refuse(m, "%.100s: expected the name of a class", full);
    if (dsf_torch_name_runs(full))
        return refuse(
            m, "names %.100s, which runs: nobody should load this file", full);
    node->global = full;
    return push(m, node);
}

static int take_line(struct machine *m, char line[MOST_NAME + 1])
{
    for (size_t n = 0; n <= MOST_NAME; n++) {
        if (take(m, line + n, 1) < 0)
            return DSFLOW_EINVAL;
        if (line[n] == '\n') {
            line[n] = '\0';
            if (strlen(line) != n || dsf_utf8_valid(line, n) != n)
                return refuse(m, "a name that is not UTF-8");
            return DSFLOW_OK;
        }
    }
    return refuse(m, "a name of more than %d bytes", MOST_NAME);
}

static int run_global(struct machine *m)
{
    char module[MOST_NAME + 1], name[MOST_NAME + 1];

    if (take_line(m, module) < 0 || take_line(m, name) < 0)
        return DSFLOW_EINVAL;
    return push_name(m, module, name);
}

static int run_stack_global(struct machine *m)
{
    const struct dsf_torch_node *module, *name;

    if (has(m, 2) < 0)
        return DSFLOW_EINVAL;
    name = m->stack[--m->n];
    module = m->stack[--m->n];
    if (module->kind != DSF_TORCH_STR || name->kind != DSF_TORCH_STR ||
        module->n > MOST_NAME || name->n > MOST_NAME ||
        strlen(module->str) != module->n || strlen(name->str) != name->n)
        return refuse(m, "expected the names of a module and of what is in it");
    return push_name(m, module->str, name->str);
}

/* --- calls --- */

/* What is called, and with what: a name and a tuple. */
static int check_call(struct machine *m, const struct dsf_torch_node *what,
                      const struct dsf_torch_node *args)
{
    if (what->kind != DSF_TORCH_GLOBAL)
        return refuse(m, "calls %s: expected a name",
                      dsf_torch_kind_str(what->kind));
    if (args->kind != DSF_TORCH_TUPLE)
        return refuse(m, "calls %.100s with %s: expected a tuple", what->global,
                      dsf_torch_kind_str(args->kind));
    return DSFLOW_OK;
}

static int run_call(struct machine *m, bool keywords)
{
    const struct dsf_torch_node *what, *words = NULL;
    struct dsf_torch_node *args, *made;
    struct dsflow_err why = { .msg = "" };

    if (has(m, keywords ? 3 : 2) < 0)
        return DSFLOW_EINVAL;
    if (keywords)
        words = m->stack[--m->n];
    args = m->stack[--m->n];
    what = m->stack[--m->n];
    if (check_call(m, what, args) < 0)
        return DSFLOW_EINVAL;
    if (words != NULL && words->kind != DSF_TORCH_DICT)
        return refuse(m, "keywords in %s: expected a dict",
                      dsf_torch_kind_str(words->kind));
    if (words != NULL && words->n > 0) {
        struct node *both = dsf_torch_node_new(m->file, DSF_TORCH_TUPLE);

        dsf_torch_put(m->file, both, args->items, args->n);
        dsf_torch_put(m->file, both,
                      (struct dsf_torch_node *const *)(const void *)&words, 1);
        args = &both->pub;
    }
    made = dsf_torch_call(m->file, what->global, args, &why);
    return made != NULL ? push(m, made) : refuse_for(m, &why);
}

static int run_build(struct machine *m)
{
    struct dsf_torch_node *state;
    struct dsflow_err why = { .msg = "" };

    if (has(m, 2) < 0)
        return DSFLOW_EINVAL;
    state = m->stack[--m->n];
    if (dsf_torch_build(m->file, m->stack[m->n - 1], state, &why) < 0)
        return refuse_for(m, &why);
    return DSFLOW_OK;
}

static int run_persistent(struct machine *m)
{
    struct dsf_torch_node *made;
    struct dsflow_err why = { .msg = "" };

    if (has(m, 1) < 0)
        return DSFLOW_EINVAL;
    made = dsf_torch_persistent(m->file, m->stack[m->n - 1], &why);
    if (made == NULL)
        return refuse_for(m, &why);
    m->stack[m->n - 1] = made;
    return DSFLOW_OK;
}

/* --- filling --- */

/* The node that is filled: an object of a class that is one gets what it is
 * filled with beside it. */
static int filled(struct machine *m, struct dsf_torch_node *node,
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
        return refuse(m, "fills %s: expected %s",
                      dsf_torch_kind_str(node->kind), dsf_torch_kind_str(kind));
    *to = node_of(node);
    return DSFLOW_OK;
}

static int fill(struct machine *m, enum dsf_torch_kind kind,
                struct dsf_torch_node **v, size_t n)
{
    struct node *to = NULL;

    if (has(m, 1) < 0 || filled(m, m->stack[m->n - 1], kind, &to) < 0)
        return DSFLOW_EINVAL;
    if (kind == DSF_TORCH_DICT && n % 2 != 0)
        return refuse(m, "a key without a value");
    if (n > UINT32_MAX / 2 - to->pub.n)
        return refuse(m, "too many things");
    dsf_torch_put(m->file, to, v, n);
    return DSFLOW_OK;
}

static int fill_few(struct machine *m, enum dsf_torch_kind kind, size_t n)
{
    if (has(m, n + 1) < 0)
        return DSFLOW_EINVAL;
    m->n -= n;
    return fill(m, kind, m->stack + m->n, n);
}

static int fill_marked(struct machine *m, enum dsf_torch_kind kind)
{
    struct dsf_torch_node **v = NULL;
    size_t n = 0;

    if (pop_mark(m, &v, &n) < 0)
        return DSFLOW_EINVAL;
    return fill(m, kind, v, n);
}

/* A TUPLE or a frozen SET of what is above the mark. */
static int push_marked(struct machine *m, enum dsf_torch_kind kind)
{
    struct dsf_torch_node **v = NULL;
    struct node *node;
    size_t n = 0;

    if (pop_mark(m, &v, &n) < 0)
        return DSFLOW_EINVAL;
    node = dsf_torch_node_new(m->file, kind);
    dsf_torch_put(m->file, node, v, n);
    return push(m, &node->pub);
}

static int push_empty(struct machine *m, enum dsf_torch_kind kind)
{
    return push(m, &dsf_torch_node_new(m->file, kind)->pub);
}

/* --- the operations --- */

static int run_proto(struct machine *m)
{
    uint64_t version;

    if (take_count(m, 1, &version) < 0)
        return DSFLOW_EINVAL;
    if (version < 2 || version > 5)
        return refuse(m, "protocol %d: expected 2 to 5", (int)version);
    return DSFLOW_OK;
}

/* A frame is a hint of how much to read at once. */
static int run_frame(struct machine *m)
{
    uint64_t n;

    if (take_count(m, 8, &n) < 0)
        return DSFLOW_EINVAL;
    return need(m, n);
}

static int run_mark(struct machine *m)
{
    dsf_grow(&m->marks, &m->marks_cap, m->nmarks + 1, sizeof(*m->marks));
    m->marks[m->nmarks++] = m->n;
    return DSFLOW_OK;
}

static int run_pop(struct machine *m)
{
    if (m->nmarks > 0 && m->marks[m->nmarks - 1] == m->n) {
        m->nmarks--;
        return DSFLOW_OK;
    }
    if (has(m, 1) < 0)
        return DSFLOW_EINVAL;
    m->n--;
    return DSFLOW_OK;
}

static int run_number(struct machine *m, unsigned char op)
{
    uint64_t x = 0;
    size_t bytes = op == 'J' ? 4 : op == 'M' ? 2 : 1;

    if (take_count(m, bytes, &x) < 0)
        return DSFLOW_EINVAL;
    return push_int(m, op == 'J' ? (int32_t)x : (int64_t)x);
}

static int run_memo(struct machine *m, unsigned char op)
{
    uint64_t i = m->memo_count;

    if (op != 0x94 && take_count(m, op == 'r' || op == 'j' ? 4 : 1, &i) < 0)
        return DSFLOW_EINVAL;
    return op == 'h' || op == 'j' ? get_memo(m, i) : put_memo(m, i);
}

static int run_marked(struct machine *m, unsigned char op)
{
    struct dsf_torch_node **v = NULL;
    size_t n = 0;

    switch (op) {
    case '1':
        return pop_mark(m, &v, &n);
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

static int run_sized(struct machine *m, unsigned char op)
{
    uint64_t n;

    switch (op) {
    case 0x8a: /* LONG1, LONG4 */
        return push_sized(m, 1, push_long);
    case 0x8b:
        return push_sized(m, 4, push_long);
    case 'X': /* BINUNICODE, SHORT_, and of 8 bytes */
        return push_sized(m, 4, push_str);
    case 0x8c:
        return push_sized(m, 1, push_str);
    case 0x8d:
        return push_sized(m, 8, push_str);
    case 'T': /* BINSTRING, SHORT_ */
        if (take_count(m, 4, &n) < 0)
            return DSFLOW_EINVAL;
        return push_old_str(m, n);
    case 'U':
        return push_sized(m, 1, push_old_str);
    case 'B': /* BINBYTES, SHORT_, of 8 bytes; BYTEARRAY8 */
        return push_sized(m, 4, push_bytes);
    case 'C':
        return push_sized(m, 1, push_bytes);
    default:
        return push_sized(m, 8, push_bytes);
    }
}

static int run_one(struct machine *m, unsigned char op)
{
    switch (op) {
    case 0x80:
        return run_proto(m);
    case 0x95:
        return run_frame(m);
    case '(':
        return run_mark(m);
    case '0':
        return run_pop(m);
    case '2': /* DUP */
        return has(m, 1) < 0 ? DSFLOW_EINVAL : push(m, m->stack[m->n - 1]);
    case 'N':
        return push(m, &none);
    case 0x88:
        return push(m, &yes);
    case 0x89:
        return push(m, &no);
    case 'J':
    case 'K':
    case 'M':
        return run_number(m, op);
    case 'G':
        return push_float(m);
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
        return run_global(m);
    case 0x93:
        return run_stack_global(m);
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
            return refuse(m, "0x%02x is no operation of a pickle", op);
        return refuse(m, "torch.save writes no such operation");
    }
}

static int run(struct machine *m)
{
    int status = DSFLOW_OK;

    for (unsigned ops = 0; status == DSFLOW_OK; ops++) {
        unsigned char op;

        m->op = "";
        m->op_at = m->at;
        if (m->at >= m->end)
            return refuse(m, "ends without STOP");
        if (ops >= MOST_OPS)
            return refuse(m, "more than %u operations", MOST_OPS);
        if (take(m, &op, 1) < 0 || check_room(m, 0) < 0)
            return m->err != NULL ? (int)m->err->status : DSFLOW_EINVAL;
        m->op = names[op] != NULL ? names[op] : "";
        if (op == '.')
            return has(m, 1);
        if (ops == 0 && op != 0x80)
            return refuse(m, "expected PROTO, which a pickle of protocol 2 to "
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
    struct machine m = { .file = f,
                         .base = base,
                         .at = *at,
                         .end = end,
                         .err = &own,
                         .window = dsf_xrealloc(NULL, WINDOW, 1) };
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
