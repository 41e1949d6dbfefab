/* schedulers.c - StarPU's schedulers that are offered. */
#include "machine/schedulers.h"

#include "config/job_keys.h"

#include <string.h>

/* Those with which every job ended, with the serial executor's bits, on meshes,
 * tiers and virtual devices (tests/same). Of StarPU 1.4.10's others,
 *
 * - heteroprio and most modular ones do not keep to the workers that a task is
 *   given: they wait for ever for another, or end in an assertion;
 * - modular-parallel ones end in a signal;
 * - graph_test holds tasks back until somebody waits for all of them;
 * - peager, pheft: for tasks that take several cores; there are none;
 * - dmdasd, modular-prio and modular-random-prio held too, on few jobs: nothing
 *   speaks for them beside dmdas, prio and random.
 */
static const char *const offered[] = { "lws",    "ws",    "eager", "prio",
                                       "random", "dm",    "dmda",  "dmdap",
                                       "dmdar",  "dmdas", NULL };

const char *dsf_scheduler_at(unsigned i)
{
    return offered[i];
}

const char *dsf_job_scheduler_name(const struct dsflow_option *option,
                                   unsigned i)
{
    return i == 0 ? "auto" : dsf_scheduler_at(i - 1);
}

int dsf_scheduler_check(const char *name, struct dsflow_err *err)
{
    char known[128] = "";
    size_t n = 0;

    for (unsigned i = 0; offered[i] != NULL; i++) {
        if (name == NULL || strcmp(name, offered[i]) == 0)
            return DSFLOW_OK;
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s",
                              i > 0 ? ", " : "", offered[i]);
    }
    return dsflow_fail(err, DSFLOW_EINVAL, "%.60s: expected one of %s", name,
                       known);
}
