/* heard.c - what the first of several processes hears of the others, where it
 * has not the graph of all ranks. Each says it in one message: what its ranks
 * weigh, the hashes of its messages, and which data it keeps between steps. */
#include "train/heard.h"

#include "base/alloc.h"
#include "net/pass.h"
#include "net/watch.h"
#include "sim/weights.h"

#include <stdlib.h>
#include <string.h>

/* Beside those of hosts.c and src/cli/launched.c. */
enum tag { SIZE = DSF_OWN_TAGS + 44, SAID };

/* What it begins with. Then come its kinds; of each rank its weight, and its
 * tasks and bytes by kind; the hashes, of what goes and of what comes; and
 * `ndata` descriptions of data, each with its name and a 0 behind it. */
struct head {
    uint64_t ndata;
    struct dsf_weights of; /* but for what it points at */
    double sent;
};

struct kind {
    char name[64]; /* of the op */
    struct dsf_kind_weight weight;
};

/* Bytes that are written, or read from `at` on. */
struct bytes {
    char *v;
    size_t n, cap, at;
};

static void put(struct bytes *b, const void *from, size_t n)
{
    dsf_grow(&b->v, &b->cap, b->n + n, 1);
    memcpy(b->v + b->n, from, n);
    b->n += n;
}

static void take(struct bytes *b, void *to, size_t n)
{
    const size_t left = b->n - b->at, some = n < left ? n : left;

    memset(to, 0, n);
    memcpy(to, b->v + b->at, some);
    b->at += some;
}

/* Its ranks. */
struct range {
    int32_t first, end;
};

static struct range range_of(const struct dsf_session *s,
                             const struct dsf_wire *wire, int32_t p)
{
    const struct dsf_processes all = dsf_session_processes(s, wire);

    return (struct range){ dsf_process_first(&all, p),
                           dsf_process_first(&all, p + 1) };
}

/* --- in the others -------------------------------------------------------- */

/* Bytes that its tasks read in other processes. */
static double sent_to(const struct dsf_session *s, const struct dsf_wire *wire)
{
    const struct dsf_processes all = dsf_session_processes(s, wire);
    uint32_t first,
        n = dsflow_graph_program_tasks(s->graph, DSFLOW_STEP, &first);
    double bytes = 0;

    for (uint32_t i = first; i < first + n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(s->graph, (dsflow_task_id){ i });

        if (dsf_process_of(&all, t->rank) == wire->process)
            bytes += dsf_process_sent(&all, s->graph, t);
    }
    return bytes;
}

static void put_weights(const struct dsf_weights *w, struct range r,
                        struct bytes *b)
{
    for (unsigned k = 0; k < w->nkinds; k++) {
        struct kind kind = { .weight = w->kinds[k] };

        snprintf(kind.name, sizeof(kind.name), "%s", w->kinds[k].op->name);
        put(b, &kind, sizeof(kind));
    }
    for (int32_t i = r.first; i < r.end; i++) {
        const struct dsf_rank_weight *rank = &w->ranks[i];

        put(b, rank, sizeof(*rank));
        put(b, rank->tasks, w->nkinds * sizeof(*rank->tasks));
        put(b, rank->moved, w->nkinds * sizeof(*rank->moved));
    }
}

static uint32_t put_data(const struct dsflow_graph *g, struct bytes *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(g); i++) {
        struct dsflow_data_spec d =
            *dsflow_graph_data(g, (dsflow_data_id){ i });
        const char *name = d.name;

        if (!d.persistent)
            continue;
        d.name = d.ring = NULL; /* are of this process */
        put(b, &d, sizeof(d));
        put(b, name, strlen(name) + 1);
        n++;
    }
    return n;
}

int dsf_heard_say(struct dsf_session *s, struct dsf_wire *wire,
                  struct dsflow_err *err)
{
    const size_t processes = (size_t)wire->nprocesses;
    struct head head = { .sent = sent_to(s, wire) };
    struct dsf_weights w;
    struct bytes b = { 0 };
    uint64_t n;
    int status;

    dsf_session_weigh_own(s, wire, &w);
    head.of = w;
    put(&b, &head, sizeof(head));
    put_weights(&w, range_of(s, wire, wire->process), &b);
    dsf_weights_fini(&w);
    put(&b, s->together.part.out, processes * sizeof(*s->together.part.out));
    put(&b, s->together.part.in, processes * sizeof(*s->together.part.in));
    head.ndata = put_data(s->together.part.graph, &b);
    memcpy(b.v, &head, sizeof(head));
    n = b.n;
    status = dsf_pass(wire, true, 0, SIZE, &n, sizeof(n), err);
    if (status == DSFLOW_OK)
        status = dsf_pass(wire, true, 0, SAID, b.v, b.n, err);
    free(b.v);
    return status;
}

/* --- in the first one ----------------------------------------------------- */

static void take_weights(struct dsf_session *s, const struct head *head,
                         struct range r, struct bytes *b)
{
    struct dsf_weights w = head->of;

    w.kinds = dsf_xcalloc((size_t)w.nkinds + 1, sizeof(*w.kinds));
    w.ranks = dsf_xcalloc(w.nranks, sizeof(*w.ranks));
    for (unsigned k = 0; k < w.nkinds; k++) {
        struct kind kind;

        take(b, &kind, sizeof(kind));
        kind.name[sizeof(kind.name) - 1] = '\0';
        w.kinds[k] = kind.weight;
        w.kinds[k].op = dsflow_op_find(kind.name);
    }
    for (int32_t i = r.first; i < r.end; i++) {
        struct dsf_rank_weight *rank = &w.ranks[i];
        const size_t n = w.nkinds;

        take(b, rank, sizeof(*rank));
        rank->tasks = dsf_xcalloc(n + 1, sizeof(*rank->tasks));
        rank->moved = dsf_xcalloc(n + 1, sizeof(*rank->moved));
        take(b, rank->tasks, n * sizeof(*rank->tasks));
        take(b, rank->moved, n * sizeof(*rank->moved));
    }
    dsf_weights_add_some(s->weights, &w, (unsigned)r.first, (unsigned)r.end);
    dsf_weights_fini(&w);
}

/* What the process keeps is in the graph then, where it was not: its tasks may
 * have messages of it. */
static void take_data(struct dsf_session *s, int32_t p, uint64_t n,
                      struct bytes *b)
{
    struct dsf_graph_part *part = &s->together.part;

    for (uint32_t i = 0; i < n && b->at < b->n; i++) {
        struct dsflow_data_spec d;
        dsflow_data_id id;

        take(b, &d, sizeof(d));
        d.name = b->v + b->at;
        b->at += strlen(d.name) + 1;
        if (dsflow_graph_find(s->graph, d.name, &id))
            continue;
        id = dsflow_graph_add_data(s->graph, &d);
        part->data = dsf_xrealloc(part->data, id.i + 1u, sizeof(*part->data));
        part->process =
            dsf_xrealloc(part->process, id.i + 1u, sizeof(*part->process));
        part->data[id.i] = DSF_NOT_IN_PART;
        part->process[id.i] = p;
    }
}

static void take_hashes(struct dsf_session *s, int32_t p, struct bytes *b)
{
    const size_t n = (size_t)s->together.wire->nprocesses;
    uint64_t **hashes[] = { &s->together.heard.out, &s->together.heard.in };
    const uint64_t *own[] = { s->together.part.out, s->together.part.in };

    for (int i = 0; i < 2; i++) {
        if (*hashes[i] == NULL) {
            *hashes[i] = dsf_xcalloc(n * n, sizeof(**hashes[i]));
            memcpy(*hashes[i], own[i], n * sizeof(**hashes[i]));
        }
        take(b, *hashes[i] + n * (size_t)p, n * sizeof(**hashes[i]));
    }
}

int dsf_heard_take(struct dsf_session *s, int32_t p, struct dsflow_err *err)
{
    struct bytes b = { 0 };
    struct head head;
    uint64_t n;
    int status = dsf_pass(s->together.wire, false, p, SIZE, &n, sizeof(n), err);

    if (status < 0)
        return status;
    dsf_grow(&b.v, &b.cap, (size_t)n + 1, 1);
    b.n = (size_t)n;
    b.v[b.n] = '\0';
    status = dsf_pass(s->together.wire, false, p, SAID, b.v, b.n, err);
    if (status == DSFLOW_OK) {
        take(&b, &head, sizeof(head));
        take_weights(s, &head, range_of(s, s->together.wire, p), &b);
        take_hashes(s, p, &b);
        take_data(s, p, head.ndata, &b);
        s->together.heard.sent += head.sent;
    }
    free(b.v);
    return status;
}

int dsf_heard_check(const struct dsf_session *s, struct dsflow_err *err)
{
    const int32_t n = s->together.wire->nprocesses;
    const struct dsf_heard *h = &s->together.heard;

    for (int32_t p = 0; p < n && h->out != NULL; p++)
        for (int32_t q = 0; q < n; q++)
            if (h->out[p * n + q] != h->in[q * n + p])
                return dsflow_fail(err, DSFLOW_EINVAL,
                                   "%s sends other messages than process %d "
                                   "expects: expected the same dsflow and "
                                   "plug-ins",
                                   dsf_watch_name(p).s, (int)q);
    return DSFLOW_OK;
}

void dsf_heard_fini(struct dsf_heard *h)
{
    free(h->out);
    free(h->in);
    *h = (struct dsf_heard){ 0 };
}
