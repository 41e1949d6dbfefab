/* bench_processes.c - what each of several processes builds of the graph of a
 * job before its first step, and what that takes:
 *
 *     bench_processes JOB MACHINE PROCESSES [PROCESS...]
 *
 * for example examples/plans/1t.toml examples/machines/h200-64-nodes.toml 64.
 * Each runs by itself, in a process of its own, all (or those that are named)
 * one after the other: its plan, its tasks and messages, their check, and what
 * it says to process 0 of them; process 0 comes last, and hears what the others
 * have said. Printed: tasks of the part, data of it, seconds, and the most
 * memory of the process.
 */
#include "base/units.h"
#include "machine/machine_model.h"
#include "sim/weights.h"
#include "train/heard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Messages wait in files, as who sends them has ended when they are read. */
static char folder[] = "/tmp/bench_processes.XXXXXX";

static void post(struct dsf_wire *wire, struct dsf_message *m)
{
    char path[sizeof(folder) + 64];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%d.%u", folder,
             (int)(m->out ? wire->process : m->process), (unsigned)m->tag);
    f = fopen(path, m->out ? "wb" : "rb");
    m->status =
        f == NULL || (m->out ? fwrite(m->memory, 1, m->bytes, f)
                             : fread(m->memory, 1, m->bytes, f)) != m->bytes
            ? dsflow_fail(&m->err, DSFLOW_EIO, "%s: %m", path)
            : DSFLOW_OK;
    if (f != NULL)
        fclose(f);
    if (!m->out)
        unlink(path);
    m->done(m);
}

static void must(int status, const struct dsflow_err *err)
{
    if (status == DSFLOW_OK)
        return;
    fprintf(stderr, "bench_processes: %s\n", err->msg);
    exit(1);
}

/* What train/together.c asks of the process, but for the executor. */
static void build(const char *job, const struct dsf_machine_model *m,
                  int32_t process, int32_t n, bool all)
{
    struct dsf_wire wire = { .process = process,
                             .nprocesses = n,
                             .post = post };
    struct dsf_session s;
    struct dsflow_err err;
    struct rusage usage;
    double began = dsf_now();

    must(dsf_session_model(&s, job, NULL, 0, &err), &err);
    dsf_machine_of_model(m, &s.machine);
    s.together.wire = &wire;
    must(dsf_session_plan_alone(&s, &wire, &err), &err);
    must(dsf_session_part(&s, &wire, &err), &err);
    if (process > 0)
        must(dsf_heard_say(&s, &wire, &err), &err);
    else
        dsf_session_weights(&s);
    for (int32_t p = 1; process == 0 && all && p < n; p++)
        must(dsf_heard_take(&s, p, &err), &err);
    if (process == 0 && all)
        must(dsf_heard_check(&s, &err), &err);
    getrusage(RUSAGE_SELF, &usage);
    printf("process %3d: %u tasks, %u data, %.2f s, %.0f MiB\n", (int)process,
           dsflow_graph_ntasks(s.together.part.graph),
           dsflow_graph_ndata(s.together.part.graph), dsf_now() - began,
           (double)usage.ru_maxrss / 1024);
    if (process == 0 && all)
        printf("all: %u tasks, %u data\n", dsf_session_weights(&s)->ntasks,
               dsf_session_weights(&s)->ndata);
    dsf_session_close(&s);
}

static void build_apart(const char *job, const struct dsf_machine_model *m,
                        int32_t process, int32_t n, bool all)
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        build(job, m, process, n, all);
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        exit(1);
}

int main(int argc, char **argv)
{
    struct dsf_machine_model m;
    struct dsflow_err err;
    int32_t n;

    if (argc < 4 || (n = atoi(argv[3])) < 2) {
        fprintf(stderr, "bench_processes JOB MACHINE PROCESSES [PROCESS...]\n");
        return 2;
    }
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    must(dsf_machine_model_read(argv[2], &m, &err), &err);
    for (int i = 4; i < argc; i++)
        build_apart(argv[1], &m, atoi(argv[i]), n, false);
    for (int32_t p = 1; p <= n && argc == 4; p++)
        build_apart(argv[1], &m, p % n, n, true);
    rmdir(folder);
    dsf_machine_model_fini(&m);
    return 0;
}
