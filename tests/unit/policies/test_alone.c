/* test_alone.c - on one rank, with nothing asked for, no policy does anything:
 * the graph is what `reference` made, but for ranks and priorities. */
#include "same/trial.h"

#include <dsflow/rewrite.h>

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

static char *dot_of(struct dsflow_graph *g)
{
    struct dsflow_err err;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    must("dot", dsflow_graph_write_dot(g, out, &err), &err);
    fclose(out);
    return text;
}

/* DOT says nothing of ports: what each task is, and each of its data. */
static char *words_of(const struct dsflow_graph *g)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });

        fprintf(out,
                "%s %s %d %d %d %d %x:", dsflow_graph_program(g, t->program),
                t->op->name, t->layer, t->microbatch, t->tile, t->pass,
                (unsigned)t->fresh);
        for (size_t k = 0; k < t->op->args_size; k++)
            fprintf(out, "%02x", ((const unsigned char *)t->args)[k]);
        for (unsigned p = 0; p < t->ndata; p++) {
            const struct dsflow_data_spec *d = dsflow_graph_data(g, t->data[p]);

            fprintf(out, " %s %zu %d %d %d %d", d->name, d->bytes, d->role,
                    d->tier, d->persistent, d->unit);
        }
        fputc('\n', out);
    }
    fclose(out);
    return text;
}

static void change_to_nobodys(void *user, struct dsflow_task_spec *t)
{
    t->rank = DSFLOW_ANYWHERE;
    t->priority = 0;
}

/* The DOT of the graph without ranks and priorities. */
static char *bare_dot_of(struct dsflow_graph *g)
{
    struct dsflow_graph *bare = dsflow_graph_new();
    char *text;

    dsflow_rewrite_all(g, bare, change_to_nobodys, NULL);
    text = dot_of(bare);
    dsflow_graph_free(bare);
    return text;
}

static void assert_same(const char *keys, const char *policy, char *before,
                        char *after)
{
    if (strcmp(before, after) != 0)
        fail_msg("%s: %s changes the graph", keys, policy);
    free(before);
    free(after);
}

static void assert_idle(const char *keys)
{
    const struct dsflow_policy *first = dsflow_policy_at(0), *policy;
    struct trial before, after;

    plan_trial_until(&before, keys, first->name);
    assert_true(dsflow_graph_ntasks(before.graph) > 20);
    for (unsigned i = 1; (policy = dsflow_policy_at(i)) != NULL; i++) {
        bool ranks = strcmp(policy->name, "pipeline") == 0;
        bool orders = strcmp(policy->name, "priorities") == 0;

        plan_trial_until(&after, keys, policy->name);
        assert_same(keys, policy->name, words_of(before.graph),
                    words_of(after.graph));
        assert_same(keys, policy->name, bare_dot_of(before.graph),
                    bare_dot_of(after.graph));
        if (!ranks && !orders)
            assert_same(keys, policy->name, dot_of(before.graph),
                        dot_of(after.graph));
        end_trial(&before);
        before = after;
    }
    end_trial(&before);
}

static void on_one_rank_no_policy_does_anything(void **state)
{
    assert_idle("gpt2");
    assert_idle("llama batch.tile=16 batch.groups=2");
    assert_idle("gpt2 batch.order=layer_major optimizer.clip=0");
    assert_idle("llama optimizer.kind=sgd batch.micro=2 zero.stage=3 "
                "pipeline.schedule=zero_bubble");
}

/* … and those that know it before they begin hand the graph on. */
static void what_has_nothing_to_do_hands_the_graph_on(void **state)
{
    static const char *const idle[] = {
        "recompute",   "tensor_parallel", "sequence_parallel",
        "replace",     "precision",       "zero",
        "collectives", "strict",          "send",
        "offload",
    };
    const struct dsflow_policy *policy;
    unsigned found = 0;
    struct trial t;

    plan_trial(&t, "gpt2");
    for (unsigned i = 0; (policy = dsflow_policy_at(i)) != NULL; i++)
        for (unsigned k = 0; k < sizeof(idle) / sizeof(*idle); k++) {
            struct dsflow_graph *out = dsflow_graph_new();

            if (strcmp(policy->name, idle[k]) == 0) {
                assert_int_equal(policy->rewrite(t.plan->parts[i], t.plan,
                                                 t.graph, out, NULL),
                                 DSFLOW_UNCHANGED);
                assert_int_equal(dsflow_graph_ndata(out), 0);
                found++;
            }
            dsflow_graph_free(out);
        }
    assert_int_equal(found, sizeof(idle) / sizeof(*idle));
    end_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_rank_no_policy_does_anything),
        cmocka_unit_test(what_has_nothing_to_do_hands_the_graph_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
