/* to_universal.c - weights and moments of a checkpoint, a tensor at a time,
 * into the files of a universal folder. */
#include "foreign/to_universal.h"

#include "base/alloc.h"
#include "base/new_folder.h"
#include "base/notice.h"
#include "base/synced.h"
#include "foreign/universal_words.h"
#include "torch/torch_write.h"
#include "train/params.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCK = 1 << 20 }; /* numbers in memory at a time */

/* A folder on its way. */
struct universal {
    const struct dsf_session *s;
    struct dsf_universal_place place;
    char *folder;                 /* of the step: TMP/global_stepN_universal */
    struct dsf_st_file *parts[2]; /* "params", "states" */
    float *block;
};

/* What one file has: the numbers of a tensor, as they are in the checkpoint. */
struct one {
    struct universal *u;
    const struct dsf_st_file *file;
    const struct dsf_st_tensor *unit; /* that has them … */
    const struct dsf_tensor *t;       /* … from file_offset on */
};

static int put_rows(const struct one *o, struct dsf_torch_out *out,
                    struct dsflow_err *err)
{
    int64_t all = o->t->rows * o->t->cols, at = 0;
    int status = DSFLOW_OK;

    while (at < all && status == DSFLOW_OK) {
        int64_t n = all - at < BLOCK ? all - at : BLOCK;

        status =
            dsf_st_read_f32(o->file, o->unit, (size_t)(o->t->file_offset + at),
                            (size_t)n, o->u->block, err);
        if (status == DSFLOW_OK)
            status =
                dsf_torch_out(out, o->u->block, (size_t)n * sizeof(float), err);
        at += n;
    }
    return status;
}

/* Hugging Face has [cols][rows]: bands of columns, each read as pieces of rows.
 */
static int put_flipped(const struct one *o, struct dsf_torch_out *out,
                       struct dsflow_err *err)
{
    const struct dsf_tensor *t = o->t;
    int64_t band = BLOCK / t->rows < 1 ? 1 : BLOCK / t->rows;
    float *flipped = dsf_xcalloc((size_t)(band * t->rows), sizeof(*flipped));
    float *row = dsf_xcalloc((size_t)band, sizeof(*row));
    int status = DSFLOW_OK;

    for (int64_t c = 0; c < t->cols && status == DSFLOW_OK; c += band) {
        int64_t n = t->cols - c < band ? t->cols - c : band;

        for (int64_t r = 0; r < t->rows && status == DSFLOW_OK; r++) {
            status = dsf_st_read_f32(o->file, o->unit,
                                     (size_t)(t->file_offset + r * t->cols + c),
                                     (size_t)n, row, err);
            for (int64_t i = 0; i < n; i++)
                flipped[i * t->rows + r] = row[i];
        }
        if (status == DSFLOW_OK)
            status = dsf_torch_out(out, flipped,
                                   (size_t)(n * t->rows) * sizeof(float), err);
    }
    free(row);
    free(flipped);
    return status;
}

static int put_numbers(void *user, unsigned i, struct dsf_torch_out *out,
                       struct dsflow_err *err)
{
    const struct one *o = user;

    return o->t->transposed ? put_flipped(o, out, err) : put_rows(o, out, err);
}

/* Of unit `unit`, as the checkpoint has it in `part`: its name there. */
static int find_unit(struct one *o, int part, const char *name,
                     const struct dsf_unit *unit, struct dsflow_err *err)
{
    const struct dsf_st_tensor wanted = {
        .name = (char *)name,
        .dtype = DSFLOW_FP32,
        .bytes = (size_t)unit->file_elems * sizeof(float),
    };

    o->file = o->u->parts[part];
    o->unit = dsf_ckpt_find(o->file, &wanted, err);
    return o->unit != NULL ? DSFLOW_OK : DSFLOW_EINVAL;
}

/* {"cat_dim": 0, "param": tensor}; the rows of a vocabulary may be padded by
 * who loads them. */
static int write_state(struct one *o, const struct dsf_unit *unit,
                       const char *path, struct dsflow_err *err)
{
    const struct dsf_tensor *t = o->t;
    bool flipped = t->vector || t->transposed;
    const int64_t dims[2] = { flipped ? t->cols : t->rows,
                              t->transposed ? t->rows : t->cols };
    struct dsf_torch_tree *tree = dsf_torch_tree_new();
    int status;

    dsf_torch_put_dict(tree);
    dsf_torch_put_key(tree, "cat_dim");
    dsf_torch_put_int(tree, 0);
    if ((unit->matrices == DSFLOW_EMBEDDING || unit->matrices == DSFLOW_HEAD) &&
        !flipped && t->rows == o->u->s->model.dims.vocab) {
        dsf_torch_put_key(tree, "vocab_tensor");
        dsf_torch_put_bool(tree, true);
    }
    dsf_torch_put_key(tree, "param");
    dsf_torch_put_tensor(tree, DSFLOW_FP32, t->vector ? 1 : 2, dims);
    dsf_torch_put_end(tree);
    status = dsf_torch_write(tree, path, put_numbers, o, err);
    dsf_torch_tree_free(tree);
    return status;
}

static int make_folder(const char *path, struct dsflow_err *err)
{
    return mkdir(path, 0777) < 0 ? dsflow_fail(err, DSFLOW_EIO, "%s: %m", path)
                                 : DSFLOW_OK;
}

static int write_step(const struct universal *u, const char *folder,
                      struct dsflow_err *err)
{
    struct dsf_torch_tree *tree = dsf_torch_tree_new();
    char *path = dsf_xasprintf("%s/step.pt", folder);
    int status;

    dsf_torch_put_tensor(tree, DSFLOW_FP32, 0, NULL);
    status = dsf_torch_write(tree, path, dsf_universal_put_updates,
                             (void *)&u->place, err);
    dsf_torch_tree_free(tree);
    free(path);
    return status;
}

/* zero/NAME with its four files. */
static int write_tensor(struct universal *u, const struct dsf_unit *unit,
                        const struct dsf_tensor *t, struct dsflow_err *err)
{
    /* Each as DeepSpeed calls it, and as the checkpoint does. */
    static const char *const states[][2] = { { "fp32", "" },
                                             { "exp_avg", "m." },
                                             { "exp_avg_sq", "v." } };
    char *folder = dsf_xasprintf("%s/zero/%s", u->folder, t->name);
    struct one o = { .u = u, .t = t };
    int status = make_folder(folder, err);

    for (int i = 0; i < 3 && status == DSFLOW_OK; i++) {
        char *path = dsf_xasprintf("%s/%s.pt", folder, states[i][0]);
        char *name = dsf_xasprintf("%s%s", states[i][1], unit->name);

        status = find_unit(&o, i > 0, name, unit, err);
        if (status == DSFLOW_OK)
            status = write_state(&o, unit, path, err);
        free(name);
        free(path);
    }
    if (status == DSFLOW_OK)
        status = write_step(u, folder, err);
    if (status == DSFLOW_OK)
        status = dsf_synced_folder(folder, err);
    free(folder);
    return status;
}

static int write_tensors(struct universal *u, struct dsflow_err *err)
{
    const struct dsf_model *m = &u->s->model;
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < m->nunits && status == DSFLOW_OK; i++)
        for (unsigned j = 0; j < m->units[i].ntensors && status == DSFLOW_OK;
             j++)
            status =
                write_tensor(u, &m->units[i], &m->units[i].tensors[j], err);
    return status;
}

/* One of the files that say how far the run was. */
static int write_words(const struct universal *u, const char *name,
                       void (*say)(struct dsf_torch_tree *t,
                                   const struct dsf_universal_place *place,
                                   const struct dsf_model *m),
                       struct dsflow_err *err)
{
    struct dsf_torch_tree *tree = dsf_torch_tree_new();
    char *path = dsf_xasprintf("%s/%s", u->folder, name);
    int status;

    say(tree, &u->place, &u->s->model);
    status = dsf_torch_write(tree, path, dsf_universal_put_updates,
                             (void *)&u->place, err);
    dsf_torch_tree_free(tree);
    free(path);
    return status;
}

static int write_all(struct universal *u, const char *tmp,
                     struct dsflow_err *err)
{
    char *tag =
        dsf_xasprintf("global_step%" PRId64 "_universal", u->place.steps);
    char *zero = dsf_xasprintf("%s/%s/zero", tmp, tag);
    char *latest = dsf_xasprintf("%s/latest_universal", tmp);
    int status;

    u->folder = dsf_xasprintf("%s/%s", tmp, tag);
    status = make_folder(u->folder, err);
    if (status == DSFLOW_OK)
        status = make_folder(zero, err);
    if (status == DSFLOW_OK)
        status = write_tensors(u, err);
    if (status == DSFLOW_OK)
        status = write_words(u, "zero/optimizer_state.pt",
                             dsf_universal_say_optimizer, err);
    if (status == DSFLOW_OK)
        status = write_words(u, "mp_rank_00_model_states.pt",
                             dsf_universal_say_model, err);
    if (status == DSFLOW_OK)
        status = write_words(u, "zero_pp_rank_0_mp_rank_00_model_states.pt",
                             dsf_universal_say_model, err);
    if (status == DSFLOW_OK)
        status = dsf_synced_folder(zero, err);
    if (status == DSFLOW_OK)
        status = dsf_synced_folder(u->folder, err);
    if (status == DSFLOW_OK)
        status = dsf_synced_text(latest, false, tag, strlen(tag), err);
    if (status == DSFLOW_OK)
        status = dsf_synced_folder(tmp, err);
    free(u->folder);
    free(latest);
    free(zero);
    free(tag);
    return status;
}

/* --- what is exported --- */

static int check_optimizer(const struct dsf_session *s, struct dsflow_err *err)
{
    const char *kind = s->job->optimizer.kind;

    if (strcmp(kind, "adamw") == 0 || strcmp(kind, "adam") == 0)
        return DSFLOW_OK;
    return dsf_job_fail(s->job, err, DSFLOW_EINVAL, "optimizer", "kind",
                        "%s: expected adamw or adam: a universal folder has "
                        "Adam's two moments",
                        kind);
}

static int64_t number_of(const struct dsf_ckpt_fields *numbers,
                         const char *name)
{
    const char *text = dsf_ckpt_fields_find(numbers, name);

    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

/* The folder of the checkpoint, and how far the run was then. */
static int find_checkpoint(struct universal *u, int64_t step, char **folder,
                           struct dsflow_err *err)
{
    const struct dsf_session *s = u->s;
    struct dsf_ckpt_fields numbers = { 0 };
    struct dsf_ckpt_meta meta = { 0 };
    const char *lr;
    int status;

    *folder = NULL;
    status = dsf_params_find(s, step, folder, &meta, err);
    if (status == DSFLOW_OK && *folder == NULL)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: has no checkpoint: train it first",
                             s->job->main.output);
    if (status == DSFLOW_OK)
        status = dsf_ckpt_fields_read(*folder, "numbers", &numbers, err);
    lr = dsf_ckpt_fields_find(&numbers, "control.lr");
    u->place = (struct dsf_universal_place){
        .steps = meta.step,
        .skipped = number_of(&numbers, "control.skipped"),
        .samples = number_of(&numbers, "cursor.first") +
                   meta.step * s->job->batch.sequences,
        .lr = lr != NULL ? strtod(lr, NULL) : s->job->optimizer.lr,
        .betas = { s->job->optimizer.betas[0], s->job->optimizer.betas[1] },
        .eps = s->job->optimizer.eps,
    };
    dsf_ckpt_fields_fini(&numbers);
    return status;
}

static int write_beside(struct universal *u, const char *folder,
                        struct dsflow_err *err)
{
    char *beside;
    int status = dsf_new_folder_open(folder, &beside, err);

    if (status < 0)
        return status;
    return dsf_new_folder_close(folder, beside, write_all(u, beside, err), err);
}

int dsf_to_universal(const struct dsf_session *s, const char *folder,
                     int64_t step, int64_t *from, struct dsflow_err *err)
{
    static const char *const names[] = { "params", "states" };
    struct universal u = { .s = s };
    char *checkpoint = NULL;
    int status = check_optimizer(s, err);

    if (status == DSFLOW_OK)
        status = find_checkpoint(&u, step, &checkpoint, err);
    for (int i = 0; i < 2 && status == DSFLOW_OK; i++)
        status = dsf_ckpt_open_part(checkpoint, names[i], &u.parts[i], err);
    if (status == DSFLOW_OK) {
        dsf_notice("writing %.250s", folder);
        u.block = dsf_xcalloc(BLOCK, sizeof(*u.block));
        status = write_beside(&u, folder, err);
        *from = u.place.steps;
    }
    dsf_notice_end();
    free(u.block);
    for (int i = 0; i < 2; i++)
        dsf_st_close(u.parts[i]);
    free(checkpoint);
    return status;
}
