/* fit_flights.c - how many micro-batches are in flight beside cores that update
 * the states of GPUs.
 *
 * With one more, one more micro-batch goes through the first layers of the next
 * step while cores update the last ones; the price is its activations. Without
 * such updates a GPU has nothing to wait for, and two are as fast as any.
 */
#include "tune/fit_private.h"

#include "base/alloc.h"
#include "config/when.h"

#include <math.h>
#include <string.h>

/* Each try builds the graph and simulates it. */
enum { MOST_TASKS = 100000 };

bool dsf_fit_flights_are_open(const struct dsf_job *job)
{
    return dsf_job_is(job, "batch.in_flight = auto and mesh.pipeline = 1 and "
                           "batch.order != layer_major and "
                           "offload.optimizer != none");
}

/* A choice whose change number `at` is how many are in flight. */
struct flights {
    struct dsf_search *h;
    struct dsf_changes *tried;
    dsf_look_fn look;
    struct dsf_choice choice;
    unsigned at;
};

/* The seconds of a step; INFINITY: it does not fit. */
static double look(struct flights *f, int64_t n)
{
    f->choice.v[f->at] = dsf_changes_add(f->tried, dsf_xstrdup("auto"),
                                         dsf_xasprintf("%lld", (long long)n));
    return f->look(f->h, &f->choice);
}

/* From `now` on, by steps that grow as long as each is worth it, and halve from
 * then on. */
static void climb(struct flights *f, int64_t now, int64_t most, double seconds)
{
    bool grows = true;

    for (int64_t step = 1; step > 0;) {
        double then = now + step <= most ? look(f, now + step) : INFINITY;
        bool better = then < 0.999 * seconds;

        if (better) {
            now += step;
            seconds = then;
        }
        grows = grows && better;
        step = grows ? 2 * step : step / 2;
    }
}

/* Where a choice says how many are in flight, or may do so. */
static unsigned place_in(const struct dsf_search *h,
                         const struct dsf_tunable *row)
{
    unsigned i = 0;

    while (i < h->now.n && h->level[i].row != row)
        i++;
    return i;
}

/* Has something else all room that there is? */
static bool is_full(const struct dsf_search *h)
{
    bool full = false;

    for (unsigned i = 0; i < h->now.n; i++)
        full = full || h->level[i].row->most;
    return full;
}

void dsf_fit_flights(struct dsf_search *h, struct dsf_changes *tried,
                     dsf_look_fn fn)
{
    struct flights f = { h, tried, fn, h->now, 0 };
    struct dsf_outcome o;

    tried->row = dsf_tunables_find(&h->table, "batch.in_flight");
    f.at = place_in(h, tried->row);
    if (is_full(h) || f.at == DSF_MAX_CHANGES ||
        (f.at < f.choice.n && f.choice.v[f.at]->nsets > 0))
        return;
    if (f.at == f.choice.n)
        f.choice.n++;
    dsf_evaluate(&h->e, &h->now, false, &o);
    if (o.status < 0 || o.tasks > MOST_TASKS)
        return;
    if (o.fits)
        climb(&f, o.slots, o.micro_steps, o.seconds);
    else if (o.slots > 1 && f.at == h->now.n)
        look(&f, 1);
}
