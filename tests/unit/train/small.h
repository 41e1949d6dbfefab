/* small.h - sessions of a small job in a folder of the test's own, and the
 * lines that are said of them. */
#ifndef DSF_TESTS_UNIT_TRAIN_SMALL_H
#define DSF_TESTS_UNIT_TRAIN_SMALL_H

#include "lib/train.h"
#include "unit/text/folder.h"

#include "train/params.h"
#include "train/session.h"

#include <dsflow/log.h>

/* Every line since hush(), with "\n" behind it and without the folder's name.
 */
static char said[4096];

static inline void hush(void)
{
    said[0] = '\0';
}

/* Cut the folder's name out of a text: it is another one each time. */
static inline void cut_folder(char *text)
{
    while ((text = strstr(text, folder)) != NULL)
        memmove(text, text + strlen(folder), strlen(text + strlen(folder)) + 1);
}

static inline void hear(void *user, enum dsflow_log_level level,
                        const char *line)
{
    size_t at = strlen(said);

    snprintf(said + at, sizeof(said) - at, "%s\n", line);
    cut_folder(said + at);
}

/* "@/run": the same in the folder; freed by the caller. */
static inline char *in_folder(const char *text)
{
    char *to = dsf_xcalloc(strlen(text) * sizeof(folder) + 1, 1);
    size_t at = 0;

    for (; *text != '\0'; text++)
        if (*text == '@')
            at += (size_t)sprintf(to + at, "%s", folder);
        else
            to[at++] = *text;
    return to;
}

static inline bool is_there(const char *name)
{
    char *path = in_folder(name);
    bool is = access(path, F_OK) == 0;

    free(path);
    return is;
}

/* All of a file; freed by the caller. */
static inline char *read_text(const char *name)
{
    char *path = in_folder(name), *text;
    struct stat st;
    FILE *f = fopen(path, "rb");

    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    text = dsf_xcalloc((size_t)st.st_size + 1, 1);
    assert_int_equal(fread(text, 1, (size_t)st.st_size, f), st.st_size);
    fclose(f);
    free(path);
    return text;
}

/* A file of the folder with `to` in the place of `from`. */
static inline void edit(const char *name, const char *from, const char *to)
{
    char *path = dsf_xasprintf("@/%s", name), *text = read_text(path);
    char *at = strstr(text, from), *other;

    assert_non_null(at);
    *at = '\0';
    other = dsf_xasprintf("%s%s%s", text, to, at + strlen(from));
    write_text(name, other);
    free(other);
    free(text);
    free(path);
}

/* A small tokenizer.json, of 274 tokens. */
static inline void write_tokenizer(const char *name)
{
    const char *source = getenv("srcdir");
    char *path = dsf_xasprintf("%s/tests/unit/text/tiny_tokenizer.json",
                               source != NULL ? source : ".");
    char *text = read_text(path);

    write_text(name, text);
    free(text);
    free(path);
}

static inline void make_subfolder(const char *name)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);

    assert_int_equal(mkdir(path, 0777), 0);
    free(path);
}

/* job.toml, and bare.toml, which says nothing of the model. */
static inline int make_small(void **state)
{
    static const char job[] = "[job]\nname = \"small\"\nsteps = 10\n"
                              "output = \"@/run\"\n"
                              "[data]\ntrain = \"@/text.txt\"\n"
                              "[batch]\nsequences = 4\n"
                              "[sample]\ntokens = 0\n";
    static const char model[] =
        "[model]\nlayers = 1\nheads = 2\nwidth = 16\ncontext = 16\n";
    char *bare = NULL, *whole, line[64], *text;
    size_t n;
    FILE *f;

    if (make_folder(state) < 0)
        return -1;
    f = open_memstream(&text, &n);
    for (int i = 0; i < 60; i++) {
        snprintf(line, sizeof(line), "Line %d of a text: %d.\n", i, i * i);
        fputs(line, f);
    }
    fclose(f);
    write_text("text.txt", text);
    bare = in_folder(job);
    whole = dsf_xasprintf("%s%s", bare, model);
    write_text("bare.toml", bare);
    write_text("job.toml", whole);
    free(whole);
    free(bare);
    free(text);
    dsflow_log_sink_set(hear, NULL);
    return 0;
}

static inline int remove_small(void **state)
{
    dsflow_log_sink_set(NULL, NULL);
    return remove_folder(state);
}

enum stage { TO_MODEL, TO_PLAN, TO_TEXT, TO_OPEN, TO_WEIGHTS };

static inline void ask_nothing(void *user, const struct dsflow_batch *batch)
{
}

static inline void hear_nothing(void *user,
                                const struct dsflow_step_report *report)
{
}

/* A session of the job `file` with `keys`, which spaces separate and in which
 * "@" is the folder. It is to be closed in any case. */
static inline int open_job(struct dsf_session *s, enum stage to,
                           const char *file, const char *keys,
                           struct dsflow_err *err)
{
    static const struct dsflow_host host = { NULL, ask_nothing, hear_nothing };
    char *path = dsf_xasprintf("%s/%s", folder, file), *rest = NULL;
    char *words = in_folder(keys), *word = strtok_r(words, " ", &rest);
    const char *sets[16];
    unsigned n = 0;
    struct dsf_machine_model machine; /* as if it had been measured */
    int64_t from;
    int status;

    dsf_machine_model_init(&machine);
    for (; word != NULL; word = strtok_r(NULL, " ", &rest)) {
        assert_true(n < 16);
        sets[n++] = word;
    }
    status = dsf_session_model(s, path, sets, n, err);
    if (status == DSFLOW_OK && to >= TO_PLAN)
        status = dsf_machine_probe(&s->machine, err);
    if (status == DSFLOW_OK && to >= TO_PLAN)
        status = dsf_session_fit(s, &machine, NULL, err);
    if (status == DSFLOW_OK && to >= TO_TEXT)
        status = dsf_session_text(s, err);
    if (status == DSFLOW_OK && to >= TO_OPEN)
        status = dsf_session_open(s, DSFLOW_SERIAL, &host, err);
    if (status == DSFLOW_OK && to >= TO_WEIGHTS)
        status = dsf_session_start(s, DSF_START, &from, err);
    dsf_machine_model_fini(&machine);
    free(words);
    free(path);
    return status;
}

static inline void open_small(struct dsf_session *s, enum stage to,
                              const char *keys)
{
    struct dsflow_err err = { .msg = "" };

    if (open_job(s, to, "job.toml", keys, &err) < 0)
        fail_msg("%s: %s", keys, err.msg);
}

/* That is refused, with this message. */
static inline void refuse(enum stage to, const char *file, const char *keys,
                          int status, const char *message)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_session s;
    int got = open_job(&s, to, file, keys, &err);

    check_message(&err, message);
    assert_int_equal(got, status);
    dsf_session_close(&s);
}

/* job.toml of the output folder, and a checkpoint of `step`, as if so many had
 * been done. */
static inline void save_run(struct dsf_session *s, int64_t step)
{
    char *path = dsf_xasprintf("%s/job.toml", s->job->main.output);
    struct dsflow_err err;
    FILE *f;

    must(dsf_session_save(s, step, &err), &err);
    f = fopen(path, "w");
    assert_non_null(f);
    must(dsf_job_write(s->job, f), &err);
    assert_int_equal(fclose(f), 0);
    free(path);
}

/* The same of the small job with these keys. */
static inline void make_run(const char *keys, int64_t step)
{
    struct dsf_session s;

    open_small(&s, TO_WEIGHTS, keys);
    save_run(&s, step);
    dsf_session_close(&s);
}

#endif
