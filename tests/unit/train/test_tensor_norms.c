/* test_tensor_norms.c - which parameters are largest, wherever they are. */
#include "train/tensor_norms.h"

#include "same/trial.h"

#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void load_nothing(void *user, const struct dsflow_batch *b)
{
}

static void hear_nothing(void *user, const struct dsflow_step_report *report)
{
}

static const struct dsflow_host host = { NULL, load_nothing, hear_nothing };

/* All parameters of unit `u` are `x`, but for one, which is `one`. */
static void fill(struct dsf_contents *c, unsigned u, float x, float one)
{
    struct dsflow_err err;
    float *whole;

    must("fill", dsf_unit_alloc(c->model, u, &whole, &err), &err);
    memset(whole, 0, (size_t)c->model->units[u].elems * sizeof(*whole));
    for (unsigned i = 0; i < c->model->units[u].ntensors; i++) {
        const struct dsf_tensor *t = &c->model->units[u].tensors[i];

        for (int64_t k = 0; k < t->rows * t->cols; k++)
            whole[t->offset + k] = x;
    }
    whole[c->model->units[u].tensors[0].offset] = one;
    must("fill", dsf_contents_put(c, u, DSF_KEPT_PARAM, whole, &err), &err);
    free(whole);
}

static void check(const char *text)
{
    struct trial trial;
    struct dsf_contents c;
    struct dsf_tensor_norms norms;
    struct dsflow_exec *exec;
    struct dsflow_err err;
    const struct dsf_tensor *t;
    double want;

    plan_trial(&trial, text);
    must(text,
         dsflow_exec_open(trial.graph,
                          &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL), &host,
                          &exec, &err),
         &err);
    dsf_contents_init(&c, &trial.model, trial.graph, exec, &trial.plan->kept,
                      trial.plan->nparts);
    for (unsigned u = 0; u < trial.model.nunits; u++)
        fill(&c, u, 0.5f, 0.5f);
    fill(&c, 2, 3, 4); /* by far the largest */
    must(text, dsf_tensor_norms(&c, &norms, &err), &err);
    t = &trial.model.units[2].tensors[0];
    want = sqrt(9 * (double)(t->rows * t->cols - 1) + 16);
    assert_string_equal(norms.largest[0].name, t->name);
    assert_true(fabs(norms.largest[0].norm - want) < 1e-9 * want);
    assert_true(norms.largest[1].norm >= norms.largest[2].norm);
    assert_int_equal(norms.n, DSF_LARGEST_NORMS);
    assert_int_equal(norms.ninfinite, 0);
    assert_null(strstr(dsf_norms_text(&norms).s, "finite"));

    fill(&c, 4, 0, INFINITY);
    fill(&c, 1, 0, NAN);
    must(text, dsf_tensor_norms(&c, &norms, &err), &err);
    assert_true(isnan(norms.largest[0].norm) && isinf(norms.largest[1].norm));
    assert_string_equal(norms.largest[0].name,
                        trial.model.units[1].tensors[0].name);
    assert_string_equal(norms.largest[1].name,
                        trial.model.units[4].tensors[0].name);
    assert_string_equal(norms.largest[2].name, t->name);
    assert_int_equal(norms.ninfinite, 2);
    assert_non_null(strstr(dsf_norms_text(&norms).s, "(2 of "));

    dsf_contents_fini(&c);
    dsflow_exec_close(exec);
    end_trial(&trial);
}

static void the_largest_norms_are_found_on_every_mesh(void **state)
{
    check("gpt2");
    check("llama mesh.data=2 zero.stage=3");
    check("llama mesh.tensor=2 mesh.pipeline=2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_norms_are_found_on_every_mesh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
