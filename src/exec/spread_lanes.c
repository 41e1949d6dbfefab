/* spread_lanes.c - the lanes of all processes as those of one timeline, workers
 * first; what the data is called that each of them moves, and how far apart
 * their clocks are: 0 where they are one, as in processes of one machine; else
 * that is found by asking for the time (clock_apart.h). */
#include "exec/spread_private.h"

#include "base/alloc.h"
#include "base/units.h"
#include "exec/exec_trace.h"
#include "graph/task.h"
#include "net/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASKED_AT_FIRST = 32, MACHINE = 80 };

/* What a process says of itself, before its lanes. */
struct about {
    char machine[MACHINE]; /* since it was started: of one clock */
    uint32_t nlanes, ndata;
    uint32_t sends, zero; /* the lane of what goes out */
    uint64_t names;       /* bytes of those of what it moves */
};

int64_t dsf_spread_clock(void)
{
    return (int64_t)(dsf_now() * 1e9);
}

/* The same in all processes that have one monotonic clock. */
static void find_machine(char id[MACHINE])
{
    FILE *in = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t n;

    memset(id, 0, MACHINE);
    if (in == NULL)
        return;
    if (fgets(id, MACHINE, in) == NULL)
        id[0] = '\0';
    fclose(in);
    /* Containers may have clocks of their own. */
    n = strlen(id);
    if (n > 0 && readlink("/proc/self/ns/time", id + n, MACHINE - 1 - n) < 0)
        id[n] = '\0';
}

/* --- in the process that has the executor --------------------------------- */

void dsf_spread_find_clock(const struct dsf_spread *s, int32_t process,
                           unsigned times)
{
    struct dsf_spread_others *o = &s->others[process];

    for (unsigned i = 0; i < times && !o->one_clock; i++) {
        const struct dsf_spread_command c = { .what = DSF_SPREAD_CLOCK };
        const double before = dsf_now();
        int64_t there;

        if (dsf_spread_ask(s, process, c, NULL) < 0 ||
            dsf_spread_answered(s, process, &there, NULL) < 0)
            return;
        dsf_clock_heard(&o->clock, before, 1e-9 * (double)there, dsf_now());
    }
}

double dsf_spread_clocks_within(const struct dsf_spread *s)
{
    const double now = dsf_now();
    double most = 0;

    for (int32_t p = 0; s->others != NULL && p < s->wire->nprocesses; p++) {
        const struct dsf_clock_apart *c = &s->others[p].clock;

        if (c->known && dsf_clock_within(c, now) > most)
            most = dsf_clock_within(c, now);
    }
    return most;
}

/* Its lanes, at the end of `lanes`. */
static struct dsf_lane *lanes_of(const struct dsf_spread *s, int32_t process,
                                 struct about *about)
{
    const struct dsf_spread_command c = { .what = DSF_SPREAD_LANES };
    struct dsf_lane *lanes;
    int64_t n;

    if (dsf_spread_ask(s, process, c, NULL) < 0 ||
        dsf_spread_answered(s, process, &n, NULL) < 0 ||
        dsf_pass(s->wire, false, process, DSF_SPREAD_CONTENTS, about,
                 sizeof(*about), NULL) < 0)
        return NULL;
    lanes = dsf_xcalloc((size_t)about->nlanes + 1, sizeof(*lanes));
    if (dsf_pass(s->wire, false, process, DSF_SPREAD_CONTENTS, lanes,
                 about->nlanes * sizeof(*lanes), NULL) == DSFLOW_OK)
        return lanes;
    free(lanes);
    return NULL;
}

/* What spans of transfers may be of: what messages carry; and what is on a
 * device, which cores and disks work on in main memory. By data of the part. */
static bool *find_moving(const struct dsflow_exec *own,
                         const struct dsf_graph_part *part)
{
    const uint32_t n = dsflow_graph_ndata(part->graph);
    bool *moving = dsf_xcalloc((size_t)n + 1, sizeof(*moving));

    for (uint32_t i = 0; i < n; i++)
        moving[i] = own->on[i] != NULL;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(part->graph); i++)
        if (part->moved[i] != DSF_NOT_IN_PART)
            moving[part->moved[i]] = true;
    return moving;
}

/* What that is called: its number, name and a 0. */
static char *names_of(const struct dsflow_exec *own,
                      const struct dsf_graph_part *part, uint64_t *bytes)
{
    bool *moving = find_moving(own, part);
    char *names = NULL;
    size_t at = 0, cap = 0;

    for (uint32_t d = 0; d < dsflow_graph_ndata(part->graph); d++) {
        const char *name = dsf_nth_data(part->graph, d)->name;
        const size_t length = strlen(name) + 1;

        if (!moving[d])
            continue;
        dsf_grow(&names, &cap, at + sizeof(d) + length, 1);
        memcpy(names + at, &d, sizeof(d));
        memcpy(names + at + sizeof(d), name, length);
        at += sizeof(d) + length;
    }
    free(moving);
    *bytes = at;
    return names;
}

static void take_names(struct dsf_spread_others *o,
                       const struct dsflow_graph *g, const char *names,
                       size_t bytes, uint32_t ndata)
{
    size_t at = 0;

    o->ndata = ndata;
    o->data = dsf_xcalloc((size_t)ndata + 1, sizeof(*o->data));
    memset(o->data, 0xff, (size_t)ndata * sizeof(*o->data));
    while (at + sizeof(uint32_t) < bytes) {
        dsflow_data_id id;
        uint32_t d;

        memcpy(&d, names + at, sizeof(d));
        at += sizeof(d);
        if (d < ndata && dsflow_graph_find(g, names + at, &id))
            o->data[d] = id.i;
        at += strlen(names + at) + 1;
    }
}

/* Those of another process. */
static void find_names(const struct dsf_spread *s, const struct dsflow_graph *g,
                       int32_t process, const struct about *about)
{
    char *names = dsf_xcalloc(1, (size_t)about->names + 1);

    if (about->names == 0 ||
        dsf_pass(s->wire, false, process, DSF_SPREAD_CONTENTS, names,
                 about->names, NULL) == DSFLOW_OK)
        take_names(&s->others[process], g, names, about->names, about->ndata);
    free(names);
}

static void find_own_names(const struct dsf_spread *s,
                           const struct dsflow_graph *g)
{
    uint64_t bytes;
    char *names = names_of(s->own, s->part, &bytes);

    take_names(&s->others[s->wire->process], g, names, bytes,
               dsflow_graph_ndata(s->part->graph));
    free(names);
}

/* In the common timeline workers come first, and disks last. */
enum { WORKERS, BETWEEN, DISKS };

static int turn_of(const struct dsf_lane *lane)
{
    return lane->kind == DSF_LANE_WORKER ? WORKERS
           : lane->kind == DSF_LANE_DISK ? DISKS
                                         : BETWEEN;
}

/* Those lanes of a process, with its number in front. */
static void add_lanes(const struct dsf_spread *s, int32_t process,
                      const struct dsf_lane *lanes, int turn,
                      struct dsf_timeline *timeline)
{
    struct dsf_spread_others *o = &s->others[process];

    for (unsigned i = 0; i < o->nlanes; i++) {
        struct dsf_lane *lane;

        if (turn_of(&lanes[i]) != turn)
            continue;
        o->lanes[i] = (uint16_t)timeline->nlanes;
        dsf_timeline_add_lane(timeline, (enum dsf_lane_kind)lanes[i].kind,
                              lanes[i].rank, "%d: %.22s", (int)process,
                              lanes[i].name);
        lane = &timeline->lanes[o->lanes[i]];
        for (unsigned k = 0; k < 2; k++)
            lane->ends[k] =
                lanes[i].ends[k] == 0
                    ? 0
                    : (uint16_t)(1 + o->lanes[lanes[i].ends[k] - 1]);
    }
}

/* The lanes of a process, and what it calls its data; NULL: they are not known.
 */
static struct dsf_lane *find_lanes(const struct dsflow_exec *exec,
                                   int32_t process,
                                   const struct dsf_timeline *mine,
                                   struct about *about)
{
    const struct dsf_spread *s = exec->spread;
    struct dsf_lane *lanes;

    if (process == s->wire->process) {
        about->nlanes = mine->nlanes;
        about->sends = s->own->wired.lane + 1;
        find_own_names(s, exec->graph);
        return mine->lanes;
    }
    if (s->part->alone)
        return NULL;
    lanes = lanes_of(s, process, about);
    if (lanes != NULL)
        find_names(s, exec->graph, process, about);
    return lanes;
}

void dsf_spread_lanes(const struct dsflow_exec *exec,
                      struct dsf_timeline *timeline)
{
    struct dsf_spread *s = exec->spread;
    const int32_t n = s->wire->nprocesses;
    struct dsf_lane **lanes = dsf_xcalloc((size_t)n, sizeof(*lanes));
    struct about *about = dsf_xcalloc((size_t)n, sizeof(*about)), own;
    struct dsf_timeline mine = { 0 };

    dsf_spread_forget(s);
    s->others = dsf_xcalloc((size_t)n, sizeof(*s->others));
    dsf_exec_lanes(s->own, &mine);
    find_machine(own.machine);
    for (int32_t p = 0; p < n; p++) {
        struct dsf_spread_others *o = &s->others[p];

        lanes[p] = find_lanes(exec, p, &mine, &about[p]);
        o->known = lanes[p] != NULL;
        if (!o->known)
            continue;
        o->nlanes = about[p].nlanes;
        o->sends = about[p].sends;
        o->lanes = dsf_xcalloc((size_t)o->nlanes + 1, sizeof(*o->lanes));
        o->ended = dsf_xcalloc((size_t)o->nlanes + 1, sizeof(*o->ended));
        o->one_clock = p == s->wire->process ||
                       (own.machine[0] != '\0' &&
                        strcmp(own.machine, about[p].machine) == 0);
        dsf_spread_find_clock(s, p, ASKED_AT_FIRST);
    }
    for (int turn = WORKERS; turn <= DISKS; turn++)
        for (int32_t p = 0; p < n; p++)
            if (s->others[p].known)
                add_lanes(s, p, lanes[p], turn, timeline);
    for (int32_t p = 0; p < n; p++)
        if (p != s->wire->process)
            free(lanes[p]);
    dsf_timeline_fini(&mine);
    free(lanes);
    free(about);
}

bool dsf_spread_carries(const struct dsf_spread *s, unsigned lane, bool out)
{
    for (int32_t p = 0; s->others != NULL && p < s->wire->nprocesses; p++) {
        const struct dsf_spread_others *o = &s->others[p];

        if (o->known && o->sends < o->nlanes &&
            o->lanes[out ? o->sends : o->sends - 1] == lane)
            return true;
    }
    return false;
}

void dsf_spread_forget(struct dsf_spread *s)
{
    for (int32_t p = 0; s->others != NULL && p < s->wire->nprocesses; p++) {
        free(s->others[p].lanes);
        free(s->others[p].ended);
        free(s->others[p].data);
    }
    free(s->others);
    s->others = NULL;
}

/* --- in the others -------------------------------------------------------- */

int dsf_spread_tell_lanes(struct dsflow_exec *exec,
                          const struct dsf_graph_part *part,
                          struct dsf_wire *wire, int32_t to,
                          struct dsflow_err *err)
{
    struct dsf_timeline own = { 0 };
    struct about about = { .ndata = dsflow_graph_ndata(part->graph) };
    char *names = names_of(exec, part, &about.names);
    int status;

    dsf_exec_lanes(exec, &own);
    find_machine(about.machine);
    about.nlanes = own.nlanes;
    about.sends = exec->wired.lane + 1;
    status = dsf_spread_answer(wire, to, DSFLOW_OK, own.nlanes, NULL, err);
    if (status == DSFLOW_OK)
        status = dsf_pass(wire, true, to, DSF_SPREAD_CONTENTS, &about,
                          sizeof(about), err);
    if (status == DSFLOW_OK)
        status = dsf_pass(wire, true, to, DSF_SPREAD_CONTENTS, own.lanes,
                          own.nlanes * sizeof(*own.lanes), err);
    if (status == DSFLOW_OK && about.names > 0)
        status = dsf_pass(wire, true, to, DSF_SPREAD_CONTENTS, names,
                          about.names, err);
    dsf_timeline_fini(&own);
    free(names);
    return status;
}
