/* mpirun.c - the command that starts the processes of a run or of a
 * measurement: that of Open MPI. */
#include "cli/mpirun.h"

#include "base/alloc.h"
#include "base/log.h"
#include "cli/hostfile.h"
#include "cli/launched.h"
#include "cli/screen.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- flags ---------------------------------------------------------------- */

/* Those that are the launcher's own. */
static const char *const own[] = { "processes", "hosts", "hostfile",
                                   "restarts" };

static bool is_own(const char *name)
{
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        if (strcmp(own[i], name) == 0)
            return true;
    return false;
}

/* "a:8,b": how many processes these are. */
static int count_hosts(const struct dsf_places *p, int64_t *n,
                       struct dsflow_err *err)
{
    const char *at = p->hosts;

    for (*n = 0;; at++) {
        size_t name = strcspn(at, ":,");
        long slots = 1;
        char *end = (char *)at + name;

        if (*end == ':')
            slots = strtol(end + 1, &end, 10);
        if (!dsf_is_host(at, name) || slots < 1 || slots > DSF_MOST_PROCESSES ||
            (*end != ',' && *end != '\0'))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: --hosts: %.100s: expected HOST[:N],…, as "
                               "in a:8,b:8",
                               p->command, p->hosts);
        *n += slots;
        at = end;
        if (*at == '\0')
            return DSFLOW_OK;
    }
}

int dsf_places_read(struct dsf_places *p, const char *command,
                    const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const char *file = dsf_flag_value(args, "hostfile");
    int64_t room = 0;
    int status;

    *p = (struct dsf_places){ .command = command,
                              .hosts = dsf_flag_value(args, "hosts") };
    status =
        dsf_flag_whole(args, "processes", 1, DSF_MOST_PROCESSES, &p->n, err);
    if (status == DSFLOW_OK)
        status =
            dsf_flag_whole(args, "restarts", 0, 1000000, &p->restarts, err);
    if (status == DSFLOW_OK && p->hosts != NULL && file != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: --hosts and --hostfile: expected one of them",
                           command);
    if (status == DSFLOW_OK && file != NULL) {
        status = dsf_hostfile_read(file, &p->read, err);
        if (status < 0) {
            dsflow_fail_in(err, status, "--hostfile");
            return dsflow_fail_in(err, status, command);
        }
        p->hosts = p->read;
    }
    if (status == DSFLOW_OK && p->hosts != NULL)
        status = count_hosts(p, &room, err);
    if (status < 0)
        return status;
    if (p->hosts != NULL && p->n > room)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: -n: %lld: %s has room for %lld: expected no "
                           "more",
                           command, (long long)p->n,
                           file != NULL ? file : "--hosts", (long long)room);
    if (p->n == 0 && p->hosts == NULL)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "run: --restarts: expected -n, --hosts or --hostfile "
            "beside it");
    if (p->hosts != NULL && p->n == 0)
        p->n = room;
    return DSFLOW_OK;
}

/* --- words ---------------------------------------------------------------- */

struct words {
    char **v;
    size_t n, cap;
};

static void add(struct words *w, char *word)
{
    dsf_grow(&w->v, &w->cap, w->n + 2, sizeof(*w->v));
    w->v[w->n++] = word;
}

static void add_two(struct words *w, const char *a, const char *b)
{
    add(w, dsf_xstrdup(a));
    add(w, dsf_xstrdup(b));
}

extern char **environ;

/* What processes on other hosts would not find in theirs: Open MPI takes its
 * own there. */
static void add_environment(struct words *w)
{
    static const char *const takes[] = {
        "DSFLOW_",          "STARPU_",         "NCCL_",     "CUDA_",
        "LD_LIBRARY_PATH=", "XDG_CACHE_HOME=", "NO_COLOR=", "TERM="
    };

    for (size_t i = 0; environ[i] != NULL; i++)
        for (size_t k = 0; k < sizeof(takes) / sizeof(*takes); k++)
            if (strncmp(environ[i], takes[k], strlen(takes[k])) == 0) {
                char *name = dsf_xstrndup(environ[i], strcspn(environ[i], "="));

                add_two(w, "-x", name);
                free(name);
            }
}

/* A start after a failure goes on, from an older checkpoint where the last one
 * is damaged. Changes that were to be taken over may have to be still. */
static void add_resume(struct words *w, const struct dsf_cli_args *args)
{
    const char *resume = dsf_flag_value(args, "resume");
    bool changed = resume != NULL && strcmp(resume, "changed") == 0;

    add(w, dsf_xasprintf("--resume=%s", changed ? "changed" : "latest-good"));
}

static void add_flags(struct words *w, const struct dsf_cli_args *args,
                      bool again)
{
    for (unsigned i = 0; i < args->nopts; i++) {
        const struct dsf_flag *f = args->opts[i].flag;
        const char *value = args->opts[i].value;

        if (is_own(f->name) || (again && (strcmp(f->name, "resume") == 0 ||
                                          strcmp(f->name, "overwrite") == 0)))
            continue;
        if (f->arg == NULL || (f->arg[0] == '[' && value[0] == '\0'))
            add(w, dsf_xasprintf("--%s", f->name));
        else
            add(w, dsf_xasprintf("--%s=%s", f->name, value));
    }
    if (again)
        add_resume(w, args);
    if (dsf_log_level() != DSFLOW_INFO)
        add(w, dsf_xstrdup(dsf_log_level() < DSFLOW_INFO ? "-q" : "-v"));
}

char **dsf_mpirun_words(const struct dsf_places *p,
                        const struct dsf_cli_args *args, const char *program,
                        bool again)
{
    struct words w = { .n = 0 };
    char *n = dsf_xasprintf("%lld", (long long)p->n);

    add_two(&w, "mpirun", "-tag-output");
    add_two(&w, "-n", n);
    free(n);
    if (p->hosts != NULL)
        add_two(&w, "-host", p->hosts);
    add_environment(&w);
    add_two(&w, program, p->command);
    add_flags(&w, args, again);
    add(&w, dsf_xstrdup("--"));
    for (unsigned i = 0; i < args->nwords; i++)
        add(&w, dsf_xstrdup(args->words[i]));
    w.v[w.n] = NULL;
    return w.v;
}

void dsf_mpirun_free(char **words)
{
    for (size_t i = 0; words[i] != NULL; i++)
        free(words[i]);
    free(words);
}

/* Slurm ends a job with SIGTERM to all of it, Open MPI's daemons on the other
 * nodes among them, which would end their processes a second later, before what
 * is to be saved is whole. GNU's env has the option from coreutils 8.31 on. */
static void keep_daemons(void)
{
    if (getenv("SLURM_JOB_ID") != NULL &&
        system("env --block-signal=TERM true 2> /dev/null") == 0)
        setenv("OMPI_MCA_orte_launch_agent",
               "env --block-signal=TERM --block-signal=HUP orted", 0);
}

void dsf_mpirun_environment(int64_t start, const char *failed)
{
    /* Ranks say themselves how many cores they use, and root may train. What
     * the user has set of these holds. */
    static const char *const settings[][2] = {
        { "OMPI_MCA_rmaps_base_oversubscribe", "1" },
        { "OMPI_MCA_hwloc_base_binding_policy", "none" },
        { "OMPI_MCA_orte_base_help_aggregate", "1" },
        { "OMPI_MCA_btl_base_warn_component_unused", "0" },
    };
    struct dsf_screen screen = dsf_screen_look(STDERR_FILENO);
    char *number = dsf_xasprintf("%lld", (long long)start);

    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        setenv(settings[i][0], settings[i][1], 0);
    keep_daemons();
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    setenv(DSF_LAUNCHED, number, 1);
    if (failed != NULL)
        setenv(DSF_WHY_AGAIN, failed, 1);
    else
        unsetenv(DSF_WHY_AGAIN);
    free(number);
    dsf_screen_hand_over(&screen);
}
