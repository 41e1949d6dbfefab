/* test_checkpoint.c - a checkpoint is whole, or it is named. */
#include "checkpoint/checkpoint.h"

#include "base/alloc.h"
#include "lib/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static char dir[64];
static float weights[5000];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/test-checkpoint.XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

/* While names change: a checkpoint that must have one at each moment. */
static char *always;

int rename(const char *from, const char *to)
{
    int ret = renameat(AT_FDCWD, from, AT_FDCWD, to);

    assert_true(always == NULL || access(always, F_OK) == 0);
    return ret;
}

static int remove_dir(void **state)
{
    dsf_ckpt_remove_all(dir);
    return rmdir(dir);
}

static int save(int64_t step, int64_t keep, struct dsflow_err *err)
{
    struct dsf_ckpt_meta meta = { .step = step, .job = "j", .identity = 7 };
    struct dsf_st_tensor t = { .name = (char *)"w",
                               .dtype = DSFLOW_FP32,
                               .ndims = 1,
                               .dims = { 5000 },
                               .data = weights,
                               .bytes = sizeof(weights) };
    struct dsf_ckpt_part part = { .name = "params", .tensors = &t, .n = 1 };

    for (int i = 0; i < 5000; i++)
        weights[i] = (float)(step * 5000 + i);
    return dsf_ckpt_save(dir, &meta, &part, 1, keep, err);
}

static int64_t latest(int good, struct dsflow_err *err)
{
    struct dsf_ckpt_meta meta;
    char *path;
    int status = dsf_ckpt_latest(dir, good, &path, &meta, err);

    if (status == DSFLOW_OK && path == NULL)
        return 0;
    free(path);
    return status < 0 ? -1 : meta.step;
}

/* Turn one byte of a file of checkpoint `step` over. */
static void damage(int64_t step, const char *file, long at)
{
    char *path = dsf_xasprintf("%s/step-%lld/%s", dir, (long long)step, file);
    FILE *f = fopen(path, "r+b");
    int c;

    fseek(f, at, SEEK_SET);
    c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
    free(path);
}

static void what_is_saved_is_loaded(void **state)
{
    struct dsf_st_tensor t = { .name = (char *)"w",
                               .dtype = DSFLOW_FP32,
                               .bytes = sizeof(weights) };
    struct dsf_ckpt_part part = { .name = "params", .tensors = &t, .n = 1 };
    struct dsflow_err err;
    float *copy = calloc(5000, sizeof(*copy));
    char *path = dsf_xasprintf("%s/step-3", dir);

    assert_int_equal(latest(0, &err), 0);
    if (save(3, 0, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(latest(0, &err), 3);
    t.data = copy;
    assert_int_equal(dsf_ckpt_load(path, &part, 1, &err), DSFLOW_OK);
    assert_memory_equal(copy, weights, sizeof(weights));
    t.bytes = 400;
    assert_true(dsf_ckpt_load(path, &part, 1, &err) < 0);
    free(path);
    free(copy);
}

/* Tensors that pass by in pieces of 1000 numbers; what fails, fails at one. */
struct passing {
    float *v;
    unsigned fails; /* at this tensor + 1; 0: nothing does */
    unsigned order[4], n;
};

static int hand_out(void *user, unsigned i, struct dsf_st_writer *out,
                    struct dsflow_err *err)
{
    struct passing *p = user;
    int status = DSFLOW_OK;

    p->order[p->n++] = i;
    for (int k = 0; k < 5 && status == DSFLOW_OK; k++)
        status = p->fails == i + 1 && k == 3
                     ? dsflow_fail(err, DSFLOW_EIO, "the disk fails")
                     : dsf_st_put(out, p->v + 5000 * i + 1000 * k,
                                  1000 * sizeof(float), err);
    return status;
}

static int take_back(void *user, unsigned i, const struct dsf_st_file *file,
                     const struct dsf_st_tensor *from, struct dsflow_err *err)
{
    struct passing *p = user;
    int status = DSFLOW_OK;

    p->order[p->n++] = i;
    for (size_t k = 0; k < 5 && status == DSFLOW_OK; k++)
        status = dsf_st_read(file, from, 4000 * k, 4000,
                             p->v + 5000 * i + 1000 * k, err);
    return status;
}

static int save_passing(int64_t step, struct passing *p, bool in_memory,
                        struct dsflow_err *err)
{
    static const char *const names[] = { "x", "y", "z" };
    struct dsf_ckpt_meta meta = { .step = step, .job = "j", .identity = 7 };
    struct dsf_st_tensor t[3];
    struct dsf_ckpt_part part = { "params", t, 3, hand_out, take_back, p };

    p->n = 0;
    for (int i = 0; i < 3; i++)
        t[i] =
            (struct dsf_st_tensor){ .name = (char *)names[i],
                                    .dtype = DSFLOW_FP32,
                                    .ndims = 1,
                                    .dims = { 5000 },
                                    .data = in_memory ? p->v + 5000 * i : NULL,
                                    .bytes = 20000 };
    return dsf_ckpt_save(dir, &meta, &part, 1, 0, err);
}

static int load_passing(int64_t step, struct passing *p, struct dsflow_err *err)
{
    struct dsf_st_tensor t[] = {
        { .name = (char *)"z", .dtype = DSFLOW_FP32, .bytes = 20000 },
        { .name = (char *)"x", .dtype = DSFLOW_FP32, .bytes = 20000 },
    };
    struct dsf_ckpt_part part = { "params", t, 2, hand_out, take_back, p };
    char *path = dsf_xasprintf("%s/step-%lld", dir, (long long)step);
    int status;

    p->n = 0;
    status = dsf_ckpt_load(path, &part, 1, err);
    free(path);
    return status;
}

static void what_passes_by_is_the_same_checkpoint(void **state)
{
    static float v[15000], back[15000];
    struct passing out = { .v = v }, in = { .v = back };
    struct dsflow_err err;
    char *cmp = dsf_xasprintf("cmp %s/step-1/params.safetensors "
                              "%s/step-2/params.safetensors",
                              dir, dir);

    for (int i = 0; i < 15000; i++)
        v[i] = (float)i / 7;
    assert_int_equal(save_passing(1, &out, true, &err), DSFLOW_OK);
    assert_int_equal(out.n, 0);
    assert_int_equal(save_passing(2, &out, false, &err), DSFLOW_OK);
    assert_int_equal(out.n, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(out.order[i], i);
    assert_int_equal(system(cmp), 0);
    assert_int_equal(latest(0, &err), 2);
    /* One that was written whole comes back in pieces. */
    assert_int_equal(load_passing(1, &in, &err), DSFLOW_OK);
    assert_int_equal(in.n, 2);
    assert_memory_equal(back, v + 10000, 20000);
    assert_memory_equal(back + 5000, v, 20000);
    free(cmp);
}

static void what_fails_while_it_is_saved_leaves_the_one_before(void **state)
{
    static float v[15000];
    struct passing p = { .v = v };
    struct dsflow_err err;
    char *left = dsf_xasprintf("%s/step-2.tmp", dir);

    assert_int_equal(save_passing(1, &p, false, &err), DSFLOW_OK);
    p.fails = 2;
    assert_int_equal(save_passing(2, &p, false, &err), DSFLOW_EIO);
    assert_string_equal(err.msg, "the disk fails");
    assert_int_equal(p.n, 2);
    assert_int_equal(latest(0, &err), 1);
    assert_int_not_equal(access(left, F_OK), 0);
    free(left);
}

static void only_the_newest_are_kept(void **state)
{
    struct dsflow_err err;

    for (int step = 1; step <= 5; step++)
        assert_int_equal(save(step, 2, &err), DSFLOW_OK);
    for (int step = 1; step <= 5; step++) {
        char *path = dsf_xasprintf("%s/step-%d", dir, step);

        assert_int_equal(access(path, F_OK) == 0, step >= 4);
        free(path);
    }
    assert_int_equal(latest(0, &err), 5);
}

/* As where a user has moved one to another disk. */
static void what_a_link_points_to_stays(void **state)
{
    char *path = dsf_xasprintf("%s/step-1", dir);
    char *away = dsf_xasprintf("%s/away", dir);
    char *file = dsf_xasprintf("%s/params.safetensors", away);
    struct dsflow_err err;
    struct stat st;

    save(1, 1, &err);
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(symlink("away", path), 0);
    assert_int_equal(save(2, 1, &err), DSFLOW_OK);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(lstat(path, &st), -1);
    assert_int_equal(rename(away, path), 0); /* removed with the others */
    free(file);
    free(away);
    free(path);
}

static void one_of_another_run_makes_way_at_once(void **state)
{
    struct dsf_ckpt_meta meta = { .step = 1, .job = "j", .identity = 8 }, there;
    struct dsf_ckpt_part part = { .name = "params" };
    char *path = dsf_xasprintf("%s/step-1", dir);
    struct dsflow_err err;

    save(1, 0, &err);
    always = dsf_xasprintf("%s/manifest.json", path);
    assert_int_equal(dsf_ckpt_save(dir, &meta, &part, 1, 0, &err), DSFLOW_OK);
    free(always);
    always = NULL;
    assert_int_equal(dsf_ckpt_verify(path, &there, &err), DSFLOW_OK);
    assert_int_equal(there.identity, 8);
    assert_int_equal(dsf_ckpt_use(dir).unfinished, 0);
    free(path);
}

static void a_damaged_one_is_named_and_the_one_before_offered(void **state)
{
    struct dsflow_err err;

    save(1, 0, &err);
    save(2, 0, &err);
    damage(2, "params.safetensors", 9000);
    assert_int_equal(latest(0, &err), -1);
    assert_non_null(strstr(err.msg, "step-2/params.safetensors: damaged"));
    assert_non_null(
        strstr(err.msg, "--resume=latest-good would take step 1"));
    assert_int_equal(latest(1, &err), 1);
    damage(1, "params.safetensors", 9000);
    assert_int_equal(latest(1, &err), -1);
    assert_non_null(strstr(err.msg, "none of the 2 checkpoints is whole"));
    /* Saved again, it is whole again. */
    assert_int_equal(save(2, 0, &err), DSFLOW_OK);
    assert_int_equal(latest(0, &err), 2);
}

static void a_manifest_that_is_no_json_is_named(void **state)
{
    struct dsflow_err err;

    save(1, 0, &err);
    damage(1, "manifest.json", 0);
    assert_int_equal(latest(0, &err), -1);
    assert_non_null(strstr(err.msg, "step-1/manifest.json:1: damaged"));
}

static void a_manifest_that_cannot_be_read_is_not_damaged(void **state)
{
    char *path = dsf_xasprintf("%s/step-1/manifest.json", dir);
    struct dsflow_err err;

    save(1, 0, &err);
    unlink(path);
    assert_int_equal(symlink("manifest.json", path), 0); /* to itself */
    assert_int_equal(latest(0, &err), -1);
    assert_non_null(strstr(err.msg, "step-1/manifest.json: Too many levels"));
    unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(latest(0, &err), -1);
    assert_non_null(strstr(err.msg, "step-1/manifest.json: Is a directory"));
    rmdir(path);
    free(path);
}

static void a_step_that_cannot_be_is_named(void **state)
{
    static const char *const steps[] = { "-1", "1.5", "\"1\"", "null" };
    char *path = dsf_xasprintf("%s/step-1/manifest.json", dir);
    struct dsflow_err err;

    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        FILE *f;

        save(1, 0, &err);
        f = fopen(path, "w");
        fprintf(f,
                "{\"version\": 2, \"job\": \"j\", \"step\": %s, "
                "\"files\": {}}",
                steps[i]);
        fclose(f);
        assert_int_equal(latest(0, &err), -1);
        assert_non_null(strstr(err.msg, "step-1/manifest.json: damaged: step: "
                                        "expected a whole number, at least 0"));
    }
    free(path);
}

static void a_long_name_is_cut_where_a_character_ends(void **state)
{
    struct dsf_ckpt_meta meta = { .step = 1, .job = "1" }, there;
    struct dsf_ckpt_part part = { .name = "params" };
    struct dsflow_err err;
    char *path = dsf_xasprintf("%s/step-1", dir);

    while (strlen(meta.job) < 61)
        strcat(meta.job, "\xc3\xa9");
    strcat(meta.job, "\xe2\x82"); /* of three bytes */
    assert_int_equal(strlen(meta.job), sizeof(meta.job) - 1);
    assert_int_equal(dsf_ckpt_save(dir, &meta, &part, 1, 0, &err), DSFLOW_OK);
    assert_int_equal(dsf_ckpt_verify(path, &there, &err), DSFLOW_OK);
    assert_int_equal(strlen(there.job), 61);
    assert_memory_equal(there.job, meta.job, 61);
    free(path);
}

static void a_full_disk_loses_nothing(void **state)
{
    struct rlimit limit, less;
    struct dsflow_err err;
    int status;

    save(1, 0, &err);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    less = (struct rlimit){ 8192, limit.rlim_max };
    setrlimit(RLIMIT_FSIZE, &less);
    status = save(2, 1, &err);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(status, DSFLOW_EIO);
    assert_non_null(strstr(err.msg, "cannot be written"));
    assert_int_equal(latest(0, &err), 1);
}

static void what_a_dead_run_left_is_removed(void **state)
{
    struct dsflow_err err;
    char *tmp = dsf_xasprintf("%s/step-9.tmp", dir);

    save(1, 0, &err);
    assert_int_equal(mkdir(tmp, 0777), 0);
    assert_int_equal(latest(0, &err), 1);
    save(2, 0, &err);
    assert_int_not_equal(access(tmp, F_OK), 0);
    free(tmp);
}

/* Folders that a user has made beside those of the run. */
static void other_names_stay(void **state)
{
    static const char *const names[] = { "step-1.old-lr", "step-1.tmp2",
                                         "step-best.old", "step-01",
                                         "step-99999999999999999999" };
    enum { N = sizeof(names) / sizeof(*names) };
    struct dsflow_err err;
    char *paths[N];

    for (int i = 0; i < N; i++) {
        paths[i] = dsf_xasprintf("%s/%s", dir, names[i]);
        assert_int_equal(mkdir(paths[i], 0777), 0);
    }
    save(2, 2, &err);
    save(3, 2, &err);
    assert_int_equal(dsf_ckpt_use(dir).n, 2);
    for (int i = 0; i < N; i++) {
        assert_int_equal(rmdir(paths[i]), 0);
        free(paths[i]);
    }
}

/* What a kill between the rename of a checkpoint and `latest` leaves. */
static void write_latest(const char *text)
{
    char *path = dsf_xasprintf("%s/latest", dir);
    FILE *f;

    unlink(path);
    if (text != NULL) {
        f = fopen(path, "w");
        fputs(text, f);
        fclose(f);
    }
    free(path);
}

static void name_latest(int step)
{
    struct dsflow_err err = { 0 };
    char *path = dsf_xasprintf("%s/step-%d", dir, step);

    assert_int_equal(dsf_ckpt_name_latest(path, &err), DSFLOW_OK);
    free(path);
}

static void dying_before_the_first_latest_loses_nothing(void **state)
{
    struct dsflow_err err = { 0 };

    save(1, 0, &err);
    write_latest(NULL);
    assert_int_equal(latest(0, &err), 1);
    assert_string_equal(err.msg, "");
    assert_int_equal(latest(1, &err), 1);
    save(2, 0, &err);
    write_latest(NULL);
    assert_int_equal(latest(0, &err), 2);
    damage(2, "params.safetensors", 9000);
    assert_int_equal(latest(0, &err), 1);
    damage(1, "params.safetensors", 9000);
    assert_int_equal(latest(0, &err), -1);
    assert_non_null(strstr(err.msg, "none of the 2 checkpoints is whole"));
}

static void dying_before_latest_is_moved_goes_on_from_it(void **state)
{
    struct dsflow_err err = { 0 };

    for (int step = 1; step <= 3; step++)
        save(step, 0, &err);
    write_latest("step-2\n");
    assert_int_equal(latest(0, &err), 2);
    assert_string_equal(err.msg, "");
    assert_int_equal(latest(1, &err), 3);
    name_latest(3);
    assert_int_equal(latest(0, &err), 3);
    name_latest(3);
    assert_int_equal(latest(0, &err), 3);
    name_latest(2);
    /* Step 3 is done again and is found whole; what is too old goes. */
    assert_int_equal(save(3, 2, &err), DSFLOW_OK);
    assert_int_equal(latest(0, &err), 3);
    damage(3, "params.safetensors", 9000);
    assert_int_equal(latest(1, &err), 2);
    damage(2, "params.safetensors", 9000);
    assert_int_equal(latest(1, &err), -1);
    assert_non_null(strstr(err.msg, "none of the 2 checkpoints is whole"));
}

static void a_latest_that_names_nothing_is_an_error(void **state)
{
    struct dsflow_err err = { 0 };

    save(1, 0, &err);
    write_latest("");
    assert_int_equal(latest(0, &err), -1);
    assert_non_null(strstr(err.msg, "latest: damaged"));
    assert_non_null(strstr(err.msg, "--resume=latest-good would take step 1"));
}

/* One of two processes: the even or the odd thousands of each tensor. */
struct half {
    int odd;
    int fails; /* with what it writes first, or its sums */
    uint64_t sum;
    bool ended;
};

/* And not one without checkpoints, from which a run would begin anew. */
static void a_folder_that_cannot_be_read_is_an_error(void **state)
{
    char *path = dsf_xasprintf("%s/step-1", dir), *found;
    struct dsflow_err err = { 0 };
    struct dsf_ckpt_meta meta;
    int fd = creat(path, 0666);

    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(dsf_ckpt_latest(path, 1, &found, &meta, &err), DSFLOW_EIO);
    assert_null(found);
    assert_non_null(strstr(err.msg, "step-1: Not a directory"));
    assert_int_equal(dsf_ckpt_list(path, NULL, NULL, &err), DSFLOW_EIO);
    free(path);
}

static int put_half(void *user, unsigned i, struct dsf_st_writer *out,
                    struct dsflow_err *err)
{
    const struct half *h = user;
    int status = DSFLOW_OK;

    if (h->fails)
        return dsflow_fail(err, DSFLOW_EIO, "no space");
    for (int k = 0; k < 5 && status == DSFLOW_OK; k++)
        status = k % 2 == h->odd
                     ? dsf_st_put(out, weights + 1000 * k, 4000, err)
                     : dsf_st_skip(out, 4000, err);
    return status;
}

static struct dsf_ckpt_part part_of(struct half *h, struct dsf_st_tensor *t)
{
    *t = (struct dsf_st_tensor){ .name = (char *)"w",
                                 .dtype = DSFLOW_FP32,
                                 .ndims = 1,
                                 .dims = { 5000 },
                                 .bytes = sizeof(weights) };
    return (struct dsf_ckpt_part){
        .name = "params", .tensors = t, .n = 1, .put = put_half, .user = h
    };
}

static int begin_other(void *user, const char *folder, struct dsflow_err *err)
{
    struct half *h = user;
    struct dsf_st_tensor t;
    struct dsf_ckpt_part part = part_of(h, &t);

    return h->fails == 1 ? DSFLOW_OK /* it is said at the end */
                         : dsf_ckpt_write_some(folder, &part, 1, &h->sum, err);
}

static int end_other(void *user, uint64_t *sums, struct dsflow_err *err)
{
    struct half *h = user;

    h->ended = true;
    sums[0] ^= h->sum;
    return h->fails == 1 ? dsflow_fail(err, DSFLOW_EIO, "process 1: no space")
                         : DSFLOW_OK;
}

static int save_by_two(int64_t step, struct half *own, struct half *other,
                       struct dsflow_err *err)
{
    const struct dsf_ckpt_others others = { other, begin_other, end_other };
    const struct dsf_ckpt_meta meta = {
        .step = step, .job = "j", .identity = 7, .others = &others
    };
    struct dsf_st_tensor t;
    struct dsf_ckpt_part part = part_of(own, &t);

    for (int i = 0; i < 5000; i++)
        weights[i] = (float)(step * 5000 + i);
    return dsf_ckpt_save(dir, &meta, &part, 1, 0, err);
}

static char *text_of(const char *name)
{
    static char text[30000];
    char *path = dsf_xasprintf("%s/step-2/%s", dir, name);
    FILE *f = fopen(path, "rb");
    size_t n = fread(text, 1, sizeof(text) - 1, f);

    text[n] = '\0';
    fclose(f);
    free(path);
    return text;
}

static void two_write_what_one_does(void **state)
{
    struct half own = { 0 }, other = { .odd = 1 };
    char *manifest, *tensors;
    struct dsflow_err err;

    assert_int_equal(save(2, 0, &err), DSFLOW_OK);
    manifest = strdup(text_of("manifest.json"));
    tensors = malloc(20000);
    memcpy(tensors, text_of("params.safetensors"), 20000);
    dsf_ckpt_remove_all(dir);
    assert_int_equal(save_by_two(2, &own, &other, &err), DSFLOW_OK);
    assert_true(other.ended);
    assert_int_equal(latest(0, &err), 2);
    assert_string_equal(text_of("manifest.json"), manifest);
    assert_memory_equal(text_of("params.safetensors"), tensors, 20000);
    free(manifest);
    free(tensors);
}

/* Whoever fails, the one before stays and nothing is left; who has begun is
 * waited for. */
static void what_one_of_two_cannot_write_is_no_checkpoint(void **state)
{
    struct half own = { 0 }, other = { .odd = 1 };
    struct dsflow_err err;

    assert_int_equal(save_by_two(1, &own, &other, &err), DSFLOW_OK);
    other = (struct half){ .odd = 1, .fails = 1 };
    assert_int_equal(save_by_two(2, &own, &other, &err), DSFLOW_EIO);
    assert_string_equal(err.msg, "process 1: no space");
    other = (struct half){ .odd = 1, .fails = 2 };
    assert_int_equal(save_by_two(2, &own, &other, &err), DSFLOW_EIO);
    assert_string_equal(err.msg, "no space");
    own.fails = 1;
    other = (struct half){ .odd = 1 };
    assert_int_equal(save_by_two(2, &own, &other, &err), DSFLOW_EIO);
    assert_true(other.ended);
    assert_string_equal(err.msg, "no space");
    assert_int_equal(latest(0, &err), 1);
    assert_int_equal(dsf_ckpt_use(dir).n, 1);
    assert_true(dsf_ckpt_use(dir).unfinished == 0);
}

/* Of version 1, with the hash of then. */
static void an_older_one_is_read(void **state)
{
    char *path = dsf_xasprintf("%s/step-2/manifest.json", dir);
    struct dsflow_err err;
    size_t bytes;
    char *tensors;
    FILE *f;

    assert_int_equal(save(2, 0, &err), DSFLOW_OK);
    bytes = 8 + 20000;
    tensors = text_of("params.safetensors");
    bytes += (unsigned char)tensors[0];
    f = fopen(path, "w");
    fprintf(f,
            "{\"version\": 1, \"job\": \"j\", \"step\": 2, \"files\": "
            "{\"params.safetensors\": {\"bytes\": %zu, \"xxh3\": "
            "\"%016llx\"}}}",
            bytes, (unsigned long long)XXH3_64bits(tensors, bytes));
    fclose(f);
    assert_int_equal(latest(0, &err), 2);
    damage(2, "params.safetensors", 9000);
    assert_int_equal(latest(0, &err), -1);
    free(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        TEST(what_is_saved_is_loaded),
        TEST(what_passes_by_is_the_same_checkpoint),
        TEST(what_fails_while_it_is_saved_leaves_the_one_before),
        TEST(only_the_newest_are_kept),
        TEST(what_a_link_points_to_stays),
        TEST(one_of_another_run_makes_way_at_once),
        TEST(a_damaged_one_is_named_and_the_one_before_offered),
        TEST(a_manifest_that_is_no_json_is_named),
        TEST(a_manifest_that_cannot_be_read_is_not_damaged),
        TEST(a_step_that_cannot_be_is_named),
        TEST(a_long_name_is_cut_where_a_character_ends),
        TEST(a_full_disk_loses_nothing),
        TEST(what_a_dead_run_left_is_removed),
        TEST(other_names_stay),
        TEST(dying_before_the_first_latest_loses_nothing),
        TEST(dying_before_latest_is_moved_goes_on_from_it),
        TEST(a_latest_that_names_nothing_is_an_error),
        TEST(a_folder_that_cannot_be_read_is_an_error),
        TEST(two_write_what_one_does),
        TEST(what_one_of_two_cannot_write_is_no_checkpoint),
        TEST(an_older_one_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
