/* launch_said.c - what the processes of a launch say: process 0 as if it were
 * alone, the others line by line, and some lines for the launcher. */
#include "cli/launch_private.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/launched.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What cannot be written does not end the run. */
static void put(struct launch *l, int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);

        if (written < 0 && errno != EINTR) {
            l->unwritten |= fd == STDOUT_FILENO;
            return;
        }
        bytes += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
}

struct process *dsf_launch_process(struct launch *l, int i)
{
    if ((size_t)i >= l->nprocesses) {
        dsf_grow(&l->processes, &l->cap, (size_t)i + 1, sizeof(*l->processes));
        l->nprocesses = (size_t)i + 1;
    }
    return &l->processes[i];
}

/* A line for this program, without its first character. */
static void hear(struct launch *l, int i, const char *line)
{
    struct process *p = dsf_launch_process(l, i);

    if (sscanf(line, "begins %d %63s", &p->pid, p->host) == 2)
        p->begun = true;
    else if (sscanf(line, "ended %d", &p->status) == 1)
        p->ended = true;
    else if (strncmp(line, "found ", 6) == 0 && l->found[0] == '\0')
        snprintf(l->found, sizeof(l->found), "%.500s", line + 6);
    else if (strcmp(line, "told") == 0)
        p->told = true;
    else if (strcmp(line, "join") == 0)
        l->joined = true;
    if (l->ending == 0 && (p->told || p->status != 0 || (i == 0 && p->ended) ||
                           l->found[0] != '\0'))
        l->ending = dsf_now();
}

static void clear_bar(struct launch *l)
{
    if (l->in_line)
        put(l, STDERR_FILENO, l->terminal ? "\r\033[K" : "\n",
            l->terminal ? 4 : 1);
    l->in_line = false;
}

/* Open MPI's, of each message from a process that has died: that is said. */
static bool is_of_death(const char *line)
{
    return line[0] == '[' && strstr(line, "] Read -1, expected ") != NULL;
}

static void end_line(struct launch *l, int i, struct whole *w)
{
    char front[32];
    int n;

    w->text[w->n] = '\0';
    w->n = 0;
    if (w->text[0] == DSF_TO_LAUNCHER) {
        hear(l, i, w->text + 1);
        return;
    }
    if (is_of_death(w->text) && dsf_log_level() < DSFLOW_DEBUG)
        return;
    clear_bar(l);
    dsf_utf8_clean(w->text);
    n = snprintf(front, sizeof(front), "process %d: ", i);
    put(l, STDERR_FILENO, front, (size_t)n);
    put(l, STDERR_FILENO, w->text, strlen(w->text));
    put(l, STDERR_FILENO, "\n", 1);
}

static void take_byte(struct launch *l, int i, struct whole *w, char c)
{
    if (c == '\n') {
        end_line(l, i, w);
    } else {
        w->text[w->n++] = c;
        if (w->n + 1 == sizeof(w->text))
            end_line(l, i, w);
    }
}

/* Process 0 writes as if it were alone, but for lines to this program among its
 * messages, which may begin behind a bar. */
static void take_message(struct launch *l, const char *bytes, size_t n)
{
    struct whole *w = &dsf_launch_process(l, 0)->lines[true];
    size_t from = 0;

    if (l->terminal && !l->in_line && n >= 4 &&
        memcmp(bytes, "\r\033[K", 4) == 0)
        from = 4;
    for (size_t i = from; i < n; i++) {
        if (w->n == 0 && bytes[i] != DSF_TO_LAUNCHER)
            continue;
        if (w->n == 0 && i > from) {
            put(l, STDERR_FILENO, bytes + from, i - from);
            l->in_line = bytes[i - 1] != '\n';
        }
        take_byte(l, 0, w, bytes[i]);
        from = i + 1;
    }
    put(l, STDERR_FILENO, bytes + from, n - from);
    if (n > from)
        l->in_line = bytes[n - 1] != '\n';
}

/* Results of process 0, of any bytes, without what keeps them from having tags.
 */
static void take_result(struct stream *s, const char *bytes, size_t n)
{
    size_t from = 0;

    for (size_t i = 0; i < n; i++) {
        if (s->bracket && bytes[i] == DSF_NO_TAG) {
            put(s->l, s->to, bytes + from, i - from);
            from = i + 1;
        }
        s->bracket = bytes[i] == '[';
    }
    put(s->l, s->to, bytes + from, n - from);
}

/* Both streams are one terminal, and what was written to one first may come
 * behind the other: a bar goes before the next text, which nothing wipes out.
 */
static void take_first(struct stream *s, const char *bytes, size_t n)
{
    if (s->to == STDERR_FILENO) {
        take_message(s->l, bytes, n);
    } else {
        clear_bar(s->l);
        take_result(s, bytes, n);
    }
}

static void take_own(struct launch *l, const char *bytes, size_t n)
{
    size_t room = sizeof(l->said.text) - 1 - l->said.n;

    if (dsf_log_level() >= DSFLOW_DEBUG)
        put(l, STDERR_FILENO, bytes, n);
    memcpy(l->said.text + l->said.n, bytes, n < room ? n : room);
    l->said.n += n < room ? n : room;
}

void dsf_launch_take(void *user, int process, const char *bytes, size_t n)
{
    struct stream *s = user;

    if (process == DSF_OF_MPIRUN) {
        take_own(s->l, bytes, n);
    } else if (process == 0) {
        take_first(s, bytes, n);
    } else {
        struct process *p = dsf_launch_process(s->l, process);

        for (size_t i = 0; i < n; i++)
            take_byte(s->l, process, &p->lines[s->to == STDERR_FILENO],
                      bytes[i]);
    }
}

void dsf_launch_end_lines(struct launch *l)
{
    for (size_t i = 1; i < l->nprocesses; i++)
        for (int k = 0; k < 2; k++)
            if (l->processes[i].lines[k].n > 0)
                end_line(l, (int)i, &l->processes[i].lines[k]);
}
