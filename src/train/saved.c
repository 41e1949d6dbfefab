/* saved.c - what a checkpoint of a session holds, and how large it is. */
#include "train/session.h"

#include "base/alloc.h"
#include "base/log.h"
#include "measure/disks.h"
#include "policies/keys.h"
#include "policies/policies.h"
#include "train/by_all.h"
#include "train/identity.h"
#include "train/machine_keys.h"
#include "train/room.h"
#include "train/saved_numbers.h"
#include "train/together.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A checkpoint as lists of arrays: "params" are the units, "states" all else
 * that is kept, but for numbers that have names. They pass by one at a time. */
struct passing {
    struct dsf_session *s;
    struct dsf_holding *what; /* by tensor: its unit and place in the list */
    size_t cap;
    const struct dsf_ckpt_part *part; /* that it is of */
    const struct dsf_writes *writes;  /* of several processes; NULL: all */
};

struct contents {
    struct dsf_kept_list kept; /* before the plan: what is kept anyway */
    struct dsf_ckpt_part parts[2];
    size_t cap[2]; /* of their tensors */
    struct passing passing[2];
};

/* What the plan keeps, or, before there is one, what any plan does. */
static const struct dsf_kept_list *kept_of(const struct dsf_session *s,
                                           struct contents *c)
{
    if (s->graph != NULL || s->had.kept != NULL)
        return &s->plan->kept;
    dsf_reference_keep(s->job, &c->kept, NULL);
    return &c->kept;
}

static int put_unit(void *user, unsigned i, struct dsf_st_writer *out,
                    struct dsflow_err *err)
{
    const struct passing *p = user;
    unsigned unit = p->what[i].unit, kind = p->what[i].kind;
    const struct dsf_piece *pieces;
    size_t n;

    if (p->writes == NULL)
        return dsf_contents_write(&p->s->contents, unit, kind, out, err);
    pieces = dsf_writes_of(p->writes, unit, kind, &n);
    return dsf_contents_write_some(&p->s->mine, unit, kind, pieces, n,
                                   p->part->tensors[i].bytes, out, err);
}

static int take_unit(void *user, unsigned i, const struct dsf_st_file *file,
                     const struct dsf_st_tensor *from, struct dsflow_err *err)
{
    const struct passing *p = user;

    return dsf_contents_read(&p->s->mine, p->what[i].unit, p->what[i].kind,
                             file, from, err);
}

/* Room for one tensor more: of unit, rank or worker `index` of what stands at
 * place `kind` of the list. Parameters have a file of their own. */
static struct dsf_st_tensor *add_tensor(struct contents *c, unsigned index,
                                        unsigned kind)
{
    int p = kind != DSF_KEPT_PARAM;
    struct dsf_ckpt_part *part = &c->parts[p];
    struct passing *passing = &c->passing[p];
    unsigned at = part->n++;

    dsf_grow(&part->tensors, &c->cap[p], part->n, sizeof(*part->tensors));
    dsf_grow(&passing->what, &passing->cap, part->n, sizeof(*passing->what));
    passing->what[at] = (struct dsf_holding){ .unit = index, .kind = kind };
    return &part->tensors[at];
}

/* "m.layer3.qkv"; parameters have the name of their unit. */
static void add_unit(const struct dsf_session *s, struct contents *c,
                     const struct dsf_kept_list *kept, unsigned u,
                     unsigned kind)
{
    const struct dsf_unit *unit = &s->model.units[u];

    *add_tensor(c, u, kind) = (struct dsf_st_tensor){
        .name = kind == DSF_KEPT_PARAM
                    ? dsf_xstrdup(unit->name)
                    : dsf_xasprintf("%s.%s", kept->v[kind].name, unit->name),
        .dtype = DSFLOW_FP32,
        .ndims = 1,
        .dims = { unit->file_elems },
        .bytes = (size_t)unit->file_elems * sizeof(float),
    };
}

/* "errors.layer3.qkv", "errors.r2", "errors.r2.w1" or "errors". */
static char *name_array(const struct dsf_session *s,
                        const struct dsflow_kept *kept, unsigned index)
{
    switch (kept->kind) {
    case DSFLOW_KEPT_BY_UNIT:
        return dsf_xasprintf("%s.%s", kept->name, s->model.units[index].name);
    case DSFLOW_KEPT_BY_RANK:
        return dsf_xasprintf("%s.r%u", kept->name, index);
    case DSFLOW_KEPT_BY_WORKER:
        return dsf_xasprintf("%s.r%u.w%u", kept->name, index >> 16,
                             index & 0xffff);
    default:
        return dsf_xstrdup(kept->name);
    }
}

static void add_array(const struct dsf_session *s, struct contents *c,
                      const struct dsflow_kept *kept, unsigned index,
                      unsigned kind)
{
    struct dsf_st_tensor *t = add_tensor(c, index, kind);

    *t = (struct dsf_st_tensor){
        .name = name_array(s, kept, index),
        .dtype = kept->dtype,
        .ndims = kept->ndims,
        .bytes = dsflow_dtype_bytes(kept->dtype, dsf_kept_elems(kept)),
    };
    for (unsigned i = 0; i < kept->ndims; i++)
        t->dims[i] = kept->dims[i];
    if (kept->dtype == DSFLOW_BYTES)
        t->dtype = DSFLOW_UINT8;
    if (kept->dtype == DSFLOW_INT8_BLOCK) { /* as bytes, with its scales */
        t->dtype = DSFLOW_UINT8;
        t->ndims = 1;
        t->dims[0] = (int64_t)t->bytes;
    }
}

static bool is_array(const struct dsflow_kept *kept)
{
    return kept->kind != DSFLOW_KEPT_TENSORS && kept->fields == NULL &&
           !kept->transient;
}

/* How many units, ranks or workers there are of it says the graph. */
static void list_arrays(const struct dsf_session *s, struct contents *c,
                        const struct dsf_kept_list *kept)
{
    struct dsf_contents now = { 0 };
    const struct dsf_contents *all = s->graph == NULL ? &s->had : &now;

    if (s->graph != NULL)
        dsf_contents_init(&now, &s->model, s->graph, NULL, kept,
                          s->plan->nparts);
    for (size_t i = 0; i < all->n; i++) {
        const struct dsf_holding *h = &all->v[i];

        if (is_array(&kept->v[h->kind]) &&
            (i == 0 || h[-1].kind != h->kind || h[-1].unit != h->unit))
            add_array(s, c, &kept->v[h->kind], h->unit, h->kind);
    }
    dsf_contents_fini(&now);
}

void dsf_session_forget_graph(struct dsf_session *s)
{
    if (s->graph == NULL)
        return;
    dsf_contents_fini(&s->had);
    dsf_contents_init(&s->had, &s->model, s->graph, NULL, &s->plan->kept,
                      s->plan->nparts);
    s->had.graph = NULL;
    dsf_graph_part_forget_whole(&s->together.part);
    dsflow_graph_free(s->graph);
    s->graph = NULL;
}

/* Names and sizes. Tensors are known before there is a graph. */
static void list_contents(struct dsf_session *s, struct contents *c)
{
    static const char *const names[] = { "params", "states" };
    const struct dsf_kept_list *kept;

    memset(c, 0, sizeof(*c));
    kept = kept_of(s, c);
    for (int p = 0; p < 2; p++) {
        c->passing[p].s = s;
        c->passing[p].part = &c->parts[p];
        c->parts[p] = (struct dsf_ckpt_part){ .name = names[p],
                                              .put = put_unit,
                                              .take = take_unit,
                                              .user = &c->passing[p] };
    }
    for (unsigned u = 0; u < s->model.nunits; u++)
        for (unsigned k = 0; k < kept->n; k++)
            if (kept->v[k].kind == DSFLOW_KEPT_TENSORS &&
                !kept->v[k].transient &&
                dsf_unit_keeps(s->job, &s->model, &s->model.units[u],
                               &kept->v[k]))
                add_unit(s, c, kept, u, k);
    list_arrays(s, c, kept);
}

static void forget_contents(struct contents *c)
{
    for (int p = 0; p < 2; p++) {
        for (unsigned t = 0; t < c->parts[p].n; t++)
            free(c->parts[p].tensors[t].name);
        free(c->parts[p].tensors);
        free(c->passing[p].what);
    }
    dsf_kept_free(&c->kept);
}

/* What the plan keeps in files on the disk that `path` is on. */
static double offloaded_beside(struct dsf_session *s, const char *path)
{
    const struct dsf_weights *w;
    double bytes = 0;

    if (s->graph == NULL || !dsf_disks_are_used(s->job))
        return 0;
    w = dsf_session_weights(s);
    for (unsigned r = 0; r < w->nranks; r++)
        bytes += w->ranks[r].tier_bytes[DSFLOW_NVME];
    return dsf_disks_bytes_beside(s->job, bytes, path);
}

/* The sizes of the two files of a checkpoint. */
static void find_sizes(struct dsf_session *s, double bytes[2])
{
    struct contents c;

    list_contents(s, &c);
    for (int p = 0; p < 2; p++)
        bytes[p] = (double)dsf_st_bytes(c.parts[p].tensors, c.parts[p].n);
    forget_contents(&c);
}

struct dsf_plan_saves dsf_session_saves(struct dsf_session *s)
{
    struct dsf_room_use use = { .saves = dsf_room_saves(s->job, 0) };

    find_sizes(s, use.bytes);
    return dsf_room_plan(s->job, &use);
}

int dsf_session_check_room(struct dsf_session *s, int64_t done, bool fresh,
                           struct dsflow_err *err)
{
    char *dir = dsf_session_checkpoints(s);
    struct dsf_ckpt_use there = dsf_ckpt_use(dir);
    struct dsf_room_use use = {
        .saves = dsf_room_saves(s->job, done),
        .there = fresh ? 0 : there.n,
        .there_bytes = fresh ? 0 : there.bytes,
        .removed = there.unfinished + (fresh ? there.bytes : 0),
        .others = offloaded_beside(s, s->job->main.output),
        .early = s->corpus == NULL,
    };
    struct dsf_room room;

    find_sizes(s, use.bytes);
    dsf_debug("a checkpoint has files of %.0f and %.0f bytes", use.bytes[0],
              use.bytes[1]);
    dsf_room_look(dir, &room);
    free(dir);
    return dsf_room_check(s->job, &use, &room, err);
}

int dsf_session_save(struct dsf_session *s, int64_t step,
                     struct dsflow_err *err)
{
    struct dsf_ckpt_meta meta = { .step = step, .edited = s->edited };
    char *dir = dsf_session_checkpoints(s);
    struct dsf_ckpt_fields of = { 0 }, numbers = { 0 };
    struct dsf_identity identity;
    struct dsf_by_all_save asked;
    struct contents c;
    char on[256];
    int status;

    dsf_by_all_save_init(&asked, s);
    snprintf(meta.job, sizeof(meta.job), "%s", s->job->main.name);
    list_contents(s, &c);
    dsf_numbers_list(s, &numbers);
    meta.numbers = &numbers;
    dsf_identity_list(s, &identity);
    dsf_identity_fields(&identity, &of);
    dsf_machine_keys_describe(&s->machine, on, sizeof(on));
    if (s->machine.gpus > 0)
        dsf_ckpt_fields_add(&of, DSF_IDENTITY_ON, on);
    meta.identity = dsf_identity_hash(&identity);
    meta.of = &of;
    if (s->together.wire != NULL) {
        meta.others = &asked.others;
        c.passing[0].writes = c.passing[1].writes = &asked.writes;
    }
    status =
        dsf_ckpt_save(dir, &meta, c.parts, 2, s->job->checkpoint.keep, err);
    forget_contents(&c);
    dsf_ckpt_fields_fini(&of);
    dsf_ckpt_fields_fini(&numbers);
    dsf_identity_fini(&identity);
    dsf_by_all_save_fini(&asked);
    free(dir);
    return status;
}

int dsf_session_save_own(struct dsf_session *s, const char *folder,
                         const struct dsf_writes *writes, uint64_t *sums,
                         struct dsflow_err *err)
{
    struct contents c;
    int status;

    list_contents(s, &c);
    c.passing[0].writes = c.passing[1].writes = writes;
    status = dsf_ckpt_write_some(folder, c.parts, 2, sums, err);
    forget_contents(&c);
    return status;
}

/* Arrays that the checkpoint has not, or of other ranks, begin as zeroes: all
 * that are kept under one name. So do errors of coded gradients, which may be
 * of other groups, or of none. */
static void warn_absent(const struct dsf_session *s, const char *folder,
                        unsigned kind)
{
    static const char *const words[] = { [DSF_OF_ERROR] = "errors",
                                         [DSF_OF_NODE_ERROR] = "errors of sums",
                                         [DSF_OF_MOMENTUM] = "momenta",
                                         [DSF_OF_LOCAL] = "local steps" };
    enum dsf_of_group what;

    if (is_array(&s->plan->kept.v[kind]))
        dsf_warn("%s: has not all of %s: it begins as zeroes", folder,
                 s->plan->kept.v[kind].name);
    else if (dsf_kept_group(s->plan, (uint16_t)(kind + 1), &what) == 0)
        dsf_warn("%s: has not all %s of %d %s: they begin as zeroes", folder,
                 words[what], (int)dsf_kept_count(s->plan, what),
                 what == DSF_OF_NODE_ERROR ? "nodes"
                                           : "groups of micro-batches");
}

static bool may_be_absent(const struct dsf_session *s, unsigned kind)
{
    enum dsf_of_group what;

    return is_array(&s->plan->kept.v[kind]) ||
           dsf_kept_group(s->plan, (uint16_t)(kind + 1), &what) >= 0;
}

static int find_absent(const struct dsf_session *s, const struct contents *c,
                       const char *folder, bool *absent, struct dsflow_err *err)
{
    const struct dsf_ckpt_part *part = &c->parts[1];
    const struct passing *passing = &c->passing[1];
    struct dsf_st_file *file;
    int status = dsf_ckpt_open_part(folder, part->name, &file, err);

    for (unsigned i = 0; i < part->n && status == DSFLOW_OK; i++) {
        unsigned kind = passing->what[i].kind;

        if (may_be_absent(s, kind) && !absent[kind] &&
            dsf_ckpt_find(file, &part->tensors[i], NULL) == NULL) {
            absent[kind] = true;
            warn_absent(s, folder, kind);
        }
    }
    if (status == DSFLOW_OK)
        dsf_st_close(file);
    return status;
}

static void drop_absent(struct contents *c, const bool *absent)
{
    struct dsf_ckpt_part *part = &c->parts[1];
    struct passing *passing = &c->passing[1];
    unsigned n = 0;

    for (unsigned i = 0; i < part->n; i++) {
        if (absent[passing->what[i].kind]) {
            free(part->tensors[i].name);
            continue;
        }
        part->tensors[n] = part->tensors[i];
        passing->what[n++] = passing->what[i];
    }
    part->n = n;
}

int dsf_session_load_own(struct dsf_session *s, const char *folder,
                         const bool *absent, struct dsflow_err *err)
{
    struct contents c;
    int status;

    list_contents(s, &c);
    drop_absent(&c, absent);
    status = dsf_ckpt_load(folder, c.parts, 2, err);
    forget_contents(&c);
    return status;
}

/* In all processes. */
static int load_arrays(struct dsf_session *s, const char *folder,
                       struct dsflow_err *err)
{
    bool *absent = dsf_xcalloc(s->plan->kept.n, sizeof(*absent));
    struct contents c;
    int status;

    list_contents(s, &c);
    status = find_absent(s, &c, folder, absent, err);
    forget_contents(&c);
    if (status == DSFLOW_OK)
        status = dsf_by_all_load(s, folder, absent, err);
    if (status == DSFLOW_OK) {
        status = dsf_session_load_own(s, folder, absent, err);
        status = dsf_by_all_end(s, status, err);
    }
    free(absent);
    return status;
}

int dsf_session_load(struct dsf_session *s, const char *folder,
                     struct dsflow_err *err)
{
    const int64_t *cursor;
    int status = load_arrays(s, folder, err);

    if (status == DSFLOW_OK)
        status = dsf_numbers_read(s, folder, err);
    if (status == DSFLOW_OK) {
        cursor = dsf_contents_map(&s->contents, 0, DSF_KEPT_CURSOR, DSFLOW_R);
        s->first = cursor[1];
        dsf_together_tell(s, 0);
    }
    s->unprepared = true;
    if (status == DSFLOW_OK)
        status = dsf_session_round(s, dsf_session_updates(s), err);
    return status == DSFLOW_OK ? dsf_session_prepare(s, err) : status;
}

void dsf_session_set_first(struct dsf_session *s, int64_t first)
{
    int64_t *cursor =
        dsf_contents_map(&s->contents, 0, DSF_KEPT_CURSOR, DSFLOW_RW);

    s->first = cursor[1] = first;
    dsf_together_tell(s, 0);
}
