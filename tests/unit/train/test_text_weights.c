/* test_text_weights.c - text is made with the weights that were trained:
 * quantized or pruned as the job says, and as they were after so many updates.
 */
#include "lib/train.h"

#include "kernels/narrow.h"
#include "policies/trained_weights.h"
#include "train/generation_types.h"
#include "train/text_weights.h"

#include <stdlib.h>
#include <string.h>

struct model {
    struct dsf_job job;
    struct dsf_model model;
    float **params, **was;
};

static void begin(struct model *m, const char *keys)
{
    static const char table[] = "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n"
                                "[model]\nvocab = 97\ncontext = 32\n"
                                "layers = 2\nheads = 4\nwidth = 64\n";
    char words[300], *rest = NULL, *word;
    const char *sets[8];
    struct dsflow_err err;
    unsigned n = 0;

    snprintf(words, sizeof(words), "%s", keys);
    for (word = strtok_r(words, " ", &rest); word != NULL && n < 8;
         word = strtok_r(NULL, " ", &rest))
        sets[n++] = word;
    must(dsf_job_parse(table, sizeof(table) - 1, "t", sets, n, NULL, &m->job,
                       &err),
         &err);
    must(dsf_model_init(&m->model, &m->job, &err), &err);
    m->params = calloc(m->model.nunits, sizeof(*m->params));
    m->was = calloc(m->model.nunits, sizeof(*m->was));
    for (unsigned u = 0; u < m->model.nunits; u++) {
        must(dsf_unit_alloc(&m->model, u, &m->params[u], &err), &err);
        must(dsf_unit_alloc(&m->model, u, &m->was[u], &err), &err);
        dsf_model_randomize(&m->model, u, 7, m->params[u]);
        dsf_model_randomize(&m->model, u, 7, m->was[u]);
    }
}

static void end(struct model *m)
{
    for (unsigned u = 0; u < m->model.nunits; u++) {
        free(m->params[u]);
        free(m->was[u]);
    }
    free(m->params);
    free(m->was);
    dsf_model_fini(&m->model);
    dsf_job_fini(&m->job);
}

static int read_one(void *user, unsigned unit, float *to,
                    struct dsflow_err *err)
{
    const struct model *m = user;

    (void)err;
    memcpy(to, m->was[unit], (size_t)m->model.units[unit].elems * sizeof(*to));
    return DSFLOW_OK;
}

/* Numbers that the form changes. */
static int64_t check_unit(const struct model *m, int64_t updates, unsigned u,
                          const void *got)
{
    const size_t n = (size_t)m->model.units[u].elems;
    enum dsflow_dtype type = dsf_generation_unit_type(
        &m->model, dsf_generation_types(&m->model, &m->job), u);
    float *want = malloc(n * sizeof(*want));
    uint16_t *half = malloc(n * sizeof(*half));
    int64_t moved = 0;

    memcpy(want, m->was[u], n * sizeof(*want));
    dsf_trained_apply(&m->job, &m->model, u, updates, want);
    for (size_t i = 0; i < n; i++)
        moved += want[i] != m->was[u][i];
    if (type == DSFLOW_FP32) {
        assert_memory_equal(got, want, n * sizeof(*want));
    } else {
        dsf_narrow(type)->narrow(want, n, NULL, half, n, 1, n);
        assert_memory_equal(got, half, n * sizeof(*half));
    }
    free(half);
    free(want);
    return moved;
}

/* Lent and read; what is lent stays what it was. */
static void check(const char *keys, int64_t updates, bool changes,
                  bool embedding)
{
    struct dsf_text_weights lent = { 0 }, read = { 0 };
    struct dsflow_err err;
    struct model m;
    double bytes = 0;

    begin(&m, keys);
    must(
        dsf_text_weights_lend(&lent, &m.model, &m.job, updates, m.params, &err),
        &err);
    must(dsf_text_weights_read(&read, &m.model, &m.job, updates, read_one, &m,
                               &err),
         &err);
    for (unsigned u = 0; u < m.model.nunits; u++) {
        const struct dsf_unit *unit = &m.model.units[u];
        const bool in_block = unit->layer >= 0 && unit->layer < m.model.layers;
        const int64_t moved = check_unit(&m, updates, u, lent.v[u]);

        assert_int_equal(check_unit(&m, updates, u, read.v[u]), moved);
        assert_int_equal(moved > 0,
                         changes && unit->decay > 0 && (in_block || embedding));
        assert_memory_equal(m.params[u], m.was[u],
                            (size_t)unit->elems * sizeof(float));
        assert_int_equal(lent.own[u], lent.v[u] != m.params[u]);
        assert_true(read.own[u]);
        if (lent.own[u])
            bytes += (double)dsflow_dtype_bytes(
                dsf_generation_unit_type(
                    &m.model, dsf_generation_types(&m.model, &m.job), u),
                unit->elems);
    }
    assert_true(bytes == dsf_text_weights_bytes(&m.model, &m.job));
    dsf_text_weights_fini(&lent);
    dsf_text_weights_fini(&read);
    end(&m);
}

#define BF16 " precision.compute=bf16"

static void text_has_the_weights_that_were_trained(void **state)
{
    static const char *const types[] = { "", BF16 };

    for (size_t i = 0; i < 2; i++) {
        char keys[200];

        snprintf(keys, sizeof(keys), "weights.quantize=symmetric%s", types[i]);
        check(keys, 0, true, false);
        snprintf(keys, sizeof(keys),
                 "weights.prune=2:4 weights.embedding=true%s", types[i]);
        check(keys, 3, true, true);
        snprintf(keys, sizeof(keys), "job.seed=1%s", types[i]);
        check(keys, 3, false, false);
    }
}

static void weights_change_after_so_many_updates(void **state)
{
    check("weights.quantize=ternary weights.quantize_from=4", 3, false, false);
    check("weights.quantize=ternary weights.quantize_from=4", 4, true, false);
    check("weights.prune=1:2 weights.prune_from=2" BF16, 1, false, false);
    check("weights.prune=1:2 weights.prune_from=2" BF16, 2, true, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_has_the_weights_that_were_trained),
        cmocka_unit_test(weights_change_after_so_many_updates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
