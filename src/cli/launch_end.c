/* launch_end.c - how the processes of a launch ended, and what is said of it.
 */
#include "cli/launch_private.h"

#include "base/utf8.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static bool has_begun(const struct launch *l)
{
    for (size_t i = 0; i < l->nprocesses; i++)
        if (l->processes[i].begun)
            return true;
    return false;
}

/* What mpirun said first, in a line. */
static const char *first_words(struct launch *l)
{
    char *text = l->said.text, *end;

    text[l->said.n] = '\0';
    while (*text == '-' || *text == '\n')
        text++;
    for (end = strstr(text, "\n\n");
         end != NULL && end > text && end[-1] == ':';)
        end = strstr(end + 1, "\n\n");
    if (end != NULL)
        *end = '\0';
    end = strstr(text, "\n---");
    if (end != NULL)
        *end = '\0';
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    for (end = text; (end = strstr(end, "  ")) != NULL;)
        memmove(end, end + 1, strlen(end));
    for (end = text + strlen(text); end > text && end[-1] == ' ';)
        *--end = '\0';
    dsf_utf8_clean(text);
    return text;
}

/* The one that mpirun saw die of a signal; NULL: it says nothing of that. */
static const struct process *find_noticed(struct launch *l)
{
    char *text = l->said.text, host[sizeof(l->processes->host)];
    struct process *p;
    int rank, pid;

    text[l->said.n] = '\0';
    text = strstr(text, "process rank ");
    if (text == NULL ||
        sscanf(text,
               "process rank %d with PID %d on node %63s "
               "exited on signal",
               &rank, &pid, host) != 3 ||
        rank < 0 || rank >= DSF_MOST_PROCESSES)
        return NULL;
    p = dsf_launch_process(l, rank);
    if (!p->begun) {
        p->pid = pid;
        snprintf(p->host, sizeof(p->host), "%s", host);
    }
    return p;
}

/* The one that neither ended by itself nor was told to by mpirun, as another
 * one had, if mpirun does not say which it is: the first of those that failed,
 * if there is none. */
static const struct process *find_dead(struct launch *l)
{
    const struct process *failed = find_noticed(l);

    if (failed != NULL)
        return failed;
    for (size_t i = 0; i < l->nprocesses; i++) {
        const struct process *p = &l->processes[i];

        if (p->begun && !p->told && !p->ended)
            return p;
        if (p->ended && p->status != 0 && failed == NULL)
            failed = p;
    }
    return failed;
}

static int exit_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Not all began: what mpirun says of it. */
static int fail_to_start(struct launch *l, struct dsflow_err *err)
{
    const char *words = first_words(l);
    int status = exit_of(l->status);

    if (status == 127)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: mpirun cannot be started",
                           l->places.command);
    return dsflow_fail(
        err, DSFLOW_EINVAL, "%s: mpirun could not start the processes: %.400s",
        l->places.command, words[0] != '\0' ? words : "it does not say why");
}

/* Why processes failed before they met only MPI knows; what it says where one
 * died is known. */
static const char *words_of_mpi(struct launch *l)
{
    const char *words = l->joined ? "" : first_words(l);

    return strncmp(words, "Primary job", 11) == 0 ||
                   strncmp(words, "mpirun ", 7) == 0
               ? ""
               : words;
}

/* mpirun's daemon on another host has ended, or what started it there, as ssh
 * does: it takes that for one that did not start. */
static bool has_lost_daemon(struct launch *l)
{
    l->said.text[l->said.n] = '\0';
    return l->joined &&
           (strstr(l->said.text, "unable to reliably start") != NULL ||
            strstr(l->said.text, "lost communication with a remote") != NULL);
}

/* Process 0 did not say with which status it ended. */
static int fail_of_death(struct launch *l, struct dsflow_err *err)
{
    const struct process *dead = find_dead(l);
    int status = exit_of(l->status);
    const char *words = words_of_mpi(l);
    char how[64];

    if (WIFSIGNALED(l->status) && l->ending == 0)
        return dsflow_fail(err, DSFLOW_EIO, "mpirun was killed by signal %d",
                           WTERMSIG(l->status));
    if (dead == NULL)
        return dsflow_fail(err, DSFLOW_EIO, "mpirun ended with status %d",
                           status);
    if (has_lost_daemon(l))
        return dsflow_fail(err, DSFLOW_EIO,
                           "mpirun lost its connection to host %s, by which "
                           "it started processes there",
                           dead->host);
    if (dead->ended)
        snprintf(how, sizeof(how), "ended with status %d", dead->status);
    else if (status > 128 && status < 128 + NSIG)
        snprintf(how, sizeof(how), "was killed by signal %d", status - 128);
    else
        snprintf(how, sizeof(how), "ended with status %d", status);
    return dsflow_fail(err, DSFLOW_EIO, "process %d (pid %d on %s) %s%s%.300s",
                       (int)(dead - l->processes), dead->pid, dead->host, how,
                       words[0] != '\0' ? ": " : "", words);
}

/* Stopped by a signal, and process 0 did not say so: it ended at once, or had
 * not begun. */
static int stopped(const struct launch *l)
{
    if (!l->joined)
        fprintf(stderr, "stopped before the first step; %s\n",
                dsf_flag_value(l->args, "resume") != NULL
                    ? "the checkpoints stay as they are"
                    : "nothing was saved");
    return 128 + l->sig;
}

/* The others may name one that mpirun ended, as something else had failed. */
static void forget_told(struct launch *l)
{
    int i;

    if (sscanf(l->found, "process %d (", &i) == 1 &&
        strstr(l->found, ") died ") != NULL && i >= 0 &&
        (size_t)i < l->nprocesses && l->processes[i].told)
        l->found[0] = '\0';
}

int dsf_launch_judge(struct launch *l, bool *again, struct dsflow_err *err)
{
    const struct process *first = dsf_launch_process(l, 0);
    int status = exit_of(l->status);

    *again = false;
    forget_told(l);
    if (first->ended && first->status > 128)
        return l->sig != 0 ? 128 + l->sig : first->status;
    if (first->ended && (first->status == 0 || first->status == 2))
        return first->status;
    if (l->sig != 0 && (l->nsigs > 1 || l->found[0] == '\0'))
        return stopped(l);
    if (first->begun && !first->told && !first->ended &&
        (status == 128 + SIGINT || status == 128 + SIGTERM ||
         status == 128 + SIGHUP))
        return status;
    if (!has_begun(l) || (!l->joined && l->found[0] == '\0' && !first->ended &&
                          find_dead(l) == NULL))
        return fail_to_start(l, err);
    *again = l->sig == 0;
    if (l->found[0] != '\0')
        return dsflow_fail(err, DSFLOW_EIO, "%s", l->found);
    if (first->ended)
        return dsflow_fail(err, DSFLOW_EIO, "process 0 ended with status %d",
                           first->status);
    return fail_of_death(l, err);
}
