/* spread.c - the executor of a graph that several processes run. Of commands,
 * a wait, a map, a close and what asks something wait for what they ask for: of
 * a program that is submitted, the others only say that they have it, so steps
 * overlap as in one process. */
#include "exec/spread_private.h"

#include "base/alloc.h"
#include "exec/exec_direct.h"
#include "exec/exec_memory.h"
#include "net/pass.h"
#include "net/watch.h"

#include <stdlib.h>
#include <string.h>

struct answer {
    int64_t number; /* of bytes */
    int32_t status, zero;
    char msg[256];
};

/* --- in the process that has the executor --------------------------------- */

int dsf_spread_ask(const struct dsf_spread *s, int32_t process,
                   struct dsf_spread_command c, struct dsflow_err *err)
{
    return dsf_pass(s->wire, true, process, DSF_SPREAD_COMMAND, &c, sizeof(c),
                    err);
}

int dsf_spread_answered(const struct dsf_spread *s, int32_t process,
                        int64_t *number, struct dsflow_err *err)
{
    struct answer a;
    int status;

    dsf_watch_waits(process, "an answer");
    status = dsf_pass(s->wire, false, process, DSF_SPREAD_ANSWER, &a, sizeof(a),
                      err);
    dsf_watch_waits(process, NULL);
    if (status < 0)
        return status;
    if (number != NULL)
        *number = a.number;
    return a.status == DSFLOW_OK
               ? DSFLOW_OK
               : dsflow_fail(err, a.status, "%s: %s", dsf_watch_name(process).s,
                             a.msg);
}

static int ask_all(const struct dsf_spread *s, struct dsf_spread_command c,
                   struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (int32_t p = 0; p < s->wire->nprocesses && status == DSFLOW_OK; p++)
        if (p != s->wire->process)
            status = dsf_spread_ask(s, p, c, err);
    return status;
}

/* Of all others, in their order: the first that went wrong. */
static int all_answered(const struct dsf_spread *s, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (int32_t p = 0; p < s->wire->nprocesses; p++)
        if (p != s->wire->process) {
            int one = dsf_spread_answered(s, p, NULL,
                                          status == DSFLOW_OK ? err : NULL);

            status = status == DSFLOW_OK ? one : status;
        }
    return status;
}

static struct dsf_spread_command of_data(const struct dsflow_exec *exec,
                                         enum dsf_spread_what what,
                                         uint32_t data)
{
    struct dsf_spread_command c = { .what = what };

    snprintf(c.name, sizeof(c.name), "%s",
             dsflow_graph_data(exec->graph, (dsflow_data_id){ data })->name);
    return c;
}

static int put_back(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct dsf_spread *s = exec->spread;
    int32_t process;
    int status;

    if (!s->dirty)
        return DSFLOW_OK;
    s->dirty = false;
    process = s->part->process[s->data];
    status = dsf_spread_ask(s, process,
                            of_data(exec, DSF_SPREAD_WRITE, s->data), err);
    if (status == DSFLOW_OK)
        status = dsf_pass(s->wire, true, process, DSF_SPREAD_CONTENTS, s->shown,
                          s->bytes, err);
    return status == DSFLOW_OK ? dsf_spread_answered(s, process, NULL, err)
                               : status;
}

static void *show(struct dsflow_exec *exec, uint32_t data,
                  enum dsflow_access access, struct dsflow_err *err)
{
    struct dsf_spread *s = exec->spread;
    int32_t process = s->part->process[data];
    int status = DSFLOW_OK;

    s->bytes = dsflow_graph_data(exec->graph, (dsflow_data_id){ data })->bytes;
    free(s->shown);
    s->shown = dsf_xcalloc(1, s->bytes);
    if (access & DSFLOW_R) {
        status = dsf_spread_ask(s, process,
                                of_data(exec, DSF_SPREAD_READ, data), err);
        if (status == DSFLOW_OK)
            status = dsf_spread_answered(s, process, NULL, err);
        if (status == DSFLOW_OK)
            status = dsf_pass(s->wire, false, process, DSF_SPREAD_CONTENTS,
                              s->shown, s->bytes, err);
    }
    s->data = data;
    s->dirty = status == DSFLOW_OK && (access & DSFLOW_W) != 0;
    return status == DSFLOW_OK ? s->shown : NULL;
}

void *dsf_spread_map(struct dsflow_exec *exec, dsflow_data_id id,
                     enum dsflow_access access)
{
    const struct dsf_spread *s = exec->spread;
    struct dsflow_err err;
    void *at = NULL;

    if (s->part->process[id.i] == s->wire->process)
        return dsflow_exec_map(s->own, (dsflow_data_id){ s->part->data[id.i] },
                               access);
    if (put_back(exec, &err) == DSFLOW_OK)
        at = show(exec, id.i, access, &err);
    if (at == NULL)
        dsf_exec_fail(s->own, &err);
    return at;
}

int dsf_spread_open(struct dsflow_exec *exec,
                    const struct dsflow_exec_options *options,
                    const struct dsflow_host *host, struct dsflow_err *err)
{
    struct dsflow_exec_options own = *options;
    struct dsf_spread *s = dsf_xcalloc(1, sizeof(*s));
    int status;

    s->part = options->part;
    s->wire = options->wire;
    own.part = NULL;
    status = dsflow_exec_open(s->part->graph, &own, host, &s->own, err);
    exec->spread = s;
    return status;
}

void dsf_spread_close(struct dsflow_exec *exec)
{
    struct dsf_spread *s = exec->spread;

    /* Also where it did not open: the others wait for a command. */
    put_back(exec, NULL);
    ask_all(s, (struct dsf_spread_command){ .what = DSF_SPREAD_END }, NULL);
    dsflow_exec_close(s->own);
    free(s->shown);
    dsf_spread_forget(s);
    free(s);
}

int dsf_spread_join(struct dsflow_exec *exec, struct dsflow_err *err)
{
    const struct dsf_spread *s = exec->spread;
    const struct dsf_spread_command c = { .what = DSF_SPREAD_JOIN };
    int status = ask_all(s, c, err);

    if (status == DSFLOW_OK)
        status = dsf_direct_join(s->own, err);
    if (status == DSFLOW_OK)
        status = all_answered(s, err);
    return status;
}

/* Whoever runs the program has messages for all others, so all run it: also
 * where one has failed, which its answer says before it runs. */
int dsf_spread_submit(struct dsflow_exec *exec, dsflow_program program,
                      struct dsflow_err *err)
{
    const struct dsf_spread *s = exec->spread;
    struct dsflow_err other;
    int status = put_back(exec, err);

    if (status == DSFLOW_OK)
        status = ask_all(s,
                         (struct dsf_spread_command){ .what = DSF_SPREAD_SUBMIT,
                                                      .of = program },
                         err);
    if (status < 0)
        return status;
    if (all_answered(s, &other) < 0)
        dsf_exec_fail(s->own, &other);
    return dsflow_exec_submit(s->own, program, err);
}

int dsf_spread_wait(struct dsflow_exec *exec, struct dsflow_err *err)
{
    const struct dsf_spread *s = exec->spread;
    const struct dsf_spread_command c = { .what = DSF_SPREAD_WAIT };
    struct dsflow_err other;
    int status = put_back(exec, err);
    int others;

    if (status < 0)
        return status;
    status = dsflow_exec_wait(s->own, err);
    others = ask_all(s, c, &other);
    if (others == DSFLOW_OK)
        others = all_answered(s, &other);
    if (others == DSFLOW_OK || status < 0)
        return status;
    dsf_exec_fail(s->own, &other);
    return dsflow_fail(err, others, "%s", other.msg);
}

void dsf_spread_tell(struct dsflow_exec *exec, const int64_t *numbers)
{
    struct dsf_spread_command c = { .what = DSF_SPREAD_TELL };
    struct dsflow_err err;

    memcpy(c.numbers, numbers, sizeof(c.numbers));
    if (ask_all(exec->spread, c, &err) < 0)
        dsf_exec_fail(exec->spread->own, &err);
}

int dsf_spread_call(struct dsflow_exec *exec, struct dsflow_err *err)
{
    int status = put_back(exec, err);

    return status == DSFLOW_OK
               ? ask_all(exec->spread,
                         (struct dsf_spread_command){ .what = DSF_SPREAD_CALL },
                         err)
               : status;
}

struct dsflow_exec *dsf_spread_own(const struct dsflow_exec *exec)
{
    return exec->spread->own;
}

/* The bytes that the others answer, together. */
static size_t add_up(const struct dsf_spread *s, struct dsf_spread_command c)
{
    size_t bytes = 0;

    for (int32_t p = 0; p < s->wire->nprocesses; p++) {
        int64_t theirs = 0;

        if (p != s->wire->process &&
            dsf_spread_ask(s, p, c, NULL) == DSFLOW_OK &&
            dsf_spread_answered(s, p, &theirs, NULL) == DSFLOW_OK)
            bytes += (size_t)theirs;
    }
    return bytes;
}

size_t dsf_spread_resident(const struct dsflow_exec *exec, unsigned rank,
                           enum dsflow_tier tier)
{
    const struct dsf_spread *s = exec->spread;

    return dsflow_exec_resident(s->own, rank, tier) +
           add_up(s, (struct dsf_spread_command){ .what = DSF_SPREAD_RESIDENT,
                                                  .of = rank,
                                                  .tier = tier });
}

size_t dsf_spread_on_devices(const struct dsflow_exec *exec)
{
    const struct dsf_spread *s = exec->spread;

    return dsf_exec_on_devices(s->own) +
           add_up(s,
                  (struct dsf_spread_command){ .what = DSF_SPREAD_ON_DEVICES });
}

/* --- in the others -------------------------------------------------------- */

int dsf_spread_answer(struct dsf_wire *wire, int32_t to, int status,
                      int64_t number, const struct dsflow_err *why,
                      struct dsflow_err *err)
{
    struct answer a = { .number = number, .status = status };

    if (status < 0)
        snprintf(a.msg, sizeof(a.msg), "%.255s", why->msg);
    return dsf_pass(wire, true, to, DSF_SPREAD_ANSWER, &a, sizeof(a), err);
}

/* Its contents, to be read or written; NULL, and why. */
static void *find(struct dsflow_exec *exec, const char *name,
                  enum dsflow_access access, size_t *bytes,
                  struct dsflow_err *why)
{
    dsflow_data_id id;
    void *at = NULL;

    if (!dsflow_graph_find(exec->graph, name, &id)) {
        dsflow_fail(why, DSFLOW_EINVAL, "there is no %s", name);
        return NULL;
    }
    *bytes = dsflow_graph_data(exec->graph, id)->bytes;
    at = dsflow_exec_map(exec, id, access);
    if (at == NULL)
        dsflow_exec_failed(exec, why);
    return at;
}

static int show_to(struct dsflow_exec *exec, struct dsf_wire *wire, int32_t to,
                   const char *name, struct dsflow_err *err)
{
    struct dsflow_err why = { 0 };
    size_t bytes = 0;
    void *at = find(exec, name, DSFLOW_R, &bytes, &why);
    int status = dsf_spread_answer(
        wire, to, at != NULL ? DSFLOW_OK : DSFLOW_EIO, 0, &why, err);

    return status == DSFLOW_OK && at != NULL
               ? dsf_pass(wire, true, to, DSF_SPREAD_CONTENTS, at, bytes, err)
               : status;
}

/* It comes in any case: it was sent behind the command. */
static int take_from(struct dsflow_exec *exec, struct dsf_wire *wire,
                     int32_t from, const char *name, struct dsflow_err *err)
{
    struct dsflow_err why = { 0 };
    size_t bytes = 0;
    void *at = find(exec, name, DSFLOW_RW, &bytes, &why);
    int status;

    if (at == NULL)
        return dsflow_fail(err, DSFLOW_EIO, "%s", why.msg);
    status = dsf_pass(wire, false, from, DSF_SPREAD_CONTENTS, at, bytes, err);
    return status == DSFLOW_OK
               ? dsf_spread_answer(wire, from, DSFLOW_OK, 0, NULL, err)
               : status;
}

static int serve(struct dsflow_exec *exec, const struct dsf_graph_part *part,
                 struct dsf_wire *wire, int32_t of,
                 const struct dsf_spread_command *c, struct dsflow_err *err)
{
    struct dsflow_err why = { 0 };
    int status;

    switch ((enum dsf_spread_what)c->what) {
    case DSF_SPREAD_JOIN:
        status = dsf_direct_join(exec, &why);
        return dsf_spread_answer(wire, of, status, 0, &why, err);
    case DSF_SPREAD_SUBMIT:
        /* What is wrong by now is said; then it runs, to its end. */
        status = dsflow_exec_failed(exec, &why);
        status = dsf_spread_answer(wire, of, status, 0, &why, err);
        dsflow_exec_submit(exec, (dsflow_program)c->of, NULL);
        return status;
    case DSF_SPREAD_WAIT:
        status = dsflow_exec_wait(exec, &why);
        return dsf_spread_answer(wire, of, status, 0, &why, err);
    case DSF_SPREAD_READ:
        return show_to(exec, wire, of, c->name, err);
    case DSF_SPREAD_WRITE:
        return take_from(exec, wire, of, c->name, err);
    case DSF_SPREAD_RESIDENT:
        return dsf_spread_answer(wire, of, DSFLOW_OK,
                                 (int64_t)dsflow_exec_resident(
                                     exec, c->of, (enum dsflow_tier)c->tier),
                                 NULL, err);
    case DSF_SPREAD_ON_DEVICES:
        return dsf_spread_answer(wire, of, DSFLOW_OK,
                                 (int64_t)dsf_exec_on_devices(exec), NULL, err);
    case DSF_SPREAD_LANES:
        return dsf_spread_tell_lanes(exec, part, wire, of, err);
    case DSF_SPREAD_CLOCK:
        return dsf_spread_answer(wire, of, DSFLOW_OK, dsf_spread_clock(), NULL,
                                 err);
    case DSF_SPREAD_SPANS:
        return dsf_spread_tell_spans(exec, part, wire, of, err);
    case DSF_SPREAD_TELL: /* where the loop is */
    case DSF_SPREAD_CALL:
    case DSF_SPREAD_END:
        break;
    }
    return DSFLOW_OK;
}

int dsf_spread_serve(struct dsflow_exec *exec,
                     const struct dsf_graph_part *part, struct dsf_wire *wire,
                     const struct dsf_spread_served *served,
                     struct dsflow_err *err)
{
    struct dsf_spread_command c = { .what = DSF_SPREAD_SUBMIT };
    int status = DSFLOW_OK;

    while (status == DSFLOW_OK && c.what != DSF_SPREAD_END) {
        status =
            dsf_pass(wire, false, 0, DSF_SPREAD_COMMAND, &c, sizeof(c), err);
        if (status == DSFLOW_OK && c.what == DSF_SPREAD_TELL && served != NULL)
            served->told(served->user, c.numbers);
        else if (status == DSFLOW_OK && c.what == DSF_SPREAD_CALL &&
                 served != NULL)
            status = served->asked(served->user, err);
        else if (status == DSFLOW_OK && exec != NULL)
            status = serve(exec, part, wire, 0, &c, err);
    }
    return status;
}
