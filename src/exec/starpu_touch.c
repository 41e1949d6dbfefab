/* starpu_touch.c - main memory that cores write first in an update, such as
 * moments that are kept there: it is there before.
 *
 * What devices reach has its pages from the beginning, as it is pinned, and
 * what the program fills has them too. Those of moments came with the first
 * update, one after the other, each cleared by the kernel before a core went
 * on: the second step waited for that. But cores have little to do while a
 * device computes the first step, and then do it.
 *
 * Each core has a task of the lowest priority, of a few huge pages, which
 * submits the next one: whatever the scheduler, nothing else waits for more
 * than that. The first pages are those of the first units, which are updated
 * first.
 *
 * Where a machine has several nodes of memory, a page is in that of the core
 * that touches it. As with an update, that is any core of the rank, and which
 * one works on it later is not known either.
 */
#include "exec/starpu_private.h"

#include "base/alloc.h"
#include "base/touch.h"

#include <limits.h>
#include <stdlib.h>

/* Pieces that a task touches; of less than LEAST a step sees nothing. */
enum { TOGETHER = 4, LEAST = 16 };

/* What a program writes of a rank, or of all. */
struct dsf_starpu_touch {
    struct dsf_starpu_touch *older;
    uint32_t *mask; /* of workers, as a task has it; NULL: all */
    unsigned mask_words;
    char **pieces; /* DSF_TOUCH_PIECE bytes each */
    size_t n, cap;
    _Atomic size_t taken;
};

/* --- what there is -------------------------------------------------------- */

static bool is_fresh(const struct dsflow_exec *exec, uint32_t data)
{
    return exec->place[data] == DSFLOW_HOST && !exec->pinned[data] &&
           (exec->lent == NULL || exec->lent[data] == NULL);
}

/* Data that cores write in tasks from `first` to `last`. */
static bool *find_written(const struct dsflow_exec *exec, uint32_t first,
                          uint32_t last)
{
    bool *written = dsf_xcalloc((size_t)dsflow_graph_ndata(exec->graph) + 1, 1);

    for (uint32_t i = first; i < last; i++) {
        const struct dsf_exec_call *call = &exec->calls[i];

        for (unsigned p = 0; call->by == DSF_BY_CORE && p < call->task->ndata;
             p++)
            if (dsflow_task_access(call->task, p) & DSFLOW_W)
                written[call->task->data[p].i] = true;
    }
    return written;
}

/* In pieces that have no huge page in common. What is in front of the first
 * one, or behind the last one, comes when it is used. */
static void add(struct dsf_starpu_touch *t, char *from, const char *end)
{
    const uintptr_t piece = DSF_TOUCH_PIECE;
    char *at = from + (piece - (uintptr_t)from % piece) % piece;

    for (; at < end && (size_t)(end - at) >= piece; at += piece) {
        dsf_grow(&t->pieces, &t->cap, t->n + 1, sizeof(*t->pieces));
        t->pieces[t->n++] = at;
    }
}

static void find(struct dsf_starpu_touch *t, const struct dsflow_exec *exec,
                 const bool *written, int rank)
{
    char *from = NULL, *end = NULL;

    for (uint32_t i = 0; i < dsflow_graph_ndata(exec->graph); i++) {
        if (!written[i] || !is_fresh(exec, i) ||
            (rank >= 0 && dsf_exec_home(exec, i) != (unsigned)rank))
            continue;
        if (exec->mem[i] != end) {
            add(t, from, end);
            from = exec->mem[i];
        }
        end = (char *)exec->mem[i] + dsf_exec_size(exec, i);
    }
    add(t, from, end);
}

/* --- tasks ---------------------------------------------------------------- */

static double touch_us(struct starpu_task *task, unsigned nimpl)
{
    return 1000 * TOGETHER;
}

static void touch_some(void *buffers[], void *arg);
static struct starpu_perfmodel model = { .type = STARPU_COMMON,
                                         .cost_function = touch_us,
                                         .symbol = "touch" };
static struct starpu_codelet codelet = { .name = "touch",
                                         .cpu_funcs = { touch_some },
                                         .model = &model };

static void submit(struct dsf_starpu_touch *t)
{
    struct starpu_task *task = starpu_task_create();

    task->cl = &codelet;
    task->cl_arg = t;
    task->priority = INT_MIN;
    if (t->mask != NULL) {
        task->workerids = t->mask;
        task->workerids_len = t->mask_words;
    }
    if (starpu_task_submit(task) == 0)
        return;
    task->destroy = 0; /* pages come when they are used */
    starpu_task_destroy(task);
}

static void touch_some(void *buffers[], void *arg)
{
    struct dsf_starpu_touch *t = arg;
    const size_t first = atomic_fetch_add(&t->taken, TOGETHER);

    for (size_t i = first; i < first + TOGETHER && i < t->n; i++)
        dsf_touch_piece(t->pieces[i], DSF_TOUCH_PIECE);
    if (first + TOGETHER < t->n)
        submit(t);
}

static unsigned count_workers(const struct dsf_starpu_touch *t)
{
    unsigned n = 0;

    for (unsigned w = 0; w < starpu_worker_get_count(); w++)
        n += t->mask == NULL || t->mask[w / 32] >> w % 32 & 1;
    return n;
}

struct dsf_starpu_touch *dsf_starpu_touch(struct dsflow_exec *exec,
                                          uint32_t first, uint32_t last,
                                          int rank, uint32_t *mask,
                                          unsigned mask_words,
                                          struct dsf_starpu_touch *older)
{
    struct dsf_starpu_touch *t = dsf_xcalloc(1, sizeof(*t));
    bool *written = find_written(exec, first, last);

    *t = (struct dsf_starpu_touch){ older, mask, mask_words };
    find(t, exec, written, rank);
    free(written);
    for (unsigned w = t->n < LEAST ? 0 : count_workers(t); w > 0; w--)
        submit(t);
    return t;
}

void dsf_starpu_touch_end(struct dsf_starpu_touch *t)
{
    for (; t != NULL; t = t->older)
        atomic_store(&t->taken, t->n);
}

void dsf_starpu_touch_free(struct dsf_starpu_touch *t)
{
    while (t != NULL) {
        struct dsf_starpu_touch *older = t->older;

        free(t->pieces);
        free(t);
        t = older;
    }
}
