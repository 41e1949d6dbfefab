/* watch_judge.c - which process has ended the run, and how. */
#include "net/watch_private.h"

#include "base/units.h"

#include <stdio.h>

/* With its ranks. */
static struct dsf_watch_name name_of(int32_t process)
{
    const struct dsf_watch_word *last =
        process == dsf_the_watch.process ? &dsf_the_watch.own
                                         : &dsf_the_watch.peers[process].last;
    struct dsf_watch_name name;
    char ranks[48] = "";

    if (last->nranks == 1)
        snprintf(ranks, sizeof(ranks), "rank %d, ", (int)last->first);
    else if (last->nranks > 1)
        snprintf(ranks, sizeof(ranks), "ranks %d to %d, ", (int)last->first,
                 (int)(last->first + last->nranks - 1));
    snprintf(name.s, sizeof(name.s), "process %d (%shost %.60s)", (int)process,
             ranks, dsf_the_watch.all[process].host);
    return name;
}

/* "in step 5": that which process 0 has told */
static struct dsf_watch_name at_step(void)
{
    const bool first = dsf_the_watch.process == 0;
    struct dsf_watch_name at;
    int64_t step;

    pthread_mutex_lock(&dsf_the_watch.lock);
    step = first ? dsf_the_watch.told.step : dsf_the_watch.own.step;
    pthread_mutex_unlock(&dsf_the_watch.lock);
    if (step > 0)
        snprintf(at.s, sizeof(at.s), "in step %lld%s", (long long)step,
                 first ? "" : " or later");
    else
        snprintf(at.s, sizeof(at.s), "before the first step");
    return at;
}

_Noreturn void dsf_watch_died(int32_t process)
{
    const struct dsf_watch_peer *p = &dsf_the_watch.peers[process];
    char why[640];

    if (p->last.what == DSF_WATCH_FAILED)
        snprintf(why, sizeof(why), "%s: %s", name_of(process).s, p->last.text);
    else if (p->task[0] != '\0')
        snprintf(why, sizeof(why), "%s died %s; its last task was `%s`",
                 name_of(process).s, at_step().s, p->task);
    else
        snprintf(why, sizeof(why), "%s died %s", name_of(process).s,
                 at_step().s);
    if (process == 0)
        dsf_watch_lost_first(why);
    dsf_watch_end_all(why);
}

static const struct dsf_watch_state *state_of(int32_t process)
{
    return process == dsf_the_watch.process
               ? &dsf_the_watch.own.state
               : &dsf_the_watch.peers[process].last.state;
}

static bool is_there(int32_t process)
{
    return process == dsf_the_watch.process ||
           dsf_the_watch.peers[process].fd >= 0;
}

/* "process 0 has waited 75 s for `forward layer 3` of process 1 (host b), which
 * …" */
_Noreturn static void silent(int32_t process, int32_t waiter, const char *which)
{
    char why[896];

    if (waiter >= 0 && waiter != process) {
        const struct dsf_watch_state *s = state_of(waiter);

        snprintf(why, sizeof(why),
                 "process %d has waited %s for `%s` of %s, which %s",
                 (int)waiter, dsf_time_text(s->waited).s, s->awaits,
                 name_of(process).s, which);
    } else {
        snprintf(why, sizeof(why), "%s %s", name_of(process).s, which);
    }
    if (process == 0 && dsf_the_watch.process != 0) {
        dsf_the_watch.cut_off = true;
        dsf_watch_lost_first(why);
    }
    dsf_watch_end_all(why);
}

/* Who waits for it; the first one in doubt. */
static int32_t waiter_of(int32_t process)
{
    for (int32_t i = 0; i < dsf_the_watch.n; i++)
        if (is_there(i) && state_of(i)->from == process)
            return i;
    return -1;
}

static void judge_silence(int32_t process, double now)
{
    const struct dsf_watch_peer *p = &dsf_the_watch.peers[process];
    double limit = dsf_the_watch.own.patience, silence = now - p->heard;
    char which[320];

    /* Process 0 speaks first, where neither hears the other. */
    if ((p->fd < 0 && !p->awaited) || p->bye || limit <= 0 ||
        silence < limit + (process == 0 ? 3 : 0))
        return;
    snprintf(which, sizeof(which), "was last heard %s ago, %s",
             dsf_time_text(silence).s, at_step().s);
    silent(process,
           dsf_the_watch.process == 0 || dsf_the_watch.own.state.from == 0
               ? waiter_of(process)
               : -1,
           which);
}

static bool is_busy(const struct dsf_watch_state *s)
{
    return s->task[0] != '\0' || s->from >= 0;
}

/* From one that waits to the one that it waits for in the end. */
static void judge_standstill(double now)
{
    int32_t at = -1, waiter = -1;
    uint64_t ended = 0;
    char which[320];

    for (int32_t i = dsf_the_watch.n - 1; i >= 0; i--) {
        if (!is_there(i))
            continue;
        ended += state_of(i)->ended;
        if (is_busy(state_of(i)) && (at < 0 || state_of(i)->from >= 0))
            at = i;
    }
    if (ended != dsf_the_watch.ended || at < 0) {
        dsf_the_watch.ended = ended;
        dsf_the_watch.moved = now;
    }
    if (dsf_the_watch.own.patience <= 0 ||
        now - dsf_the_watch.moved < dsf_the_watch.own.patience)
        return;
    for (int32_t hops = 0; hops < dsf_the_watch.n && state_of(at)->from >= 0;
         hops++) {
        waiter = at;
        at = state_of(at)->from;
    }
    /* One that is not heard is silent, and soon named as that. */
    if (at != dsf_the_watch.process &&
        now - dsf_the_watch.peers[at].heard > 2e-3 * DSF_WATCH_BEAT)
        return;
    if (state_of(at)->task[0] != '\0')
        snprintf(which, sizeof(which), "has run `%s` for %s, %s",
                 state_of(at)->task, dsf_time_text(now - dsf_the_watch.moved).s,
                 at_step().s);
    else
        snprintf(which, sizeof(which), "has ended no task for %s, %s",
                 dsf_time_text(now - dsf_the_watch.moved).s, at_step().s);
    silent(at, waiter, which);
}

void dsf_watch_judge(double now)
{
    for (int32_t i = 0; i < dsf_the_watch.n; i++)
        judge_silence(i, now);
    if (dsf_the_watch.process == 0)
        judge_standstill(now);
}
