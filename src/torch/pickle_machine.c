/* pickle_machine.c - the bytes of a pickle through a window, the stack with its
 * marks, the memo, and what all of it may take. */
#include "torch/pickle_machine.h"

#include "base/alloc.h"

#include <endian.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MARKS = 10000 };
#define MOST_PLACES ((size_t)4 << 20) /* of the stack, and of the memo */

/* What a tree may take: so much, and so much for each byte of the pickle that
 * was read, of which a tensor takes some 170 and 1200 of memory. */
#define ROOM      ((size_t)24 << 20)
#define MOST_ROOM ((size_t)1 << 30)
enum { ROOM_BYTE = 12 };

int dsf_pickle_refuse(struct dsf_pickle *m, const char *fmt, ...)
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
int dsf_pickle_refuse_for(struct dsf_pickle *m, const struct dsflow_err *why)
{
    if (why->status != DSFLOW_EINVAL)
        return dsflow_fail(m->err, why->status, "%s", why->msg);
    return dsf_pickle_refuse(m, "%s", why->msg);
}

/* What the tree takes, with `more`; it is checked before every operation. */
int dsf_pickle_room(struct dsf_pickle *m, size_t more)
{
    size_t all = m->file->mem.all + more + m->cap * sizeof(*m->stack) +
                 m->marks_cap * sizeof(*m->marks) +
                 m->memo_cap * sizeof(*m->memo);
    size_t most = ROOM + ROOM_BYTE * (size_t)(m->at - m->base);

    if (most > MOST_ROOM)
        most = MOST_ROOM;
    if (all <= most)
        return DSFLOW_OK;
    return dsf_pickle_refuse(
        m, "its tree would take more than %zu MiB of memory", most >> 20);
}

/* --- bytes --- */

int dsf_pickle_need(struct dsf_pickle *m, uint64_t n)
{
    if (n > (uint64_t)(m->end - m->at))
        return dsf_pickle_refuse(m, "wants %llu bytes, and %lld are left",
                                 (unsigned long long)n,
                                 (long long)(m->end - m->at));
    return DSFLOW_OK;
}

int dsf_pickle_take(struct dsf_pickle *m, void *to, size_t n)
{
    char *into = to;
    int status = dsf_pickle_need(m, n);

    while (status == DSFLOW_OK && n > 0) {
        int64_t skip = m->at - m->window_at;
        size_t some;

        if (skip < 0 || skip >= (int64_t)m->window_n) {
            m->window_at = m->at;
            m->window_n = m->end - m->at < DSF_PICKLE_WINDOW
                              ? (size_t)(m->end - m->at)
                              : DSF_PICKLE_WINDOW;
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

int dsf_pickle_take_count(struct dsf_pickle *m, size_t bytes, uint64_t *x)
{
    uint64_t le = 0;
    int status = dsf_pickle_take(m, &le, bytes);

    *x = le64toh(le);
    return status;
}

/* --- the stack --- */

int dsf_pickle_push(struct dsf_pickle *m, const struct dsf_torch_node *node)
{
    if (m->n == MOST_PLACES)
        return dsf_pickle_refuse(m, "more than %zu things on the stack",
                                 MOST_PLACES);
    if (m->n == m->cap)
        dsf_grow(&m->stack, &m->cap, m->n + 1, sizeof(*m->stack));
    m->stack[m->n++] = (struct dsf_torch_node *)(void *)node;
    return DSFLOW_OK;
}

int dsf_pickle_has(struct dsf_pickle *m, size_t n)
{
    size_t floor = m->nmarks > 0 ? m->marks[m->nmarks - 1] : 0;

    if (m->n - floor < n)
        return dsf_pickle_refuse(
            m, "the stack has %zu of the %zu things it needs", m->n - floor, n);
    return DSFLOW_OK;
}

int dsf_pickle_pop_mark(struct dsf_pickle *m, struct dsf_torch_node ***v,
                        size_t *n)
{
    size_t floor;

    if (m->nmarks == 0)
        return dsf_pickle_refuse(m, "there is no mark on the stack");
    floor = m->marks[--m->nmarks];
    *v = m->n > floor ? m->stack + floor : NULL;
    *n = m->n - floor;
    m->n = floor;
    return DSFLOW_OK;
}

int dsf_pickle_mark(struct dsf_pickle *m)
{
    if (m->nmarks == MOST_MARKS)
        return dsf_pickle_refuse(m, "more than %d marks", MOST_MARKS);
    dsf_grow(&m->marks, &m->marks_cap, m->nmarks + 1, sizeof(*m->marks));
    m->marks[m->nmarks++] = m->n;
    return DSFLOW_OK;
}

/* --- the memo --- */

int dsf_pickle_put_memo(struct dsf_pickle *m, uint64_t i)
{
    if (dsf_pickle_has(m, 1) < 0)
        return DSFLOW_EINVAL;
    /* Whoever writes counts up; each takes two bytes or more. */
    if (i > (uint64_t)(m->at - m->base))
        return dsf_pickle_refuse(m, "memo %llu: expected the next one",
                                 (unsigned long long)i);
    if (i >= MOST_PLACES)
        return dsf_pickle_refuse(m, "more than %zu things in the memo",
                                 MOST_PLACES);
    if (i >= m->memo_n) {
        dsf_grow(&m->memo, &m->memo_cap, i + 1, sizeof(*m->memo));
        m->memo_n = i + 1;
    }
    m->memo_count += m->memo[i] == NULL;
    m->memo[i] = m->stack[m->n - 1];
    return DSFLOW_OK;
}

int dsf_pickle_get_memo(struct dsf_pickle *m, uint64_t i)
{
    if (i >= m->memo_n || m->memo[i] == NULL)
        return dsf_pickle_refuse(m, "memo %llu: nothing was put there",
                                 (unsigned long long)i);
    return dsf_pickle_push(m, m->memo[i]);
}
