/* test_model.c - where the tensors of a model stand, and its first values. */
#include "model/model.h"

#include "unit/model/made.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {
    "family = \"gpt2\"\nlayers = 3\nheads = 3\nwidth = 21\nvocab = 97\n"
    "context = 40\n",
    "family = \"llama\"\nlayers = 2\nheads = 4\nkv_heads = 2\nwidth = 36\n"
    "head_dim = 10\nffn_width = 31\nvocab = 61\ncontext = 16\ntied = false\n"
    "qkv_bias = true\n",
};

static void tensors_do_not_overlap_and_matrices_come_first(void **state)
{
    for (int k = 0; k < 2; k++) {
        struct dsf_model m;
        struct dsf_job job;
        int64_t params = 0;

        make(&m, &job, models[k]);
        for (unsigned u = 0; u < m.nunits; u++) {
            const struct dsf_unit *unit = &m.units[u];
            int64_t at = 0;

            assert_int_equal(unit->elems % 1024, 0);
            for (unsigned t = 0; t < unit->ntensors; t++) {
                const struct dsf_tensor *x = &unit->tensors[t];

                assert_true(x->offset >= at);
                at = x->offset + x->rows * x->cols;
                assert_true(x->vector ? x->offset >= unit->decay
                                      : at <= unit->decay);
                params += x->rows * x->cols;
            }
            assert_true(at <= unit->elems);
        }
        assert_int_equal(params, m.params);
        dsf_model_fini(&m);
        dsf_job_fini(&job);
    }
}

static void units_are_found_by_segment_and_layer(void **state)
{
    struct dsf_model m;
    struct dsf_job job;

    make(&m, &job, models[1]);
    assert_string_equal(
        m.units[dsf_model_unit(&m, -1, &dsf_segment_embed, 0)].name, "embed");
    assert_string_equal(
        m.units[dsf_model_unit(&m, 1, &dsf_segment_out, 0)].name, "layer1.out");
    assert_string_equal(m.units[dsf_model_unit(&m, m.layers, &dsf_segment_head,
                                               DSF_HEAD_UNIT_NORM)]
                            .name,
                        "norm");
    assert_string_equal(m.units[dsf_model_unit(&m, m.layers, &dsf_segment_head,
                                               DSF_HEAD_UNIT_W)]
                            .name,
                        "head");
    dsf_model_fini(&m);
    dsf_job_fini(&job);
}

static void random_values_follow_the_seed_and_gpt2s_rule(void **state)
{
    struct dsf_model m;
    struct dsf_job job;
    float *a, *b;
    unsigned u;

    make(&m, &job,
         "layers = 8\nheads = 4\nwidth = 128\nvocab = 300\ncontext = 64\n");
    for (u = 0; u < m.nunits; u++) {
        const struct dsf_unit *unit = &m.units[u];
        size_t bytes = (size_t)unit->elems * sizeof(float);

        a = malloc(bytes);
        b = malloc(bytes);
        dsf_model_randomize(&m, u, 5, a);
        dsf_model_randomize(&m, u, 5, b);
        assert_memory_equal(a, b, bytes);
        dsf_model_randomize(&m, u, 6, b);
        if (unit->decay > 0)
            assert_memory_not_equal(a, b, bytes);
        for (unsigned t = 0; t < unit->ntensors; t++) {
            const struct dsf_tensor *x = &unit->tensors[t];
            int64_t n = x->rows * x->cols;
            double sum = 0, squares = 0, want = 0.02;

            for (int64_t i = 0; i < n; i++) {
                sum += (double)a[x->offset + i];
                squares += (double)a[x->offset + i] * (double)a[x->offset + i];
            }
            if (x->vector) {
                assert_true(sum == (strstr(x->name, "ln_") != NULL &&
                                            strstr(x->name, "weight") != NULL
                                        ? (double)n
                                        : 0));
                continue;
            }
            if (strstr(x->name, "c_proj") != NULL)
                want /= 4; /* sqrt(2 * 8 layers) */
            assert_true(fabs(sqrt(squares / (double)n) / want - 1) < 0.05);
            assert_true(fabs(sum / (double)n) < 6 * want / sqrt((double)n));
        }
        free(a);
        free(b);
    }
    dsf_model_fini(&m);
    dsf_job_fini(&job);
}

/* A large matrix is drawn by several threads, a small one by this one alone:
 * numbers depend on their place, and not on who draws them. */
static void random_values_do_not_depend_on_who_draws_them(void **state)
{
    static const char *texts[] = {
        "layers = 1\nheads = 1\nwidth = 63\nvocab = 301\ncontext = 64\n",
        "layers = 1\nheads = 1\nwidth = 63\nvocab = 5001\ncontext = 64\n",
    };
    float *values[2];

    for (int i = 0; i < 2; i++) {
        struct dsf_model m;
        struct dsf_job job;
        size_t bytes;
        unsigned u;

        make(&m, &job, texts[i]);
        u = dsf_model_unit(&m, -1, &dsf_segment_embed, 0);
        bytes = (size_t)m.units[u].elems * sizeof(float);
        values[i] = malloc(bytes);
        memset(values[i], 0xff, bytes);
        dsf_model_randomize(&m, u, 5, values[i]);
        for (int64_t k = 0; k < m.units[u].elems; k++)
            assert_true(isfinite(values[i][k]));
        dsf_model_fini(&m);
        dsf_job_fini(&job);
    }
    assert_memory_equal(values[0], values[1], 301 * 63 * sizeof(float));
    free(values[0]);
    free(values[1]);
}

static void rotary_angles_are_those_of_the_paper(void **state)
{
    struct dsf_model m;
    struct dsf_job job;
    float *table;

    make(&m, &job, models[1]);
    table = malloc(sizeof(float) * 16 * 10);
    dsf_model_rope_table(&m, table);
    for (int pos = 0; pos < 16; pos++)
        for (int i = 0; i < 5; i++) {
            double angle = pos * pow(10000, -2.0 * i / 10);

            assert_true(table[(pos * 5 + i) * 2] == (float)cos(angle));
            assert_true(table[(pos * 5 + i) * 2 + 1] == (float)sin(angle));
        }
    free(table);
    dsf_model_fini(&m);
    dsf_job_fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_do_not_overlap_and_matrices_come_first),
        cmocka_unit_test(units_are_found_by_segment_and_layer),
        cmocka_unit_test(random_values_follow_the_seed_and_gpt2s_rule),
        cmocka_unit_test(random_values_do_not_depend_on_who_draws_them),
        cmocka_unit_test(rotary_angles_are_those_of_the_paper),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
