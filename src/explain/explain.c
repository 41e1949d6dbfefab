/* explain.c - what a trace says. */
#include "explain/explain.h"

#include "explain/explain_private.h"

int dsf_explain(const struct dsf_trace *trace, bool json,
                dsf_advise_fn advise, dsf_load_fn load, FILE *out,
                struct dsflow_err *err)
{
    struct dsf_advices advices;
    struct dsf_account a;
    int status = dsf_account_init(&a, trace, err), wrote = 0;

    if (status < 0)
        return status;
    advise(&advices, &a, load);
    if (json)
        wrote = dsf_explain_json(&a, &advices, out);
    else
        dsf_explain_text(&a, &advices, out);
    dsf_advices_fini(&advices);
    dsf_account_fini(&a);
    if (wrote != 0 || fflush(out) != 0 || ferror(out))
        return dsflow_fail(err, DSFLOW_EIO, "summary: cannot be written: %m");
    return DSFLOW_OK;
}
