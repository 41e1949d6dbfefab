/* by_all.c - what the first of several processes asks of the others beside
 * programs. A checkpoint has two phases: each writes its bytes and syncs them,
 * and says so; when all have, the first one writes the manifest and gives it
 * its name (src/checkpoint). */
#include "train/by_all.h"

#include "base/alloc.h"
#include "exec/spread.h"
#include "net/pass.h"
#include "net/watch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Beside those of src/train/together.c. */
enum tag { REQUEST = DSF_OWN_TAGS + 32, ABSENT, COUNT, PIECES, DONE };

enum what { START, LOAD, SAVE, ROUND };

struct request {
    uint32_t what; /* enum what */
    uint32_t zero;
    int64_t number;        /* START: of the step; ROUND: of updates */
    char folder[PATH_MAX]; /* of the checkpoint */
};

struct done {
    int32_t status, zero;
    uint64_t sums[2]; /* SAVE: of its bytes, by file */
    char msg[488];
};

/* --- in the first one ----------------------------------------------------- */

static int ask(const struct dsf_session *s, enum what what, int64_t number,
               const char *folder, struct dsflow_err *err)
{
    struct request r = { .what = what, .number = number };
    int status;

    if (strlen(folder) >= sizeof(r.folder))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: expected a path of less than %d bytes", folder,
                           PATH_MAX);
    strcpy(r.folder, folder);
    status = dsf_spread_call(s->exec, err);
    for (int32_t p = 1; p < s->together.wire->nprocesses && status == DSFLOW_OK;
         p++)
        status =
            dsf_pass(s->together.wire, true, p, REQUEST, &r, sizeof(r), err);
    return status;
}

int dsf_by_all_start(struct dsf_session *s, int64_t step,
                     struct dsflow_err *err)
{
    return s->together.wire == NULL ? DSFLOW_OK : ask(s, START, step, "", err);
}

int dsf_by_all_round(struct dsf_session *s, int64_t updates,
                     struct dsflow_err *err)
{
    return s->together.wire == NULL ? DSFLOW_OK
                                    : ask(s, ROUND, updates, "", err);
}

int dsf_by_all_load(struct dsf_session *s, const char *folder,
                    const bool *absent, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (s->together.wire == NULL)
        return DSFLOW_OK;
    status = ask(s, LOAD, 0, folder, err);
    for (int32_t p = 1; p < s->together.wire->nprocesses && status == DSFLOW_OK;
         p++)
        status = dsf_pass(s->together.wire, true, p, ABSENT, (void *)absent,
                          s->plan->kept.n * sizeof(*absent), err);
    return status;
}

/* Of all, also where one of them has failed. */
static int wait_for_all(const struct dsf_session *s, uint64_t *sums,
                        struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (int32_t p = 1; p < s->together.wire->nprocesses; p++) {
        struct dsflow_err *to = status == DSFLOW_OK ? err : NULL;
        struct done d;
        int one = dsf_pass(s->together.wire, false, p, DONE, &d, sizeof(d), to);

        if (one == DSFLOW_OK && d.status < 0)
            one = dsflow_fail(to, (enum dsflow_status)d.status, "%s: %s",
                              dsf_watch_name(p).s, d.msg);
        for (int i = 0; one == DSFLOW_OK && sums != NULL && i < 2; i++)
            sums[i] ^= d.sums[i];
        status = status == DSFLOW_OK ? one : status;
    }
    return status;
}

int dsf_by_all_end(struct dsf_session *s, int status, struct dsflow_err *err)
{
    int others = DSFLOW_OK;

    if (s->together.wire != NULL)
        others = wait_for_all(s, NULL, status == DSFLOW_OK ? err : NULL);
    return status == DSFLOW_OK ? others : status;
}

static int pass_list(struct dsf_wire *wire, bool out, int32_t process,
                     struct dsf_writes *s, struct dsflow_err *err)
{
    uint64_t n = s->n;
    int status = dsf_pass(wire, out, process, COUNT, &n, sizeof(n), err);

    if (status < 0 || n == 0)
        return status;
    if (!out) {
        dsf_grow(&s->v, &s->cap, (size_t)n, sizeof(*s->v));
        s->n = (size_t)n;
    }
    return dsf_pass(wire, out, process, PIECES, s->v, s->n * sizeof(*s->v),
                    err);
}

static int begin(void *user, const char *folder, struct dsflow_err *err)
{
    struct dsf_by_all_save *save = user;
    const struct dsf_session *s = save->s;
    int32_t n = s->together.wire->nprocesses;
    struct dsf_writes *has = dsf_xcalloc((size_t)n, sizeof(*has));
    struct dsf_writes *writes = dsf_xcalloc((size_t)n, sizeof(*writes));
    int status = ask(s, SAVE, 0, folder, err);

    dsf_writes_list(&s->mine, &has[0]);
    for (int32_t p = 1; p < n && status == DSFLOW_OK; p++)
        status = pass_list(s->together.wire, false, p, &has[p], err);
    if (status == DSFLOW_OK)
        dsf_writes_share(has, n, writes);
    for (int32_t p = 1; p < n && status == DSFLOW_OK; p++)
        status = pass_list(s->together.wire, true, p, &writes[p], err);
    save->writes = writes[0];
    for (int32_t p = 0; p < n; p++) {
        dsf_writes_fini(&has[p]);
        if (p > 0)
            dsf_writes_fini(&writes[p]);
    }
    free(has);
    free(writes);
    return status;
}

static int end(void *user, uint64_t *sums, struct dsflow_err *err)
{
    const struct dsf_by_all_save *save = user;

    return wait_for_all(save->s, sums, err);
}

void dsf_by_all_save_init(struct dsf_by_all_save *save, struct dsf_session *s)
{
    *save = (struct dsf_by_all_save){ .s = s, .others = { save, begin, end } };
}

void dsf_by_all_save_fini(struct dsf_by_all_save *save)
{
    dsf_writes_fini(&save->writes);
}

/* --- in the others -------------------------------------------------------- */

/* What is asked, into `d`; an error is of messages. */
static int load(struct dsf_session *s, struct dsf_wire *wire,
                const char *folder, struct done *d, struct dsflow_err *why,
                struct dsflow_err *err)
{
    bool *absent = dsf_xcalloc(s->plan->kept.n, sizeof(*absent));
    int status = dsf_pass(wire, false, 0, ABSENT, absent,
                          s->plan->kept.n * sizeof(*absent), err);

    if (status == DSFLOW_OK)
        d->status = dsf_session_load_own(s, folder, absent, why);
    free(absent);
    return status;
}

static int save(struct dsf_session *s, struct dsf_wire *wire,
                const char *folder, struct done *d, struct dsflow_err *why,
                struct dsflow_err *err)
{
    struct dsf_writes has = { 0 }, writes = { 0 };
    int status;

    dsf_writes_list(&s->mine, &has);
    status = pass_list(wire, true, 0, &has, err);
    if (status == DSFLOW_OK)
        status = pass_list(wire, false, 0, &writes, err);
    if (status == DSFLOW_OK)
        d->status = dsf_session_save_own(s, folder, &writes, d->sums, why);
    dsf_writes_fini(&has);
    dsf_writes_fini(&writes);
    return status;
}

int dsf_by_all_serve(struct dsf_session *s, struct dsf_wire *wire,
                     struct dsflow_err *err)
{
    struct dsflow_err why = { 0 };
    struct done d = { 0 };
    struct request r;
    int64_t from, updates;
    int status = dsf_pass(wire, false, 0, REQUEST, &r, sizeof(r), err);

    if (status == DSFLOW_OK && r.what == START)
        d.status = dsf_session_start_own(s, r.number, &from, &updates, &why);
    else if (status == DSFLOW_OK && r.what == LOAD)
        status = load(s, wire, r.folder, &d, &why, err);
    else if (status == DSFLOW_OK && r.what == ROUND)
        dsf_session_round_own(s, r.number);
    else if (status == DSFLOW_OK)
        status = save(s, wire, r.folder, &d, &why, err);
    if (status < 0)
        return status;
    if (d.status < 0)
        snprintf(d.msg, sizeof(d.msg), "%.487s", why.msg);
    return dsf_pass(wire, true, 0, DONE, &d, sizeof(d), err);
}
