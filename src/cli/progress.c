/* progress.c - how far a run is. */
#include "cli/progress.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* The position after the last whole line of a step up to `done`. */
static long find_end(FILE *f, int64_t done)
{
    char *line = NULL;
    size_t cap = 0;
    long end = 0;
    ssize_t n;

    while ((n = getline(&line, &cap, f)) > 0) {
        json_t *root = json_loads(line, 0, NULL);
        json_int_t step = json_integer_value(json_object_get(root, "step"));
        bool whole = root != NULL && line[n - 1] == '\n';

        json_decref(root);
        if (!whole || step > done)
            break;
        end += n;
    }
    free(line);
    return end;
}

int dsf_progress_open(struct dsf_progress *p, const char *path, int64_t done,
                      int64_t steps, int64_t log_every, struct dsflow_err *err)
{
    *p = (struct dsf_progress){ .steps = steps,
                                .log_every = log_every,
                                .terminal = isatty(STDERR_FILENO),
                                .quiet = dsf_log_level() < DSFLOW_INFO };
    p->metrics = fopen(path, "a+");
    if (p->metrics == NULL)
        return dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    p->metrics_path = dsf_xstrdup(path);
    rewind(p->metrics);
    if (ftruncate(fileno(p->metrics), find_end(p->metrics, done)) < 0)
        return dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    fseek(p->metrics, 0, SEEK_END);
    return DSFLOW_OK;
}

static void clear_bar(struct dsf_progress *p)
{
    if (p->bar)
        fputs("\r\033[K", stderr);
    p->bar = false;
}

void dsf_progress_close(struct dsf_progress *p)
{
    clear_bar(p);
    if (p->metrics != NULL)
        fclose(p->metrics);
    free(p->metrics_path);
}

/* "12.3k" */
static struct dsf_text count_text(double n)
{
    struct dsf_text t;

    if (n < 1000)
        snprintf(t.s, sizeof(t.s), "%.0f", n);
    else if (n < 1e6)
        snprintf(t.s, sizeof(t.s), "%.1fk", n / 1e3);
    else
        snprintf(t.s, sizeof(t.s), "%.1fM", n / 1e6);
    return t;
}

static int64_t peak_memory(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss << 10;
}

static void draw(struct dsf_progress *p, const struct dsf_step *s)
{
    enum { WIDTH = 24 };
    int full = (int)(WIDTH * (double)s->step / (double)p->steps);
    double left = p->step_seconds * (double)(p->steps - s->step);
    struct winsize size = { 0 };
    char line[256];
    int n;

    n = snprintf(line, sizeof(line), "step %lld/%lld ", (long long)s->step,
                 (long long)p->steps);
    for (int i = 0; i < WIDTH; i++)
        n += snprintf(line + n, sizeof(line) - (size_t)n, "%s",
                      i < full ? "━" : "─");
    snprintf(line + n, sizeof(line) - (size_t)n,
             "  loss %.4f  %s tokens/s  %s  %s left", s->loss,
             count_text(p->rate).s, dsf_size_text((double)peak_memory()).s,
             dsf_time_text(left).s);
    /* On a narrow terminal the bar would wrap and leave trails. */
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 &&
        size.ws_col < 100)
        snprintf(line, sizeof(line), "step %lld/%lld  loss %.4f  %s tokens/s",
                 (long long)s->step, (long long)p->steps, s->loss,
                 count_text(p->rate).s);
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
    p->bar = true;
}

static int put_line(struct dsf_progress *p, json_t *root,
                    struct dsflow_err *err)
{
    int ret = json_dumpf(root, p->metrics,
                         JSON_COMPACT | JSON_PRESERVE_ORDER |
                             JSON_REAL_PRECISION(9));

    json_decref(root);
    fputc('\n', p->metrics);
    if (ret != 0 || fflush(p->metrics) != 0)
        return dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m",
                           p->metrics_path);
    return DSFLOW_OK;
}

/* JSON knows no NaN: null then. */
static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

int dsf_progress_step(struct dsf_progress *p, const struct dsf_step *s,
                      struct dsflow_err *err)
{
    double rate = (double)s->tokens / s->seconds;
    double share = p->rate == 0 ? 1 : 0.1;
    json_t *root = json_pack(
        "{s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:{s:I}}", "step",
        (json_int_t)s->step, "loss", real(s->loss), "lr", real(s->lr),
        "grad_norm", real(s->grad_norm), "tokens", (json_int_t)s->tokens,
        "seconds", real(s->seconds), "tokens_per_second", real(rate),
        "peak_bytes", "cpu", (json_int_t)peak_memory());

    p->rate += share * (rate - p->rate);
    p->step_seconds += share * (s->seconds - p->step_seconds);
    if (p->terminal && !p->quiet)
        draw(p, s);
    else if (!p->quiet &&
             (s->step % p->log_every == 0 || s->step == p->steps))
        fprintf(stderr,
                "step %lld/%lld  loss %.4f  lr %.3g  norm %.3f  %s tokens/s"
                "%s%s%s\n",
                (long long)s->step, (long long)p->steps, s->loss, s->lr,
                s->grad_norm, count_text(p->rate).s,
                s->step < p->steps ? "  " : "",
                s->step < p->steps
                    ? dsf_time_text(p->step_seconds *
                                    (double)(p->steps - s->step))
                          .s
                    : "",
                s->step < p->steps ? " left" : "");
    return put_line(p, root, err);
}

void dsf_progress_say(struct dsf_progress *p, const char *fmt, ...)
{
    va_list ap;

    if (p->quiet)
        return;
    clear_bar(p);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

int dsf_progress_validation(struct dsf_progress *p, int64_t step, double loss,
                            double per_byte, struct dsflow_err *err)
{
    clear_bar(p);
    return put_line(p,
                    json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)step,
                              "validation_loss", real(loss),
                              "validation_nats_per_byte", real(per_byte),
                              "validation_perplexity", real(exp(loss))),
                    err);
}
