/* universal_words.c - the two files of a universal folder that say how far the
 * run was, as DeepSpeed reads them (runtime/engine.py, _load_checkpoint;
 * runtime/base_optimizer.py; runtime/zero/stage3.py). What it has settings of
 * its own for, such as weight decay and clipping, is not said: those of its
 * configuration stay. */
#include "foreign/universal_words.h"

/* Its format, which these files are like, and who writes that. */
#define FORMAT    0.4
#define DEEPSPEED "0.19.8"

/* DeepSpeed goes through its groups and those of the file side by side, and
 * leaves out those that only one of them has: there are more than a training
 * has. */
enum { GROUPS = 64 };

static int64_t updates_of(const struct dsf_universal_place *place)
{
    return place->steps - place->skipped;
}

int dsf_universal_put_updates(void *user, unsigned i, struct dsf_torch_out *out,
                              struct dsflow_err *err)
{
    const struct dsf_universal_place *place = user;
    float x = (float)updates_of(place);

    return dsf_torch_out(out, &x, sizeof(x), err);
}

static void say_int(struct dsf_torch_tree *t, const char *key, int64_t x)
{
    dsf_torch_put_key(t, key);
    dsf_torch_put_int(t, x);
}

static void say_real(struct dsf_torch_tree *t, const char *key, double x)
{
    dsf_torch_put_key(t, key);
    dsf_torch_put_real(t, x);
}

static void say_none(struct dsf_torch_tree *t, const char *key)
{
    dsf_torch_put_key(t, key);
    dsf_torch_put_none(t);
}

static void say_empty(struct dsf_torch_tree *t, const char *key, bool dict)
{
    dsf_torch_put_key(t, key);
    if (dict)
        dsf_torch_put_dict(t);
    else
        dsf_torch_put_list(t);
    dsf_torch_put_end(t);
}

/* A group of parameters; `step` is where FusedAdam counts. */
static void say_group(struct dsf_torch_tree *t,
                      const struct dsf_universal_place *place)
{
    dsf_torch_put_dict(t);
    say_real(t, "lr", place->lr);
    dsf_torch_put_key(t, "betas");
    dsf_torch_put_tuple(t);
    dsf_torch_put_real(t, place->betas[0]);
    dsf_torch_put_real(t, place->betas[1]);
    dsf_torch_put_end(t);
    say_real(t, "eps", place->eps);
    say_int(t, "step", updates_of(place));
    say_empty(t, "params", false);
    dsf_torch_put_end(t);
}

static void say_version(struct dsf_torch_tree *t)
{
    dsf_torch_put_key(t, "ds_version");
    dsf_torch_put_text(t, DEEPSPEED);
}

void dsf_universal_say_optimizer(struct dsf_torch_tree *t,
                                 const struct dsf_universal_place *place,
                                 const struct dsf_model *m)
{
    dsf_torch_put_dict(t);
    say_version(t);
    dsf_torch_put_key(t, "overflow");
    dsf_torch_put_bool(t, false);
    dsf_torch_put_key(t, "param_groups");
    dsf_torch_put_list(t);
    for (int i = 0; i < GROUPS; i++)
        say_group(t, place);
    dsf_torch_put_end(t);
    /* Where ZeRO 3 looks for both. */
    dsf_torch_put_key(t, "optimizer_state_dict");
    dsf_torch_put_dict(t);
    dsf_torch_put_key(t, "state");
    dsf_torch_put_dict(t);
    dsf_torch_put_int(t, 0);
    dsf_torch_put_dict(t);
    dsf_torch_put_key(t, "step");
    dsf_torch_put_tensor(t, DSFLOW_FP32, 0, NULL);
    dsf_torch_put_end(t);
    dsf_torch_put_end(t);
    dsf_torch_put_key(t, "param_groups");
    dsf_torch_put_list(t);
    say_group(t, place);
    dsf_torch_put_end(t);
    dsf_torch_put_end(t);
    dsf_torch_put_end(t);
}

/* The place of a scheduler: DeepSpeed's count from -1, torch's from 0. */
static void say_scheduler(struct dsf_torch_tree *t,
                          const struct dsf_universal_place *place)
{
    dsf_torch_put_key(t, "lr_scheduler");
    dsf_torch_put_dict(t);
    say_int(t, "last_batch_iteration", updates_of(place) - 1);
    say_int(t, "last_epoch", updates_of(place));
    say_int(t, "_step_count", updates_of(place) + 1);
    say_empty(t, "lr_lambdas", false);
    dsf_torch_put_end(t);
}

/* [{name: sizes}], of all parameters. */
static void say_shapes(struct dsf_torch_tree *t, const struct dsf_model *m)
{
    dsf_torch_put_key(t, "param_shapes");
    dsf_torch_put_list(t);
    dsf_torch_put_dict(t);
    for (unsigned u = 0; u < m->nunits; u++)
        for (unsigned i = 0; i < m->units[u].ntensors; i++) {
            const struct dsf_tensor *x = &m->units[u].tensors[i];

            dsf_torch_put_key(t, x->name);
            dsf_torch_put_tuple(t);
            if (!x->vector)
                dsf_torch_put_int(t, x->transposed ? x->cols : x->rows);
            dsf_torch_put_int(t, x->transposed ? x->rows : x->cols);
            dsf_torch_put_end(t);
        }
    dsf_torch_put_end(t);
    dsf_torch_put_end(t);
}

void dsf_universal_say_model(struct dsf_torch_tree *t,
                             const struct dsf_universal_place *place,
                             const struct dsf_model *m)
{
    dsf_torch_put_dict(t);
    say_version(t);
    say_empty(t, "module", true); /* weights are in zero/ */
    say_empty(t, "buffer_names", false);
    say_none(t, "optimizer");
    say_shapes(t, m);
    say_none(t, "frozen_param_shapes");
    say_none(t, "frozen_param_fragments");
    say_empty(t, "shared_params", true);
    say_scheduler(t, place);
    say_none(t, "data_sampler");
    say_none(t, "random_ltd");
    say_empty(t, "sparse_tensor_module_names", false);
    say_int(t, "global_steps", place->steps);
    say_int(t, "global_samples", place->samples);
    say_int(t, "skipped_steps", place->skipped);
    say_int(t, "dp_world_size", 1);
    say_int(t, "mp_world_size", 1);
    say_empty(t, "ds_config", true);
    dsf_torch_put_key(t, "universal_checkpoint_info");
    dsf_torch_put_dict(t);
    say_real(t, "universal_checkpoint_version", FORMAT);
    dsf_torch_put_end(t);
    dsf_torch_put_end(t);
}
