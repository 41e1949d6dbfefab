/* saved.c - what a checkpoint of a session holds, and how large it is. */
#include "cli/session.h"

#include "base/alloc.h"
#include "base/log.h"
#include "cli/budget.h"
#include "cli/disks.h"
#include "cli/identity.h"
#include "cli/room.h"
#include "tasks/args.h"
#include "tasks/components.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dsflow_data_id find(const struct dsf_session *s, const char *name)
{
    dsflow_data_id id = { 0 };

    if (!dsflow_graph_find(s->graph, name, &id)) {
        fprintf(stderr, "dsflow: bug: the graph has no %s\n", name);
        abort();
    }
    return id;
}

/* What a step counts, as long as the graph keeps it. */
static const struct {
    const char *name;
    size_t bytes;
} counters[] = { { "cursor", DSF_CURSOR * sizeof(int64_t) },
                 { "control", sizeof(struct dsflow_control) } };

enum { NCOUNTERS = sizeof(counters) / sizeof(*counters) };

/* A checkpoint as lists of whole tensors: "params" are the units, "states" all
 * else that lives from step to step. Units pass by one at a time. */
struct passing {
    struct dsf_session *s;
    struct dsf_holding *what; /* by tensor: its unit and kind */
};

struct contents {
    struct dsf_st_tensor *tensors;
    struct dsf_ckpt_part parts[2];
    struct passing passing[2];
};

static int put_unit(void *user, unsigned i, struct dsf_st_writer *out,
                    struct dsflow_err *err)
{
    const struct passing *p = user;

    return dsf_contents_write(&p->s->contents, p->what[i].unit, p->what[i].kind,
                              out, err);
}

static int take_unit(void *user, unsigned i, const struct dsf_st_file *file,
                     const struct dsf_st_tensor *from, struct dsflow_err *err)
{
    const struct passing *p = user;

    return dsf_contents_read(&p->s->contents, p->what[i].unit, p->what[i].kind,
                             file, from, err);
}

static void add_tensor(struct dsf_ckpt_part *part, const char *prefix,
                       const char *name, enum dsflow_dtype dtype, size_t bytes)
{
    part->tensors[part->n++] = (struct dsf_st_tensor){
        .name =
            dsf_xasprintf("%s%s%s", prefix, prefix[0] != '\0' ? "." : "", name),
        .dtype = dtype,
        .ndims = 1,
        .dims = { (int64_t)(bytes / dsflow_dtype_bytes(dtype, 1)) },
        .bytes = bytes,
    };
}

static void add_unit(const struct dsf_session *s, struct contents *c,
                     unsigned u, unsigned kind, const char *prefix)
{
    const struct dsf_unit *unit = &s->model.units[u];
    int p = kind != DSF_KEPT_PARAM;

    c->passing[p].what[c->parts[p].n].unit = u;
    c->passing[p].what[c->parts[p].n].kind = kind;
    add_tensor(&c->parts[p], prefix, unit->name, DSFLOW_FP32,
               (size_t)unit->elems * sizeof(float));
}

/* Names and sizes: of the model and the optimizer alone, so that they are known
 * before there is a graph. */
static void list_contents(struct dsf_session *s, struct contents *c)
{
    static const char *const names[] = { "params", "states" };
    const struct dsflow_optimizer *o = dsf_job_optimizer(&s->job, NULL);
    unsigned nstates = dsf_optimizer_nstates(o, &s->job);
    size_t most = (size_t)s->model.nunits * (1 + nstates) + NCOUNTERS;

    c->tensors = dsf_xcalloc(2 * most, sizeof(*c->tensors));
    for (int p = 0; p < 2; p++) {
        c->passing[p].s = s;
        c->passing[p].what = dsf_xcalloc(most, sizeof(*c->passing[p].what));
        c->parts[p] = (struct dsf_ckpt_part){
            .name = names[p],
            .tensors = c->tensors + (size_t)p * most,
            .put = put_unit,
            .take = take_unit,
            .user = &c->passing[p],
        };
    }
    for (unsigned i = 0; i < NCOUNTERS; i++)
        add_tensor(&c->parts[1], "", counters[i].name, DSFLOW_INT64,
                   counters[i].bytes);
    for (unsigned u = 0; u < s->model.nunits; u++)
        for (unsigned k = 0; k <= nstates; k++)
            add_unit(s, c, u, k, k == DSF_KEPT_PARAM ? "" : o->states[k - 1]);
}

/* What is small stands in memory: it needs nobody to pass it on. */
static void map_counters(struct dsf_session *s, struct contents *c,
                         enum dsflow_access access)
{
    for (unsigned i = 0; i < NCOUNTERS; i++) {
        dsflow_data_id id = find(s, counters[i].name);

        assert(dsflow_graph_data(s->graph, id)->bytes == counters[i].bytes);
        c->parts[1].tensors[i].data = dsflow_exec_map(s->exec, id, access);
    }
}

static void forget_contents(struct contents *c)
{
    for (int p = 0; p < 2; p++) {
        for (unsigned t = 0; t < c->parts[p].n; t++)
            free(c->parts[p].tensors[t].name);
        free(c->passing[p].what);
    }
    free(c->tensors);
}

/* What the plan keeps in files on the disk that `path` is on. */
static double offloaded_beside(const struct dsf_session *s, const char *path)
{
    struct dsf_weights w;
    double bytes = 0;

    if (s->graph == NULL || !dsf_disks_are_used(&s->job))
        return 0;
    dsf_fit_weigh(s, NULL, &w);
    for (unsigned r = 0; r < w.nranks; r++)
        bytes += w.ranks[r].tier_bytes[DSFLOW_NVME];
    dsf_weights_fini(&w);
    return dsf_disks_bytes_beside(&s->job, bytes, path);
}

int dsf_session_check_room(struct dsf_session *s, int64_t done, bool fresh,
                           struct dsflow_err *err)
{
    char *dir = dsf_session_checkpoints(s);
    struct dsf_ckpt_use there = dsf_ckpt_use(dir);
    struct dsf_room_use use = {
        .saves = dsf_room_saves(&s->job, done),
        .there = fresh ? 0 : there.n,
        .there_bytes = fresh ? 0 : there.bytes,
        .removed = there.unfinished + (fresh ? there.bytes : 0),
        .others = offloaded_beside(s, s->job.main.output),
    };
    struct dsf_room room;
    struct contents c;

    list_contents(s, &c);
    for (int p = 0; p < 2; p++)
        use.bytes[p] =
            (double)dsf_st_bytes(c.parts[p].tensors, c.parts[p].n, NULL);
    forget_contents(&c);
    dsf_debug("a checkpoint has files of %.0f and %.0f bytes", use.bytes[0],
              use.bytes[1]);
    dsf_room_look(dir, &room);
    free(dir);
    return dsf_room_check(&s->job, &use, &room, err);
}

int dsf_session_save(struct dsf_session *s, int64_t step,
                     struct dsflow_err *err)
{
    struct dsf_ckpt_meta meta = { .step = step };
    char *dir = dsf_session_checkpoints(s);
    struct dsf_ckpt_fields of = { 0 };
    struct dsf_identity identity;
    struct contents c;
    int status;

    snprintf(meta.job, sizeof(meta.job), "%s", s->job.main.name);
    list_contents(s, &c);
    map_counters(s, &c, DSFLOW_R);
    dsf_identity_list(s, &identity);
    dsf_identity_fields(&identity, &of);
    meta.identity = dsf_identity_hash(&identity);
    meta.of = &of;
    status = dsf_ckpt_save(dir, &meta, c.parts, 2, s->job.checkpoint.keep, err);
    forget_contents(&c);
    dsf_ckpt_fields_fini(&of);
    dsf_identity_fini(&identity);
    free(dir);
    return status;
}

int dsf_session_load(struct dsf_session *s, const char *folder,
                     struct dsflow_err *err)
{
    struct contents c;
    int status;

    list_contents(s, &c);
    map_counters(s, &c, DSFLOW_RW);
    status = dsf_ckpt_load(folder, c.parts, 2, err);
    if (status == DSFLOW_OK)
        s->first = ((const int64_t *)c.parts[1].tensors[0].data)[1];
    forget_contents(&c);
    return status;
}

void dsf_session_set_first(struct dsf_session *s, int64_t first)
{
    int64_t *cursor = dsflow_exec_map(s->exec, find(s, "cursor"), DSFLOW_RW);

    s->first = cursor[1] = first;
}
