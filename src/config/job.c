/* job.c - a job, read through its tables. */
#include "config/job_private.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "config/toml_read.h"
#include "config/unknown.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

double dsf_job_ranks(const struct dsf_job *job)
{
    double ranks = 1;

    for (unsigned i = 0; dsflow_axis_at(i) != NULL; i++)
        ranks *= (double)job->mesh.size[i];
    return ranks;
}

/* The element that "name[2]" means: it may be the first that is not there. */
static int find_row(const struct dsf_job *job, const char *place,
                    const struct dsf_table *t, const char *name, unsigned *row,
                    struct dsflow_err *err)
{
    const char *index = name + strcspn(name, "[");
    unsigned n = t->rows != NULL ? dsf_job_rows(job, t) : 0;
    char *end;

    *row = 0;
    if (*index == '\0' && t->rows == NULL)
        return DSFLOW_OK;
    if (t->rows == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %.60s: expected [%s], which does not repeat",
                           place, name, t->name);
    if (*index == '\0')
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: expected [[%s]], of which %s[%u] is the "
                           "next",
                           place, name, t->name, t->name, n);
    *row = (unsigned)strtoul(index + 1, &end, 10);
    if (strcmp(end, "]") != 0 || index[1] < '0' || index[1] > '9' || *row > n)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %.60s: expected %s[0] to %s[%u], which would "
                           "be the next",
                           place, name, t->name, t->name, n);
    return DSFLOW_OK;
}

/* Set one key. `place` is "job.toml:12" or "--set"; on a wrong value the
 * message has the table and the key after it. */
static int set_key(struct dsf_job *job, const char *place, enum dsf_said said,
                   const struct dsf_toml_entry *e, struct dsflow_err *err)
{
    const struct dsf_table *table;
    const struct dsflow_option *option = NULL;
    struct dsf_row_name name;
    unsigned row;
    char *text;
    int status;

    if (e->table[0] == '\0')
        return dsf_key_alone(place, e->key, err);
    table = dsf_job_find_table(e->table);
    if (table == NULL || dsf_job_fields(job, dsf_table_owner(table)) == NULL)
        return dsf_unknown_table(place, e->table, err);
    status = find_row(job, place, table, e->table, &row, err);
    if (status < 0)
        return status;
    if (e->key[0] != '\0' || e->value.type != DSF_TOML_TABLE) {
        option = dsf_option_find(table->options, e->key);
        if (option == NULL)
            return dsf_unknown_key(place, table, e->key, err);
    }
    name = dsf_row_name(table, row);
    if (table->rows != NULL && row == dsf_job_rows(job, table)) {
        dsf_job_add_row(job, table);
        dsf_job_add_place(job, name.s, "", "",
                          dsf_xasprintf("%s: %s", place, name.s));
    }
    if (option == NULL)
        return DSFLOW_OK;
    text = dsf_xasprintf("%s: %s: %s", place, name.s, e->key);
    status = dsf_option_set(option, (void *)dsf_job_row(job, table, row),
                            &e->value, err);
    if (status < 0)
        dsflow_fail_in(err, status, text);
    if (status == DSFLOW_OK && option->type == DSFLOW_TABLES)
        dsf_job_forget_rows(job, name.s, e->key);
    if (status == DSFLOW_OK && said == DSF_GIVEN)
        dsf_job_add_place(job, name.s, e->key, e->value.text, text);
    else
        free(text);
    return status;
}

/* The option of table.key; NULL: there is none. */
static const struct dsflow_option *find_option(const char *table,
                                               const char *key)
{
    const struct dsf_table *t = dsf_job_find_table(table);

    return t != NULL ? dsf_option_find(t->options, key) : NULL;
}

/* "table.key=value", where the table may be one in another, or "name[0]". */
int dsf_job_set(struct dsf_job *job, const char *set, enum dsf_said said,
                struct dsflow_err *err)
{
    const char *equals = strchr(set, '=');
    const char *dot =
        equals != NULL ? memrchr(set, '.', (size_t)(equals - set)) : NULL;
    /* As in a file: one with another text in it could not be read back. */
    const char *bad = set + dsf_utf8_valid(set, strlen(set));
    struct dsf_toml toml = { 0 };
    struct dsf_toml_entry *e;
    char *table, *key;
    int status;

    if (*bad != '\0')
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "--set %.100s: a byte 0x%02x: expected text in UTF-8", set,
            (unsigned)(unsigned char)*bad);
    if (dot == NULL || dot == set || dot + 1 == equals) {
        struct dsf_meant m;

        key = dsf_xstrndup(set, strcspn(set, "="));
        m = dsf_meant(key);

        free(key);
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--set %.100s: expected table.key=value%s%s", set,
                           m.s[0] != '\0' ? "; " : "", m.s);
    }
    table = dsf_xstrndup(set, (size_t)(dot - set));
    key = dsf_xstrndup(dot + 1, (size_t)(equals - dot - 1));
    dsf_option_read(find_option(table, key), equals + 1, &toml);
    e = &toml.v[0];
    free(e->table);
    free(e->key);
    e->table = table;
    e->key = key;
    status =
        set_key(job, said == DSF_GIVEN ? "--set" : job->path, said, e, err);
    dsf_toml_fini(&toml);
    return status;
}

/* Are the keys there that an element, or the table, must have? */
static int check_row(const struct dsf_job *job, const struct dsf_table *t,
                     const char *name, struct dsflow_err *err)
{
    const struct dsf_key_place *place = dsf_job_place(job, name, "");

    for (const struct dsflow_option *o = t->options; o->key != NULL; o++)
        if (o->fallback == NULL && !dsf_job_has(job, name, o->key))
            return dsflow_fail(
                err, DSFLOW_EINVAL, "%s%s%s: %s: is missing: expected %s",
                place != NULL ? place->text : job->path,
                place != NULL ? "" : ": ", place != NULL ? "" : name, o->key,
                dsf_option_expected(o).s);
    return DSFLOW_OK;
}

static int check_keys(const struct dsf_job *job, const struct dsf_table *t,
                      struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < dsf_job_rows(job, t) && status == DSFLOW_OK; i++)
        status = check_row(job, t, dsf_row_name(t, i).s, err);
    return status;
}

int dsf_job_check_part(const struct dsf_job *job,
                       const struct dsflow_option *options,
                       struct dsflow_err *err)
{
    const struct dsf_table *t;
    int status = DSFLOW_OK;

    for (unsigned i = 0; status == DSFLOW_OK && options != NULL &&
                         (t = dsf_job_table_at(i)) != NULL;
         i++)
        if (dsf_table_owner(t)->options == options)
            status = check_keys(job, t, err);
    return status;
}

/* Those of a plug-in's table are wanted by who uses it. */
static int check_required(const struct dsf_job *job, struct dsflow_err *err)
{
    const struct dsf_table *t;
    int status = DSFLOW_OK;

    for (unsigned i = 0;
         status == DSFLOW_OK && (t = dsf_job_table_at(i)) != NULL; i++)
        if (t->size == 0)
            status = check_keys(job, t, err);
    return status;
}

int dsf_job_check_together(const struct dsf_job *job, struct dsflow_err *err)
{
    if (job->main.output[0] == '\0')
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "job", "output",
                            "\"\": expected a folder");
    if (job->machine.gpus != 0 && job->machine.virtuals > 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "machine", "gpus",
                            "beside machine.virtual: expected one of them");
    return DSFLOW_OK;
}

/* Set the keys of [codelets] only, or all others. */
static int set_keys(struct dsf_job *job, const struct dsf_toml *toml,
                    const char *const *sets, unsigned nsets, bool codelets,
                    struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (size_t i = 0; i < toml->n && status == DSFLOW_OK; i++) {
        char *place;

        if ((strcmp(toml->v[i].table, "codelets") == 0) != codelets)
            continue;
        place = toml->v[i].line > 0
                    ? dsf_xasprintf("%s:%d", job->path, toml->v[i].line)
                    : dsf_xstrdup(job->path);
        status = set_key(job, place, DSF_GIVEN, &toml->v[i], err);
        free(place);
    }
    for (unsigned i = 0; i < nsets && status == DSFLOW_OK; i++)
        if ((strncmp(sets[i], "codelets.", 9) == 0) == codelets)
            status = dsf_job_set(job, sets[i], DSF_GIVEN, err);
    return status;
}

static int load_libraries(const struct dsf_job *job, dsf_load_fn load,
                          struct dsflow_err *err)
{
    const struct dsflow_strings *list = &job->codelets.load;
    struct dsflow_err why;

    for (unsigned i = 0; i < list->n; i++) {
        if (load == NULL)
            return dsf_job_fail(job, err, DSFLOW_EINVAL, "codelets", "load",
                                "%.200s: no plug-ins are loaded here",
                                list->v[i]);
        if (load(list->v[i], &why) < 0)
            return dsf_job_fail(job, err, (int)why.status, "codelets", "load",
                                "%s", why.msg);
    }
    return DSFLOW_OK;
}

static void begin(struct dsf_job *job, const char *path)
{
    const struct dsf_table *t;

    memset(job, 0, sizeof(*job));
    job->path = dsf_xstrdup(path);
    job->where = dsf_xcalloc(1, sizeof(*job->where));
    for (int a = 0; a < DSF_MAX_AXES; a++) /* also of one that is loaded */
        job->mesh.size[a] = 1;
    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        if (t->size == 0)
            dsf_options_default(t->options, dsf_job_own_fields(job, t));
}

/* `edit` (or NULL) changes what the text says. */
static int parse(const char *text, size_t bytes, const char *path,
                 const char *const *sets, unsigned nsets, dsf_load_fn load,
                 dsf_edit_fn edit, struct dsf_job *job, struct dsflow_err *err)
{
    struct dsf_toml toml = { 0 };
    int status = dsf_toml_parse(text, bytes, path, &toml, err);

    begin(job, path);
    if (status == DSFLOW_OK && edit != NULL)
        edit(&toml, path);
    /* What is loaded may bring tables that the rest of the job has. */
    if (status == DSFLOW_OK)
        status = set_keys(job, &toml, sets, nsets, true, err);
    if (status == DSFLOW_OK)
        status = load_libraries(job, load, err);
    dsf_job_add_parts(job);
    if (status == DSFLOW_OK)
        status = set_keys(job, &toml, sets, nsets, false, err);
    if (status == DSFLOW_OK)
        status = check_required(job, err);
    if (status == DSFLOW_OK)
        status = dsf_job_check_together(job, err);
    dsf_toml_fini(&toml);
    if (status < 0)
        dsf_job_fini(job);
    return status;
}

int dsf_job_parse(const char *text, size_t bytes, const char *path,
                  const char *const *sets, unsigned nsets, dsf_load_fn load,
                  struct dsf_job *job, struct dsflow_err *err)
{
    return parse(text, bytes, path, sets, nsets, load, NULL, job, err);
}

static void forget_lines(struct dsf_toml *toml, const char *path)
{
    for (size_t i = 0; i < toml->n; i++)
        toml->v[i].line = 0;
}

int dsf_job_parse_written(const char *text, size_t bytes, const char *path,
                          dsf_load_fn load, struct dsf_job *job,
                          struct dsflow_err *err)
{
    return parse(text, bytes, path, NULL, 0, load, forget_lines, job, err);
}

/* The whole file, with a NUL after it; NULL on error. */
static char *read_file(const char *path, size_t *bytes, struct dsflow_err *err)
{
    enum { MOST = 1 << 20 }; /* nobody writes a longer job */
    FILE *f = fopen(path, "rb");
    struct stat st;
    char *text = NULL;
    size_t n;

    if (path[0] == '\0') {
        dsflow_fail(err, DSFLOW_EINVAL,
                    "\"\": expected the path of a job.toml, or the output "
                    "folder of a run");
    } else if (f == NULL || fstat(fileno(f), &st) < 0) {
        dsflow_fail(err, DSFLOW_EINVAL, "%s: %s", path, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        dsflow_fail(err, DSFLOW_EINVAL,
                    "%s: is a folder: expected a job.toml, or the output "
                    "folder of a run",
                    path);
    } else {
        text = dsf_xcalloc(MOST + 1, 1);
        n = fread(text, 1, MOST + 1, f);
        if (ferror(f) || n > MOST || n == 0) {
            dsflow_fail(err, DSFLOW_EINVAL, "%s: %s", path,
                        ferror(f) ? strerror(errno)
                        : n == 0  ? "is empty: expected a job.toml"
                                  : "is larger than 1 MiB: no job.toml");
            free(text);
            text = NULL;
        } else {
            *bytes = n;
            text[n] = '\0';
        }
    }
    if (f != NULL)
        fclose(f);
    return text;
}

int dsf_job_read_edited(const char *path, const char *const *sets,
                        unsigned nsets, dsf_load_fn load, dsf_edit_fn edit,
                        struct dsf_job *job, struct dsflow_err *err)
{
    size_t bytes;
    char *text = read_file(path, &bytes, err);
    int status;

    if (text == NULL)
        return DSFLOW_EINVAL;
    status = parse(text, bytes, path, sets, nsets, load, edit, job, err);
    free(text);
    return status;
}

int dsf_job_read(const char *path, const char *const *sets, unsigned nsets,
                 dsf_load_fn load, struct dsf_job *job, struct dsflow_err *err)
{
    return dsf_job_read_edited(path, sets, nsets, load, NULL, job, err);
}

int dsf_job_read_main(const char *path, struct dsf_job *job,
                      struct dsflow_err *err)
{
    struct dsf_toml toml = { 0 };
    size_t bytes;
    char *text = read_file(path, &bytes, err);
    int status;

    if (text == NULL)
        return DSFLOW_EINVAL;
    begin(job, path);
    status = dsf_toml_parse(text, bytes, path, &toml, err);
    for (size_t i = 0; i < toml.n && status == DSFLOW_OK; i++)
        if (strcmp(toml.v[i].table, "job") == 0)
            status = set_key(job, path, DSF_GIVEN, &toml.v[i], err);
    dsf_toml_fini(&toml);
    free(text);
    if (status < 0)
        dsf_job_fini(job);
    return status;
}

/* The value of a key as it was written, or its default. */
static const char *text_of(const struct dsf_job *job, const struct dsf_table *t,
                           unsigned row, const struct dsflow_option *o)
{
    const struct dsf_key_place *place =
        dsf_job_place(job, dsf_row_name(t, row).s, o->key);

    if (row >= dsf_job_rows(job, t))
        return "nothing";
    return place != NULL         ? place->value
           : o->fallback != NULL ? o->fallback
                                 : "nothing";
}

void dsf_job_compare(const struct dsf_job *a, const struct dsf_job *b,
                     void (*each)(void *user, const char *table,
                                  const char *key, const char *in_a,
                                  const char *in_b),
                     void *user)
{
    const struct dsf_table *t;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++) {
        unsigned na = dsf_job_rows(a, t), nb = dsf_job_rows(b, t);

        if (t->rows == NULL && (na == 0 || nb == 0))
            continue;
        for (unsigned r = 0; r < na || r < nb; r++)
            for (const struct dsflow_option *o = t->options; o->key != NULL;
                 o++)
                if (o->type != DSFLOW_TABLES &&
                    (r >= na || r >= nb ||
                     !dsf_option_same(o, dsf_job_row(a, t, r),
                                      dsf_job_row(b, t, r))))
                    each(user, dsf_row_name(t, r).s, o->key,
                         text_of(a, t, r, o), text_of(b, t, r, o));
    }
}

/* The keys of one table that were given, under its head. */
static void write_row(const struct dsf_job *job, const struct dsf_table *t,
                      unsigned row, FILE *out)
{
    struct dsf_row_name name = dsf_row_name(t, row);
    bool open = t->rows != NULL;

    if (open)
        fprintf(out, "[[%s]]\n", t->name);
    for (const struct dsflow_option *o = t->options; o->key != NULL; o++) {
        const struct dsf_key_place *place = dsf_job_place(job, name.s, o->key);

        if (place == NULL || o->type == DSFLOW_TABLES)
            continue;
        if (!open)
            fprintf(out, "[%s]\n", t->name);
        open = true;
        fprintf(out, "%s = %s\n", o->key, place->value);
    }
}

int dsf_job_write(const struct dsf_job *job, FILE *out)
{
    const struct dsf_table *t;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        for (unsigned row = 0; row < dsf_job_rows(job, t); row++)
            write_row(job, t, row, out);
    return ferror(out) ? DSFLOW_EIO : DSFLOW_OK;
}

void dsf_job_fini(struct dsf_job *job)
{
    const struct dsf_table *t;

    if (job->where == NULL)
        return;
    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        if (dsf_job_fields(job, t) != NULL)
            dsf_options_fini(t->options, dsf_job_own_fields(job, t));
    for (unsigned i = 0; i < job->nparts; i++)
        free(job->parts[i]);
    free(job->parts);
    dsf_job_where_free(job->where);
    free(job->path);
    memset(job, 0, sizeof(*job));
}
