/* test_saved.c - what a checkpoint holds of a session, and what of one that is
 * not whole, or of an older version, is taken. */
#include "small.h"

#include "plan/kept.h"
#include "policies/policies.h"
#include "tasks/components.h"

/* All that is kept: tensors as `put` has them, one number a unit and a kind. */
static void put_all(struct dsf_session *s)
{
    struct dsflow_err err;

    for (unsigned u = 0; u < s->model.nunits; u++)
        for (unsigned k = 0; k < s->plan->kept.n; k++) {
            int64_t n = s->model.units[u].elems;
            float *whole;

            if (s->plan->kept.v[k].kind != DSFLOW_KEPT_TENSORS ||
                s->plan->kept.v[k].transient)
                continue;
            must(dsf_unit_alloc(&s->model, u, &whole, &err), &err);
            for (int64_t i = 0; i < n; i++)
                whole[i] = (float)(100 * k + u + 1) + (float)i / 4096;
            must(dsf_contents_put(&s->contents, u, k, whole, &err), &err);
            free(whole);
        }
}

/* What is there of it: a state that part of a unit has not is zeroes there. */
static float number_of(const struct dsf_session *s, unsigned u, unsigned k,
                       int64_t at)
{
    const int64_t from =
        k < DSF_KEPT_STATE
            ? 0
            : dsf_reference_state_from(&s->model.units[u],
                                       dsf_job_optimizer(s->job, NULL),
                                       k - DSF_KEPT_STATE);

    return at < from ? 0 : (float)(100 * k + u + 1) + (float)at / 4096;
}

static void check_all(struct dsf_session *s)
{
    struct dsflow_err err;

    for (unsigned u = 0; u < s->model.nunits; u++)
        for (unsigned k = 0; k < s->plan->kept.n; k++) {
            float *whole;

            if (s->plan->kept.v[k].kind != DSFLOW_KEPT_TENSORS ||
                s->plan->kept.v[k].transient)
                continue;
            must(dsf_unit_alloc(&s->model, u, &whole, &err), &err);
            must(dsf_contents_get(&s->contents, u, k, whole, &err), &err);
            for (unsigned t = 0; t < s->model.units[u].ntensors; t++) {
                const struct dsf_tensor *of = &s->model.units[u].tensors[t];

                for (int64_t i = 0; i < of->rows * of->cols; i++)
                    assert_true(whole[of->offset + i] ==
                                number_of(s, u, k, of->offset + i));
            }
            free(whole);
        }
}

static const struct dsflow_control control_of_then = {
    .step = 7, .updates = 6, .skipped = 1, .lr = 0.125, .scale = 0.5, .norm = 3
};

static struct dsflow_control *control(struct dsf_session *s)
{
    return dsf_contents_map(&s->contents, 0, DSF_KEPT_CONTROL, DSFLOW_RW);
}

static int load(struct dsf_session *s, const char *checkpoint,
                struct dsflow_err *err)
{
    char *path = in_folder(checkpoint);
    int status = dsf_session_load(s, path, err);

    free(path);
    return status;
}

/* From each mesh to the next. */
static void carry(const char *name, const char *const *meshes, int n)
{
    for (int i = 0; i < n; i++) {
        char *one = dsf_xasprintf("job.output=@/%s%d batch.micro=1 %s", name, i,
                                  meshes[i]);
        char *two = dsf_xasprintf("batch.micro=1 %s", meshes[(i + 1) % n]);
        char *saved = dsf_xasprintf("@/%s%d/checkpoints/step-7", name, i);
        struct dsf_session from, to;
        struct dsflow_err err;

        open_small(&from, TO_OPEN, one);
        put_all(&from);
        *control(&from) = control_of_then;
        dsf_session_set_first(&from, -12);
        must(dsf_session_save(&from, 7, &err), &err);
        dsf_session_close(&from);

        open_small(&to, TO_WEIGHTS, two);
        must(load(&to, saved, &err), &err);
        check_all(&to);
        assert_int_equal(to.first, -12);
        assert_int_equal(control(&to)->updates, 6);
        assert_int_equal(control(&to)->skipped, 1);
        assert_true(control(&to)->lr == 0.125 && control(&to)->norm == 3);
        dsf_session_close(&to);
        free(saved);
        free(two);
        free(one);
    }
}

/* Whatever the mesh that writes it, and the one that reads it. */
static void a_checkpoint_has_all_that_a_step_changes(void **state)
{
    static const char *const meshes[] = {
        "", "mesh.data=2 zero.stage=3", "mesh.tensor=2",
        "offload.optimizer=cpu offload.params=cpu"
    };

    carry("mesh", meshes, sizeof(meshes) / sizeof(*meshes));
}

/* Of matrices there are no second moments. */
static void a_checkpoint_has_zeroes_for_what_is_not_kept(void **state)
{
    static const char *const meshes[] = {
        "optimizer.kind=muon",
        "optimizer.kind=muon mesh.data=2 zero.stage=1",
        "optimizer.kind=muon offload.optimizer=cpu",
    };

    carry("muon", meshes, sizeof(meshes) / sizeof(*meshes));
}

/* Load a checkpoint with `to` in the place of `from` in its manifest, into the
 * session that wrote it, which is to be closed. */
static int load_edited(const char *from, const char *to, struct dsf_session *s,
                       struct dsflow_err *err)
{
    static int number; /* the same step of the same run is not saved again */
    char *keys = dsf_xasprintf("job.output=@/edited%d", ++number);
    char *path = dsf_xasprintf("@/edited%d/checkpoints/step-7", number);
    char *manifest = dsf_xasprintf("%s/manifest.json", path + 2);
    int status;

    open_small(s, TO_OPEN, keys);
    put_all(s);
    *control(s) = control_of_then;
    must(dsf_session_save(s, 7, err), err);
    edit(manifest, from, to);
    err->msg[0] = '\0';
    status = load(s, path, err);
    free(manifest);
    free(path);
    free(keys);
    return status;
}

static void a_number_that_is_none_is_named(void **state)
{
    struct dsf_session s;
    struct dsflow_err err;

    assert_int_equal(load_edited("\"control.lr\": \"0.125\"",
                                 "\"control.lr\": \"fast\"", &s, &err),
                     DSFLOW_EINVAL);
    check_message(&err, "/edited1/checkpoints/step-7/manifest.json: numbers: "
                        "control.lr: fast: expected a number");
    dsf_session_close(&s);
}

static void a_count_below_zero_is_named(void **state)
{
    struct dsf_session s;
    struct dsflow_err err;
    char *then = dsf_xasprintf("\"control.skipped\": \"%lld\"",
                               (long long)control_of_then.skipped);

    assert_int_equal(load_edited(then, "\"control.skipped\": \"-1\"", &s, &err),
                     DSFLOW_EINVAL);
    check_message(&err, "/edited2/checkpoints/step-7/manifest.json: numbers: "
                        "control.skipped: -1: expected at least 0");
    dsf_session_close(&s);
    free(then);
}

/* As where it was written before there was such a number. */
static void a_number_that_is_not_there_is_zero(void **state)
{
    struct dsf_session s;
    struct dsflow_err err;

    must(load_edited("\"control.skipped\"", "\"control.other\"", &s, &err),
         &err);
    assert_int_equal(control(&s)->skipped, 0);
    assert_int_equal(control(&s)->updates, 6);
    check_all(&s);
    dsf_session_close(&s);
}

static void states_of_another_optimizer_are_refused(void **state)
{
    struct dsf_session s;
    struct dsflow_err err;

    open_small(&s, TO_OPEN, "optimizer.kind=lion job.output=@/lion");
    must(dsf_session_save(&s, 7, &err), &err);
    dsf_session_close(&s);
    open_small(&s, TO_OPEN, "");
    assert_int_equal(load(&s, "@/lion/checkpoints/step-7", &err),
                     DSFLOW_EINVAL);
    check_message(&err, "/lion/checkpoints/step-7/states.safetensors: has no "
                        "tensor v.embed");
    dsf_session_close(&s);
}

/* The newest `keep` stay. */
static void old_checkpoints_go(void **state)
{
    struct dsf_session s;
    struct dsflow_err err;

    open_small(&s, TO_WEIGHTS, "job.output=@/few checkpoint.keep=2");
    for (int64_t step = 1; step <= 4; step++)
        must(dsf_session_save(&s, step, &err), &err);
    assert_false(is_there("@/few/checkpoints/step-2"));
    assert_true(is_there("@/few/checkpoints/step-3/states.safetensors"));
    assert_true(is_there("@/few/checkpoints/step-4/manifest.json"));
    dsf_session_close(&s);
}

static void a_checkpoint_that_cannot_be_written_leaves_nothing(void **state)
{
    struct dsf_session s;
    struct dsflow_err err;

    open_small(&s, TO_WEIGHTS, "job.output=@/full");
    write_text("full/checkpoints", "in the way");
    assert_int_equal(dsf_session_save(&s, 1, &err), DSFLOW_EIO);
    check_message(&err, "/full/checkpoints/step-1.tmp: Not a directory");
    dsf_session_close(&s);
}

/* Parameters and two states of each, and what is offloaded to that disk. */
static void there_must_be_room_for_checkpoints(void **state)
{
    struct dsf_session s;
    struct dsflow_err err;

    open_small(&s, TO_PLAN, "");
    must(dsf_session_check_room(&s, 0, false, &err), &err);
    dsf_session_close(&s);
    open_small(&s, TO_MODEL,
               "model.width=65536 model.layers=1024 model.heads=512");
    assert_int_equal(dsf_session_check_room(&s, 0, false, &err), DSFLOW_EFIT);
    cut_folder(err.msg);
    assert_non_null(strstr(err.msg, "/job.toml:4: job: output: /run: a "
                                    "checkpoint needs 576.1 TiB and "));
    must(dsf_session_check_room(&s, 10, false, &err), &err); /* it is over */
    dsf_session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_has_all_that_a_step_changes),
        cmocka_unit_test(a_checkpoint_has_zeroes_for_what_is_not_kept),
        cmocka_unit_test(a_number_that_is_none_is_named),
        cmocka_unit_test(a_count_below_zero_is_named),
        cmocka_unit_test(a_number_that_is_not_there_is_zero),
        cmocka_unit_test(states_of_another_optimizer_are_refused),
        cmocka_unit_test(old_checkpoints_go),
        cmocka_unit_test(a_checkpoint_that_cannot_be_written_leaves_nothing),
        cmocka_unit_test(there_must_be_room_for_checkpoints),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
