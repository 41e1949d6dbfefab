/* cmd_watch.c - follow a run from another terminal. */
#include "base/alloc.h"
#include "cli/chart.h"
#include "cli/cmd.h"
#include "train/follow.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS = 4 /* a second */, MOST_ROWS = 64, LABEL = 12, GAP = 2 };
enum { BAR_LEAST = 8, AXIS = 2 /* rows below the curve */ };

struct watch {
    struct dsf_follow follow;
    struct dsf_screen screen;
    struct dsf_row rows[MOST_ROWS]; /* of the picture */
    unsigned nrows;
    bool shown; /* the screen is ours */
};

/* The signal that ends this, and others that came since the last look. */
static volatile sig_atomic_t ended_by, paused, resized;

static void on_signal(int sig)
{
    if (sig == SIGTSTP)
        paused = 1;
    else if (sig == SIGWINCH)
        resized = 1;
    else
        ended_by = sig;
}

static void catch_signals(void)
{
    static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH };
    struct sigaction action = { .sa_handler = on_signal };

    for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
        sigaction(all[i], &action, NULL);
}

/* What there is to go on from. */
static void add_checkpoint(struct dsf_row *row, const struct dsf_follow *f,
                           int64_t step)
{
    int64_t saved = dsf_follow_saved(f);

    if (saved < 0)
        dsf_row_add(row, NULL,
                    ": there is no checkpoint, and run --resume "
                    "starts from the beginning");
    else if (saved == step)
        dsf_row_add(row, NULL, ", which is saved: run --resume goes on");
    else
        dsf_row_add(row, NULL, ": run --resume goes on from step %lld",
                    (long long)saved);
}

/* How the run is, in a sentence. */
static void add_state(struct dsf_row *row, const struct dsf_follow *f)
{
    long long step = f->has_step ? f->last.step : 0;

    dsf_row_add(row, NULL, "%s: ", f->name);
    switch (f->state) {
    case DSF_RUN_NONE:
        dsf_row_add(row, NULL, "waits for a run to begin in %s", f->folder);
        break;
    case DSF_RUN_STARTING:
        dsf_row_add(row, NULL, "is about to begin");
        break;
    case DSF_RUN_GOING:
        dsf_row_add(row, NULL, "running");
        if (dsf_follow_is_late(f))
            dsf_row_add(row, NULL, "; the last line is %s old",
                        dsf_time_text(dsf_follow_age(f)).s);
        break;
    case DSF_RUN_FINISHED:
        dsf_row_add(row, NULL, "finished after step %lld", step);
        break;
    case DSF_RUN_STOPPED:
        dsf_row_add(row, NULL, "stopped after step %lld", step);
        add_checkpoint(row, f, step);
        break;
    case DSF_RUN_FAILED:
        dsf_row_add(row, NULL, "failed after step %lld%s%s", step,
                    f->why[0] != '\0' ? ": " : "", f->why);
        break;
    case DSF_RUN_GONE:
        dsf_row_add(row, NULL, "killed or crashed after step %lld", step);
        add_checkpoint(row, f, step);
        break;
    }
}

static struct dsf_row *next_row(struct watch *w)
{
    struct dsf_row *row = &w->rows[w->nrows];

    if (w->nrows + 1 < MOST_ROWS)
        w->nrows++;
    dsf_row_start(row, w->screen.columns - 1, w->screen.colour);
    return row;
}

static struct dsf_row *labelled_row(struct watch *w, const char *label)
{
    struct dsf_row *row = next_row(w);

    dsf_row_add(row, DSF_DIM, "%s", label);
    dsf_row_to(row, LABEL);
    return row;
}

/* All of it, or nothing where it does not fit: half a figure is another one. */
static void add_whole(struct dsf_row *row, const char *fmt, ...)
    DSFLOW_PRINTF(2, 3);
static void add_whole(struct dsf_row *row, const char *fmt, ...)
{
    char text[80];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (row->columns + (unsigned)n <= row->most)
        dsf_row_add(row, NULL, "%s", text);
}

static void picture_steps(struct watch *w)
{
    const struct dsf_follow *f = &w->follow;
    struct dsf_row *row = next_row(w);
    double part = f->steps > 0 ? (double)f->last.step / (double)f->steps : 0;
    struct dsf_text percent = dsf_percent_text(part), left = { "" };
    unsigned size;

    dsf_row_add(row, NULL, "step %lld", (long long)f->last.step);
    if (f->steps == 0)
        return;
    add_whole(row, "/%lld", (long long)f->steps);
    if (f->state == DSF_RUN_GOING)
        left = dsf_left_text(&f->pace, f->last.step, f->steps);
    size = (unsigned)strlen(percent.s) + GAP;
    if (left.s[0] != '\0')
        size += (unsigned)strlen(left.s) + GAP;
    if (row->columns + GAP + BAR_LEAST + size <= row->most) {
        dsf_row_to(row, row->columns + GAP);
        dsf_row_add_bar(row, part, row->most - row->columns - size);
    }
    add_whole(row, "%*s%s", GAP, "", percent.s);
    if (left.s[0] != '\0')
        add_whole(row, "%*s%s", GAP, "", left.s);
}

/* Newest first, as many as there is room for. */
static void picture_validations(struct watch *w)
{
    const struct dsf_follow *f = &w->follow;
    const struct dsf_point *v;
    struct dsf_row *row;

    if (f->nvalidations == 0)
        return;
    row = labelled_row(w, "validation");
    v = &f->validations[f->nvalidations - 1];
    dsf_row_add(row, NULL, "%.4f", v->loss);
    add_whole(row, " at step %lld", (long long)v->step);
    for (size_t i = f->nvalidations - 1; i-- > 0;) {
        char text[80];
        int n;

        v = &f->validations[i];
        n = snprintf(text, sizeof(text), "  %.4f at step %lld", v->loss,
                     (long long)v->step);
        if (row->columns + (unsigned)n > row->most)
            break;
        dsf_row_add(row, DSF_DIM, "%s", text);
    }
}

static void picture_skipped(struct watch *w)
{
    const struct dsf_follow *f = &w->follow;
    struct dsf_row *row;

    if (f->nskipped > 0) {
        row = labelled_row(w, "skipped");
        dsf_row_add(row, NULL, "%lld step%s", (long long)f->nskipped,
                    f->nskipped == 1 ? "" : "s");
        add_whole(row, ", step %lld the last", (long long)f->skipped);
    }
    if (f->last.overflows >= 0) {
        row = labelled_row(w, "loss scale");
        dsf_row_add(row, NULL, "%.10g", f->last.loss_scale);
        add_whole(row, ", too large in %lld step%s",
                  (long long)f->last.overflows,
                  f->last.overflows == 1 ? "" : "s");
    }
}

static void picture_figures(struct watch *w)
{
    const struct dsf_follow *f = &w->follow;
    const struct dsf_pace *p = &f->pace;
    struct dsf_row *row;
    unsigned shown;

    if (p->rate > 0) {
        row = labelled_row(w, "speed");
        dsf_row_add(row, NULL, "%s tokens/s", dsf_count_text(p->rate).s);
        add_whole(row, ", %s a step", dsf_time_text(p->step_seconds).s);
    }
    if (!isnan(p->efficiency)) {
        row = labelled_row(w, "efficiency");
        dsf_row_add(row, NULL, "%s", dsf_percent_text(p->efficiency).s);
        add_whole(row, " of what is possible");
    }
    if (f->last.peak_bytes > 0) {
        row = labelled_row(w, "memory");
        dsf_row_add(row, NULL, "%s",
                    dsf_size_text((double)f->last.peak_bytes).s);
        add_whole(row, " at most");
        if (f->last.nvme_bytes > 0)
            add_whole(row, ", %s on nvme",
                      dsf_size_text((double)f->last.nvme_bytes).s);
    }
    if (f->last.io_seconds > 0) {
        row = labelled_row(w, "disk");
        dsf_row_add(row, NULL, "%s of the last step",
                    dsf_time_text(f->last.io_seconds).s);
        add_whole(row, ", %s of it hidden",
                  dsf_percent_text(f->last.io_hidden).s);
    }
    if (dsf_pace_has_shares(p)) {
        row = labelled_row(w, "time");
        dsf_row_add_shares(row, p->share, row->most - row->columns);
        row = labelled_row(w, "");
        shown = dsf_row_add_legend(row, p->share, 0);
        if (shown < DSF_NSHARES) { /* it may fit from the margin on */
            dsf_row_start(row, row->most, row->colour);
            shown = dsf_row_add_legend(row, p->share, 0);
        }
        while (shown < DSF_NSHARES)
            shown = dsf_row_add_legend(next_row(w), p->share, shown);
    }
}

/* With so many rows of the curve. */
static void picture_losses(struct watch *w, unsigned curve)
{
    const struct dsf_follow *f = &w->follow;
    struct dsf_row *row = labelled_row(w, "loss");

    dsf_row_add(row, DSF_BOLD, "%.4f", f->last.loss);
    add_whole(row, "  lr %.3g", f->last.lr);
    add_whole(row, "  gradient norm %.3g", f->last.grad_norm);
    if (f->nvalidations > 0 && row->columns + 14 <= row->most)
        dsf_row_add(row, DSF_DIM, "  ◆ validation");
    if (curve == 0)
        return;
    row = &w->rows[w->nrows];
    for (unsigned i = 0; i < curve + AXIS; i++)
        next_row(w);
    dsf_chart_draw(row, curve, f->losses, f->nlosses, f->validations,
                   f->nvalidations);
}

static void fill_picture(struct watch *w, bool in_place, unsigned curve)
{
    const struct dsf_follow *f = &w->follow;
    struct dsf_row *row;

    w->nrows = 0;
    if (f->has_step) {
        dsf_row_add(next_row(w), DSF_BOLD, "%s", f->name);
        picture_steps(w);
        picture_losses(w, curve);
        picture_validations(w);
        picture_skipped(w);
        picture_figures(w);
    }
    row = next_row(w);
    if (!in_place) /* a message is whole, though it may wrap */
        row->most = 2000;
    add_state(row, f);
}

/* The rows of the curve for which all others leave room. */
static unsigned curve_rows(const struct watch *w)
{
    enum { MOST = 16, LEAST = 3, NARROW = 24 };
    unsigned others = w->nrows + AXIS, rows = w->screen.rows;

    if (w->follow.nlosses == 0 || w->screen.columns < NARROW ||
        rows < others + LEAST)
        return 0;
    return rows - others < MOST ? rows - others : MOST;
}

static void make_picture(struct watch *w, bool in_place)
{
    unsigned curve;

    w->screen = dsf_screen_look(STDOUT_FILENO);
    if (w->screen.columns < 2)
        w->screen.columns = 2;
    fill_picture(w, in_place, 0);
    curve = curve_rows(w);
    if (curve > 0)
        fill_picture(w, in_place, curve);
}

/* The picture in one write, in place or below what there is. */
static void put_picture(struct watch *w, bool in_place)
{
    unsigned n = w->nrows;
    char *text;
    size_t size;
    FILE *out = dsf_xmemstream(&text, &size);

    if (in_place && n > w->screen.rows)
        n = w->screen.rows;
    if (in_place)
        fputs("\033[H", out);
    for (unsigned i = 0; i < n; i++) {
        /* On a low terminal the last row is still how the run is. */
        const struct dsf_row *row = &w->rows[i + 1 == n ? w->nrows - 1 : i];

        fputs(row->s, out);
        fputs(in_place ? "\033[K" : "\n", out);
        if (in_place && i + 1 < n)
            fputs("\r\n", out);
    }
    if (in_place)
        fputs("\033[J", out);
    fclose(out);
    fwrite(text, 1, size, stdout);
    fflush(stdout);
    free(text);
}

/* The other screen of the terminal, without a cursor. */
static void show(struct watch *w, bool on)
{
    if (on == w->shown)
        return;
    fputs(on ? "\033[?1049h\033[?25l" : "\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    w->shown = on;
}

static void pause_here(struct watch *w)
{
    show(w, false);
    raise(SIGSTOP);
    paused = 0;
    show(w, true);
}

static void watch_terminal(struct watch *w, bool changed)
{
    static time_t drawn;

    if (paused) {
        pause_here(w);
        changed = true;
    }
    if (!changed && !resized &&
        !(dsf_follow_is_late(&w->follow) && time(NULL) != drawn))
        return;
    resized = 0;
    drawn = time(NULL);
    show(w, true);
    make_picture(w, true);
    put_picture(w, true);
}

static void print_state(struct watch *w, FILE *out)
{
    struct dsf_row *row = &w->rows[0];

    dsf_row_start(row, 2000, false);
    add_state(row, &w->follow);
    fprintf(out, "%s\n", row->s);
    fflush(out);
}

static void print_line(void *user, const struct dsf_line *line)
{
    const struct dsf_follow *f = user;

    if (line->kind == DSF_LINE_VALIDATION)
        dsf_validation_print(stdout, &line->validation);
    else if (line->kind == DSF_LINE_STEP &&
             (f->log_every == 0 || line->step.step % f->log_every == 0 ||
              line->step.step == f->steps))
        dsf_step_print(stdout, &line->step, f->steps, &f->pace);
}

/* Until the run is over, or a signal came. */
static void follow(struct watch *w)
{
    struct dsf_follow *f = &w->follow;
    bool terminal = dsf_screen_look(STDOUT_FILENO).terminal;
    bool changed = true;

    dsf_follow_poll(f);
    if (!terminal) {
        f->on_line = print_line;
        f->user = f;
        if (!dsf_follow_is_over(f) && f->state != DSF_RUN_GOING)
            print_state(w, stderr);
        if (f->has_step)
            dsf_step_print(stdout, &f->last, f->steps, &f->pace);
    }
    while (ended_by == 0 && !dsf_follow_is_over(f)) {
        if (terminal)
            watch_terminal(w, changed);
        else
            fflush(stdout);
        poll(NULL, 0, 1000 / LOOKS);
        changed = dsf_follow_poll(f);
    }
    show(w, false);
    if (terminal && ended_by == 0) {
        make_picture(w, false);
        put_picture(w, false);
    } else if (ended_by == 0) {
        print_state(w, stdout);
    }
}

static int run(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    struct watch *w = dsf_xcalloc(1, sizeof(*w));
    int status = dsf_follow_open(&w->follow, args->words[0], err);

    if (status == DSFLOW_OK && dsf_flag_value(args, "once") != NULL) {
        dsf_follow_poll(&w->follow);
        make_picture(w, false);
        put_picture(w, false);
    } else if (status == DSFLOW_OK) {
        catch_signals();
        follow(w);
        status = ended_by != 0 ? 128 + ended_by : DSFLOW_OK;
    }
    dsf_follow_close(&w->follow);
    free(w);
    return status;
}

static const struct dsf_flag watch_flags[] = {
    { "once", NULL, "print how the run is now, and exit" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_watch = {
    .name = "watch",
    .args = "RUN",
    .summary = "follow a run from another terminal",
    .help =
        "Shows the run in the folder RUN, the output of its job: the loss and\n"
        "its curve from the first step on, speed, memory, where the time of a\n"
        "step goes. Waits for a run that has not begun. Ends with the run, "
        "and\n"
        "says whether it finished, was stopped, failed, or was killed. Where\n"
        "standard output is no terminal, prints lines as the run does.\n\n"
        "It reads metrics.jsonl and asks nothing of the run. Ctrl-C ends the\n"
        "watching only.",
    .flags = watch_flags,
    .least = 1,
    .most = 1,
    .run = run,
};
