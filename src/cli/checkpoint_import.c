/* checkpoint_import.c - a checkpoint of another program becomes one of a job.
 */
#include "base/alloc.h"
#include "base/utf8.h"
#include "cli/cmd.h"
#include "cli/stop.h"
#include "config/job.h"
#include "config/job_tables.h"
#include "config/toml_read.h"
#include "foreign/into.h"
#include "foreign/megatron.h"
#include "foreign/trainer.h"
#include "foreign/zero.h"
#include "plugin/plugin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* With names that files have, which may be anything. */
static void refused(void *user, const char *line)
{
    char *copy = dsf_xstrdup(line);

    (void)user;
    dsf_utf8_clean(copy);
    fprintf(stderr, "dsflow: %s\n", copy);
    free(copy);
}

static void refuse_all(const char *path, unsigned reasons)
{
    char *line = dsf_xasprintf(
        "%s: does not fit the job, for %u reason%s: nothing was written", path,
        reasons, reasons == 1 ? "" : "s");

    refused(NULL, line);
    free(line);
}

/* From the first call on a signal waits for the next one. */
static bool stopped(void *user)
{
    (void)user;
    return dsf_stop_stage(DSF_STOP_ENDING) != 0;
}

/* Does the job say anything of the model? */
static bool says_model(const struct dsf_job *job)
{
    const struct dsflow_option *o = dsf_job_find_table("model")->options;

    for (; o->key != NULL; o++)
        if (dsf_job_has(job, "model", o->key))
            return true;
    return false;
}

/* Does the job leave the model to others? */
static bool leaves_model(const char *path, const char **sets, unsigned nsets)
{
    struct dsf_job job;
    bool leaves;

    if (dsf_is_run(path) ||
        dsf_job_read(path, sets, nsets, dsflow_plugin_load, &job, NULL) < 0)
        return false;
    leaves = !says_model(&job);
    dsf_job_fini(&job);
    return leaves;
}

/* Keys of [model] that the folder says: its config.json as init, or what is in
 * files of Megatron-LM. Their number; freed by the caller. */
static unsigned find_model(const char *folder, const char *tag,
                           char *found[DSF_MEGATRON_SETS])
{
    char *config = dsf_xasprintf("%s/config.json", folder);
    unsigned n = 0;

    if (access(config, R_OK) == 0) {
        char *quoted = dsf_toml_quote(folder);

        found[n++] = dsf_xasprintf("model.init=%s", quoted);
        free(quoted);
    } else {
        n = dsf_megatron_model(folder, tag, found);
    }
    free(config);
    return n;
}

static int open_job(struct dsf_session *s, const struct dsf_cli_args *args,
                    bool *took_model, struct dsflow_err *err)
{
    const char *folder = args->words[1], *path = args->words[2];
    char *found[DSF_MEGATRON_SETS] = { NULL };
    unsigned nsets, nfound = 0;
    const char **given = dsf_flag_values(args, "set", &nsets);
    const char **sets = dsf_xcalloc(nsets + DSF_MEGATRON_SETS, sizeof(*sets));
    int status;

    memcpy(sets, given, nsets * sizeof(*sets));
    if (leaves_model(path, given, nsets))
        nfound = find_model(folder, dsf_flag_value(args, "tag"), found);
    *took_model = nfound > 0;
    for (unsigned i = 0; i < nfound; i++)
        sets[nsets++] = found[i];
    status = dsf_session_model(s, path, sets, nsets, err);
    for (unsigned i = 0; i < nfound; i++)
        free(found[i]);
    free(sets);
    free(given);
    return status;
}

static int open_source(const char *path, const char *tag, bool weights_only,
                       struct dsf_source *from, struct dsflow_err *err)
{
    int status;

    if (dsf_megatron_is(path) ||
        (weights_only && dsf_megatron_is_in_deepspeed(path, tag)))
        return dsf_megatron_open(path, tag, weights_only, from, err);
    if (tag == NULL && dsf_trainer_is(path))
        return dsf_trainer_open(path, weights_only, from, err);
    status = dsf_zero_open(path, tag, weights_only, from, err);
    if (status == DSFLOW_OK)
        dsf_megatron_recognize(from, path, tag);
    return status;
}

int dsf_checkpoint_import(const struct dsf_cli_args *args,
                          struct dsflow_err *err)
{
    const char *prefix = dsf_flag_value(args, "prefix");
    const struct dsf_into_spec spec = {
        .weights_only = dsf_flag_value(args, "weights-only") != NULL,
        .refused = refused,
        .stopped = stopped,
    };
    struct dsf_into_done done = { 0 };
    struct dsf_source from = { 0 };
    struct dsf_session s = { 0 };
    bool took_model = false;
    int status = open_source(args->words[1], dsf_flag_value(args, "tag"),
                             spec.weights_only, &from, err);

    if (status == DSFLOW_OK && prefix != NULL)
        from.prefix = dsf_xstrdup(prefix);
    if (status == DSFLOW_OK)
        status = open_job(&s, args, &took_model, err);
    if (status == DSFLOW_OK)
        status = dsf_into_write(&s, &from, &spec, &done, err);
    if (status == DSFLOW_OK && done.nrefused > 0)
        refuse_all(from.path, done.nrefused);
    else if (status == DSFLOW_OK)
        printf("%s: step %lld of %s (%s): dsflow run %s --resume goes on\n",
               done.folder, (long long)done.step, from.path, from.what,
               took_model ? s.job->main.output : args->words[2]);
    free(done.folder);
    dsf_source_fini(&from);
    dsf_session_close(&s);
    if (status < 0)
        dsf_stop_raise(); /* nothing is left of it */
    return status == DSFLOW_OK && done.nrefused > 0 ? 2 : status;
}
