/* screen.c - rows, colours, bars, numbers for people. */
#include "cli/screen.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

/* Colours of Okabe and Ito (2008), which colour-blind people tell apart, as
 * the nearest of the 256 of terminals; and a grain for those without. */
static const struct {
    const char *word, *style, *grain;
} shares[DSF_NSHARES] = {
    [DSF_SHARE_FORWARD] = { "forward", "38;5;74", "#" },   /* #56B4E9 */
    [DSF_SHARE_BACKWARD] = { "backward", "38;5;25", "=" }, /* #0072B2 */
    [DSF_SHARE_UPDATE] = { "update", "38;5;178", "+" },    /* #E69F00 */
    [DSF_SHARE_MOVE] = { "moving", "38;5;175", "~" },      /* #CC79A7 */
    [DSF_SHARE_IDLE] = { "idle", DSF_DIM, "." },
};

static unsigned env_number(const char *name, unsigned fallback)
{
    const char *text = getenv(name);
    long n = text != NULL ? strtol(text, NULL, 10) : 0;

    return n > 0 && n < 10000 ? (unsigned)n : fallback;
}

/* Columns, rows and colour of a terminal that lines get to by others. */
static const char *const handed = "DSFLOW_TERMINAL";

void dsf_screen_hand_over(const struct dsf_screen *s)
{
    char text[48];

    snprintf(text, sizeof(text), "%u %u %d", s->columns, s->rows, s->colour);
    if (s->terminal)
        setenv(handed, text, 1);
    else
        unsetenv(handed);
}

static bool take_over(struct dsf_screen *s)
{
    const char *text = getenv(handed);
    int colour;

    if (text == NULL ||
        sscanf(text, "%u %u %d", &s->columns, &s->rows, &colour) != 3 ||
        s->columns < 2)
        return false;
    s->terminal = true;
    s->colour = colour != 0;
    return true;
}

struct dsf_screen dsf_screen_look(int fd)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    struct dsf_screen s = { .terminal = isatty(fd) && term != NULL &&
                                        term[0] != '\0' &&
                                        strcmp(term, "dumb") != 0 };
    struct winsize size = { 0 };

    if (fd == STDERR_FILENO && !isatty(fd) && take_over(&s))
        return s;
    s.colour = s.terminal && (no_colour == NULL || no_colour[0] == '\0');
    if (isatty(fd))
        ioctl(fd, TIOCGWINSZ, &size);
    s.columns = size.ws_col > 0 ? size.ws_col : env_number("COLUMNS", 80);
    s.rows = size.ws_row > 0 ? size.ws_row : env_number("LINES", 24);
    return s;
}

void dsf_row_start(struct dsf_row *row, unsigned most, bool colour)
{
    row->s[0] = '\0';
    row->n = 0;
    row->columns = 0;
    row->most = most;
    row->colour = colour;
}

static void put(struct dsf_row *row, const char *text, size_t n)
{
    memcpy(row->s + row->n, text, n);
    row->n += n;
    row->s[row->n] = '\0';
}

void dsf_row_add(struct dsf_row *row, const char *style, const char *fmt, ...)
{
    enum { AROUND = 64 }; /* bytes kept for what ends a style, and more */
    const char *c;
    char text[4096], start[32];
    utf8proc_int32_t code;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (text[0] == '\0' || row->n + AROUND > sizeof(row->s))
        return;
    if (!row->colour)
        style = NULL;
    if (style != NULL) {
        snprintf(start, sizeof(start), "\033[%sm", style);
        put(row, start, strlen(start));
    }
    for (c = text; *c != '\0' && row->n + AROUND < sizeof(row->s);) {
        utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)c, -1, &code);
        bool odd = n <= 0 || code < 0x20 || (code >= 0x7f && code < 0xa0);
        int width = odd ? 1 : utf8proc_charwidth(code);

        if (row->columns + (unsigned)width > row->most)
            break;
        put(row, odd ? "?" : c, odd ? 1 : (size_t)n);
        row->columns += (unsigned)width;
        c += n <= 0 ? 1 : n;
    }
    if (style != NULL)
        put(row, "\033[0m", 4);
}

void dsf_row_to(struct dsf_row *row, unsigned column)
{
    if (column > row->columns)
        dsf_row_add(row, NULL, "%*s", (int)(column - row->columns), "");
}

void dsf_row_add_cells(struct dsf_row *row, const char *style, const char *cell,
                       unsigned n)
{
    char text[3 * 1024 + 1] = "";
    size_t size = strlen(cell);

    if (n > 1024)
        n = 1024;
    for (unsigned i = 0; i < n; i++)
        memcpy(text + i * size, cell, size + 1);
    dsf_row_add(row, style, "%s", text);
}

void dsf_row_add_bar(struct dsf_row *row, double part, unsigned cells)
{
    unsigned full = (unsigned)(fmin(fmax(part, 0), 1) * cells);

    dsf_row_add_cells(row, NULL, "━", full);
    dsf_row_add_cells(row, DSF_DIM, "─", cells - full);
}

static const char *cell_of(const struct dsf_row *row, unsigned share)
{
    if (!row->colour)
        return shares[share].grain;
    return share == DSF_SHARE_IDLE ? "░" : "█";
}

void dsf_row_add_shares(struct dsf_row *row, const double *share,
                        unsigned cells)
{
    unsigned at = 0;
    double sum = 0;

    for (unsigned i = 0; i < DSF_NSHARES; i++) {
        unsigned end;

        sum += share[i];
        end = i + 1 == DSF_NSHARES
                  ? cells
                  : (unsigned)lround(fmin(fmax(sum, 0), 1) * cells);
        if (end <= at)
            continue;
        dsf_row_add_cells(row, shares[i].style, cell_of(row, i), end - at);
        at = end;
    }
}

unsigned dsf_row_add_legend(struct dsf_row *row, const double *share,
                            unsigned first)
{
    enum { GAP = 2 };

    for (unsigned i = first; i < DSF_NSHARES; i++) {
        unsigned gap = i > first ? GAP : 0;
        char text[48];
        int n = snprintf(text, sizeof(text), " %s%s%s", shares[i].word,
                         share != NULL ? " " : "",
                         share != NULL ? dsf_percent_text(share[i]).s : "");

        if (i > first && row->columns + gap + 1 + (unsigned)n > row->most)
            return i;
        dsf_row_add(row, NULL, "%*s", (int)gap, "");
        dsf_row_add(row, shares[i].style, "%s", cell_of(row, i));
        dsf_row_add(row, NULL, "%s", text);
    }
    return DSF_NSHARES;
}

struct dsf_text dsf_left_text(const struct dsf_pace *p, int64_t step,
                              int64_t steps)
{
    struct dsf_text t = { "" }, time;

    if (step < steps && p->rate > 0) {
        time = dsf_time_text(p->step_seconds * (double)(steps - step));
        snprintf(t.s, sizeof(t.s), "%.24s left", time.s);
    }
    return t;
}

/* In one call, so one write(2): the answer to a signal may come at any time,
 * and stands before or behind the line then. */
void dsf_step_print(FILE *out, const struct dsf_step *s, int64_t steps,
                    const struct dsf_pace *p)
{
    struct dsf_text left = dsf_left_text(p, s->step, steps), of = { "" },
                    efficiency = { "" }, scale = { "" };

    if (steps > 0)
        snprintf(of.s, sizeof(of.s), "/%lld", (long long)steps);
    if (s->overflows >= 0)
        snprintf(scale.s, sizeof(scale.s), "  scale %.10g", s->loss_scale);
    if (!isnan(p->efficiency))
        snprintf(efficiency.s, sizeof(efficiency.s), "  efficiency %.2f",
                 p->efficiency);
    fprintf(out,
            "step %lld%s  loss %.4f  lr %.3g  norm %.3f%s%s  %s "
            "tokens/s%s%s%s\n",
            (long long)s->step, of.s, s->loss, s->lr, s->grad_norm, scale.s,
            s->skipped ? "  skipped" : "", dsf_count_text(p->rate).s,
            efficiency.s, left.s[0] != '\0' ? "  " : "", left.s);
}

void dsf_validation_print(FILE *out, const struct dsf_validation *v)
{
    fprintf(out,
            "step %lld: validation loss %.6f, %.4f nats per byte, perplexity "
            "%.2f\n",
            (long long)v->step, v->loss, v->per_byte, v->perplexity);
}
