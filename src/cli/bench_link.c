/* bench_link.c - what messages between processes take, for dsflow plan and run.
 */
#include "base/alloc.h"
#include "cli/cmd.h"
#include "cli/launch.h"
#include "cli/launched.h"
#include "measure/bench_net.h"
#include "measure/machine_cache.h"
#include "net/net.h"
#include "net/pass.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_TAG = DSF_OWN_TAGS + 96 };

struct name {
    char s[64];
};

struct measuring {
    struct dsf_wire *wire;
    struct name *hosts; /* by process, in process 0 */
};

bool dsf_bench_link_is_asked(const struct dsf_cli_args *args)
{
    return args->nwords > 0 && strcmp(args->words[0], "link") == 0 &&
           (dsf_launch_is_asked(args) || dsf_net_is_one_of_several());
}

static int check_args(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    static const char *const taken[] = { "output", "quick", "processes",
                                         "hosts", "hostfile" };

    if (args->nwords > 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "bench: %.60s: expected nothing behind link, where "
                           "it is measured between processes",
                           args->words[1]);
    for (unsigned i = 0; i < args->nopts; i++) {
        const char *name = args->opts[i].flag->name;
        size_t k = 0;

        while (k < sizeof(taken) / sizeof(*taken) && strcmp(taken[k], name) != 0)
            k++;
        if (k == sizeof(taken) / sizeof(*taken))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "bench: --%s: not of links: expected --output, "
                               "--quick, -n, --hosts or --hostfile",
                               name);
    }
    return DSFLOW_OK;
}

/* --- one of the processes ------------------------------------------------- */

static int exchange_hosts(struct measuring *x, struct dsflow_err *err)
{
    struct name own = { "" };
    int status = DSFLOW_OK;

    gethostname(own.s, sizeof(own.s) - 1);
    if (x->wire->process > 0)
        return dsf_pass(x->wire, true, 0, HOST_TAG, &own, sizeof(own), err);
    x->hosts = dsf_xcalloc((size_t)x->wire->nprocesses, sizeof(*x->hosts));
    x->hosts[0] = own;
    for (int32_t p = 1; p < x->wire->nprocesses && status == DSFLOW_OK; p++)
        status = dsf_pass(x->wire, false, p, HOST_TAG, &x->hosts[p],
                          sizeof(x->hosts[p]), err);
    return status;
}

static void print_path(void *user, const struct dsf_net_path *p)
{
    const struct measuring *x = user;
    double scatter = p->out.scatter;
    char between[96], hosts[160];

    if (p->apart)
        snprintf(hosts, sizeof(hosts), "%s and %s", x->hosts[0].s,
                 x->hosts[p->to].s);
    else
        snprintf(hosts, sizeof(hosts), "on %s", x->hosts[0].s);
    snprintf(between, sizeof(between), "0 and %d, %.60s", (int)p->to, hosts);
    if (p->in.scatter > scatter)
        scatter = p->in.scatter;
    if (p->both.scatter > scatter)
        scatter = p->both.scatter;
    printf("%-28s %-8s %12.1f %10.1f %10.1f %10.1f %11.0f\n", between,
           p->computing ? "compute" : "idle", p->latency * 1e6,
           p->out.value / 1e6, p->in.value / 1e6, p->both.value / 1e6,
           100 * scatter);
    fflush(stdout);
}

static unsigned count_hosts(const struct dsf_wire *wire)
{
    unsigned n = 0;

    for (int32_t p = 0; p < wire->nprocesses; p++)
        n += wire->hosts == NULL ? p == 0 : wire->hosts[p] == p;
    return n;
}

static int save(struct dsf_machine_model *m, const struct dsf_cli_args *args,
                const struct dsf_wire *wire, struct dsflow_err *err)
{
    char *path;
    int status = dsf_bench_output(args, dsf_machine_cache_path(), &path, err);

    /* The file of the cache is of this host alone. */
    if (dsf_flag_value(args, "output") != NULL)
        m->main.nodes = count_hosts(wire);
    if (status == DSFLOW_OK)
        status = dsf_machine_save(m, path, err);
    if (status == DSFLOW_OK)
        printf("\nwritten to %s\n", path);
    free(path);
    return status;
}

static int measure(struct measuring *x, const struct dsf_machine *machine,
                   struct dsf_net_bench *how, const struct dsf_cli_args *args,
                   struct dsflow_err *err)
{
    struct dsf_machine_model m = { 0 };
    int status = dsf_machine_present(machine, &m, err);

    if (status < 0) {
        dsf_net_bench(how, NULL, NULL); /* or they would wait */
        return status;
    }
    printf("%-28s %-8s %12s %10s %10s %10s %11s\n", "processes", "cores",
           "latency, us", "out, MB/s", "in, MB/s", "each way", "scatter, %");
    fflush(stdout);
    how->user = x;
    how->on_path = print_path;
    status = dsf_net_bench(how, &m, err);
    if (status == DSFLOW_OK)
        status = save(&m, args, x->wire, err);
    if (status == DSFLOW_OK)
        dsf_warn_of_scatter(&m, "the machine", "run dsflow bench again");
    dsf_machine_model_fini(&m);
    return status;
}

/* Those of one host share its cores. */
static unsigned share_of(const struct dsf_wire *wire,
                         const struct dsf_machine *machine)
{
    unsigned here = 0;

    for (int32_t p = 0; p < wire->nprocesses; p++)
        here += dsf_wire_is_near(wire, p, wire->process);
    return machine->cores > here ? machine->cores / here : 1;
}

static int measure_here(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    bool quick = dsf_flag_value(args, "quick") != NULL;
    struct dsf_net_bench how = { .seconds = quick ? 0.06 : 0.6 };
    struct dsf_machine machine;
    struct measuring x = { 0 };
    int status = dsf_machine_probe(&machine, err), closed;

    if (status == DSFLOW_OK)
        status = dsf_net_open(&x.wire, err);
    if (status < 0)
        return status;
    if (x.wire->process == 0)
        dsf_launched_joined();
    status = exchange_hosts(&x, err);
    how.wire = x.wire;
    how.cores = share_of(x.wire, &machine);
    if (status == DSFLOW_OK)
        status = x.wire->process == 0 ? measure(&x, &machine, &how, args, err)
                                      : dsf_net_bench_serve(&how, err);
    free(x.hosts);
    closed = dsf_net_close(status == DSFLOW_OK ? err : NULL);
    return status < 0 ? status : closed;
}

/* Of processes that are started here the first one writes the file. */
static int check_output(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    char *path;
    int status;

    if (!dsf_launch_is_asked(args) || dsf_flag_value(args, "hosts") != NULL ||
        dsf_flag_value(args, "hostfile") != NULL)
        return DSFLOW_OK;
    status = dsf_bench_output(args, dsf_machine_cache_path(), &path, err);
    free(path);
    return status;
}

int dsf_bench_link(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    int64_t n = 2;
    int status = check_args(args, err);

    if (status == DSFLOW_OK)
        status = dsf_flag_whole(args, "processes", 2, 65536, &n, err);
    if (status == DSFLOW_OK)
        status = check_output(args, err);
    if (status < 0)
        return status;
    if (dsf_launch_is_asked(args))
        return dsf_launch("bench", args, NULL, err);
    dsf_launched_begin();
    return dsf_launched_end(measure_here(args, err), err);
}
