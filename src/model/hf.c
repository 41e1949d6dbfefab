/* hf.c - weights of a Hugging Face folder, read. */
#include "model/hf.h"

#include "base/alloc.h"
#include "base/half.h"
#include "base/units.h"
#include "model/hf_files.h"
#include "model/hf_tensor.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GPT-2's first files do not have it before their names. */
static const char prefix[] = "transformer.";

static const struct dsf_st_tensor *find(const struct dsf_hf_files *s,
                                        const char *name, size_t *shard)
{
    for (int bare = 0; bare < 2; bare++) {
        if (bare && strncmp(name, prefix, sizeof(prefix) - 1) != 0)
            break;
        for (*shard = 0; *shard < s->n; (*shard)++) {
            const struct dsf_st_tensor *t = dsf_st_find(
                s->files[*shard], bare ? name + sizeof(prefix) - 1 : name);

            if (t != NULL)
                return t;
        }
    }
    return NULL;
}

static int check_tensor(const struct dsf_tensor *t,
                        const struct dsf_st_tensor *in, const char *path,
                        struct dsflow_err *err)
{
    int64_t dims[2] = { t->transposed ? t->cols : t->rows,
                        t->transposed ? t->rows : t->cols };
    unsigned ndims = t->vector ? 1 : 2;
    const int64_t *want = t->vector ? &t->cols : dims;
    char has[200], wanted[64];

    if (!dsf_st_is_float(in->dtype))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: dtype %s: expected F32, F64, BF16 or F16",
                           path, in->name, dsf_st_dtype_name(in->dtype));
    if (in->ndims == ndims &&
        memcmp(in->dims, want, ndims * sizeof(*want)) == 0)
        return DSFLOW_OK;
    return dsflow_fail(
        err, DSFLOW_EINVAL, "%s: %s: shape %s: config.json makes it %s", path,
        in->name, dsf_shape_str(in->ndims, in->dims, has, sizeof(has)),
        dsf_shape_str(ndims, want, wanted, sizeof(wanted)));
}

/* Elements [first, first + n) of a tensor as fp32, in the order of the file,
 * none of them NaN or infinite. */
static int read_finite(const struct dsf_st_file *file,
                       const struct dsf_st_tensor *in, size_t first, size_t n,
                       float *to, struct dsflow_err *err)
{
    enum { BLOCK = 1 << 16 }; /* what was read is still in the cache */

    for (size_t i = 0; i < n; i += BLOCK) {
        size_t k = n - i < BLOCK ? n - i : BLOCK;
        int status = dsf_st_read_f32(file, in, first + i, k, to + i, err);
        uint32_t most = 0;

        if (status < 0)
            return status;
        for (size_t j = i; j < i + k; j++) {
            uint32_t magnitude = dsf_bits_of(to[j]) & 0x7fffffff;

            most = magnitude > most ? magnitude : most;
        }
        if (most < 0x7f800000)
            continue;
        while (isfinite(to[i]))
            i++;
        return dsf_hf_not_finite(dsf_st_path(file), in, first + i, to[i], err);
    }
    return DSFLOW_OK;
}

/* to[cols][rows] of a file's [rows][cols], or the other way round, in blocks
 * that stay in the cache. */
static int transpose(const struct dsf_tensor *t, const struct dsf_st_file *file,
                     const struct dsf_st_tensor *in, float *to,
                     struct dsflow_err *err)
{
    enum { BLOCK = 32 };
    float *rows = dsf_xcalloc(BLOCK * (size_t)t->rows, sizeof(*rows));
    int status = DSFLOW_OK;

    for (int64_t c = 0; c < t->cols && status == DSFLOW_OK; c += BLOCK) {
        int64_t n = t->cols - c < BLOCK ? t->cols - c : BLOCK;

        status = read_finite(file, in, (size_t)(c * t->rows),
                             (size_t)(n * t->rows), rows, err);
        if (status < 0)
            break;
        for (int64_t r = 0; r < t->rows; r++)
            for (int64_t i = 0; i < n; i++)
                to[r * t->cols + c + i] = rows[i * t->rows + r];
    }
    free(rows);
    return status;
}

static const char head[] = "lm_head.weight";

/* What files have that is not a weight, or is one again. */
static bool is_ignored(const struct dsf_model *m, const char *name)
{
    return dsf_hf_is_buffer(name) || (m->tied && strcmp(name, head) == 0);
}

/* The name that the model has for a tensor of a file; NULL: none. */
static const char *name_of(const struct dsf_model *m, const char *name)
{
    for (unsigned u = 0; u < m->nunits; u++)
        for (unsigned t = 0; t < m->units[u].ntensors; t++) {
            const char *ours = m->units[u].tensors[t].name;

            if (strcmp(name, ours) == 0 ||
                (strncmp(ours, prefix, sizeof(prefix) - 1) == 0 &&
                 strcmp(name, ours + sizeof(prefix) - 1) == 0))
                return ours;
        }
    return NULL;
}

/* A tensor of a file that is no unit's, or is there twice: the model is not
 * what it seems. */
static int check_used(const struct dsf_model *m, const struct dsf_hf_files *s,
                      size_t f, const struct dsf_st_tensor *in,
                      struct dsflow_err *err)
{
    const char *ours = name_of(m, in->name);
    const struct dsf_st_tensor *taken;
    size_t shard;

    if (is_ignored(m, in->name))
        return DSFLOW_OK;
    if (ours == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %.100s: a tensor that this model has no place "
                           "for",
                           dsf_st_path(s->files[f]), in->name);
    taken = find(s, ours, &shard);
    if (taken == in)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: %.100s: is also in %s%s%s: expected it once",
                       dsf_st_path(s->files[f]), in->name, s->names[shard],
                       strcmp(taken->name, in->name) == 0 ? "" : " as ",
                       strcmp(taken->name, in->name) == 0 ? "" : taken->name);
}

struct dsf_hf {
    const struct dsf_model *model;
    char *folder;
    struct dsf_hf_files shards;
};

/* A head that stands in the files of a tied model must be the embedding: its
 * shape now, its numbers when the embedding is read. */
static int check_head(const struct dsf_hf *hf, struct dsflow_err *err)
{
    const struct dsf_model *m = hf->model;
    size_t shard;
    const struct dsf_st_tensor *in = find(&hf->shards, head, &shard);

    if (!m->tied || in == NULL)
        return DSFLOW_OK;
    return check_tensor(&m->units[0].tensors[0], in,
                        dsf_st_path(hf->shards.files[shard]), err);
}

/* Is there every tensor of every unit, in its shape, and no other? */
static int check_all(const struct dsf_hf *hf, struct dsflow_err *err)
{
    const struct dsf_model *m = hf->model;
    const struct dsf_hf_files *s = &hf->shards;
    int status = check_head(hf, err);

    for (unsigned u = 0; u < m->nunits; u++)
        for (unsigned i = 0; i < m->units[u].ntensors && status >= 0; i++) {
            const struct dsf_tensor *t = &m->units[u].tensors[i];
            size_t shard;
            const struct dsf_st_tensor *in = find(s, t->name, &shard);

            if (in == NULL)
                return dsflow_fail(err, DSFLOW_EINVAL, "%s: has no tensor %s",
                                   hf->folder, t->name);
            status = check_tensor(t, in, dsf_st_path(s->files[shard]), err);
        }
    for (size_t f = 0; f < s->n; f++)
        for (unsigned i = 0; i < dsf_st_count(s->files[f]) && status >= 0; i++)
            status = check_used(m, s, f, dsf_st_at(s->files[f], i), err);
    return status;
}

int dsf_hf_open(const struct dsf_model *m, const char *folder,
                struct dsf_hf **out, struct dsflow_err *err)
{
    struct dsf_hf *hf = dsf_xcalloc(1, sizeof(*hf));
    int status;

    hf->model = m;
    hf->folder = dsf_xstrdup(folder);
    status = dsf_hf_files_open(&hf->shards, folder, err);
    if (status == DSFLOW_OK)
        status = check_all(hf, err);
    if (status < 0) {
        dsf_hf_close(hf);
        return status;
    }
    *out = hf;
    return DSFLOW_OK;
}

void dsf_hf_close(struct dsf_hf *hf)
{
    if (hf == NULL)
        return;
    dsf_hf_files_close(&hf->shards);
    free(hf->folder);
    free(hf);
}

const char *dsf_hf_place(const struct dsf_st_tensor *t, size_t i, char *text,
                         size_t size)
{
    int64_t at[8];

    for (unsigned d = t->ndims; d-- > 0; i /= (size_t)t->dims[d])
        at[d] = (int64_t)(i % (size_t)t->dims[d]);
    return dsf_shape_str(t->ndims, at, text, size);
}

int dsf_hf_not_finite(const char *path, const struct dsf_st_tensor *t, size_t i,
                      float value, struct dsflow_err *err)
{
    char place[200];

    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: %s: element %s is %s: expected finite numbers",
                       path, t->name, dsf_hf_place(t, i, place, sizeof(place)),
                       isnan(value) ? "nan"
                       : value > 0  ? "inf"
                                    : "-inf");
}

/* `embed` is the matrix that a tied model has for its head, too. */
static int compare_head(const struct dsf_hf *hf, const struct dsf_tensor *t,
                        const float *embed, struct dsflow_err *err)
{
    enum { BLOCK = 1 << 16 };
    size_t shard, n = (size_t)(t->rows * t->cols);
    const struct dsf_st_tensor *in = find(&hf->shards, head, &shard);
    const struct dsf_st_file *file = hf->shards.files[shard];
    float *block = dsf_xcalloc(BLOCK, sizeof(*block));
    int status = DSFLOW_OK;

    for (size_t i = 0; i < n && status == DSFLOW_OK; i += BLOCK) {
        size_t k = n - i < BLOCK ? n - i : BLOCK;

        status = dsf_st_read_f32(file, in, i, k, block, err);
        for (size_t j = 0; j < k && status == DSFLOW_OK; j++)
            if (block[j] != embed[i + j])
                status = dsflow_fail(
                    err, DSFLOW_EINVAL,
                    "%s: %s differs from %s, and tie_word_embeddings of "
                    "config.json makes them one: expected it to be false, or "
                    "no %s",
                    dsf_st_path(file), head, t->name, head);
    }
    free(block);
    return status;
}

static int read_tensor(const struct dsf_hf *hf, const struct dsf_tensor *t,
                       float *to, struct dsflow_err *err)
{
    size_t shard;
    const struct dsf_st_tensor *in = find(&hf->shards, t->name, &shard);
    const struct dsf_st_file *file = hf->shards.files[shard];

    if (t->transposed)
        return transpose(t, file, in, to, err);
    return read_finite(file, in, 0, (size_t)(t->rows * t->cols), to, err);
}

int dsf_hf_read(void *user, unsigned u, float *to, struct dsflow_err *err)
{
    const struct dsf_hf *hf = user;
    const struct dsf_model *m = hf->model;
    const struct dsf_unit *unit = &m->units[u];
    int status = DSFLOW_OK;
    size_t shard;

    memset(to, 0, (size_t)unit->elems * sizeof(float));
    for (unsigned i = 0; i < unit->ntensors && status == DSFLOW_OK; i++)
        status = read_tensor(hf, &unit->tensors[i],
                             to + unit->tensors[i].offset, err);
    if (status == DSFLOW_OK && m->tied && u == 0 &&
        find(&hf->shards, head, &shard) != NULL)
        status = compare_head(hf, &unit->tensors[0],
                              to + unit->tensors[0].offset, err);
    return status;
}
