/* test_verify.c - what a library brings is tried, and what is wrong is told. */
#include "verify/verify.h"

#include "base/registry.h"
#include "verify/try_component.h"
#include "verify/try_segment.h"

#include "lib/test.h"

#include <dsflow/codelet.h>
#include <string.h>

/* What came of each thing, by name. */
struct seen {
    unsigned n, faults;
    char text[800];
};

static void note(void *user, const struct dsf_verified *v)
{
    struct seen *seen = user;
    size_t at = strlen(seen->text);

    seen->n++;
    seen->faults += v->verdict.fault[0] != '\0';
    snprintf(seen->text + at, sizeof(seen->text) - at, "%s%s: %s%s; ", v->sort,
             v->name, v->verdict.fault,
             v->verdict.untried[0] != '\0' ? "not tried" : "");
    assert_true(v->verdict.untried[0] != '\0' || v->verdict.cases > 0);
}

static struct seen try_builtin(const char *const *names, unsigned n, bool *found)
{
    static const struct dsf_verify_options how = { .seed = 1,
                                                   .cases = 2,
                                                   .limit = 120 };
    struct seen seen = { .n = 0 };
    struct dsf_verify v = { .origin = DSF_BUILTIN,
                            .how = &how,
                            .names = names,
                            .nnames = n,
                            .seen = found,
                            .each = note,
                            .user = &seen };

    dsf_verify(&v);
    return seen;
}

static void one_of_each_sort_is_well(void **state)
{
    static const char *const names[] = { "out.backward_weight", "adam",
                                         "warmup_cosine",       "recompute",
                                         "none_such",           "report" };
    bool found[6] = { false };
    struct seen seen = try_builtin(names, 6, found);

    if (seen.faults > 0)
        fail_msg("%s", seen.text);
    if (seen.n != 5)
        fail_msg("%u were tried: %s", seen.n, seen.text);
    for (int i = 0; i < 6; i++)
        assert_int_equal(found[i], i != 4);
    assert_non_null(strstr(seen.text, "report: not tried; "));
    assert_non_null(strstr(seen.text, "schedule warmup_cosine: ; "));
    assert_non_null(strstr(seen.text, "policy recompute: ; "));
}

static void list(void *user, const struct dsf_verified *v)
{
    unsigned *n = user;

    assert_int_equal(v->verdict.cases, 0);
    ++*n;
}

static void what_there_is_can_be_listed(void **state)
{
    static const char *const names[] = { "adam", "report", "none_such" };
    bool found[3] = { false };
    unsigned n = 0;

    dsf_verify(&(struct dsf_verify){ .origin = DSF_BUILTIN,
                                     .names = names,
                                     .nnames = 3,
                                     .seen = found,
                                     .untried = true,
                                     .each = list,
                                     .user = &n });
    assert_int_equal(n, 2);
    assert_true(found[0] && found[1] && !found[2]);
}

static void a_kind_of_task_knows_its_segment(void **state)
{
    const struct dsflow_op *original = NULL;
    const struct dsflow_op *mlp = dsflow_op_find("mlp.forward");

    assert_non_null(mlp);
    assert_non_null(dsf_segment_of(mlp, &original));
    assert_ptr_equal(original, mlp);
    assert_null(dsf_segment_of(dsflow_op_find("adam"), &original));
}

static void keys_of_small_jobs_are_checked(void **state)
{
    struct dsf_verify_options how = { .cases = 1 };
    struct dsflow_err err;

    how.sets = (const char *[]){ "optimizer.lr=0.1" };
    how.nsets = 1;
    assert_int_equal(dsf_try_keys(&how, &err), DSFLOW_OK);
    how.sets = (const char *[]){ "optimizer.speed=9" };
    assert_int_equal(dsf_try_keys(&how, &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "speed"));
}

/* A rate below zero from step 3 on. */
static double fall(const void *part, const struct dsflow_lr_keys *keys,
                   int64_t step)
{
    return step < 3 ? 1 : -1;
}

static void try_falling(const void *user, struct dsf_verdict *verdict)
{
    static const struct dsflow_lr_schedule falling = {
        .abi = DSFLOW_LR_SCHEDULE_ABI,
        .name = "falling",
        .summary = "it falls",
        .lr = fall,
    };
    struct dsf_verify_options how = { .cases = 1 };

    dsflow_lr_schedule_register(&falling, NULL);
    dsf_try_schedule(&falling, &how, verdict);
}

static void a_rate_below_zero_is_found(void **state)
{
    struct dsf_verdict verdict = { .cases = 0 };

    dsf_child_run(try_falling, NULL, 60, &verdict);
    assert_non_null(strstr(verdict.fault, "expected a number from 0 on"));
}

/* The cases of a codelet are the same for a seed. */
static void make_twice(const void *user, struct dsf_verdict *verdict)
{
    const struct dsflow_codelet *c =
        dsflow_codelet_find(dsflow_op_find("out.forward"));
    struct dsf_case a, b;

    dsf_case_make(&a, c->op, c->trials, 5);
    dsf_case_make(&b, c->op, c->trials, 5);
    if (a.n != b.n || a.fresh != b.fresh)
        dsf_child_fault("other ports");
    for (unsigned i = 0; i < a.n; i++)
        if (a.shapes[i].bytes != b.shapes[i].bytes ||
            (a.before[i] == NULL) != (b.before[i] == NULL) ||
            (a.before[i] != NULL &&
             memcmp(a.before[i], b.before[i], a.shapes[i].bytes) != 0))
            dsf_child_fault("another port %u", i);
    dsf_case_free(&a);
    dsf_case_free(&b);
    verdict->cases = 1;
}

static void a_seed_gives_the_same_case(void **state)
{
    struct dsf_verdict verdict = { .cases = 0 };

    dsf_child_run(make_twice, NULL, 60, &verdict);
    assert_string_equal(verdict.fault, "");
    assert_int_equal(verdict.cases, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_each_sort_is_well),
        cmocka_unit_test(what_there_is_can_be_listed),
        cmocka_unit_test(a_kind_of_task_knows_its_segment),
        cmocka_unit_test(keys_of_small_jobs_are_checked),
        cmocka_unit_test(a_rate_below_zero_is_found),
        cmocka_unit_test(a_seed_gives_the_same_case),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
