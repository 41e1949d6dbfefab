/* test_ranks.c - what each rank of a mesh touches, holds and receives. Nothing
 * runs here: all of it can be read in the graph. */
#include "mesh_trials.h"
#include "trial.h"

#include "base/alloc.h"
#include "codelets/messages.h"
#include "graph/task.h"
#include "graph/traffic.h"
#include "policies/policies.h"
#include "policies/processes.h"
#include "tasks/tasks.h"

#include <dsflow/plugin.h>

#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct dsflow_data_spec *
data_of(const struct trial *t, const struct dsflow_task_spec *at, unsigned port)
{
    return dsflow_graph_data(t->graph, at->data[port]);
}

/* Only what moves data reads that of another rank; nothing writes it. */
static void check_task(const char *text, const struct trial *t,
                       const struct dsflow_task_spec *task)
{
    if (task->rank < 0 || task->rank >= t->plan->nranks)
        fail_msg("%s: a task %s is on rank %d of %d", text, task->op->name,
                 task->rank, (int)t->plan->nranks);
    for (unsigned p = 0; p < task->ndata; p++) {
        const struct dsflow_data_spec *d = data_of(t, task, p);
        bool reads = dsflow_task_access(task, p) == DSFLOW_R;

        if (d->home != task->rank && !(task->op->comm && reads))
            fail_msg("%s: a task %s on rank %d %s %s of rank %d", text,
                     task->op->name, task->rank, reads ? "reads" : "writes",
                     d->name, d->home);
    }
}

/* Each rank computes something. */
static void check_work(const char *text, const struct trial *t)
{
    int *ntasks = calloc((size_t)t->plan->nranks, sizeof(*ntasks));

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        ntasks[task->rank] += task->pass == DSFLOW_FORWARD && !task->op->comm;
    }
    for (int r = 0; r < t->plan->nranks; r++)
        if (ntasks[r] == 0)
            fail_msg("%s: rank %d has nothing to do", text, r);
    free(ntasks);
}

static void a_task_touches_the_memory_of_its_rank(void **state)
{
    static const char *const texts[] = {
        "gpt2",
        "gpt2 mesh.data=2",
        "gpt2 mesh.data=4 zero.stage=1",
        "gpt2 mesh.data=4 zero.stage=2 zero.reduce=micro batch.groups=8",
        "gpt2 mesh.data=16 zero.stage=3 zero.keep=0 batch.sequences=16",
        "gpt2 mesh.pipeline=4 pipeline.schedule=zero_bubble",
        "llama mesh.pipeline=2 pipeline.schedule=interleaved "
        "pipeline.chunks=3 model.tied=false",
        "llama mesh.data=2 mesh.pipeline=3 zero.stage=3 batch.tile=16 "
        "batch.order=layer_major recompute.what=block",
        "llama mesh.data=2 mesh.pipeline=2 zero.stage=2 optimizer.clip=0.0 "
        "recompute.what=attention",
        "llama mesh.tensor=2 mesh.data=2 mesh.pipeline=2 zero.stage=3",
        "gpt2 mesh.tensor=4 mesh.pipeline=2 zero.reduce=micro zero.stage=2",
        "gpt2 mesh.sequence=4 mesh.data=2 zero.stage=3 zero.keep=0",
        "llama mesh.sequence=2 mesh.tensor=2 mesh.pipeline=2 zero.stage=1 "
        "recompute.what=attention",
        "llama mesh.sequence_kind=heads mesh.sequence=4 mesh.tensor=2 "
        "mesh.pipeline=2 zero.stage=2 recompute.what=attention",
        "gpt2 mesh.sequence_kind=heads mesh.sequence=3 model.context=96 "
        "mesh.data=2 zero.stage=3 zero.keep=0",
        "llama mesh.sequence_kind=heads mesh.sequence=8 model.context=64 "
        "model.kv_heads=2",
    };

    for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct trial t;

        plan_trial(&t, texts[i]);
        for (uint32_t k = 0; k < dsflow_graph_ntasks(t.graph); k++)
            check_task(texts[i], &t,
                       dsflow_graph_task(t.graph, (dsflow_task_id){ k }));
        check_work(texts[i], &t);
        end_trial(&t);
    }
}

/* Four data ranks, one micro-batch each; blocks that are large beside the units
 * around them. */
#define SHARED                                                                 \
    "llama mesh.data=4 batch.sequences=4 model.layers=6 model.width=256 "      \
    "model.ffn_width=1024 model.heads=8 model.kv_heads=8 model.vocab=64 "      \
    "model.tied=false zero.keep=0 zero.prefetch=0 zero.stage="

#define CODED  " compress.keep=0 compress."
#define HALVED " precision.compute=bf16 precision.gradients=bf16"

static bool is_of_model(const struct dsflow_data_spec *d)
{
    return d->role == DSFLOW_PARAMS || d->role == DSFLOW_GRADS ||
           d->role == DSFLOW_STATES;
}

/* What rank `r` has of the model through the step (`live` 0), or while a layer
 * is worked on (1). */
static double bytes_on(const struct trial *t, int r, bool live)
{
    double bytes = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(t->graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(t->graph, (dsflow_data_id){ i });

        if (d->home == r && is_of_model(d) && (d->unit < 0) == live)
            bytes += (double)d->bytes;
    }
    return bytes;
}

static double elems_of(const struct dsf_model *model, bool blocks_only)
{
    double elems = 0;

    for (unsigned u = 0; u < model->nunits; u++)
        if (!blocks_only || model->units[u].kind >= 0)
            elems += (double)model->units[u].elems;
    return elems;
}

/* Rajbhandari et al. 2020, with fp32: parameters, gradients and two moments of
 * 4 bytes each; with bf16: copies of 2, gradients of 4 or 2, masters and two
 * moments of 4 each. */
static void zero_divides_what_a_rank_holds(void **state)
{
    static const struct {
        const char *text;
        double whole, shared; /* bytes of each parameter */
        int stage;
        double param, grad; /* of a gathered one, and a whole gradient */
    } stages[] = {
        { SHARED "0", 16, 0, 0, 4, 4 },
        { SHARED "1", 8, 8, 1, 4, 4 },
        { SHARED "2", 4, 12, 2, 4, 4 },
        { SHARED "3", 0, 16, 3, 4, 4 },
        { SHARED "0 precision.compute=bf16", 18, 0, 0, 2, 4 },
        { SHARED "1 precision.compute=bf16", 6, 12, 1, 2, 4 },
        { SHARED "2 precision.compute=bf16", 2, 16, 2, 2, 4 },
        { SHARED "3 precision.compute=bf16", 0, 18, 3, 2, 4 },
        { SHARED "0" HALVED, 16, 0, 0, 2, 2 },
        { SHARED "1" HALVED, 4, 12, 1, 2, 2 },
        { SHARED "2" HALVED, 2, 14, 2, 2, 2 },
        { SHARED "3" HALVED, 0, 16, 3, 2, 2 },
        /* A copy beside the master, in fp32, too; with stage 3 it is coded. */
        { SHARED "1" CODED "params=int8", 8, 12, 1, 4, 4 },
        { SHARED "3" CODED "params=int8", 0, 17, 3, 4, 4 },
    };

    for (unsigned i = 0; i < sizeof(stages) / sizeof(*stages); i++) {
        struct trial t;

        plan_trial(&t, stages[i].text);
        for (int r = 0; r < 4; r++) {
            double elems = elems_of(&t.model, false);
            double other = elems - elems_of(&t.model, true);
            double want = (stages[i].whole + stages[i].shared / 4) * elems;
            double layers = elems_of(&t.model, true) / t.model.layers;

            /* Units outside of the blocks may stay whole. */
            assert_true(bytes_on(&t, r, false) > 0.98 * want);
            assert_true(bytes_on(&t, r, false) < 1.02 * want + 18 * other);
            /* Live: gradients of two layers; from stage 3 on a layer of
             * parameters forwards and one backwards. */
            assert_true(bytes_on(&t, r, true) <
                        (stages[i].stage < 2 ? 0 : 2.02 * stages[i].grad) *
                                layers +
                            (stages[i].stage < 3 ? 0 : 2.02 * stages[i].param) *
                                layers +
                            8 * other + 1);
        }
        end_trial(&t);
    }
}

/* Bytes that rank `r` gets from others in a step. */
static double received_by(const struct trial *t, int r)
{
    double bytes = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        for (unsigned p = 0; p < task->ndata; p++)
            if (task->program == DSFLOW_STEP && task->rank == r)
                bytes += dsf_task_moves(t->graph, task, p);
    }
    return bytes;
}

/* Reduce and gather: twice the parameters; once more with stage 3, which
 * gathers them for each pass. All less the share that a rank has already. */
static void zero_moves_no_more_than_it_must(void **state)
{
    static const struct {
        const char *text;
        double times;
    } stages[] = {
        { SHARED "0", 2 },
        { SHARED "1", 2 },
        { SHARED "2", 2 },
        { SHARED "3", 3 },
        /* Gradients of 4 bytes, parameters of 2. */
        { SHARED "2 precision.compute=bf16", 1.5 },
        { SHARED "3 precision.compute=bf16", 2 },
        /* Both of 2. */
        { SHARED "0" HALVED, 1 },
        { SHARED "1" HALVED, 1 },
        { SHARED "2" HALVED, 1 },
        { SHARED "3" HALVED, 1.5 },
        /* Of each number a byte, and a scale for a block of 1024; or half a
         * byte, and one for 256; once, twice and three times. */
        { SHARED "0" CODED "gradients=int8", 1.251 },
        { SHARED "2" CODED "gradients=int8", 1.251 },
        { SHARED "2" CODED "params=int8", 1.251 },
        { SHARED "1" CODED "gradients=bf16", 1.5 },
        { SHARED "2" CODED "gradients=int4" CODED "params=int8", 0.38 },
        { SHARED "3" CODED "gradients=int4" CODED "params=int8", 0.631 },
        { SHARED "2 zero.reduce=micro", 2 },
        { SHARED "3 batch.sequences=16 batch.order=layer_major", 3 },
    };

    for (unsigned i = 0; i < sizeof(stages) / sizeof(*stages); i++) {
        struct trial t;

        plan_trial(&t, stages[i].text);
        for (int r = 0; r < 4; r++) {
            double most =
                stages[i].times * 0.75 * 4 * elems_of(&t.model, false);

            /* Shards differ by a block, and the last has the vectors. */
            if (fabs(received_by(&t, r) - most) > 0.02 * most)
                fail_msg("%s: rank %d receives %.0f bytes: expected %.0f",
                         stages[i].text, r, received_by(&t, r), most);
        }
        end_trial(&t);
    }
}

/* Bytes of a unit in codes of so many bits: scales and vectors among them. */
static double coded_bytes(const struct dsf_unit *u, int bits, int64_t block)
{
    const int64_t coded = u->decay / block * block;

    return (double)(coded / block * (4 + block * bits / 8) +
                    4 * (u->elems - coded));
}

static struct dsf_traffic traffic_of(const struct trial *t,
                                     const struct dsflow_op *op,
                                     const int32_t *node_of)
{
    struct dsf_traffic sum = { { 0 }, { 0 } };

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });
        struct dsf_traffic one = dsf_traffic_of(t->graph, task, node_of);

        if (task->program == DSFLOW_STEP && (op == NULL || task->op == op))
            dsf_traffic_add(&sum, &one);
    }
    return sum;
}

/* Of all ranks together: three of four have each piece sent. */
static void coded_bytes_are_those_of_the_formula(void **state)
{
    double grads = 0, params = 0, numbers = 0;
    struct dsf_traffic moved;
    struct trial t;

    plan_trial(&t, SHARED "2" CODED "gradients=int4" CODED "params=int8");
    for (unsigned u = 0; u < t.model.nunits; u++)
        if (t.model.units[u].decay > 1024) {
            grads += coded_bytes(&t.model.units[u], 4, 256);
            params += coded_bytes(&t.model.units[u], 8, 1024);
            numbers += (double)t.model.units[u].elems;
        }
    assert_true(numbers > 0.99 * elems_of(&t.model, false));
    moved = traffic_of(&t, &dsf_op_add_compressed, NULL);
    assert_true(dsf_traffic_bytes(&moved) == 3 * grads);
    assert_true(dsf_traffic_dense(&moved) == 3 * 4 * numbers);
    moved = traffic_of(&t, &dsf_op_decompress, NULL);
    assert_true(dsf_traffic_bytes(&moved) == 3 * params);
    assert_true(dsf_traffic_dense(&moved) == 3 * 4 * numbers);
    end_trial(&t);
}

static bool near_to(double is, double want)
{
    return fabs(is - want) <= 0.02 * want;
}

/* Eight ranks on two nodes, with stage 3. Of each parameter a rank receives
 * from the other node, which has half of them: 4 + 4 + 4 bytes, of two gathers
 * and a sum; with all of ZeRO++ 1 + 0, and a coded sum of an eighth. */
static void between_nodes_zero_plus_plus_sends_few_bytes(void **state)
{
    static const int32_t node_of[] = { 0, 0, 0, 0, 1, 1, 1, 1 };
    static const char eight[] = SHARED "3 mesh.data=8 batch.sequences=8";
    struct dsf_traffic all, sums, gathers;
    struct trial t;
    char text[600];
    double elems;

    plan_trial(&t, eight);
    elems = 8 * elems_of(&t.model, true);
    all = traffic_of(&t, NULL, node_of);
    assert_true(near_to(all.bytes[DSF_WIRES_BETWEEN], 12 * elems / 2));
    assert_true(all.dense[DSF_WIRES_BETWEEN] == all.bytes[DSF_WIRES_BETWEEN]);
    end_trial(&t);

    snprintf(text, sizeof(text), "%s%s", eight,
             CODED "gradients=int4" CODED "params=int8" CODED "node=4" CODED
                   "secondary=4");
    plan_trial(&t, text);
    sums = traffic_of(&t, &dsf_op_add_compressed, node_of);
    /* Each rank gets what it keeps, a fourth, and that from its neighbours. */
    gathers = traffic_of(&t, &dsf_op_gather_coded, node_of);
    assert_true(
        near_to(gathers.bytes[DSF_WIRES_BETWEEN], 1.004 * elems / 4 / 2));
    gathers = traffic_of(&t, &dsf_op_decompress, node_of);
    assert_true(gathers.bytes[DSF_WIRES_BETWEEN] < 0.01 * elems);
    assert_true(
        near_to(gathers.bytes[DSF_WIRES_INSIDE], 2 * 1.004 * elems * 3 / 4));
    assert_true(near_to(sums.bytes[DSF_WIRES_BETWEEN], 0.516 * elems / 8));
    all = traffic_of(&t, NULL, node_of);
    assert_true(all.bytes[DSF_WIRES_BETWEEN] < 0.2 * elems);
    end_trial(&t);

    /* Without second copies both gathers come from both nodes. */
    snprintf(text, sizeof(text), "%s%s", eight, CODED "params=int8");
    plan_trial(&t, text);
    gathers = traffic_of(&t, &dsf_op_decompress, node_of);
    assert_true(
        near_to(gathers.bytes[DSF_WIRES_BETWEEN], 2 * 1.004 * elems / 2));
    end_trial(&t);
}

/* How much of coded parameters `op` gets from other nodes of eight ranks: a
 * byte of each number that is 4, and no task reads of more than eight. */
static double coded_from_nodes(const struct trial *t,
                               const struct dsflow_op *op)
{
    int32_t node_of[64];
    struct dsf_traffic sum;

    for (int32_t r = 0; r < 64; r++)
        node_of[r] = r / 8;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task = dsf_nth_task(t->graph, i);

        assert_true(task->op != op || task->program != DSFLOW_STEP ||
                    task->ndata <= 1 + 8);
    }
    sum = traffic_of(t, op, node_of);
    assert_true(
        near_to(dsf_traffic_dense(&sum) / dsf_traffic_bytes(&sum), 4 / 1.004));
    return sum.bytes[DSF_WIRES_BETWEEN];
}

/* Of 64 ranks on eight nodes each reads from eight and eight: to each node a
 * unit goes once in a gather, but for its own eighth; once in a step, with
 * second copies on a node. */
static void coded_parameters_go_by_levels(void **state)
{
    static const struct {
        const char *keys;
        int gathers; /* between nodes */
    } kinds[] = { { "", 2 }, { CODED "secondary=8", 1 } };

    for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        char text[600];
        double coded = 0;
        struct trial t;

        snprintf(text, sizeof(text), "%s%s%s",
                 SHARED "3 mesh.data=64 batch.sequences=64 model.layers=2",
                 CODED "params=int8", kinds[i].keys);
        plan_trial(&t, text);
        for (unsigned u = 0; u < t.model.nunits; u++)
            if (t.model.units[u].kind >= 0)
                coded += coded_bytes(&t.model.units[u], 8, 1024);
        assert_true(near_to(coded_from_nodes(&t, &dsf_op_gather_coded),
                            kinds[i].gathers * 7 * coded));
        assert_true(coded_from_nodes(&t, &dsf_op_decompress) == 0);
        end_trial(&t);
    }
}

static double activations_on(const struct trial *t, int r)
{
    double bytes = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(t->graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(t->graph, (dsflow_data_id){ i });

        if (d->home == r && d->role == DSFLOW_ACTIVATIONS)
            bytes += (double)d->bytes;
    }
    return bytes;
}

/* With 1F1B the first stage keeps four micro-batches, the last one: with gpipe
 * all keep eight. */
static void one_f_one_b_keeps_what_is_left_of_the_pipeline(void **state)
{
    struct trial g, f;

    plan_trial(&g, "gpt2 mesh.pipeline=4 batch.sequences=16 "
                   "pipeline.schedule=gpipe");
    plan_trial(&f, "gpt2 mesh.pipeline=4 batch.sequences=16");
    for (int r = 0; r < 4; r++)
        assert_true(activations_on(&f, r) < 0.5 * activations_on(&g, r));
    for (int r = 0; r + 2 < 4; r++) /* the last one has logits, too */
        assert_true(activations_on(&f, r) > 1.1 * activations_on(&f, r + 1));
    end_trial(&g);
    end_trial(&f);
}

/* Eight tiles of a rank, in fp32, with half as many heads of keys as of
 * queries: keys and values are as wide as the model. */
#define LONG "llama batch.sequences=1 model.context=1024 batch.tile=16 "

static const int sharers[] = { 2, 3, 4, 8 };

/* Bytes that rank `r` receives in a layer in one direction: keys and values, or
 * sums of their gradients. */
static double keys_received(const struct trial *t, int r, uint8_t pass,
                            const struct dsflow_op *op)
{
    double bytes = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task = dsf_nth_task(t->graph, i);

        if (task->op != op || task->rank != r || task->layer != 1 ||
            task->pass != pass || task->microbatch < 0 ||
            task->program != DSFLOW_STEP)
            continue;
        for (unsigned p = 0; p < task->ndata; p++)
            bytes += dsf_task_moves(t->graph, task, p);
    }
    return bytes;
}

/* docs/design/0016-sequence.md */
static void keys_go_once_to_each_rank_that_sees_them(void **state)
{
    for (unsigned i = 0; i < sizeof(sharers) / sizeof(*sharers); i++) {
        const int n = sharers[i], tokens = n == 3 ? 1008 : 1024;
        char text[200];
        struct trial t;
        double stretch;

        snprintf(text, sizeof(text),
                 LONG "mesh.sequence_kind=keys mesh.sequence=%d "
                      "batch.sequence=%d",
                 n, tokens);
        plan_trial(&t, text);
        stretch = (double)tokens / (2 * n) * t.model.dims.width * 4;
        for (int r = 0; r < n; r++) {
            const double keys = (2 * n - 2 - r) * stretch;

            assert_true(keys_received(&t, r, DSFLOW_FORWARD, &dsf_op_send) ==
                        keys);
            assert_true(keys_received(&t, r, DSFLOW_BACKWARD, &dsf_op_send) ==
                        keys);
            assert_true(keys_received(&t, r, DSFLOW_BACKWARD, &dsf_op_reduce) ==
                        (n - 1 + r) * stretch);
        }
        end_trial(&t);
    }
}

/* What the others have of the queries, keys and values of a rank's heads, and
 * of the outputs of its tokens: (q + 2 kv + out) (n / P) (P - 1) / P numbers.
 * Back the gradients of all of them, and a number of each head (delta). Of two
 * ranks that have the same head of keys each gets all keys of it, but the
 * queries of half of the tokens, its own among them. */
static void heads_are_exchanged_once_in_each_direction(void **state)
{
    static const int by[] = { 2, 4, 8 };

    for (unsigned i = 0; i < sizeof(by) / sizeof(*by); i++) {
        const double n = by[i], part = 1024 / n * 4;
        double most = 0;
        char text[200];
        struct trial t;

        snprintf(text, sizeof(text),
                 LONG "mesh.sequence_kind=heads mesh.sequence=%d", by[i]);
        plan_trial(&t, text);
        for (int r = 0; r < by[i]; r++) {
            const struct dsf_dims *d = &t.model.dims;
            const double teams = n < d->kv_heads ? n : d->kv_heads;
            const double heads = part * (teams - 1) / teams * d->heads;
            const double queries = heads * d->head_dim;
            const double keys =
                part * (n - 1) / teams * 2 * d->kv_heads * d->head_dim;
            const double sums =
                keys_received(&t, r, DSFLOW_BACKWARD, &dsf_op_reduce);
            const double back = keys_received(&t, r, DSFLOW_BACKWARD,
                                              &dsf_op_all_to_all_heads);

            assert_true(keys_received(&t, r, DSFLOW_FORWARD,
                                      &dsf_op_all_to_all_heads) ==
                        2 * queries + keys);
            /* Of two ranks gradients of keys are received to be summed. */
            assert_true(back + sums <= 2 * queries + heads + keys);
            assert_true(n > teams || (sums == 0 && back == 2 * queries + heads +
                                                               keys));
            most = sums > most ? sums : most;
        }
        assert_true(n <= t.model.dims.kv_heads || most > 0);
        end_trial(&t);
    }
}

/* All that rank `r` receives of others in a layer and direction. */
static double layer_received(const struct trial *t, int r, uint8_t pass)
{
    double bytes = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task = dsf_nth_task(t->graph, i);

        for (unsigned p = 0;
             p < task->ndata && task->rank == r && task->layer == 1 &&
             task->pass == pass && task->microbatch >= 0 &&
             task->program == DSFLOW_STEP;
             p++)
            bytes += dsf_task_moves(t->graph, task, p);
    }
    return bytes;
}

static void heads_move_less_than_parts_of_tensors(void **state)
{
    for (int n = 2; n <= 8; n *= 2) {
        struct trial heads, tensor;
        char text[200];

        snprintf(text, sizeof(text),
                 LONG "model.kv_heads=8 mesh.sequence_kind=heads "
                      "mesh.sequence=%d",
                 n);
        plan_trial(&heads, text);
        snprintf(text, sizeof(text), LONG "model.kv_heads=8 mesh.tensor=%d", n);
        plan_trial(&tensor, text);
        for (int r = 0; r < n; r++)
            for (uint8_t pass = DSFLOW_FORWARD; pass <= DSFLOW_BACKWARD; pass++)
                assert_true(layer_received(&heads, r, pass) * n / 2 <
                            layer_received(&tensor, r, pass));
        end_trial(&heads);
        end_trial(&tensor);
    }
}

/* Of those of layers, or of keys that rank `r` has of others and their sums. */
static double layers_on(const struct trial *t, int r, bool keys)
{
    double bytes = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(t->graph); i++) {
        const struct dsflow_data_spec *d = dsf_nth_data(t->graph, i);
        const char *ring = d->ring != NULL ? d->ring : "";

        if (d->home == r && (keys ? strcmp(ring, "mesh.key_slots") == 0
                                  : d->role == DSFLOW_ACTIVATIONS &&
                                        strcmp(ring, "machine.workers") != 0))
            bytes += (double)d->bytes;
    }
    return bytes;
}

/* Each rank keeps its part of the activations, and a few tiles of keys and of
 * their gradients. */
static void ranks_divide_the_activations_of_a_sequence(void **state)
{
    struct trial one, four;

    plan_trial(&one, LONG "batch.key_tiles=1 batch.sequence_groups=4");
    plan_trial(&four, LONG "batch.key_tiles=1 mesh.key_slots=2 mesh.sequence=4 "
                           "mesh.sequence_kind=keys");
    for (int r = 0; r < 4; r++) {
        const double part = layers_on(&one, 0, false) / 4;

        assert_true(layers_on(&four, r, false) == part);
        assert_true(layers_on(&four, r, true) < 0.01 * part);
    }
    end_trial(&one);
    end_trial(&four);
}

/* What differs between two tasks, apart from their priority; NULL: nothing. */
static const char *compare_tasks(const struct dsflow_graph *a,
                                 const struct dsflow_task_spec *s,
                                 const struct dsflow_graph *b,
                                 const struct dsflow_task_spec *t)
{
    if (s->op != t->op || s->rank != t->rank || s->program != t->program)
        return "kind, rank or program";
    if (s->layer != t->layer || s->microbatch != t->microbatch ||
        s->tile != t->tile || s->pass != t->pass)
        return "place";
    if (s->fresh != t->fresh || s->without != t->without ||
        s->ndata != t->ndata)
        return "ports";
    if (s->op->args_size > 0 && memcmp(s->args, t->args, s->op->args_size) != 0)
        return "arguments";
    for (unsigned i = 0; i < s->ndata; i++) {
        struct dsflow_data_spec x = *dsflow_graph_data(a, s->data[i]);
        struct dsflow_data_spec y = *dsflow_graph_data(b, t->data[i]);

        if (strcmp(x.name, y.name) != 0)
            return "data";
        if (x.elems != y.elems || x.dtype != y.dtype || x.role != y.role ||
            x.home != y.home || x.tier != y.tier || x.unit != y.unit ||
            x.part != y.part || x.at != y.at || x.kept != y.kept ||
            x.persistent != y.persistent || x.constant != y.constant ||
            x.stream != y.stream)
            return "a description of data";
    }
    return NULL;
}

/* What the processes call a task, of the part of one with the whole graph and
 * of one without. */
static const char *compare_numbers(const struct dsf_graph_part *part,
                                   const struct dsf_graph_part *own, uint32_t i)
{
    const bool here = part->moved[i] == DSF_NOT_IN_PART;

    if (part->nth[i] != own->nth[i])
        return "number";
    if (here != (own->moved[i] == DSF_NOT_IN_PART))
        return "place among messages";
    return here || strcmp(dsf_nth_data(part->graph, part->moved[i])->name,
                          dsf_nth_data(own->graph, own->moved[i])->name) == 0
               ? NULL
               : "data that it moves";
}

/* One end of a message. */
struct end {
    int32_t from, to, rank; /* processes; the rank whose task it is */
    struct dsf_part_message m;
    bool out;
};

struct ends {
    struct end *v;
    size_t n, cap;
};

static void add_ends(struct ends *ends, const struct dsflow_task_spec *task,
                     int32_t p)
{
    struct dsf_part_message parts[DSF_MOST_MESSAGES];
    bool out;

    if (!dsf_is_message(task->op))
        return;
    for (unsigned i = dsf_messages(task, parts, &out); i-- > 0;) {
        const int32_t other = parts[i].process;

        dsf_grow(&ends->v, &ends->cap, ends->n + 1, sizeof(*ends->v));
        ends->v[ends->n++] = (struct end){ out ? p : other, out ? other : p,
                                           task->rank, parts[i], out };
    }
}

static int by_message(const void *a, const void *b)
{
    const struct end *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->m.tag != y->m.tag)
        return x->m.tag < y->m.tag ? -1 : 1;
    return (x->out ? 1 : 0) - (y->out ? 1 : 0);
}

/* Both say how long it is, whether it is from GPU to GPU, and of which. */
static void check_ends(const char *text, struct ends *ends)
{
    qsort(ends->v, ends->n, sizeof(*ends->v), by_message);
    for (size_t i = 0; i < ends->n; i += 2) {
        const struct end *in = &ends->v[i], *out = in + 1;
        const bool direct = in->m.rank >= 0;

        if (i + 1 == ends->n || in->out || !out->out ||
            in->from != out->from || in->to != out->to ||
            in->m.tag != out->m.tag)
            fail_msg("%s: message %u from process %d to %d has one end", text,
                     in->m.tag, (int)in->from, (int)in->to);
        if (in->m.elems != out->m.elems || direct != (out->m.rank >= 0) ||
            (direct && (in->m.rank != out->rank || out->m.rank != in->rank)))
            fail_msg("%s: message %u from process %d to %d: its ends say "
                     "%lld numbers for rank %d of rank %d, and %lld for %d of "
                     "%d",
                     text, in->m.tag, (int)in->from, (int)in->to,
                     (long long)out->m.elems, (int)out->m.rank, (int)out->rank,
                     (long long)in->m.elems, (int)in->rank, (int)in->m.rank);
    }
}

/* What process `p` makes alone is what it has of the whole. */
static void check_alone(const char *text, struct trial *t,
                        const struct dsf_processes *division, int32_t p,
                        struct ends *ends)
{
    const struct dsf_processes all = *division;
    const int32_t n = all.n;
    struct dsf_graph_part part, own;
    struct dsf_asked_graph asked;
    struct dsflow_graph *alone;
    struct dsflow_err err;
    uint32_t ntasks;

    must(text, dsf_process_part(&all, p, t->graph, &part, &err), &err);
    must(text, dsf_policies_build_asked(t->plan, &all, p, &asked, &err), &err);
    must(text, dsf_process_build_from(&all, p, &asked, &own, &err), &err);
    dsflow_graph_free(asked.graph);
    alone = own.graph;
    ntasks = dsflow_graph_ntasks(part.graph);
    for (uint32_t i = 0; i < ntasks && i < dsflow_graph_ntasks(alone); i++) {
        const struct dsflow_task_spec *s = dsf_nth_task(part.graph, i);
        const struct dsflow_task_spec *u = dsf_nth_task(alone, i);
        const char *what = compare_tasks(part.graph, s, alone, u);

        if (what == NULL)
            what = compare_numbers(&part, &own, i);
        if (what != NULL)
            fail_msg("%s: process %d of %d: task %u of %u is %s with %s, layer "
                     "%d, micro-batch %d: expected %s with %s, layer %d, "
                     "micro-batch %d: other %s",
                     text, (int)p, (int)n, i, ntasks, u->op->name,
                     dsflow_graph_data(alone, u->data[0])->name, u->layer,
                     u->microbatch, s->op->name,
                     dsflow_graph_data(part.graph, s->data[0])->name, s->layer,
                     s->microbatch, what);
        add_ends(ends, u, p);
    }
    if (dsflow_graph_ntasks(alone) != ntasks ||
        dsflow_graph_ndata(alone) != dsflow_graph_ndata(part.graph))
        fail_msg("%s: process %d of %d: %u tasks, %u data: expected %u, %u",
                 text, (int)p, (int)n, dsflow_graph_ntasks(alone),
                 dsflow_graph_ndata(alone), ntasks,
                 dsflow_graph_ndata(part.graph));
    if (own.hashes[p] != part.hashes[p])
        fail_msg("%s: process %d of %d: another hash than of the whole graph",
                 text, (int)p, (int)n);
    dsf_graph_part_free(&own);
    dsf_graph_part_free(&part);
}

static void check_divisions(const char *text, struct dice *dice)
{
    struct ends ends = { .n = 0 };
    struct dsf_processes all;
    struct trial t;
    int32_t n;

    plan_trial(&t, text);
    if (t.plan->nranks > 1) {
        dice->state = dice->state * 6364136223846793005u + 1;
        n = 2 + (int32_t)((dice->state >> 33) % (uint64_t)(t.plan->nranks - 1));
        all = (struct dsf_processes){
            .ranks = t.plan->nranks,
            .n = n,
            .devices = t.job.machine.virtuals > 0 || dice->state >> 63,
            .direct = dice->state >> 62 == 3,
        };
        for (int32_t p = 0; p < n; p++)
            check_alone(text, &t, &all, p, &ends);
        check_ends(text, &ends);
        free(ends.v);
    }
    end_trial(&t);
}

static void a_process_alone_makes_its_part_of_the_whole(void **state)
{
    const char *seed = getenv("SEED"), *count = getenv("TRIALS");
    struct dice dice = { seed != NULL ? strtoull(seed, NULL, 10) : 1 };
    int nrandom = count != NULL ? atoi(count) : 40;

    if (getenv("ONE") != NULL) {
        check_divisions(getenv("ONE"), &dice);
        return;
    }
    /* Where a test brings a policy, the graph is the whole one. */
    for (unsigned i = 0; mesh_trials[i] != NULL && seed == NULL; i++)
        if (strstr(mesh_trials[i], "=drift") == NULL)
            check_divisions(mesh_trials[i], &dice);
    for (int i = 0; i < nrandom; i++) {
        char *text = random_trial(&dice, false), in_bf16[1024];

        snprintf(in_bf16, sizeof(in_bf16), "%s%s", text,
                 i % 3 == 0 ? " precision.compute=bf16" : "");
        check_divisions(in_bf16, &dice);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_touches_the_memory_of_its_rank),
        cmocka_unit_test(zero_divides_what_a_rank_holds),
        cmocka_unit_test(zero_moves_no_more_than_it_must),
        cmocka_unit_test(coded_bytes_are_those_of_the_formula),
        cmocka_unit_test(between_nodes_zero_plus_plus_sends_few_bytes),
        cmocka_unit_test(coded_parameters_go_by_levels),
        cmocka_unit_test(one_f_one_b_keeps_what_is_left_of_the_pipeline),
        cmocka_unit_test(keys_go_once_to_each_rank_that_sees_them),
        cmocka_unit_test(heads_are_exchanged_once_in_each_direction),
        cmocka_unit_test(heads_move_less_than_parts_of_tensors),
        cmocka_unit_test(ranks_divide_the_activations_of_a_sequence),
        cmocka_unit_test(a_process_alone_makes_its_part_of_the_whole),
    };

    if (dsflow_plugin_add(&dsflow_plugin, "a test", NULL) < 0)
        return 1;
    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}
