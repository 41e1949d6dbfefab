/* job_saved.c - keys of jobs of before, as dsflow wrote them into the folders of
 * runs. */
#include "config/job_saved.h"

#include "base/alloc.h"
#include "base/log.h"
#include "config/job_private.h"

#include <stdlib.h>
#include <string.h>

static struct dsf_toml_entry *find(const struct dsf_toml *toml,
                                   const char *table, const char *key)
{
    for (size_t i = 0; i < toml->n; i++)
        if (strcmp(toml->v[i].table, table) == 0 &&
            strcmp(toml->v[i].key, key) == 0)
            return &toml->v[i];
    return NULL;
}

static void set_text(char **text, const char *to)
{
    free(*text);
    *text = dsf_xstrdup(to);
}

/* offload.states is precision.states. It was of offloaded states only: without
 * those all were fp32. */
static void rename_quietly(struct dsf_toml *toml, const char *path)
{
    struct dsf_toml_entry *states = find(toml, "offload", "states");
    const struct dsf_toml_entry *home = find(toml, "offload", "optimizer");
    bool stay = home == NULL || home->value.string == NULL ||
                strcmp(home->value.string, "none") == 0;

    if (states == NULL)
        return;
    set_text(&states->table, "precision");
    if (stay && states->value.type == DSF_TOML_STRING) {
        set_text(&states->value.string, "fp32");
        set_text(&states->value.text, "\"fp32\"");
    }
}

static void rename_and_say(struct dsf_toml *toml, const char *path)
{
    const struct dsf_toml_entry *states = find(toml, "offload", "states");

    rename_quietly(toml, path);
    if (states != NULL)
        dsf_info("%s:%d: offload: states: is precision.states now: read as "
                 "precision.states = %s",
                 path, states->line, states->value.text);
}

int dsf_job_read_saved(const char *path, const char *const *sets,
                       unsigned nsets, dsf_load_fn load, bool quiet,
                       struct dsf_job *job, struct dsflow_err *err)
{
    return dsf_job_read_edited(path, sets, nsets, load,
                               quiet ? rename_quietly : rename_and_say, job,
                               err);
}
