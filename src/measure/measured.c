/* measured.c - what is measured several times, and what is done about figures
 * that cannot be. */
#include "measure/measured.h"

#include "base/by_value.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LEAST 1e4 /* bytes or operations a second */

double dsf_scatter(double *v, unsigned n, double *middle)
{
    qsort(v, n, sizeof(*v), dsf_by_value);
    *middle = v[n / 2];
    return *middle > 0 ? (v[n - 1] - v[0]) / *middle : 0;
}

bool dsf_is_rate(double value)
{
    return value >= LEAST && isfinite(value);
}

int dsf_measure(const char *name, dsf_measure_fn measure, void *user,
                double seconds, struct dsf_measured *out,
                struct dsflow_err *err)
{
    enum { TIMES = 3, AGAIN = 4 };
    double v[TIMES] = { 0 }, each = seconds / TIMES;
    unsigned n = 0, again = 0;

    while (n < TIMES) {
        int status = measure(user, each, &v[n], err);

        if (status < 0)
            return status;
        if (dsf_is_rate(v[n])) {
            n++;
            continue;
        }
        if (again++ == AGAIN)
            return dsflow_fail(err, DSFLOW_EFAIL,
                               "%s: measured %g a second: expected %g or more; "
                               "measure again when nothing else runs",
                               name, v[n], LEAST);
        each *= 2;
    }
    out->scatter = dsf_scatter(v, TIMES, &out->value);
    return DSFLOW_OK;
}

bool dsf_measure_machine(void (*measure)(void *user,
                                         struct dsf_machine_model *m),
                         void *user, struct dsf_machine_model *m)
{
    enum { TIMES = 3 };
    struct dsflow_err err;
    char assumed[32];

    for (int i = 0; i < TIMES; i++) {
        measure(user, m);
        if (dsf_machine_model_check(m, &err) == DSFLOW_OK)
            return true;
        if (i + 1 < TIMES)
            dsf_machine_model_fini(m);
    }
    while (dsf_machine_model_check(m, &err) < 0) {
        dsf_machine_model_mend(m, assumed, sizeof(assumed));
        dsf_warn("measured: %s; %s is assumed (dsflow bench measures it again)",
                 err.msg, assumed);
    }
    return false;
}

void dsf_warn_of_scatter(const struct dsf_machine_model *m, const char *what,
                         const char *again)
{
    char text[256];

    if (dsf_machine_model_scattered(m, text, sizeof(text)))
        dsf_warn("%s was disturbed while it was measured, as figures that "
                 "should be alike differ: %s; %s when nothing else runs",
                 what, text, again);
}
