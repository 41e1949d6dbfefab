/* test_meshes.c - a job gives the same bits on every mesh. Each trial is a job
 * with some keys changed, trained for a few steps; its parameters, states,
 * losses and norms must be those of the same job on one rank, run by the serial
 * executor. Only keys that order the sums (`counts` below) are kept there.
 *
 *     tests/same/test_meshes "llama mesh.data=2 zero.stage=3"
 *
 * runs that trial alone; SEED=7 TRIALS=500, other random ones; SHARD=2/4, every
 * fourth of all, from the second on. In bf16 each trial is run by one of the two
 * executors, those of a list by turns. */
#include "trial.h"
#include "unit_ops.h"

#include "codelets/cast.h"
#include "machine/schedulers.h"
#include "model/parts.h"
#include "plan/programs.h"
#include "tasks/args.h"

#include <dsflow/exec.h>
#include <dsflow/plugin.h>

#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS       5
#define NRANDOM     40
#define TENSOR_NEAR 1e-5 /* relative, of the loss: tensor parallel, and */
#define GROUPS_NEAR 1e-6 /* other groups, sum in another order */
#define BF16_NEAR   1e-2 /* the same where numbers have eight bits */
#define BF16        " precision.compute=bf16"

/* Keys that say how sums are grouped, or what is computed at all. */
static const char *const counts[] = {
    "batch.groups", "batch.micro", "batch.sequences", "batch.tile",
    "model.",       "optimizer.",  "zero.reduce",     "precision.",
    "shrink.",
};

#define ALL_CPU                                                                \
    "offload.optimizer=cpu offload.params=cpu offload.gradients=cpu "          \
    "offload.activations=cpu"
/* With the segment of examples/plugins/gated_norm.c. */
#define GATED                                                                  \
    "model.segments=[\"qkv\",\"attention\",\"out\",\"gated_norm\",\"mlp\"] "
#define ALL_NVME                                                               \
    "offload.optimizer=nvme offload.params=nvme offload.gradients=nvme "       \
    "offload.activations=nvme"

#define NO_MASTERS "precision.compute=bf16 precision.master=false "

static const char *const trials[] = {
    /* Data parallel, and what ZeRO shares out of it. */
    "gpt2 mesh.data=2",
    "gpt2 mesh.data=2 zero.stage=1",
    "gpt2 mesh.data=2 zero.stage=2",
    "gpt2 mesh.data=2 zero.stage=3",
    "gpt2 mesh.data=2 zero.stage=3 zero.keep=0",
    "llama mesh.data=4",
    "llama mesh.data=4 zero.stage=1",
    "llama mesh.data=4 zero.stage=2 batch.groups=8",
    "llama mesh.data=4 zero.stage=3 zero.keep=0 zero.prefetch=0",
    "llama mesh.data=4 zero.stage=3 zero.keep=20KiB zero.prefetch=3",
    "llama mesh.data=8 zero.stage=1",
    "llama mesh.data=8 zero.stage=3 zero.keep=0 batch.tile=16",
    "gpt2 mesh.data=8 zero.stage=2",
    "gpt2 mesh.data=16 batch.sequences=32 zero.stage=0",
    "gpt2 mesh.data=16 batch.sequences=32 zero.stage=1",
    "gpt2 mesh.data=24 batch.sequences=48 zero.stage=2",
    "gpt2 mesh.data=16 batch.sequences=32 zero.stage=3 zero.keep=0",
    "gpt2 mesh.data=16 zero.stage=1 batch.sequences=32",
    "gpt2 mesh.data=11 zero.stage=3 zero.keep=0 batch.sequences=22",
    "gpt2 mesh.data=3 zero.stage=2 batch.sequences=12",
    "gpt2 mesh.data=3 zero.stage=3 zero.keep=0 batch.sequences=12",
    "gpt2 batch.groups=8",
    "gpt2 mesh.data=2 batch.groups=8",
    "gpt2 mesh.data=4 batch.groups=8 zero.stage=1",
    "gpt2 mesh.data=8 batch.groups=8 zero.stage=3 zero.keep=0",

    /* Gradients summed over the ranks at each micro-batch. */
    "gpt2 zero.reduce=micro batch.groups=4",
    "gpt2 mesh.data=2 zero.stage=1 zero.reduce=micro",
    "gpt2 mesh.data=2 zero.stage=2 zero.reduce=micro batch.groups=4",
    "gpt2 mesh.data=4 zero.stage=3 zero.reduce=micro zero.keep=0",
    "llama mesh.data=4 zero.stage=2 zero.reduce=micro batch.groups=4",
    "llama mesh.data=2 zero.stage=3 zero.reduce=micro batch.groups=8 "
    "zero.keep=0",

    /* Pipelines. */
    "gpt2 mesh.pipeline=2",
    "gpt2 mesh.pipeline=2 pipeline.schedule=gpipe",
    "gpt2 mesh.pipeline=2 pipeline.schedule=zero_bubble",
    "gpt2 mesh.pipeline=2 pipeline.schedule=interleaved",
    "gpt2 mesh.pipeline=4",
    "gpt2 mesh.pipeline=3 batch.sequences=7",
    "gpt2 mesh.pipeline=2 pipeline.split=[1,3] batch.tile=16",
    "gpt2 mesh.pipeline=3 pipeline.split=[2,0,2]",
    "llama mesh.pipeline=3 pipeline.schedule=interleaved batch.sequences=7",
    "llama mesh.pipeline=2 pipeline.schedule=interleaved pipeline.chunks=3",
    "llama mesh.pipeline=6 pipeline.schedule=zero_bubble",
    "llama mesh.pipeline=4 pipeline.schedule=gpipe pipeline.split=[1,2,2,1]",
    "llama mesh.pipeline=2 model.tied=true",
    "gpt2 mesh.pipeline=2 pipeline.strict=true",
    "gpt2 mesh.pipeline=4 pipeline.schedule=gpipe pipeline.strict=true",
    "llama mesh.pipeline=3 pipeline.schedule=interleaved batch.sequences=7 "
    "pipeline.strict=true",
    "gpt2 mesh.pipeline=2 mesh.data=2 mesh.tensor=2 zero.stage=3 zero.keep=0 "
    "pipeline.strict=true",
    "gpt2 mesh.pipeline=2 batch.order=layer_major batch.groups=4 "
    "pipeline.strict=true",
    "llama mesh.pipeline=3 pipeline.schedule=zero_bubble model.tied=true "
    "batch.tile=16",

    /* Layers before micro-batches. */
    "gpt2 batch.order=layer_major",
    "gpt2 batch.order=layer_major batch.groups=4",
    "gpt2 batch.order=layer_major mesh.data=2 zero.stage=3 zero.keep=0",
    "llama batch.order=layer_major mesh.data=4 zero.stage=2",
    "llama batch.order=layer_major mesh.data=2 zero.stage=3 zero.keep=0 "
    "zero.reduce=micro",
    "llama batch.order=layer_major mesh.pipeline=2",
    "gpt2 batch.order=layer_major mesh.pipeline=2 mesh.data=2 zero.stage=3 "
    "zero.keep=0",

    /* Recomputing. */
    "gpt2 recompute.what=attention",
    "gpt2 recompute.what=block",
    "llama recompute.what=attention batch.tile=16",
    "llama recompute.what=block batch.tile=16",
    "llama recompute.what=block recompute.layers=0-2,5",
    "llama recompute.what=attention recompute.layers=1,3-4",
    "gpt2 recompute.what=block batch.order=layer_major",
    "gpt2 recompute.what=block mesh.pipeline=2",
    "llama recompute.what=attention mesh.data=2 zero.stage=3 zero.keep=0",
    "llama recompute.what=block mesh.data=4 zero.stage=3 zero.keep=0",

    /* All of it. */
    "gpt2 mesh.data=2 mesh.pipeline=2",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=1",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.keep=0",
    "gpt2 mesh.data=2 mesh.pipeline=4 zero.stage=3 recompute.what=block",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 zero.reduce=micro",
    "gpt2 mesh.data=4 mesh.pipeline=2 zero.stage=3 zero.keep=0 "
    "pipeline.schedule=gpipe batch.groups=8",
    "llama mesh.data=2 mesh.pipeline=3 zero.stage=2 batch.sequences=12 "
    "pipeline.schedule=interleaved recompute.what=attention",
    "llama mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.keep=0 "
    "pipeline.schedule=zero_bubble recompute.what=block batch.tile=16",
    "llama mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.reduce=micro "
    "pipeline.schedule=interleaved pipeline.chunks=3 zero.keep=0",
    "llama mesh.data=4 mesh.pipeline=2 zero.stage=1 model.tied=true "
    "pipeline.schedule=zero_bubble batch.groups=8",

    /* Other optimizers, and no clipping. */
    "gpt2 optimizer.kind=lion mesh.data=2 zero.stage=3 zero.keep=0",
    "gpt2 optimizer.kind=sgd mesh.data=2 zero.stage=1",
    "gpt2 optimizer.kind=sgd optimizer.momentum=0.9 mesh.data=2 "
    "mesh.pipeline=2 zero.stage=2",
    "llama optimizer.clip=0.0 mesh.data=2 mesh.pipeline=2 zero.stage=2",

    /* Work on units that is not dsflow's own: an optimizer, and what a policy
     * puts behind its updates (unit_ops.h). */
    "gpt2 optimizer.kind=drift shrink.by=0.9 mesh.data=2",
    "gpt2 optimizer.kind=drift shrink.by=0.9 mesh.data=4 zero.stage=1",
    "llama optimizer.kind=drift shrink.by=0.9 mesh.data=4 zero.stage=2",
    "llama optimizer.kind=drift shrink.by=0.9 mesh.data=4 zero.stage=3 "
    "zero.keep=0",
    "gpt2 optimizer.kind=drift shrink.by=0.9 mesh.data=3 zero.stage=3 "
    "mesh.pipeline=2 batch.sequences=12",
    "gpt2 optimizer.kind=drift offload.optimizer=nvme offload.piece=4KiB "
    "mesh.data=2 zero.stage=1",
    "gpt2 optimizer.kind=drift shrink.by=0.9 mesh.tensor=2 mesh.data=2 "
    "zero.stage=3 zero.keep=0",

    /* Tensor parallel: the same bits for the same degree. */
    "gpt2 mesh.tensor=2",
    "gpt2 mesh.tensor=2 mesh.data=2",
    "gpt2 mesh.tensor=2 mesh.pipeline=2",
    "gpt2 mesh.tensor=2 mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.keep=0",
    "gpt2 mesh.tensor=4 mesh.data=2 zero.stage=2 zero.reduce=micro",
    "llama mesh.tensor=2 recompute.what=block",
    "llama mesh.tensor=2 batch.order=layer_major mesh.data=2 zero.stage=1",
    "llama mesh.tensor=2 mesh.pipeline=2 pipeline.schedule=interleaved "
    "recompute.what=attention",
    "llama mesh.tensor=2 mesh.pipeline=2 mesh.data=2 zero.stage=2 "
    "pipeline.schedule=zero_bubble batch.tile=16",
    "llama mesh.tensor=4 mesh.pipeline=2 model.tied=true",

    /* With a segment that a plug-in brings. */
    "gpt2 " GATED "mesh.data=2 zero.stage=3 zero.keep=0",
    "gpt2 " GATED "mesh.pipeline=2 recompute.what=block batch.tile=16",
    "llama " GATED "mesh.data=4 zero.stage=3 zero.keep=0 recompute.what=block",
    "llama " GATED ALL_CPU " batch.order=layer_major",
    "gpt2 " GATED "mesh.tensor=2",
    "gpt2 " GATED "mesh.tensor=4 mesh.data=2 zero.stage=3 zero.keep=0 "
    "recompute.what=block",
    "llama " GATED "mesh.tensor=2 mesh.pipeline=2 optimizer.kind=drift",
    "llama model.segments=[\"mlp\",\"gated_norm\"] mesh.data=2 zero.stage=2",

    /* Kept in other memories. */
    "gpt2 offload.optimizer=cpu",
    "gpt2 offload.optimizer=nvme",
    "gpt2 offload.params=cpu",
    "gpt2 offload.params=nvme",
    "gpt2 offload.gradients=cpu",
    "gpt2 offload.gradients=nvme",
    "gpt2 offload.activations=cpu",
    "gpt2 offload.activations=nvme",
    "llama offload.optimizer=nvme offload.share=0.4 offload.piece=4KiB",
    "llama offload.optimizer=nvme offload.piece=4KiB optimizer.clip=0.0",
    "llama offload.params=nvme offload.read_ahead=0",
    "llama offload.params=nvme offload.read_ahead=4 batch.in_flight=1",
    "llama offload.activations=nvme offload.read_ahead=0 "
    "offload.write_behind=0",
    "llama offload.gradients=nvme offload.write_behind=3 batch.groups=4",
    "gpt2 offload.optimizer=nvme offload.params=cpu offload.gradients=cpu "
    "offload.activations=cpu",
    "gpt2 " ALL_CPU,
    "gpt2 " ALL_NVME " memory.nvme.path=.",
    "llama " ALL_NVME " offload.read_ahead=0 offload.write_behind=0",
    "llama " ALL_NVME " batch.order=micro_major offload.piece=4KiB",
    "llama " ALL_NVME " batch.order=layer_major optimizer.clip=0.0",
    "llama " ALL_NVME " recompute.what=block memory.nvme.verify=true "
    "memory.nvme.path=.",
    "gpt2 " ALL_NVME " optimizer.kind=sgd optimizer.momentum=0.9",
    "gpt2 " ALL_NVME " optimizer.kind=sgd",
    "gpt2 " ALL_NVME " mesh.data=2",
    "gpt2 " ALL_NVME " mesh.data=2 zero.stage=1",
    "gpt2 " ALL_CPU " mesh.data=2 zero.stage=2",
    "gpt2 " ALL_NVME " mesh.data=2 zero.stage=2 zero.reduce=micro",
    "gpt2 " ALL_NVME " mesh.data=2 zero.stage=3 zero.keep=0",
    "llama " ALL_NVME " mesh.data=4 zero.stage=3 zero.prefetch=3",
    "llama " ALL_CPU " mesh.pipeline=3",
    "llama " ALL_NVME " mesh.pipeline=2 pipeline.schedule=zero_bubble",
    "llama " ALL_NVME " mesh.tensor=2 mesh.data=2 zero.stage=3 zero.keep=0",
    "llama " ALL_NVME " mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.keep=0 "
    "pipeline.schedule=interleaved recompute.what=attention",

    /* In fewer bytes: the same ones whoever packs them. */
    "gpt2 " ALL_NVME " precision.states=bf16",
    "gpt2 " ALL_NVME " precision.states=int8 offload.piece=4KiB",
    "llama " ALL_NVME " precision.states=int8 offload.piece=4KiB "
    "offload.read_ahead=0 offload.write_behind=0",
    "llama " ALL_CPU " precision.states=int8 mesh.data=2 offload.piece=4KiB",
    "llama " ALL_NVME " precision.states=bf16 mesh.data=2 zero.stage=3 "
    "zero.keep=0 mesh.pipeline=2",
    "gpt2 " ALL_NVME " precision.states=int8 mesh.data=4 zero.stage=1 "
    "offload.share=0.4 optimizer.kind=lion",
    "gpt2 precision.states=bf16 mesh.data=2 zero.stage=1",
    "llama precision.states=int8 mesh.data=2 zero.stage=3 zero.keep=0 "
    "offload.piece=4KiB machine.workers=3",
    "gpt2 precision.states=int8 mesh.pipeline=2 optimizer.clip=0.0 "
    "offload.params=nvme offload.gradients=nvme",
    "llama precision.states=bf16 mesh.data=2 optimizer.kind=lion",
    "gpt2 " NO_MASTERS "mesh.data=2 zero.stage=1 offload.piece=4KiB",
    "llama " NO_MASTERS "mesh.data=2 zero.stage=3 zero.keep=0 mesh.pipeline=2 "
    "precision.states=int8",
    "gpt2 " NO_MASTERS "offload.optimizer=cpu offload.params=nvme mesh.data=2",
    "gpt2 " NO_MASTERS "mesh.data=4 zero.stage=1 offload.params=nvme",

    /* Whatever StarPU's scheduler does, and with four workers to a core. */
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=lws "
    "machine.workers=8",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=ws "
    "machine.workers=2",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=eager "
    "machine.workers=8",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=prio "
    "machine.workers=2",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=random "
    "machine.workers=8",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=dm "
    "machine.workers=3",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=dmda "
    "machine.workers=8",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=dmdap "
    "machine.workers=2",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=dmdar "
    "machine.workers=8",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=dmdas "
    "machine.workers=3",

    /* Layers of several widths and numbers of heads. */
    "mixed mesh.data=2 zero.stage=3 zero.keep=0 mesh.pipeline=2 "
    "recompute.what=block",
    "mixed mesh.data=2 zero.stage=3 zero.keep=0 zero.prefetch=1",
    "mixed mesh.data=2 zero.stage=2 recompute.what=attention",
    "mixed recompute.what=block batch.tile=16",
    "mixed "
    ALL_NVME,
    "mixed mesh.pipeline=3 pipeline.schedule=zero_bubble batch.sequences=12",
    "mixed mesh.tensor=2 mesh.data=2 zero.stage=1 recompute.what=block",
};
#define NTRIALS (sizeof(trials) / sizeof(*trials))

/* What a run leaves, as whole units whatever held them. */
enum { PARAM, M, V, NKINDS };
static const char *const kind_names[] = { "parameters", "first moments",
                                          "second moments" };

struct result {
    char *text;             /* of a reference, by which it is found again */
    float *numbers[NKINDS]; /* of all units, one after the other */
    float *known[NKINDS];   /* of each number: 1 where anything held it */
    double losses[STEPS], norms[STEPS], evaluation;
    unsigned nreports;
    struct result *next;
};

struct training {
    const char *text; /* of the trial */
    struct trial trial;
    struct dsflow_exec *exec;
    struct dsflow_host host;
    struct result *result;
};

static struct result *references;

static int64_t first_of_unit(const struct dsf_model *model, unsigned u)
{
    int64_t first = 0;

    while (u-- > 0)
        first += model->units[u].elems;
    return first;
}

/* Text with something to learn in it: any place of any step, by any worker. */
static int32_t token_at(const struct training *tr, int64_t step, int64_t seq,
                        int64_t pos)
{
    uint64_t x = (uint64_t)(step * 1009 + seq * 31 + pos / 3);

    x = (x ^ x >> 7) * 0x9e3779b97f4a7c15u;
    return (int32_t)(x >> 40) % tr->trial.model.dims.vocab;
}

static void load_batch(void *user, const struct dsflow_batch *b)
{
    int32_t each = b->rows / b->nseq;

    for (int32_t i = 0; i < b->rows; i++) {
        int64_t seq = b->seq + i / each, pos = b->pos + i % each;

        b->tokens[i] = token_at(user, b->step, seq, pos);
        b->targets[i] = token_at(user, b->step, seq, pos + 1);
    }
}

static void report(void *user, const struct dsflow_step_report *of)
{
    struct result *r = ((struct training *)user)->result;

    if (strcmp(of->program, "eval") == 0) {
        r->evaluation += of->loss;
        return;
    }
    assert_true(of->step >= 1 && of->step <= STEPS);
    r->losses[of->step - 1] = of->loss;
    r->norms[of->step - 1] = of->norm;
    r->nreports++;
}

static struct result *new_result(const struct dsf_model *model)
{
    struct result *r = calloc(1, sizeof(*r));
    size_t n = (size_t)first_of_unit(model, model->nunits);

    for (int k = 0; k < NKINDS; k++) {
        r->numbers[k] = calloc(n, sizeof(float));
        r->known[k] = calloc(n, sizeof(float));
    }
    return r;
}

static void free_result(struct result *r)
{
    for (int k = 0; k < NKINDS; k++) {
        free(r->numbers[k]);
        free(r->known[k]);
    }
    free(r->text);
    free(r);
}

/* Which of a result's numbers persistent data holds; -1: none. */
static int kind_of(const struct dsflow_data_spec *d)
{
    if (!d->persistent || d->kept == 0)
        return -1;
    return d->kept == 1 + DSF_KEPT_PARAM    ? PARAM
           : d->kept >= 1 + DSF_KEPT_STATE ? M + d->kept - 1 - DSF_KEPT_STATE
                                           : -1;
}

/* Part `index` of unit `u`, as this mesh cuts it; NULL where it is empty. From
 * mesh.tensor on they are shared ones, of which there is one. */
static float *new_part(const struct training *tr, unsigned u, int index,
                       struct dsf_part *part)
{
    dsf_part_init(part, &tr->trial.model, tr->trial.plan->nparts, u,
                  index);
    return part->elems > 0 ? calloc((size_t)part->elems, sizeof(float)) : NULL;
}

static bool is_piece(const struct training *tr,
                     const struct dsflow_data_spec *d, int kind,
                     const struct dsf_part *part)
{
    int64_t elems = d->elems;

    if (kind_of(d) != kind || d->unit != (int32_t)part->unit ||
        d->part != part->part)
        return false;
    if (d->at < 0 || d->at + elems > part->elems)
        fail_msg("%s: %s has numbers %lld to %lld of the %lld of %s", tr->text,
                 d->name, (long long)d->at, (long long)(d->at + elems),
                 (long long)part->elems, part->name);
    return true;
}

/* All persistent data of a kind that is of this part, on any rank. */
static dsflow_data_id next_piece(const struct training *tr, uint32_t from,
                                 int kind, const struct dsf_part *part)
{
    const struct dsflow_graph *g = tr->trial.graph;

    while (from < dsflow_graph_ndata(g) &&
           !is_piece(tr, dsflow_graph_data(g, (dsflow_data_id){ from }), kind,
                     part))
        from++;
    return (dsflow_data_id){ from };
}

#define EACH_PIECE(tr, id, kind, part)                                         \
    for (dsflow_data_id id = next_piece(tr, 0, kind, part);                    \
         id.i < dsflow_graph_ndata((tr)->trial.graph);                         \
         id = next_piece(tr, id.i + 1, kind, part))

/* Weights of step 0, the same ones wherever they are. */
static void fill_part(struct training *tr, const float *whole, unsigned u,
                      int index)
{
    struct dsf_part part;
    float *own = new_part(tr, u, index, &part);

    if (own == NULL)
        return;
    dsf_part_split(&part, whole, own);
    EACH_PIECE(tr, id, PARAM, &part)
    {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(tr->trial.graph, id);

        dsf_pack(d->dtype, &(struct dsf_rounding){ .nearest = 1 }, own + d->at,
                 dsflow_exec_map(tr->exec, id, DSFLOW_RW), (size_t)d->elems);
    }
    free(own);
}

static void fill_data(struct training *tr)
{
    const struct dsf_model *model = &tr->trial.model;

    for (unsigned u = 0; u < model->nunits; u++) {
        float *whole = calloc((size_t)model->units[u].elems, sizeof(*whole));

        dsf_model_randomize(model, u, 1, whole);
        for (int i = 0; i < 2 * tr->trial.plan->nparts; i++)
            fill_part(tr, whole, u, i);
        free(whole);
    }
    for (uint32_t i = 0; i < dsflow_graph_ndata(tr->trial.graph); i++)
        if (dsflow_graph_data(tr->trial.graph, (dsflow_data_id){ i })->constant)
            dsf_model_rope_table(
                model,
                dsflow_exec_map(tr->exec, (dsflow_data_id){ i }, DSFLOW_RW));
}

/* Put what one piece of data holds in its place; a copy of what is already
 * there must equal it. */
static void collect_piece(struct training *tr, dsflow_data_id id,
                          float *numbers, float *known)
{
    const struct dsflow_data_spec *d = dsflow_graph_data(tr->trial.graph, id);
    size_t elems = (size_t)d->elems;
    float *from = calloc(elems + 1, sizeof(*from));

    dsf_unpack(d->dtype, dsflow_exec_map(tr->exec, id, DSFLOW_R), from, elems);
    for (size_t i = 0; i < elems; i++) {
        float *to = &numbers[d->at + (int64_t)i];

        if (known[d->at + (int64_t)i] > 0 &&
            memcmp(to, &from[i], sizeof(*to)) != 0)
            fail_msg("%s: number %zu of %s is %.9g: a copy of it is %.9g",
                     tr->text, i, d->name, (double)from[i], (double)*to);
        *to = from[i];
        known[d->at + (int64_t)i] = 1;
    }
    free(from);
}

static void collect_part(struct training *tr, int kind, unsigned u, int index)
{
    int64_t first = first_of_unit(&tr->trial.model, u);
    struct dsf_part part;
    float *numbers = new_part(tr, u, index, &part);
    float *known = new_part(tr, u, index, &part);

    bool any = false;

    if (numbers == NULL)
        goto out;
    EACH_PIECE(tr, id, kind, &part)
    {
        collect_piece(tr, id, numbers, known);
        any = true;
    }
    if (any) {
        dsf_part_merge(&part, numbers, tr->result->numbers[kind] + first);
        dsf_part_merge(&part, known, tr->result->known[kind] + first);
    }

out:
    free(numbers);
    free(known);
}

/* Every number of a unit is known, or (moments that there are not) none. */
static void check_known(const struct training *tr, int kind, unsigned u)
{
    const struct dsf_unit *unit = &tr->trial.model.units[u];
    const float *known =
        tr->result->known[kind] + first_of_unit(&tr->trial.model, u);

    for (unsigned t = 0; t < unit->ntensors; t++)
        for (int64_t i = 0; i < unit->tensors[t].rows * unit->tensors[t].cols;
             i++)
            if (known[unit->tensors[t].offset + i] !=
                tr->result->known[kind][0])
                fail_msg("%s: nothing holds number %lld of the %s of %s",
                         tr->text, (long long)i, kind_names[kind],
                         unit->tensors[t].name);
    assert_true(kind != PARAM || known[0] > 0);
}

static void collect_data(struct training *tr)
{
    for (int k = 0; k < NKINDS; k++)
        for (unsigned u = 0; u < tr->trial.model.nunits; u++) {
            for (int i = 0; i < 2 * tr->trial.plan->nparts; i++)
                collect_part(tr, k, u, i);
            check_known(tr, k, u);
        }
}

static void submit(struct training *tr, const char *name, int times)
{
    dsflow_program program;
    struct dsflow_err err;

    assert_true(dsflow_graph_find_program(tr->trial.graph, name, &program));
    for (int i = 0; i < times; i++)
        must(tr->text, dsflow_exec_submit(tr->exec, program, &err), &err);
    must(tr->text, dsflow_exec_wait(tr->exec, &err), &err);
}

/* In main memory where nothing else is said: thousands of small transfers take
 * their time on a disk. */
static const char *disk_of(const struct dsf_job *job)
{
    if (job->nvme.path.n > 0)
        return job->nvme.path.v[0];
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".";
}

/* Train, evaluate one micro-batch, and keep what is left. */
static struct result *train(struct training *tr, enum dsflow_exec_kind kind)
{
    const struct dsf_job *job = &tr->trial.job;
    const char *folder = disk_of(job);
    const char *scheduler = job->machine.scheduler;
    struct dsflow_exec_options options = DSFLOW_EXEC_OPTIONS(
            .kind = kind,
            .workers =
                job->machine.workers > 0 ? (unsigned)job->machine.workers : 2,
            .scheduler = strcmp(scheduler, "auto") == 0 ? NULL : scheduler,
            .virtuals = (unsigned)job->machine.virtuals,
            .virtual_memory = job->machine.virtuals > 0
                                  ? (size_t)job->machine.virtual_memory
                                  : 0,
            .virtual_link = job->machine.virtual_link > 0
                                ? (size_t)job->machine.virtual_link
                                : 0,
            .ranks = (unsigned)tr->trial.plan->nranks,
            .disk = { .paths = &folder,
                      .npaths = 1,
                      .block = 64 << 10,
                      .verify = job->nvme.verify });
    dsflow_program prepare;
    struct dsflow_err err;

    tr->result = new_result(&tr->trial.model);
    tr->host = (struct dsflow_host){ tr, load_batch, report };
    must(
        tr->text,
        dsflow_exec_open(tr->trial.graph, &options, &tr->host, &tr->exec, &err),
        &err);
    fill_data(tr);
    if (dsflow_graph_find_program(tr->trial.graph, DSF_PREPARE, &prepare))
        submit(tr, DSF_PREPARE, 1);
    submit(tr, "step", STEPS);
    submit(tr, "eval", 1);
    assert_int_equal(tr->result->nreports, STEPS);
    collect_data(tr);
    dsflow_exec_close(tr->exec);
    return tr->result;
}

/* The same job on one rank, with the keys that order the sums: one
 * `tensor` group, or really one rank. */
static char *reference_text(const struct trial *of, bool tensor)
{
    char *text = calloc(1, sizeof(of->text) + 64);

    strcpy(text, of->family);
    for (unsigned i = 0; i < of->nsets; i++)
        for (unsigned k = 0; k < sizeof(counts) / sizeof(*counts); k++)
            if (strncmp(of->sets[i], counts[k], strlen(counts[k])) == 0)
                strcat(strcat(text, " "), of->sets[i]);
    if (strstr(text, "batch.groups=") == NULL)
        sprintf(text + strlen(text), " batch.groups=%d", (int)of->plan->groups);
    if (tensor && of->plan->nparts > 1)
        sprintf(text + strlen(text), " mesh.tensor=%d",
                (int)of->plan->nparts);
    return text;
}

static const struct result *reference(const struct trial *of, bool tensor)
{
    char *text = reference_text(of, tensor);
    struct training tr = { .text = text };
    struct result *r;

    for (r = references; r != NULL; r = r->next)
        if (strcmp(r->text, text) == 0) {
            free(text);
            return r;
        }
    plan_trial(&tr.trial, text);
    r = train(&tr, DSFLOW_SERIAL);
    end_trial(&tr.trial);
    r->text = text;
    r->next = references;
    references = r;
    return r;
}

static void compare_reports(const struct training *tr,
                            const struct result *expected)
{
    const struct result *got = tr->result;

    for (int i = 0; i < STEPS; i++) {
        if (memcmp(&got->losses[i], &expected->losses[i], 8) != 0)
            fail_msg("%s: loss of step %d is %.17g: expected %.17g", tr->text,
                     i + 1, got->losses[i], expected->losses[i]);
        if (memcmp(&got->norms[i], &expected->norms[i], 8) != 0)
            fail_msg("%s: norm of step %d is %.17g: expected %.17g", tr->text,
                     i + 1, got->norms[i], expected->norms[i]);
    }
    if (memcmp(&got->evaluation, &expected->evaluation, 8) != 0)
        fail_msg("%s: evaluation is %.17g: expected %.17g", tr->text,
                 got->evaluation, expected->evaluation);
}

/* The same sums in another order. */
static void compare_losses(const struct training *tr,
                           const struct result *expected, double near)
{
    for (int i = 0; i < STEPS; i++) {
        double got = tr->result->losses[i], want = expected->losses[i];

        if (!(fabs(got - want) <= near * fabs(want)))
            fail_msg("%s: loss of step %d is %.9g: %.9g on one rank, %.1e "
                     "from it",
                     tr->text, i + 1, got, want, fabs(got / want - 1));
    }
}

static void compare_unit(const struct training *tr, unsigned u, int kind,
                         const struct result *expected)
{
    const struct dsf_model *model = &tr->trial.model;
    int64_t first = first_of_unit(model, u);

    for (int64_t i = first; i < first + model->units[u].elems; i++) {
        const float *a = &tr->result->numbers[kind][i];
        const float *b = &expected->numbers[kind][i];

        assert_int_equal(tr->result->known[kind][i] > 0,
                         expected->known[kind][i] > 0);
        if (memcmp(a, b, sizeof(*a)) != 0)
            fail_msg("%s: number %lld of the %s of %s is %.9g: expected %.9g",
                     tr->text, (long long)(i - first), kind_names[kind],
                     model->units[u].name, (double)*a, (double)*b);
    }
}

static void run_trial(const char *text, enum dsflow_exec_kind kind)
{
    struct training tr = { .text = text };
    const struct result *expected;

    plan_trial(&tr.trial, text);
    expected = reference(&tr.trial, true);
    train(&tr, kind);
    compare_reports(&tr, expected);
    for (unsigned u = 0; u < tr.trial.model.nunits; u++)
        for (int k = 0; k < NKINDS; k++)
            compare_unit(&tr, u, k, expected);
    compare_losses(&tr, reference(&tr.trial, false),
                   dsf_compute_type(&tr.trial.job) == DSFLOW_FP32 ? TENSOR_NEAR
                                                                  : BF16_NEAR);
    free_result(tr.result);
    end_trial(&tr.trial);
}

static void in_order_the_bits_are_those_of_one_rank(void **state)
{
    run_trial(*state, DSFLOW_SERIAL);
}

static void by_two_workers_the_bits_are_those_of_one_rank(void **state)
{
    run_trial(*state, DSFLOW_STARPU);
}

/* Without groups of their own, data ranks sum their micro-batches first. */
static void data_ranks_are_nearly_one_rank_with_all_micro_batches(void **state)
{
    static const char *const texts[] = {
        "gpt2 mesh.data=2",
        "gpt2 mesh.data=4 zero.stage=2",
        "llama mesh.data=8 zero.stage=3 zero.keep=0",
        "llama mesh.data=2 zero.stage=1 zero.reduce=micro",
    };

    for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct training tr = { .text = texts[i] };
        struct trial one;

        plan_trial(&tr.trial, texts[i]);
        plan_trial(&one, tr.trial.family);
        train(&tr, DSFLOW_STARPU);
        compare_losses(&tr, reference(&one, true), GROUPS_NEAR);
        free_result(tr.result);
        end_trial(&tr.trial);
        end_trial(&one);
    }
}

/* Random trials: a seed gives the same ones everywhere. */
struct dice {
    uint64_t state;
};

static int roll(struct dice *d, int n)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((d->state >> 33) % (uint64_t)n);
}

#define PICK(d, ...)                                                           \
    ((const char *const[]){ __VA_ARGS__ })[roll(                               \
        d, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))]

/* One of the divisors 1, 2, 4, … of `n` that are at most `most`. */
static int roll_power(struct dice *d, int n, int most)
{
    int powers = 1;

    while (n % (1 << powers) == 0 && 1 << powers <= most)
        powers++;
    return 1 << roll(d, powers);
}

static const char *roll_scheduler(struct dice *d)
{
    unsigned n = 0;

    while (dsf_scheduler_at(n) != NULL)
        n++;
    return dsf_scheduler_at((unsigned)roll(d, (int)n));
}

static char *random_trial(struct dice *d)
{
    bool is_llama = roll(d, 2);
    int data = 1 + roll(d, 8), tensor = roll_power(d, 4, 8 / data);
    int pipeline = 1 + roll(d, data * tensor > 3 ? 2 : is_llama ? 6 : 4);
    int turns = 1 + roll(d, 6), micro = 1 + (roll(d, 4) == 0);
    char *text = calloc(1, 1000);
    int at = 0;

#define ADD(...) at += snprintf(text + at, 1000 - (size_t)at, __VA_ARGS__)
    ADD("%s mesh.data=%d mesh.pipeline=%d mesh.tensor=%d",
        is_llama ? "llama" : "gpt2", data, pipeline, tensor);
    ADD(" batch.sequences=%d batch.micro=%d batch.groups=%d batch.tile=%s",
        data * turns * micro, micro, data * roll_power(d, turns, 8),
        PICK(d, "16", "32"));
    ADD(" batch.order=%s", PICK(d, "micro_major", "layer_major"));
    if (roll(d, 4) == 0)
        ADD(" batch.in_flight=1");
    if (data == 1 || roll(d, 2))
        ADD(" zero.stage=%s", PICK(d, "0", "1", "2", "3"));
    else
        ADD(" zero.stage=%s zero.reduce=micro", PICK(d, "1", "2", "3"));
    ADD(" zero.keep=%s zero.prefetch=%d", PICK(d, "0", "16KiB", "1MiB"),
        roll(d, 4));
    if (pipeline <= (is_llama ? 3 : 2) && roll(d, 3) == 0)
        ADD(" pipeline.chunks=2 pipeline.schedule=interleaved");
    else
        ADD(" pipeline.schedule=%s", PICK(d, "1f1b", "gpipe", "zero_bubble"));
    ADD(" pipeline.strict=%s", PICK(d, "false", "true"));
    ADD(" recompute.what=%s recompute.layers=%s",
        PICK(d, "none", "attention", "block"), PICK(d, "all", "all", "0,2-3"));
    if (roll(d, 4) == 0)
        ADD(" optimizer.clip=0.0");
    if (is_llama)
        ADD(" model.tied=%s", PICK(d, "false", "true"));
    if (roll(d, 2)) {
        for (int i = 0; i < 4; i++)
            ADD(" offload.%s=%s",
                ((const char *const[]){ "optimizer", "params", "gradients",
                                        "activations" })[i],
                PICK(d, "none", "cpu", "nvme", "nvme"));
        ADD(" offload.read_ahead=%d offload.write_behind=%d", roll(d, 4),
            roll(d, 3));
        ADD(" offload.piece=%s offload.share=%s", PICK(d, "4KiB", "16MiB"),
            PICK(d, "0.0", "0.0", "0.5"));
    }
    /* Each scheduler that is offered, also with more workers than cores. */
    ADD(" machine.scheduler=%s machine.workers=%s", roll_scheduler(d),
        PICK(d, "1", "2", "3", "8"));
#undef ADD
    return text;
}

static unsigned add_test(struct CMUnitTest *tests, unsigned n,
                         const char *trial, enum dsflow_exec_kind kind)
{
    char name[1024];

    snprintf(name, sizeof(name), "%s: %s",
             kind == DSFLOW_SERIAL ? "serial" : "starpu", trial);
    tests[n] = (struct CMUnitTest){
        .name = strdup(name),
        .test_func = kind == DSFLOW_SERIAL
                         ? in_order_the_bits_are_those_of_one_rank
                         : by_two_workers_the_bits_are_those_of_one_rank,
        .initial_state = strdup(trial),
    };
    return n + 1;
}

/* The trial in bf16. */
static unsigned add_narrow(struct CMUnitTest *tests, unsigned n,
                           const char *trial, enum dsflow_exec_kind kind)
{
    char text[1024];

    snprintf(text, sizeof(text), "%s" BF16, trial);
    return add_test(tests, n, text, kind);
}

/* Which of all trials are to be run here. */
struct shard {
    unsigned which, of; /* from 1 */
    unsigned at;        /* trials that were counted */
};

static bool read_shard(const char *text, struct shard *s)
{
    char end;

    *s = (struct shard){ 1, 1, 0 };
    return text == NULL || (sscanf(text, "%u/%u%c", &s->which, &s->of, &end) ==
                                2 &&
                            s->which >= 1 && s->which <= s->of);
}

static bool is_next_mine(struct shard *s)
{
    return s->at++ % s->of == s->which - 1;
}

static void free_references(void)
{
    while (references != NULL) {
        struct result *r = references;

        references = r->next;
        free_result(r);
    }
}

int main(int argc, char **argv)
{
    const char *seed = getenv("SEED"), *count = getenv("TRIALS");
    struct dice dice = { seed != NULL ? strtoull(seed, NULL, 10) : 1 };
    struct shard shard;
    unsigned nrandom = count != NULL ? (unsigned)atoi(count) : NRANDOM;
    struct CMUnitTest *tests =
        calloc(3 * ((size_t)argc + NTRIALS) + nrandom + 1, sizeof(*tests));
    unsigned n = 0;
    int status;

    if (!read_shard(getenv("SHARD"), &shard)) {
        fprintf(stderr, "SHARD=%s: expected one of several, such as 2/4\n",
                getenv("SHARD"));
        return 99;
    }
    add_unit_ops();
    if (dsflow_plugin_add(&dsflow_plugin, "a test", NULL) < 0)
        return 1;
    for (int i = 1; i < argc; i++) {
        n = add_test(tests, n, argv[i], DSFLOW_SERIAL);
        n = add_test(tests, n, argv[i], DSFLOW_STARPU);
    }
    for (unsigned i = 0; i < NTRIALS && argc < 2; i++) {
        if (!is_next_mine(&shard))
            continue;
        n = add_test(tests, n, trials[i], DSFLOW_SERIAL);
        n = add_test(tests, n, trials[i], DSFLOW_STARPU);
        n = add_narrow(tests, n, trials[i],
                       n % 2 == 0 ? DSFLOW_SERIAL : DSFLOW_STARPU);
    }
    for (unsigned i = 0; i < nrandom && argc < 2; i++) {
        char *text = random_trial(&dice);

        if (is_next_mine(&shard))
            n = (i % 2 == 0 ? add_test : add_narrow)(tests, n, text,
                                                     DSFLOW_STARPU);
        free(text);
    }
    if (argc < 2 && is_next_mine(&shard))
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(
            data_ranks_are_nearly_one_rank_with_all_micro_batches);
    status = _cmocka_run_group_tests("meshes", tests, n, NULL, NULL);

    free_references();
    for (unsigned i = 0; i < n; i++)
        if (tests[i].initial_state != NULL) {
            free((char *)tests[i].name);
            free(tests[i].initial_state);
        }
    free(tests);
    return status;
}
