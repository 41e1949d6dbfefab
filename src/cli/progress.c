/* progress.c - how far a run is. */
#include "cli/progress.h"

#include "base/log.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

void dsf_progress_clear(struct dsf_progress *p)
{
    if (p->bar)
        fputs("\r\033[K", stderr);
    p->bar = false;
}

void dsf_print_log(void *progress, enum dsflow_log_level level,
                   const char *line)
{
    if (progress != NULL)
        dsf_progress_clear(progress);
    fprintf(stderr, "dsflow: %s%s\n", level == DSFLOW_WARN ? "warning: " : "",
            line);
}

void dsf_progress_begin(struct dsf_progress *p, int64_t steps,
                        int64_t log_every)
{
    p->steps = steps;
    p->log_every = log_every;
    p->quiet = dsf_log_level() < DSFLOW_INFO;
    p->screen = dsf_screen_look(STDERR_FILENO);
    dsflow_log_sink_set(dsf_print_log, p);
}

void dsf_progress_close(struct dsf_progress *p)
{
    dsflow_log_sink_set(dsf_print_log, NULL);
    dsf_progress_clear(p);
}

/* The pieces of the bar from left to right, and which of them a terminal that
 * is not wide enough for all of them shows first. */
enum {
    STEP,
    BAR,
    LOSS,
    SCALE,
    RATE,
    SHARES,
    WORDS,
    EFFICIENCY,
    MEMORY,
    LEFT,
    NPIECES
};
static const int first_shown[] = { STEP,       LOSS, RATE,   LEFT, SHARES,
                                   EFFICIENCY, BAR,  SCALE,  MEMORY,
                                   WORDS };

enum { GAP = 2, BAR_LEAST = 8, BAR_MOST = 24, SHARES_CELLS = 8, NARROW = 100 };

static void draw(struct dsf_progress *p, const struct dsf_step *s)
{
    static struct dsf_row pieces[NPIECES], row;
    unsigned most, used = 0, bar = BAR_LEAST;
    bool show[NPIECES] = { 0 };

    p->screen = dsf_screen_look(STDERR_FILENO);
    /* The last column stays free: some terminals wrap behind it at once. */
    most = p->screen.columns - 1;
    for (int i = 0; i < NPIECES; i++)
        dsf_row_start(&pieces[i], most, p->screen.colour);
    dsf_row_add(&pieces[STEP], NULL, "%s%lld/%lld",
                p->screen.columns < NARROW ? "" : "step ", (long long)s->step,
                (long long)p->steps);
    pieces[BAR].columns = BAR_LEAST; /* drawn when its size is known */
    dsf_row_add(&pieces[LOSS], NULL, "loss %.4f%s", s->loss,
                s->skipped ? ", skipped" : "");
    dsf_row_add(&pieces[RATE], NULL, "%s tok/s",
                dsf_count_text(p->pace.rate).s);
    if (dsf_pace_has_shares(&p->pace)) {
        dsf_row_add_shares(&pieces[SHARES], p->pace.share, SHARES_CELLS);
        /* All of the words or none. */
        if (dsf_row_add_legend(&pieces[WORDS], p->pace.share, 0) < DSF_NSHARES)
            pieces[WORDS].columns = 0;
    }
    if (!isnan(p->pace.efficiency))
        dsf_row_add(&pieces[EFFICIENCY], NULL, "eff %s",
                    dsf_percent_text(p->pace.efficiency).s);
    dsf_row_add(&pieces[MEMORY], NULL, "%s",
                dsf_size_text((double)s->peak_bytes).s);
    if (s->nvme_bytes > 0)
        dsf_row_add(&pieces[MEMORY], NULL, " + %s nvme",
                    dsf_size_text((double)s->nvme_bytes).s);
    if (s->overflows >= 0)
        dsf_row_add(&pieces[SCALE], NULL, "scale %.10g", s->loss_scale);
    dsf_row_add(&pieces[LEFT], NULL, "%s",
                dsf_left_text(&p->pace, s->step, p->steps).s);

    for (int i = 0; i < NPIECES; i++) {
        int piece = first_shown[i];
        unsigned size = pieces[piece].columns + (used > 0 ? GAP : 0);

        show[piece] = pieces[piece].columns > 0 && used + size <= most;
        used += show[piece] ? size : 0;
    }
    if (show[BAR]) {
        bar = BAR_LEAST + most - used < BAR_MOST ? BAR_LEAST + most - used
                                                 : BAR_MOST;
        pieces[BAR].columns = 0;
        dsf_row_add_bar(&pieces[BAR], (double)s->step / (double)p->steps, bar);
    }
    show[STEP] = true; /* what fits of it */
    dsf_row_start(&row, most, false);
    for (int i = 0; i < NPIECES; i++)
        if (show[i]) {
            size_t gap = row.n > 0 ? GAP : 0;

            memcpy(row.s + row.n, "  ", gap);
            memcpy(row.s + row.n + gap, pieces[i].s, pieces[i].n + 1);
            row.n += gap + pieces[i].n;
        }
    fprintf(stderr, "\r\033[K%s", row.s);
    fflush(stderr);
    p->bar = true;
}

/* What the colours of the bar mean, once. */
static void say_legend(struct dsf_progress *p)
{
    struct dsf_row row;
    unsigned next = 0;

    if (p->legend || !dsf_pace_has_shares(&p->pace))
        return;
    p->legend = true;
    p->screen = dsf_screen_look(STDERR_FILENO);
    do {
        dsf_row_start(&row, p->screen.columns - 1, p->screen.colour);
        if (next == 0)
            dsf_row_add(&row, NULL, "time of a step: ");
        next = dsf_row_add_legend(&row, NULL, next);
        dsf_progress_clear(p);
        fprintf(stderr, "%s\n", row.s); /* with its colours */
    } while (next < DSF_NSHARES);
}

/* Of skipped steps in a row, the first is worth a line, and the end of them. */
static void say_skipped(struct dsf_progress *p, const struct dsf_step *s)
{
    if (s->skipped && p->skipped_in_row == 0 && s->overflows >= 0)
        dsf_progress_say(p,
                         "step %lld: the loss is %g, and the gradients "
                         "overflow with a loss scale of %.10g: skipped, nothing "
                         "was updated",
                         (long long)s->step, s->loss, s->loss_scale);
    else if (s->skipped && p->skipped_in_row == 0)
        dsf_progress_say(p,
                         "step %lld: the loss is %g and the gradient's norm "
                         "%g: skipped, nothing was updated",
                         (long long)s->step, s->loss, s->grad_norm);
    if (!s->skipped && p->skipped_in_row > 1)
        dsf_progress_say(p, "step %lld: finite again, after %lld skipped steps",
                         (long long)s->step, (long long)p->skipped_in_row);
    p->skipped_in_row = s->skipped ? p->skipped_in_row + 1 : 0;
    p->skipped += s->skipped;
}

void dsf_progress_step(struct dsf_progress *p, const struct dsf_step *s)
{
    enum { A_SECOND = 10 }; /* times the bar is drawn, at most */
    bool last = s->step == p->steps;
    double now = dsf_now();

    dsf_pace_add(&p->pace, s);
    say_skipped(p, s);
    if (p->screen.terminal && !p->quiet) {
        say_legend(p);
        if (!p->bar || last || now - p->drawn > 1.0 / A_SECOND) {
            draw(p, s);
            p->drawn = now;
        }
    } else if (!p->quiet && (s->step % p->log_every == 0 || last)) {
        dsf_step_print(stderr, s, p->steps, &p->pace);
    }
}

void dsf_progress_say(struct dsf_progress *p, const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    if (p->quiet)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    dsf_utf8_clean_lines(text);
    dsf_progress_clear(p);
    /* In one write: what a signal makes the run say comes before or after. */
    fprintf(stderr, "%s\n", text);
}
