/* saved_numbers.c - what a checkpoint holds in its manifest, each number by
 * name. */
#include "train/saved_numbers.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* "control.step": what is kept, and its field. */
static char *name_number(const struct dsflow_kept *kept,
                         const struct dsflow_kept_field *field)
{
    return dsf_xasprintf("%s.%s", kept->name, field->name);
}

void dsf_numbers_list(struct dsf_session *s, struct dsf_ckpt_fields *numbers)
{
    const struct dsf_kept_list *kept = &s->plan->kept;

    for (unsigned k = 0; k < kept->n; k++) {
        const struct dsflow_kept_field *f = kept->v[k].fields;
        const void *at =
            f == NULL ? NULL : dsf_contents_map(&s->contents, 0, k, DSFLOW_R);

        for (; f != NULL && f->name != NULL; f++) {
            char *name = name_number(&kept->v[k], f);

            dsf_ckpt_fields_add(numbers, name, dsf_kept_field_text(f, at).s);
            free(name);
        }
    }
}

/* In checkpoints of before these are arrays of words, in this order. */
static const struct {
    unsigned kind;
    const char *fields[7];
} before[] = {
    { DSF_KEPT_CURSOR, { "step", "first" } },
    { DSF_KEPT_CONTROL,
      { "step", "lr", "correction1", "correction2", "norm", "scale" } },
};

static int read_words(struct dsf_session *s, const struct dsf_st_file *file,
                      unsigned kind, const char *const *fields,
                      struct dsflow_err *err)
{
    const struct dsflow_kept *kept = &s->plan->kept.v[kind];
    const struct dsf_st_tensor *t = dsf_st_find(file, kept->name);
    char *to = dsf_contents_map(&s->contents, 0, kind, DSFLOW_RW);
    int status = DSFLOW_OK;

    for (size_t i = 0; fields[i] != NULL && status == DSFLOW_OK; i++) {
        const struct dsflow_kept_field *f = kept->fields;
        const size_t each = sizeof(int64_t);

        while (strcmp(f->name, fields[i]) != 0)
            f++;
        if (t == NULL || t->dtype != DSFLOW_INT64 || t->bytes < (i + 1) * each)
            return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: has no %s",
                               dsf_st_path(file), kept->name, fields[i]);
        status = dsf_st_read(file, t, i * each, each, to + f->at, err);
    }
    return status;
}

static int read_before(struct dsf_session *s, const char *folder,
                       struct dsflow_err *err)
{
    struct dsf_st_file *file;
    int status = dsf_ckpt_open_part(folder, "states", &file, err);

    if (status < 0)
        return status;
    for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++)
        if (status == DSFLOW_OK)
            status = read_words(s, file, before[i].kind, before[i].fields, err);
    dsf_st_close(file);
    return status;
}

static int read_number(const struct dsflow_kept *kept,
                       const struct dsflow_kept_field *field,
                       const struct dsf_ckpt_fields *numbers, void *to,
                       const char *folder, struct dsflow_err *err)
{
    char *name = name_number(kept, field);
    const char *text = dsf_ckpt_fields_find(numbers, name);
    int status = DSFLOW_OK;

    /* A field that the program of then did not have is 0. */
    if (text != NULL && dsf_kept_field_read(field, text, to, NULL) < 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s/manifest.json: numbers: %s: %.60s: expected a "
                             "number",
                             folder, name, text);
    free(name);
    return status;
}

/* Counts, of which the steps that follow are made. */
static int check_counts(struct dsf_session *s, const char *folder,
                        struct dsflow_err *err)
{
    const int64_t *cursor =
        dsf_contents_map(&s->contents, 0, DSF_KEPT_CURSOR, DSFLOW_R);
    const struct dsflow_control *control =
        dsf_contents_map(&s->contents, 0, DSF_KEPT_CONTROL, DSFLOW_R);
    const struct {
        const char *name;
        int64_t n;
    } counts[] = { { "cursor.step", cursor[0] },
                   { "control.step", control->updates },
                   { "control.skipped", control->skipped } };

    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        if (counts[i].n < 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s/manifest.json: numbers: %s: %lld: expected "
                               "at least 0",
                               folder, counts[i].name, (long long)counts[i].n);
    return DSFLOW_OK;
}

int dsf_numbers_read(struct dsf_session *s, const char *folder,
                     struct dsflow_err *err)
{
    const struct dsf_kept_list *kept = &s->plan->kept;
    struct dsf_ckpt_fields numbers = { 0 };
    int status = dsf_ckpt_fields_read(folder, "numbers", &numbers, err);

    for (unsigned k = 0; k < kept->n; k++)
        if (kept->v[k].fields != NULL)
            memset(dsf_contents_map(&s->contents, 0, k, DSFLOW_W), 0,
                   dsflow_dtype_bytes(kept->v[k].dtype,
                                      dsf_kept_elems(&kept->v[k])));
    if (status == DSFLOW_OK && numbers.n == 0)
        return read_before(s, folder, err);
    for (unsigned k = 0; k < kept->n; k++) {
        const struct dsflow_kept_field *f = kept->v[k].fields;

        for (; f != NULL && f->name != NULL && status == DSFLOW_OK; f++)
            status = read_number(
                &kept->v[k], f, &numbers,
                dsf_contents_map(&s->contents, 0, k, DSFLOW_RW), folder, err);
    }
    dsf_ckpt_fields_fini(&numbers);
    return status == DSFLOW_OK ? check_counts(s, folder, err) : status;
}
