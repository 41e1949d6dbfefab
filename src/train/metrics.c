/* metrics.c - the lines of metrics.jsonl, written and read. */
#include "train/metrics.h"

#include "base/alloc.h"
#include "base/log.h"
#include "sim/traffic_report.h"
#include "tasks/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const dsf_share_names[DSF_NSHARES] = {
    [DSF_SHARE_FORWARD] = "forward", [DSF_SHARE_BACKWARD] = "backward",
    [DSF_SHARE_UPDATE] = "update",   [DSF_SHARE_MOVE] = "move",
    [DSF_SHARE_IDLE] = "idle",
};

static const char *const move_names[DSF_NMOVES] = {
    [DSF_MOVE_GATHER] = "gather",     [DSF_MOVE_REDUCE] = "reduce",
    [DSF_MOVE_SEND] = "send",         [DSF_MOVE_SWAP_IN] = "swap_in",
    [DSF_MOVE_SWAP_OUT] = "swap_out",
};

static const char *const end_names[] = { [DSF_FINISHED] = "finished",
                                         [DSF_STOPPED] = "stopped",
                                         [DSF_FAILED] = "failed" };

/* The lock of an open file, not of a process: it goes when the process ends,
 * however that is, and asking for it takes nothing. */
static int lock(int fd, int command, struct flock *f)
{
    *f = (struct flock){ .l_type = command == F_OFD_GETLK ? F_RDLCK : F_WRLCK,
                         .l_whence = SEEK_SET };
    return fcntl(fd, command, f);
}

int dsf_metrics_is_open(int fd)
{
    struct flock f;

    return lock(fd, F_OFD_GETLK, &f) < 0 ? -1 : f.l_type != F_UNLCK;
}

int dsf_metrics_open(struct dsf_metrics *m, const char *path,
                     struct dsflow_err *err)
{
    struct flock f;

    *m = (struct dsf_metrics){
        .fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666),
        .path = dsf_xstrdup(path),
    };
    if (m->fd < 0)
        return dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    /* A file system without locks is no reason not to train. */
    if (lock(m->fd, F_OFD_SETLK, &f) < 0 &&
        (errno == EAGAIN || errno == EACCES))
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: another run is writing it",
                           path);
    return DSFLOW_OK;
}

void dsf_metrics_close(struct dsf_metrics *m)
{
    if (m->path != NULL && m->fd >= 0)
        close(m->fd);
    free(m->path);
    *m = (struct dsf_metrics){ .fd = -1 };
}

bool dsf_metrics_is_empty(const struct dsf_metrics *m)
{
    struct stat st;

    return fstat(m->fd, &st) == 0 && st.st_size == 0;
}

static bool is_end(const json_t *root)
{
    return json_object_get(root, "ended") != NULL;
}

/* The position after the last whole line of a step up to `done`; -1, and errno:
 * it cannot be read. Lines before it that are damaged stay, and are named. */
static off_t find_end(struct dsf_metrics *m, FILE *f, int64_t done)
{
    char *line = NULL;
    size_t cap = 0, number = 0, damaged = 0;
    off_t at = 0, end = 0;
    ssize_t n;

    while ((n = getline(&line, &cap, f)) > 0 && line[n - 1] == '\n') {
        json_t *root = json_loadb(line, (size_t)n, 0, NULL);
        json_int_t step = json_integer_value(json_object_get(root, "step"));
        bool past = root != NULL && (step > done || is_end(root));

        number++;
        at += n;
        if (root == NULL && damaged == 0)
            damaged = number;
        if (root != NULL && !past) {
            end = at;
            if (json_object_get(root, "validation_loss") != NULL)
                m->validated = step;
            if (damaged > 0)
                dsf_warn("%s:%zu: a damaged line: expected JSON; the lines "
                         "after it stay",
                         m->path, damaged);
            damaged = 0;
        }
        json_decref(root);
        if (past)
            break;
    }
    if (ferror(f))
        end = -1;
    free(line);
    return end;
}

int dsf_metrics_begin(struct dsf_metrics *m, int64_t done,
                      struct dsflow_err *err)
{
    FILE *f = fopen(m->path, "r");
    off_t end = f != NULL ? find_end(m, f, done) : -1;
    int status = DSFLOW_OK;

    if (end < 0 || ftruncate(m->fd, end) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", m->path);
    if (f != NULL)
        fclose(f);
    return status;
}

/* Spaces behind the line of `n` bytes, so that no line lies on two pages: the
 * kernel copies a write page by page, and a process can be killed between two
 * of them. The next is not much longer. */
static size_t padding(off_t end, size_t n)
{
    enum { PAGE = 4096, LONGEST = 768 };
    const size_t next = n + n / 8 > LONGEST ? n + n / 8 : LONGEST;
    size_t room = PAGE - (size_t)end % PAGE;

    return n <= room && room - n < next ? room - n : 0;
}

/* Takes `root`; NULL is a text that is no UTF-8. */
static int put(struct dsf_metrics *m, json_t *root, struct dsflow_err *err)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER |
                                      JSON_REAL_PRECISION(9));
    struct stat st;
    size_t n, spaces;
    ssize_t written = -1;

    json_decref(root);
    if (text == NULL || m->broken || fstat(m->fd, &st) < 0) {
        free(text);
        return dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written", m->path);
    }
    n = strlen(text);
    spaces = padding(st.st_size, n + 1);
    text = dsf_xrealloc(text, n + spaces + 1, 1);
    memset(text + n, ' ', spaces);
    text[n + spaces] = '\n';
    n += spaces + 1;
    written = write(m->fd, text, n);
    free(text);
    if (written == (ssize_t)n)
        return DSFLOW_OK;
    if (written >= 0)
        errno = ENOSPC;
    dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m", m->path);
    m->broken = ftruncate(m->fd, st.st_size) < 0;
    return DSFLOW_EIO;
}

/* JSON knows no NaN: null then. */
static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *reals(unsigned n, const char *const *names, const double *v)
{
    json_t *root = json_object();

    for (unsigned i = 0; i < n; i++)
        json_object_set_new(root, names[i], real(v[i]));
    return root;
}

static json_t *counts(unsigned n, const char *const *names, const int64_t *v)
{
    json_t *root = json_object();

    for (unsigned i = 0; i < n; i++)
        json_object_set_new(root, names[i], json_integer(v[i]));
    return root;
}

/* The traffic of the plan, less what did not go. */
static json_t *traffic_of(const struct dsf_step *s)
{
    struct dsf_weights w = *s->weights;
    json_t *traffic;

    w.kinds = dsf_xcalloc(w.nkinds + 1u, sizeof(*w.kinds));
    memcpy(w.kinds, s->weights->kinds, w.nkinds * sizeof(*w.kinds));
    for (int i = 0; i < DSF_NWIRES; i++) {
        w.traffic.bytes[i] -= s->unsent[i];
        for (unsigned k = 0; k < w.nkinds; k++)
            if (w.kinds[k].op == &dsf_op_add_rows)
                w.kinds[k].traffic.bytes[i] -= s->unsent[i];
    }
    traffic = dsf_traffic_kinds_json(&w);
    free(w.kinds);
    return traffic;
}

int dsf_metrics_step(struct dsf_metrics *m, const struct dsf_step *s,
                     struct dsflow_err *err)
{
    json_t *line = json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:b, s:I, s:o, s:o, s:o, s:o, "
        "s:{s:I, s:I, s:I}, s:o, s:o, s:o}",
        "step", (json_int_t)s->step, "loss", real(s->loss), "lr", real(s->lr),
        "grad_norm", real(s->grad_norm), "loss_scale", real(s->loss_scale),
        "skipped", s->skipped, "tokens", (json_int_t)s->tokens, "seconds",
        real(s->seconds), "tokens_per_second",
        real((double)s->tokens / s->seconds), "efficiency", real(s->efficiency),
        "share", reals(DSF_NSHARES, dsf_share_names, s->share), "peak_bytes",
        "device", (json_int_t)s->device_bytes, "cpu", (json_int_t)s->peak_bytes,
        "nvme", (json_int_t)s->nvme_bytes, "bytes",
        counts(DSF_NMOVES, move_names, s->moved), "io_seconds",
        real(s->io_seconds), "io_hidden", real(s->io_hidden));

    if (s->weights != NULL && s->weights->moved > 0)
        json_object_set_new(line, "traffic", traffic_of(s));
    if (!isnan(s->mfu))
        json_object_set_new(line, "mfu", json_real(s->mfu));
    if (s->overflows >= 0)
        json_object_set_new(line, "overflows", json_integer(s->overflows));
    if (s->program[0] != '\0')
        json_object_set_new(line, "program", json_string(s->program));
    return put(m, line, err);
}

int dsf_metrics_validation(struct dsf_metrics *m,
                           const struct dsf_validation *v,
                           struct dsflow_err *err)
{
    return put(m,
               json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)v->step,
                         "validation_loss", real(v->loss),
                         "validation_nats_per_byte", real(v->per_byte),
                         "validation_perplexity", real(v->perplexity)),
               err);
}

int dsf_metrics_restart(struct dsf_metrics *m, int64_t step, int64_t n,
                        const char *why, struct dsflow_err *err)
{
    json_t *root = json_pack("{s:I, s:I}", "step", (json_int_t)step, "restart",
                             (json_int_t)n);

    json_object_set_new(root, "why", json_string(why));
    return put(m, root, err);
}

int dsf_metrics_end(struct dsf_metrics *m, int64_t step, enum dsf_end end,
                    const char *why, struct dsflow_err *err)
{
    json_t *root = json_pack("{s:I, s:s}", "step", (json_int_t)step, "ended",
                             end_names[end]);

    /* A path in the message may be no UTF-8, and is left out then. */
    if (why != NULL)
        json_object_set_new(root, "why", json_string(why));
    return put(m, root, err);
}

static double get_real(const json_t *root, const char *name)
{
    const json_t *value = json_object_get(root, name);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static int64_t get_count(const json_t *root, const char *name)
{
    return json_integer_value(json_object_get(root, name));
}

static void get_step(const json_t *root, struct dsf_step *s)
{
    const json_t *overflows = json_object_get(root, "overflows");
    const json_t *share = json_object_get(root, "share");
    const json_t *bytes = json_object_get(root, "bytes");
    const json_t *peak = json_object_get(root, "peak_bytes");
    const char *program = json_string_value(json_object_get(root, "program"));

    *s = (struct dsf_step){
        .step = get_count(root, "step"),
        .loss = get_real(root, "loss"),
        .lr = get_real(root, "lr"),
        .grad_norm = get_real(root, "grad_norm"),
        .loss_scale = get_real(root, "loss_scale"),
        .skipped = json_is_true(json_object_get(root, "skipped")),
        .overflows =
            json_is_integer(overflows) ? json_integer_value(overflows) : -1,
        .tokens = get_count(root, "tokens"),
        .seconds = get_real(root, "seconds"),
        .efficiency = get_real(root, "efficiency"),
        .mfu = get_real(root, "mfu"),
        .peak_bytes = get_count(peak, "cpu"),
        .device_bytes = get_count(peak, "device"),
        .nvme_bytes = get_count(peak, "nvme"),
        .io_seconds = get_real(root, "io_seconds"),
        .io_hidden = get_real(root, "io_hidden"),
    };
    snprintf(s->program, sizeof(s->program), "%s",
             program != NULL ? program : "");
    for (unsigned i = 0; i < DSF_NSHARES; i++)
        s->share[i] = get_real(share, dsf_share_names[i]);
    for (unsigned i = 0; i < DSF_NMOVES; i++)
        s->moved[i] = get_count(bytes, move_names[i]);
}

static bool get_end(const json_t *root, struct dsf_line *line)
{
    const char *word = json_string_value(json_object_get(root, "ended"));
    const char *why = json_string_value(json_object_get(root, "why"));

    for (unsigned i = 0; i < sizeof(end_names) / sizeof(*end_names); i++)
        if (word != NULL && strcmp(word, end_names[i]) == 0) {
            line->end.end = (enum dsf_end)i;
            snprintf(line->end.why, sizeof(line->end.why), "%s",
                     why != NULL ? why : "");
            return true;
        }
    return false;
}

bool dsf_metrics_parse(const char *text, size_t n, struct dsf_line *line)
{
    json_t *root = json_loadb(text, n, 0, NULL);
    bool known = json_is_integer(json_object_get(root, "step")) &&
                 get_count(root, "step") >= 0;

    if (known && is_end(root)) {
        line->kind = DSF_LINE_END;
        known = get_end(root, line);
    } else if (known && json_object_get(root, "validation_loss") != NULL) {
        line->kind = DSF_LINE_VALIDATION;
        line->validation = (struct dsf_validation){
            .step = get_count(root, "step"),
            .loss = get_real(root, "validation_loss"),
            .per_byte = get_real(root, "validation_nats_per_byte"),
            .perplexity = get_real(root, "validation_perplexity"),
        };
    } else if (known && json_object_get(root, "loss") != NULL) {
        line->kind = DSF_LINE_STEP;
        get_step(root, &line->step);
    } else {
        known = false;
    }
    json_decref(root);
    return known;
}
