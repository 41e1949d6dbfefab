/* checkpoint_import.c - a checkpoint of another program becomes one of a job.
 */
#include "base/alloc.h"
#include "cli/cmd.h"
#include "config/job.h"
#include "config/job_tables.h"
#include "config/toml_read.h"
#include "foreign/into.h"
#include "foreign/zero.h"
#include "plugin/plugin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void refused(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "dsflow: %s\n", line);
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

/* "model.init=FOLDER", where the folder says what the model is and the job does
 * not; NULL: it does, or it is not to be read. */
static char *find_init(const char *folder, const char *path, const char **sets,
                       unsigned nsets)
{
    char *config = dsf_xasprintf("%s/config.json", folder), *set = NULL;
    struct dsf_job job;

    if (access(config, R_OK) == 0 && !dsf_is_run(path) &&
        dsf_job_read(path, sets, nsets, dsflow_plugin_load, &job, NULL) ==
            DSFLOW_OK) {
        if (!says_model(&job)) {
            char *quoted = dsf_toml_quote(folder);

            set = dsf_xasprintf("model.init=%s", quoted);
            free(quoted);
        }
        dsf_job_fini(&job);
    }
    free(config);
    return set;
}

static int open_job(struct dsf_session *s, const struct dsf_cli_args *args,
                    bool *took_init, struct dsflow_err *err)
{
    unsigned nsets;
    const char **sets = dsf_flag_values(args, "set", &nsets);
    char *init = find_init(args->words[1], args->words[2], sets, nsets);
    int status;

    *took_init = init != NULL;
    if (init != NULL)
        sets[nsets++] = init;
    status = dsf_session_model(s, args->words[2], sets, nsets, err);
    free(sets);
    free(init);
    return status;
}

int dsf_checkpoint_import(const struct dsf_cli_args *args,
                          struct dsflow_err *err)
{
    const char *prefix = dsf_flag_value(args, "prefix");
    const struct dsf_into_spec spec = {
        .weights_only = dsf_flag_value(args, "weights-only") != NULL,
        .refused = refused,
    };
    struct dsf_into_done done = { 0 };
    struct dsf_source from = { 0 };
    struct dsf_session s = { 0 };
    bool took_init;
    int status = open_job(&s, args, &took_init, err);

    if (status == DSFLOW_OK)
        status = dsf_zero_open(args->words[1], dsf_flag_value(args, "tag"),
                               spec.weights_only, &from, err);
    if (status == DSFLOW_OK && prefix != NULL)
        from.prefix = dsf_xstrdup(prefix);
    if (status == DSFLOW_OK)
        status = dsf_into_write(&s, &from, &spec, &done, err);
    if (status == DSFLOW_OK && done.nrefused > 0)
        fprintf(stderr,
                "dsflow: %s: %u tensor%s as the job has it: nothing was "
                "written\n",
                from.path, done.nrefused,
                done.nrefused == 1 ? " is not" : "s are not");
    else if (status == DSFLOW_OK)
        printf("%s: step %lld of %s (%s): dsflow run %s --resume goes on\n",
               done.folder, (long long)done.step, from.path, from.what,
               took_init ? s.job->main.output : args->words[2]);
    free(done.folder);
    dsf_source_fini(&from);
    dsf_session_close(&s);
    return status == DSFLOW_OK && done.nrefused > 0 ? 2 : status;
}
