/* one_import.h - a configuration of DeepSpeed, in a folder of its own, and what
 * its import gives. */
#ifndef DSF_TESTS_ONE_IMPORT_H
#define DSF_TESTS_ONE_IMPORT_H

#include "config/job.h"
#include "import/ds_config.h"
#include "lib/folder.h"

#include <unistd.h>

static struct {
    char *text; /* the job, or NULL */
    char refused[8][300];
    unsigned nrefused;
    struct dsflow_err err;
} did;

static inline void note_refused(const char *line)
{
    if (did.nrefused < 8)
        snprintf(did.refused[did.nrefused], sizeof(did.refused[0]), "%s", line);
    did.nrefused++;
}

static inline void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

/* Paths of messages begin with "ds.json". */
static inline int import(const char *json, struct dsf_ds_wish wish)
{
    FILE *out;
    size_t n;
    int status;

    free(did.text);
    did.text = NULL;
    did.nrefused = 0;
    did.err.msg[0] = '\0';
    write_file("ds.json", json);
    out = open_memstream(&did.text, &n);
    assert_non_null(out);
    wish.ranks = wish.ranks > 0 ? wish.ranks : 1;
    status = dsf_ds_import("ds.json", &wish, out, note_refused, &did.err);
    fclose(out);
    if (status < 0 && n > 0)
        fail_msg("refused, and yet: %s", did.text);
    return status;
}

#define RANKS(n) ((struct dsf_ds_wish){ .ranks = (n) })
#define BATCH    "\"train_batch_size\": 8, "

static inline void read_job(struct dsf_job *job)
{
    if (dsf_job_parse(did.text, strlen(did.text), "job.toml", NULL, 0, NULL,
                      job, &did.err) < 0)
        fail_msg("%s\n%s", did.err.msg, did.text);
}

static inline void make(const char *json, struct dsf_ds_wish wish)
{
    if (import(json, wish) < 0)
        fail_msg("%s: %s %s", json, did.err.msg,
                 did.nrefused > 0 ? did.refused[0] : "");
}

static inline void make_job(const char *json, struct dsf_ds_wish wish,
                            struct dsf_job *job)
{
    make(json, wish);
    read_job(job);
}

static inline void assert_line(const char *line)
{
    if (strstr(did.text, line) == NULL)
        fail_msg("no line \"%s\" in:\n%s", line, did.text);
}

/* For one key, with this line. */
static inline void assert_refused(const char *json, struct dsf_ds_wish wish,
                                  const char *line)
{
    assert_int_equal(import(json, wish), DSFLOW_EINVAL);
    assert_int_equal(did.nrefused, 1);
    assert_string_equal(did.refused[0], line);
    assert_string_equal(did.err.msg, "ds.json: 1 key cannot be had");
}

static inline int into_folder(void **state)
{
    return make_folder(state) < 0 || chdir(folder) < 0 ? -1 : 0;
}

static inline int out_of_folder(void **state)
{
    free(did.text);
    return chdir("..") < 0 ? -1 : remove_folder(state);
}

#endif
