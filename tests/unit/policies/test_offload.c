/* test_offload.c - what is moved, and what is not: the graphs of small jobs,
 * counted. That they compute the same is for tests/same. */
#include "same/trial.h"

#include "lib/test.h"
#include "tasks/tasks.h"

#include <string.h>

static const struct dsflow_task_spec *task_at(const struct trial *t, uint32_t i)
{
    return dsflow_graph_task(t->graph, (dsflow_task_id){ i });
}

static const struct dsflow_data_spec *data_of(const struct trial *t,
                                              const struct dsflow_task_spec *k,
                                              unsigned port)
{
    return dsflow_graph_data(t->graph, k->data[port]);
}

/* How often a step swaps data whose name begins with `prefix` in, or out. */
static unsigned swaps(const struct trial *t, const struct dsflow_op *op,
                      const char *prefix)
{
    unsigned home = op == &dsf_op_swap_in ? 0 : 1, n = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *k = task_at(t, i);

        n += k->op == op && k->program == DSFLOW_STEP &&
             strncmp(data_of(t, k, home)->name, prefix, strlen(prefix)) == 0;
    }
    return n;
}

static double bytes_in(const struct trial *t, enum dsflow_tier tier,
                       enum dsflow_role role)
{
    double sum = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(t->graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(t->graph, (dsflow_data_id){ i });

        if (d->tier == tier && d->role == role)
            sum += (double)d->bytes;
    }
    return sum;
}

static bool has(const struct trial *t, const char *name)
{
    dsflow_data_id id;

    return dsflow_graph_find(t->graph, name, &id);
}

static void nothing_is_moved_unasked(void **state)
{
    struct trial t;

    plan_trial(&t, "gpt2");
    assert_int_equal(swaps(&t, &dsf_op_swap_in, ""), 0);
    for (int role = 0; role < DSFLOW_NROLES; role++) {
        assert_true(bytes_in(&t, DSFLOW_HOST, role) == 0);
        assert_true(bytes_in(&t, DSFLOW_NVME, role) == 0);
    }
    end_trial(&t);
}

/* Four layers, a buffer for one and one that is read ahead: each unit is read
 * for the forward pass, and again for the backward pass but for the last two.
 * Of all micro-batches together. */
static void layer_major_reads_parameters_once_a_pass(void **state)
{
    struct trial t;

    plan_trial(&t, "gpt2 offload.params=nvme optimizer.clip=0.0 "
                   "offload.write_behind=0");
    for (int l = 0; l < 4; l++) {
        char name[32];

        snprintf(name, sizeof(name), "layer%d.mlp", l);
        assert_int_equal(swaps(&t, &dsf_op_swap_in, name), l < 2 ? 2 : 1);
        assert_int_equal(swaps(&t, &dsf_op_swap_out, name), 1);
    }
    assert_true(has(&t, "slot.param.z9216.1.r0"));
    assert_false(has(&t, "slot.param.z9216.2.r0"));
    end_trial(&t);
}

/* A micro-batch after the other needs them all each time. */
static void micro_major_reads_them_for_each_micro_batch(void **state)
{
    struct trial t;
    unsigned n;

    plan_trial(&t, "gpt2 offload.params=nvme batch.order=micro_major "
                   "batch.sequences=4");
    n = swaps(&t, &dsf_op_swap_in, "layer0.mlp");
    assert_in_range(n, 4, 9);
    assert_int_equal(swaps(&t, &dsf_op_swap_out, "layer0.mlp"), 1);
    end_trial(&t);
}

/* More buffers than that keep what is needed next. */
static void more_buffers_mean_less_traffic(void **state)
{
    unsigned last = UINT32_MAX;

    for (int ahead = 1; ahead < 4; ahead++) {
        char text[128];
        struct trial t;
        unsigned n;

        snprintf(text, sizeof(text),
                 "llama offload.params=nvme offload.read_ahead=%d "
                 "batch.order=micro_major",
                 ahead);
        plan_trial(&t, text);
        n = swaps(&t, &dsf_op_swap_in, "layer");
        assert_in_range(n, 1, last - 1);
        last = n;
        end_trial(&t);
    }
}

static void states_are_read_and_written_once(void **state)
{
    struct trial t;

    plan_trial(&t, "gpt2 offload.optimizer=nvme offload.piece=8KiB");
    assert_true(has(&t, "m.layer0.mlp.c0"));
    assert_true(has(&t, "v.layer3.mlp.c4"));
    assert_false(has(&t, "m.layer0.mlp"));
    assert_int_equal(swaps(&t, &dsf_op_swap_in, "m.layer0.mlp.c1"), 1);
    assert_int_equal(swaps(&t, &dsf_op_swap_out, "m.layer0.mlp.c1"), 1);
    assert_true(bytes_in(&t, DSFLOW_DEVICE, DSFLOW_STATES) == 0);
    /* Of m and v: one in use, one read ahead, one written behind. */
    assert_true(bytes_in(&t, DSFLOW_HOST, DSFLOW_STATES) <= 6 * 8192);
    end_trial(&t);
}

static void states_in_main_memory_are_used_there(void **state)
{
    struct trial t;

    plan_trial(&t, "gpt2 offload.optimizer=cpu");
    assert_int_equal(swaps(&t, &dsf_op_swap_in, ""), 0);
    assert_true(bytes_in(&t, DSFLOW_DEVICE, DSFLOW_STATES) == 0);
    assert_true(bytes_in(&t, DSFLOW_HOST, DSFLOW_STATES) ==
                2 * bytes_in(&t, DSFLOW_DEVICE, DSFLOW_PARAMS));
    end_trial(&t);
}

static unsigned count(const struct trial *t, const struct dsflow_op *op)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++)
        n += task_at(t, i)->op == op;
    return n;
}

/* Does task `i` wait for an update of the unit that it updates? */
static bool waits_for_its_unit(const struct trial *t, uint32_t i)
{
    const dsflow_task_id *preds;
    uint32_t n = dsflow_graph_preds(t->graph, (dsflow_task_id){ i }, &preds);

    for (uint32_t k = 0; k < n; k++) {
        const struct dsflow_task_spec *x = task_at(t, preds[k].i);

        if (x->op == &dsf_op_adam &&
            x->data[1].i == task_at(t, i)->data[1].i) /* grad */
            return true;
    }
    return false;
}

/* They write parts of the parameters; who uses those waits for all. */
static void pieces_of_a_unit_are_updated_beside_each_other(void **state)
{
    unsigned pieces = 0, waits;
    struct trial t;

    plan_trial(&t, "gpt2 offload.optimizer=cpu offload.piece=8KiB "
                   "precision.compute=bf16");
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++)
        if (task_at(&t, i)->op == &dsf_op_adam) {
            assert_false(waits_for_its_unit(&t, i));
            pieces++;
        }
    waits = count(&t, &dsf_op_wait);
    assert_true(waits > 0 && waits % 2 == 0);
    assert_in_range(pieces, waits, 100 * waits);
    end_trial(&t);
}

/* Parameters that cores update where they are go to the device, and never come
 * back from there; and of those that have a piece there, too, nothing waits. */
static void pieces_beside_each_other_are_in_one_memory(void **state)
{
    static const char job[] =
        "gpt2 offload.optimizer=cpu offload.params=cpu offload.piece=8KiB "
        "offload.read_ahead=0 offload.write_behind=0 precision.compute=bf16";
    unsigned waits, there = 0, outs = 0;
    char text[256];
    struct trial t;

    plan_trial(&t, job);
    waits = count(&t, &dsf_op_wait);
    assert_true(waits > 0);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *x = task_at(&t, i);

        there += x->op == &dsf_op_wait &&
                 dsf_nth_data(t.graph, x->data[0].i)->tier == DSFLOW_HOST;
        outs += x->op == &dsf_op_swap_out;
    }
    assert_int_equal(outs, 0);
    assert_true(there > 0); /* what there is one of stays on the device */
    end_trial(&t);

    snprintf(text, sizeof(text), "%s offload.share=0.3", job);
    plan_trial(&t, text);
    assert_in_range(count(&t, &dsf_op_wait), 1, waits - 1);
    assert_true(count(&t, &dsf_op_swap_out) > 0);
    end_trial(&t);
}

/* What states may be kept as, and the share of the bytes of fp32 that is. */
static const struct {
    const char *name;
    double share;
} formats[] = { { "bf16", 0.5 }, { "int8", 258.0 / 1024 } };

/* The bytes of all m and v, and those of the buffers of each. */
static void states_are_kept_in_fewer_bytes(void **state)
{
    struct trial t;

    for (size_t i = 0; i < 2; i++) {
        char text[128];
        double params;

        snprintf(text, sizeof(text),
                 "gpt2 offload.optimizer=nvme offload.piece=8KiB "
                 "precision.states=%s",
                 formats[i].name);
        plan_trial(&t, text);
        params = bytes_in(&t, DSFLOW_DEVICE, DSFLOW_PARAMS);
        assert_true(bytes_in(&t, DSFLOW_NVME, DSFLOW_STATES) ==
                    2 * formats[i].share * params);
        assert_true(bytes_in(&t, DSFLOW_HOST, DSFLOW_STATES) ==
                    6 * 8192 * (1 + formats[i].share));
        assert_int_equal(count(&t, &dsf_op_cast), 4 * count(&t, &dsf_op_adam));
        assert_int_equal(swaps(&t, &dsf_op_swap_in, "v.layer0.mlp.c1"), 1);
        assert_int_equal(swaps(&t, &dsf_op_swap_out, "v.layer0.mlp.c1"), 1);
        end_trial(&t);
    }
}

/* States on the device: as packed bytes there, and a buffer of fp32 numbers of m
 * and v for each worker. */
static void states_on_the_device_are_kept_in_fewer_bytes(void **state)
{
    struct trial t;

    for (size_t i = 0; i < 2; i++) {
        char text[128];
        double params;

        snprintf(text, sizeof(text),
                 "gpt2 offload.piece=8KiB machine.workers=3 "
                 "precision.states=%s",
                 formats[i].name);
        plan_trial(&t, text);
        params = bytes_in(&t, DSFLOW_DEVICE, DSFLOW_PARAMS);
        assert_true(bytes_in(&t, DSFLOW_DEVICE, DSFLOW_STATES) ==
                    2 * formats[i].share * params +
                        2.0 * t.plan->rank_workers * 8192);
        assert_true(bytes_in(&t, DSFLOW_HOST, DSFLOW_STATES) == 0);
        assert_int_equal(count(&t, &dsf_op_cast), 4 * count(&t, &dsf_op_adam));
        assert_int_equal(swaps(&t, &dsf_op_swap_in, ""), 0);
        assert_false(has(&t, "m.layer0.mlp"));
        end_trial(&t);
    }
}

static bool has_matrix(const struct dsflow_task_spec *k)
{
    const struct dsflow_update_args *a = k->args;

    for (int32_t i = 0; i < a->ntensors; i++)
        if (a->tensors[i].kind == DSFLOW_MATRIX)
            return true;
    return false;
}

/* Of the updates of units with matrices, and of all others: how many have data
 * in main memory. */
static void count_far(const struct trial *t, unsigned far[2], unsigned all[2])
{
    far[0] = far[1] = all[0] = all[1] = 0;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *k = task_at(t, i);
        bool is_far = false;

        if (k->op != &dsf_op_muon)
            continue;
        for (unsigned p = 0; p < k->ndata; p++)
            is_far |= data_of(t, k, p)->tier == DSFLOW_HOST;
        far[has_matrix(k)] += is_far;
        all[has_matrix(k)]++;
    }
}

/* What a GPU multiplies has its states there while it does, wherever they are
 * kept: a buffer for the unit, one that is read ahead, one written behind. All
 * else of Muon is AdamW's, which cores do where states are. */
static void a_gpu_updates_matrices_wherever_states_are(void **state)
{
    static const struct {
        const char *keys, *slot, *no_slot;
    } jobs[] = {
        { "offload.optimizer=cpu", "slot.gpu.m.2.r0", "slot.gpu.m.3.r0" },
        { "offload.optimizer=cpu offload.write_behind=0", "slot.gpu.v.1.r0",
          "slot.gpu.v.2.r0" },
        { "offload.optimizer=nvme offload.piece=4KiB", "slot.gpu.m.2.r0",
          "slot.gpu.m.3.r0" },
        { "offload.optimizer=cpu precision.compute=bf16 precision.states=int8",
          "fp32.gpu.m.0.r0", "fp32.gpu.m.1.r0" },
        { "offload.optimizer=nvme precision.compute=bf16 "
          "precision.master=false",
          "fp32.gpu.params.0.r0", "fp32.gpu.params.1.r0" },
    };
    unsigned far[2], all[2];

    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
        char text[200];
        struct trial t;

        snprintf(text, sizeof(text),
                 "gpt2 optimizer.kind=muon machine.gpus=1 %s", jobs[i].keys);
        plan_trial(&t, text);
        count_far(&t, far, all);
        assert_int_equal(all[true], 3 * 4);
        assert_int_equal(far[true], 0);
        assert_true(all[false] > 0 && far[false] == all[false]);
        assert_true(has(&t, jobs[i].slot));
        assert_false(has(&t, jobs[i].no_slot));
        assert_int_equal(swaps(&t, &dsf_op_swap_in, "m.layer0.mlp"), 1);
        assert_int_equal(swaps(&t, &dsf_op_swap_out, "m.layer3.qkv"), 1);
        end_trial(&t);
    }
}

static void cores_update_matrices_where_their_states_are(void **state)
{
    unsigned far[2], all[2];
    struct trial t;

    plan_trial(&t, "gpt2 optimizer.kind=muon offload.optimizer=cpu");
    count_far(&t, far, all);
    assert_int_equal(far[true], 3 * 4);
    assert_int_equal(swaps(&t, &dsf_op_swap_in, ""), 0);
    assert_true(bytes_in(&t, DSFLOW_DEVICE, DSFLOW_STATES) == 0);
    end_trial(&t);
}

static const struct dsflow_data_spec *named(const struct trial *t,
                                            const char *name)
{
    dsflow_data_id id;

    if (!dsflow_graph_find(t->graph, name, &id))
        fail_msg("no %s", name);
    return dsflow_graph_data(t->graph, id);
}

/* Muon keeps second moments of what AdamW updates, and no buffer is larger than
 * they are: nothing else is swapped. A momentum is packed as ever. */
static void second_moments_of_matrices_are_nowhere(void **state)
{
    static const char *const jobs[] = {
        "mesh.data=1",
        "mesh.data=2 zero.stage=0",
        "machine.gpus=1 offload.optimizer=cpu",
        "machine.gpus=1 offload.optimizer=nvme precision.states=int8",
    };
    const int64_t mlp = 3 * 96 * 64; /* numbers of its matrices */

    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
        const struct dsflow_data_spec *m, *v;
        char text[120];
        struct trial t;

        snprintf(text, sizeof(text), "llama optimizer.kind=muon %s", jobs[i]);
        plan_trial(&t, text);
        m = named(&t, "m.layer0.mlp");
        v = named(&t, "v.layer0.mlp");
        assert_true(m->at == 0 && m->elems == v->at + v->elems);
        assert_true(v->at == mlp && v->elems >= 64);
        assert_int_equal(m->dtype, v->dtype);
        assert_int_equal(m->dtype, i == 3 ? DSFLOW_INT8_BLOCK : DSFLOW_FP32);
        assert_true(has(&t, "m.layer0.out") && !has(&t, "v.layer0.out"));
        assert_true(named(&t, "v.embed")->elems == named(&t, "m.embed")->elems);
        if (i == 2)
            assert_true(named(&t, "slot.gpu.v.0.r0")->elems == v->elems);
        if (i == 3) {
            assert_true(named(&t, "fp32.gpu.v.0.r0")->elems == v->elems);
            assert_true(named(&t, "fp32.gpu.m.0.r0")->elems == m->elems);
        }
        end_trial(&t);
    }
}

/* Parameters in bf16 alone: they are kept, their masters and the program that
 * makes them from those are gone. */
static void parameters_may_have_no_masters(void **state)
{
    dsflow_data_id id = { 0 };
    dsflow_program prepare;
    struct trial t;
    uint32_t first;
    unsigned narrow = 0;

    plan_trial(&t, "gpt2 precision.compute=bf16 precision.master=false "
                   "mesh.data=2 zero.stage=1 offload.piece=8KiB");
    assert_false(has(&t, "layer0.out.s0"));
    assert_true(dsflow_graph_find(t.graph, "layer0.out.bf16", &id));
    assert_int_equal(dsflow_graph_data(t.graph, id)->dtype, DSFLOW_BF16);
    assert_int_equal(dsflow_graph_data(t.graph, id)->kept, 1 + DSF_KEPT_PARAM);
    for (id.i = 0; id.i < dsflow_graph_ndata(t.graph); id.i++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(t.graph, id);

        assert_false(d->kept == 1 + DSF_KEPT_PARAM && d->role == DSFLOW_STATES);
        narrow += d->persistent && d->dtype == DSFLOW_BF16;
        assert_true(d->dtype != DSFLOW_BF16 || !d->persistent ||
                    d->kept == 1 + DSF_KEPT_PARAM);
    }
    assert_true(narrow >= 2 * 4); /* of two ranks and four layers */
    assert_true(dsflow_graph_find_program(t.graph, "prepare", &prepare));
    assert_int_equal(dsflow_graph_program_tasks(t.graph, prepare, &first), 0);
    assert_true(has(&t, "fp32.params.0.r1"));
    end_trial(&t);
}

/* Replicas round alike, and so do shards and pieces: what the rounding is a
 * hash of is the place in the unit. */
static void rounding_knows_no_replica_shard_or_piece(void **state)
{
    const struct dsf_cast_args *all[64], *a;
    struct trial t;
    unsigned n = 0, again = 0;

    plan_trial(&t, "gpt2 offload.optimizer=cpu precision.states=int8 "
                   "mesh.data=2 zero.stage=1 offload.piece=8KiB");
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *k = task_at(&t, i);

        if (k->op != &dsf_op_cast || k->ndata < 3 ||
            strncmp(data_of(&t, k, 1)->name, "m.layer0.mlp.", 13) != 0)
            continue;
        a = k->args;
        assert_int_equal(a->at, data_of(&t, k, 1)->at);
        assert_true(a->stream == data_of(&t, k, 1)->stream);
        for (unsigned j = 0; j < n; j++) {
            assert_true(all[j]->stream == a->stream);
            again += all[j]->at == a->at;
        }
        assert_true(n < 64);
        all[n++] = a;
    }
    assert_true(n >= 4 && again == 0);
    end_trial(&t);
}

static void a_share_of_the_states_stays(void **state)
{
    struct trial t;
    double up, down;

    plan_trial(&t, "llama offload.optimizer=cpu offload.share=0.5 "
                   "offload.piece=4KiB");
    up = bytes_in(&t, DSFLOW_DEVICE, DSFLOW_STATES);
    down = bytes_in(&t, DSFLOW_HOST, DSFLOW_STATES);
    assert_true(up <= 0.5 * (up + down) && up > 0.45 * (up + down));
    end_trial(&t);
}

/* What no one reads again is not written: not the activations of an evaluation,
 * nor gradients after the update. */
static void the_dead_are_not_written(void **state)
{
    struct trial t;

    plan_trial(&t, "gpt2 offload.activations=nvme offload.gradients=nvme");
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++)
        if (task_at(&t, i)->op == &dsf_op_swap_out)
            assert_int_equal(task_at(&t, i)->program, DSFLOW_STEP);
    assert_in_range(swaps(&t, &dsf_op_swap_out, "grad0.layer"), 0,
                    swaps(&t, &dsf_op_swap_in, "grad0.layer"));
    assert_true(swaps(&t, &dsf_op_swap_out, "h.l0") > 0);
    assert_int_equal(swaps(&t, &dsf_op_swap_out, "h.l3"), 0);
    end_trial(&t);
}

/* What is never cut, and what there is only one of, stays where it is used. */
static void single_units_stay(void **state)
{
    struct trial t;

    plan_trial(&t, "gpt2 offload.params=nvme");
    assert_int_equal(swaps(&t, &dsf_op_swap_in, "embed"), 0);
    end_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_moved_unasked),
        cmocka_unit_test(layer_major_reads_parameters_once_a_pass),
        cmocka_unit_test(micro_major_reads_them_for_each_micro_batch),
        cmocka_unit_test(more_buffers_mean_less_traffic),
        cmocka_unit_test(states_are_read_and_written_once),
        cmocka_unit_test(states_in_main_memory_are_used_there),
        cmocka_unit_test(pieces_of_a_unit_are_updated_beside_each_other),
        cmocka_unit_test(pieces_beside_each_other_are_in_one_memory),
        cmocka_unit_test(states_are_kept_in_fewer_bytes),
        cmocka_unit_test(states_on_the_device_are_kept_in_fewer_bytes),
        cmocka_unit_test(a_gpu_updates_matrices_wherever_states_are),
        cmocka_unit_test(cores_update_matrices_where_their_states_are),
        cmocka_unit_test(second_moments_of_matrices_are_nowhere),
        cmocka_unit_test(parameters_may_have_no_masters),
        cmocka_unit_test(rounding_knows_no_replica_shard_or_piece),
        cmocka_unit_test(a_share_of_the_states_stays),
        cmocka_unit_test(the_dead_are_not_written),
        cmocka_unit_test(single_units_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
