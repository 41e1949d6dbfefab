/* test_onebit_plan.c - 1-bit Adam and LAMB in graphs: which steps are of which
 * kind, what ranks read of each other in each, and what is not coded. */
#include "unit/policies/step_bytes.h"

#include "policies/compress.h"
#include "tasks/lamb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONEBIT                                                                 \
    "optimizer.kind=onebit_adam optimizer.clip=0.0 compress.keep=0 "           \
    "job.steps=20 onebit_adam.freeze_step=3 "

static void plan_one(struct trial *t, const char *keys, const char *until)
{
    char text[400];

    snprintf(text, sizeof(text), "gpt2 " ONEBIT "%s", keys);
    plan_trial_until(t, text, until);
}

static void the_second_moment_is_frozen_after_its_step(void **state)
{
    struct trial t;

    plan_one(&t, "mesh.data=2 batch.groups=2", "reference");
    for (int64_t step = 1; step <= 20; step++)
        assert_string_equal(dsflow_plan_program_of(t.plan, step),
                            step <= 3 ? "step" : DSF_ONEBIT_PROGRAM);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t.graph, (dsflow_task_id){ i });

        if (k->op == &dsf_op_adam)
            assert_int_equal(k->program, DSFLOW_STEP);
        if (k->op == &dsf_op_lamb || k->op == &dsf_op_feed_momentum)
            assert_string_equal(dsflow_graph_program(t.graph, k->program),
                                DSF_ONEBIT_PROGRAM);
    }
    end_trial(&t);
}

static void bytes_are_those_of_the_formula(void **state)
{
    for (int n = 2; n <= 8; n *= 2) {
        struct trial t;
        char keys[200];
        double signs, whole;

        snprintf(keys, sizeof(keys),
                 "mesh.data=%d batch.groups=%d "
                 "batch.sequences=8 model.width=128 model.layers=2",
                 n, n);
        plan_one(&t, keys, "send");
        expected_bytes(&t, n, &signs, &whole);
        assert_bytes("compressed", n, kind(&t, DSF_ONEBIT_PROGRAM).bytes,
                     signs);
        assert_bytes("step", n, kind(&t, "step").bytes, whole);
        end_trial(&t);
    }
}

static void the_mean_is_that_of_all_steps(void **state)
{
    struct dsf_step_kind warm, cold, mean;
    struct trial t;

    plan_one(&t, "mesh.data=2 batch.groups=2", "send");
    warm = kind(&t, "step");
    cold = kind(&t, DSF_ONEBIT_PROGRAM);
    mean = dsf_step_mean(t.plan, t.graph, NULL);
    assert_int_equal(warm.steps, 3);
    assert_int_equal(cold.steps, 17);
    assert_int_equal(mean.steps, 20);
    assert_true(fabs(mean.bytes - (3 * warm.bytes + 17 * cold.bytes) / 20) < 1);
    assert_true(fabs(mean.tasks - (3 * warm.tasks + 17 * cold.tasks) / 20) <
                1e-6);
    assert_int_equal(kind(&t, "eval").steps, 0);
    end_trial(&t);
}

/* Rows that no position of a sequence uses stay 0, and so do their errors. */
static void positions_beyond_the_sequence_are_not_coded(void **state)
{
    struct dsf_coding all, some;
    struct trial t;

    plan_one(&t, "batch.sequence=64 model.context=64", "reference");
    all = dsf_onebit_coding(&t.job, &t.model, &t.model.units[0]);
    end_trial(&t);
    plan_one(&t, "batch.sequence=64 model.context=256", "reference");
    some = dsf_onebit_coding(&t.job, &t.model, &t.model.units[0]);
    assert_int_equal(t.model.units[0].tensors[1].rows, 256);
    assert_int_equal(all.ntensors, some.ntensors);
    assert_true(some.tensors[some.ntensors - 1].at +
                    some.tensors[some.ntensors - 1].elems <=
                t.model.units[0].tensors[1].offset +
                    64 * (int64_t)t.model.dims.width);
    end_trial(&t);
}

/* Where the numbers of unit `u` begin, among those of all. */
static int64_t first_of(const struct trial *t, unsigned u)
{
    int64_t first = 0;

    for (unsigned i = 0; i < u; i++)
        first += t->model.units[i].elems;
    return first;
}

/* Marks the numbers of a part that are coded, in their unit. */
static void mark(const struct trial *t, const struct dsflow_data_spec *d,
                 const struct dsf_coding *coding, float *marks)
{
    const struct dsf_unit *unit = &t->model.units[d->unit];
    float *own = calloc((size_t)d->elems, sizeof(*own));
    float *whole = calloc((size_t)unit->elems, sizeof(*whole));
    struct dsf_part part;

    dsf_part_init(&part, &t->model, 2, (unsigned)d->unit, d->part);
    for (int64_t i = 0; i < coding->ntensors; i++)
        for (int64_t k = 0; k < coding->tensors[i].elems; k++)
            own[coding->tensors[i].at + k] = 1;
    dsf_part_merge(&part, own, whole);
    for (int64_t i = 0; i < unit->elems; i++)
        marks[i] += whole[i];
    free(own);
    free(whole);
}

/* Each tensor rank codes its pieces of matrices, and with them most of what one
 * rank codes, and nothing else. */
static void parts_have_scales_of_their_own(void **state)
{
    enum { GRAD = 1, WITHOUT_ERROR = 3, GROUPS = 2 };
    int64_t coded = 0, found = 0;
    unsigned parts = 0, scaled = 0;
    float *marks;
    struct trial t;

    plan_one(&t,
             "mesh.tensor=2 mesh.data=2 batch.sequence=64 "
             "model.context=256 model.width=128",
             "tensor_parallel");
    marks = calloc((size_t)first_of(&t, t.model.nunits), sizeof(*marks));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t.graph, (dsflow_task_id){ i });
        const struct dsf_momentum_args *fed = k->args;
        const struct dsf_chunk_scales_args *scales = k->args;
        const struct dsflow_data_spec *grad;

        if (k->op == &dsf_op_chunk_scales) {
            assert_int_equal(dsflow_graph_data(t.graph, k->data[0])->elems,
                             scales->coding.ntensors * GROUPS);
            scaled++;
        }
        if (k->op != &dsf_op_feed_momentum)
            continue;
        assert_int_equal(k->ndata > WITHOUT_ERROR, fed->coding.ntensors > 0);
        parts += fed->coding.ntensors > 0;
        grad = dsflow_graph_data(t.graph, k->data[GRAD]);
        mark(&t, grad, &fed->coding,
             marks + first_of(&t, (unsigned)grad->unit));
    }
    assert_int_equal(parts, GROUPS * scaled);
    for (unsigned u = 0; u < t.model.nunits; u++) {
        const struct dsf_unit *unit = &t.model.units[u];
        struct dsf_coded_tensor of[DSF_CODED_TENSORS];
        unsigned n = dsf_compress_matrices(unit, of);

        if (u == 0)
            of[1].elems = 64 * (int64_t)t.model.dims.width;
        for (unsigned m = 0; m < n; m++)
            for (int64_t i = 0; i < of[m].elems; i++) {
                float *at = &marks[first_of(&t, u) + of[m].at + i];

                assert_true(*at == 0 || *at == GROUPS);
                found += *at == GROUPS;
                *at = 0;
                coded++;
            }
    }
    assert_true(found > coded - coded / 20);
    for (int64_t i = 0; i < first_of(&t, t.model.nunits); i++)
        assert_true(marks[i] == 0);
    free(marks);
    end_trial(&t);
}

#define LAMB                                                                   \
    "optimizer.kind=onebit_lamb optimizer.clip=0.0 compress.keep=0 "           \
    "job.steps=20 onebit_lamb.freeze_step=3 "

/* The last step before the freeze is of a kind of its own: all of `step`, and
 * what later ones begin with. */
static void lamb_has_a_step_that_freezes(void **state)
{
    struct trial t;

    plan_trial_until(&t, "gpt2 " LAMB "mesh.data=2 batch.groups=2",
                     "reference");
    for (int64_t step = 1; step <= 20; step++)
        assert_string_equal(dsflow_plan_program_of(t.plan, step),
                            step < 3    ? "step"
                            : step == 3 ? DSF_ONEBIT_FREEZING
                                        : DSF_ONEBIT_PROGRAM);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t.graph, (dsflow_task_id){ i });
        const char *name = dsflow_graph_program(t.graph, k->program);

        if (k->op == &dsf_op_unite_scales)
            assert_string_equal(name, DSF_ONEBIT_FREEZING);
        if (k->op == &dsf_op_send_signs || k->op == &dsf_op_serve_lamb)
            assert_string_equal(name, DSF_ONEBIT_PROGRAM);
        if (k->op == &dsf_op_lamb_moments || k->op == &dsf_op_lamb_mean)
            assert_string_not_equal(name, DSF_ONEBIT_PROGRAM);
    }
    end_trial(&t);
}

/* On tensor ranks, too, all tensors have one scale, and chunks go through all
 * parts of all units. */
static void chunks_of_lamb_go_through_all_parts(void **state)
{
    int64_t next = 0, all = 0;
    unsigned nsent = 0, nserved = 0;
    struct trial t;

    plan_trial_until(&t,
                     "gpt2 " LAMB "mesh.tensor=2 mesh.data=2 batch.groups=2 "
                     "model.width=128",
                     "tensor_parallel");
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t.graph, (dsflow_task_id){ i });
        const struct dsf_united_args *a = k->args;
        const struct dsf_send_args *sent = k->args;

        if (k->op == &dsf_op_send_signs) {
            all = nsent++ == 0 ? sent->all : all;
            assert_int_equal(sent->all, all);
        }
        if (k->op != &dsf_op_chunk_sums || a->by_tensor)
            continue;
        assert_int_equal(a->all, all);
        assert_int_equal(a->before, next);
        for (int64_t j = 0; j < a->at.coding.ntensors; j++)
            next += a->at.coding.tensors[j].elems;
        nserved++;
    }
    assert_int_equal(next, all);
    assert_int_equal(nsent, 2 * nserved);
    assert_true(nserved > t.model.nunits);
    end_trial(&t);
}

/* What one rank of each unit reads of the others, of sums of blocks: four
 * doubles for each tensor, or the next power of two. */
static double bytes_of_sums(const struct trial *t, int n)
{
    double bytes = 0;

    for (unsigned u = 0; u < t->model.nunits; u++) {
        const struct dsf_unit *unit = &t->model.units[u];

        bytes += (double)(unit->elems / unit->block) * 8 *
                 (double)dsf_lamb_width(2 * (int32_t)unit->ntensors) * (n - 1) /
                 n;
    }
    return bytes;
}

/* Those of 1-bit Adam, and sums; some hundred bytes a unit and rank are left, of
 * scales and ratios. Whole gradients do not pass by with ZeRO 2: all
 * momenta wait for their scale. */
static void bytes_of_lamb_are_those_of_adam_and_sums(void **state)
{
    enum { RANKS = 4 };
    static const char *const keys[] = {
        "mesh.data=4 batch.groups=4 batch.sequences=8 model.width=256 "
        "model.layers=2",
        "mesh.data=4 batch.groups=4 batch.sequences=8 model.width=256 "
        "model.layers=2 zero.stage=2"
    };

    for (size_t i = 0; i < 2; i++) {
        double expected, got;
        struct trial t;
        char text[400];

        plan_one(&t, keys[i], "send");
        expected = kind(&t, DSF_ONEBIT_PROGRAM).bytes;
        end_trial(&t);
        snprintf(text, sizeof(text), "gpt2 " LAMB "%s", keys[i]);
        plan_trial_until(&t, text, "send");
        expected += bytes_of_sums(&t, RANKS);
        got = kind(&t, DSF_ONEBIT_PROGRAM).bytes;
        assert_false(dsf_plan_passes_gradients(t.plan));
        end_trial(&t);
        assert_bytes(keys[i], RANKS, got, expected);
    }
}

/* In steps that send momenta each group is clipped by itself, in front of what
 * it sends; in others all of them, after their sum. */
static void groups_are_clipped_by_their_own_norms(void **state)
{
    enum { GROUPS = 4 };
    unsigned clips = 0, fed = 0, whole = 0;
    struct trial t;

    plan_one(&t, "optimizer.clip=0.5 mesh.data=2 batch.groups=4", "reference");
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t.graph, (dsflow_task_id){ i });
        const bool coded = strcmp(dsflow_graph_program(t.graph, k->program),
                                  DSF_ONEBIT_PROGRAM) == 0;

        if (k->op == &dsf_op_clip_group) {
            assert_true(coded && fed == 0);
            assert_int_equal(k->microbatch, (int)(clips / t.model.nunits + 1) *
                                                    (t.plan->nmicro / GROUPS) -
                                                1);
            clips++;
        }
        fed += k->op == &dsf_op_feed_momentum;
        if (k->op == &dsf_op_clip) {
            const struct dsf_clip_args *a = k->args;

            assert_true(a->limit == (coded ? 0 : 0.5));
            whole++;
        }
    }
    assert_int_equal(clips, GROUPS * t.model.nunits);
    assert_int_equal(whole, 2);
    assert_false(dsf_plan_passes_gradients(t.plan));
    end_trial(&t);
}

/* Scales are of whole tensors: the momentum is in one piece, in the memory that
 * is asked for; what is updated shard by shard is in small ones. */
static void offloaded_states_are_in_pieces_but_for_the_momentum(void **state)
{
    enum { PIECE = 8192 };
    unsigned whole = 0, pieces = 0;
    struct trial t;

    plan_one(&t,
             "mesh.data=2 zero.stage=2 offload.optimizer=nvme "
             "offload.piece=8KiB",
             NULL);
    for (uint32_t i = 0; i < dsflow_graph_ndata(t.graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(t.graph, (dsflow_data_id){ i });
        const struct dsf_unit *unit =
            d->unit < 0 ? NULL : &t.model.units[d->unit];

        if (unit == NULL || d->role != DSFLOW_STATES || !d->persistent)
            continue;
        if (dsf_onebit_is_momentum(t.plan, d->kept)) {
            assert_int_equal(d->elems, unit->elems);
            whole++;
        } else {
            assert_true(d->bytes <= PIECE || d->elems == d->block);
            pieces++;
        }
        assert_int_equal(d->tier, DSFLOW_NVME);
    }
    assert_int_equal(whole, 2 * t.model.nunits);
    assert_true(pieces > 2 * whole);
    end_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_moment_is_frozen_after_its_step),
        cmocka_unit_test(bytes_are_those_of_the_formula),
        cmocka_unit_test(the_mean_is_that_of_all_steps),
        cmocka_unit_test(positions_beyond_the_sequence_are_not_coded),
        cmocka_unit_test(parts_have_scales_of_their_own),
        cmocka_unit_test(lamb_has_a_step_that_freezes),
        cmocka_unit_test(chunks_of_lamb_go_through_all_parts),
        cmocka_unit_test(groups_are_clipped_by_their_own_norms),
        cmocka_unit_test(offloaded_states_are_in_pieces_but_for_the_momentum),
        cmocka_unit_test(bytes_of_lamb_are_those_of_adam_and_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
