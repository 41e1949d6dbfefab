/* starpu_files.c - the files that StarPU reads when it starts.
 *
 * They say how fast the links of this machine are, between its NUMA nodes and
 * GPUs. StarPU measures them where there are none, for seconds where there are
 * many NUMA nodes, and aborts where it cannot write them, or finds one damaged.
 * Handles have no memory here, so nobody asks for these speeds: files with any
 * are written into a folder of this process, and removed once StarPU has read
 * them.
 */
#include "exec/starpu_private.h"

#include "base/alloc.h"
#include "base/aside.h"
#include "machine/machine.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* StarPU cuts its paths at 256 bytes. */
enum { LONGEST = 128 };

/* Cores, NUMA nodes, and how many there are of each other kind of node. */
static void print_config(FILE *f, const struct dsf_topology *machine)
{
    fprintf(f, "%u\n%u\n", machine->cores, machine->numa);
    for (unsigned kind = STARPU_CPU_RAM + 1; kind < STARPU_NRAM; kind++)
        fprintf(f, "0\n");
}

static void print_affinity(FILE *f, const struct dsf_topology *machine)
{
    fprintf(f, "# GPU\tNUMA0\n");
}

/* From each NUMA node to each; StarPU does not keep the last one of a line. */
static void print_links(FILE *f, const struct dsf_topology *machine)
{
    for (unsigned from = 0; from < machine->numa; from++) {
        for (unsigned to = 0; to < machine->numa; to++)
            fprintf(f, "%d\t", from != to);
        fprintf(f, "nan\n");
    }
}

/* For simulations of StarPU: only has to be there. */
static void print_nothing(FILE *f, const struct dsf_topology *machine)
{
}

static const struct {
    const char *name;
    void (*print)(FILE *f, const struct dsf_topology *machine);
} known[] = {
    { "bus/dsflow.config", print_config },
    { "bus/dsflow.affinity", print_affinity },
    { "bus/dsflow.latency", print_links },
    { "bus/dsflow.bandwidth", print_links },
    { "bus/dsflow.platform.xml", print_nothing },
    { "bus/dsflow.platform.v4.xml", print_nothing },
};
enum { NKNOWN = sizeof(known) / sizeof(*known) };

static void name_in(char path[static LONGEST + 64], const char *folder,
                    const char *name)
{
    snprintf(path, LONGEST + 64, "%s/%s", folder, name);
}

static int write_all(const char *folder, const struct dsf_topology *machine)
{
    char path[LONGEST + 64];
    int ret;

    name_in(path, folder, "bus");
    ret = mkdir(path, 0700);
    for (unsigned i = 0; i < NKNOWN && ret == 0; i++) {
        FILE *f;

        name_in(path, folder, known[i].name);
        f = fopen(path, "w");
        if (f == NULL)
            return -1;
        known[i].print(f, machine);
        ret = fclose(f);
    }
    return ret;
}

static void remove_all(const char *folder)
{
    char path[LONGEST + 64];

    for (unsigned i = 0; i < NKNOWN; i++) {
        name_in(path, folder, known[i].name);
        unlink(path);
    }
    name_in(path, folder, "bus");
    rmdir(path);
    rmdir(folder);
    dsf_aside_forget_folder(folder);
}

/* A signal may end the process, which then removes the folders that it knows:
 * it waits until this is known, and whole. */
static int make_whole(char *folder, const struct dsf_topology *machine)
{
    sigset_t all, before;
    int status = -1, why;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (mkdtemp(folder) != NULL) {
        dsf_aside_add_folder(folder);
        status = write_all(folder, machine);
        why = errno;
        if (status != 0)
            remove_all(folder);
        errno = why;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* In the first folder for temporary files that has room. */
static int make_folder(char folder[static LONGEST],
                       const struct dsf_topology *machine,
                       struct dsflow_err *err)
{
    const char *const in[] = { getenv("TMPDIR"), "/tmp", "/dev/shm" };
    int why = ENOENT;

    for (unsigned i = 0; i < sizeof(in) / sizeof(*in); i++) {
        if (in[i] == NULL || in[i][0] != '/' ||
            snprintf(folder, LONGEST, "%s/dsflow-XXXXXX", in[i]) >= LONGEST)
            continue;
        if (make_whole(folder, machine) == 0)
            return DSFLOW_OK;
        why = errno;
    }
    return dsflow_fail(err, DSFLOW_EIO,
                       "StarPU does not start: no folder for its files in "
                       "TMPDIR, /tmp or /dev/shm: %s",
                       strerror(why));
}

/* What StarPU finds in the environment while it starts. */
struct setting {
    const char *name, *value;
    char *before; /* NULL: none */
};

static void set(struct setting *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const char *before = getenv(s[i].name);

        s[i].before = before != NULL ? dsf_xstrdup(before) : NULL;
        setenv(s[i].name, s[i].value, 1);
    }
}

static void reset(struct setting *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (s[i].before != NULL)
            setenv(s[i].name, s[i].before, 1);
        else
            unsetenv(s[i].name);
        free(s[i].before);
    }
}

int dsf_starpu_init(struct starpu_conf *conf, struct dsflow_err *err)
{
    char folder[LONGEST];
    struct setting settings[] = {
        { "STARPU_PERF_MODEL_DIR", folder },
        { "STARPU_PERF_MODEL_PATH", "" },
        { "STARPU_HOSTNAME", "dsflow" }, /* the files' names begin with it */
        { "STARPU_MPI_HOSTNAMES", "" },
    };
    unsigned n = sizeof(settings) / sizeof(*settings);
    struct dsf_topology machine;
    int ret = dsf_topology_probe(&machine, err);

    if (ret < 0)
        return ret;
    if (machine.numa > STARPU_MAXNUMANODES)
        machine.numa = STARPU_MAXNUMANODES;
    ret = make_folder(folder, &machine, err);
    if (ret < 0)
        return ret;
    set(settings, n);
    ret = starpu_init(conf);
    reset(settings, n);
    remove_all(folder);
    return ret == 0 ? DSFLOW_OK
                    : dsflow_fail(err, DSFLOW_EFAIL,
                                  "StarPU does not start: %s", strerror(-ret));
}
