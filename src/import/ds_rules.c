/* ds_rules.c - what a configuration says of the batch, the ranks and types, as
 * keys of a job. */
#include "import/ds_private.h"

#include "base/alloc.h"
#include "config/toml_read.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 1000000000 }; /* the most that a job takes */

/* What --set says of a key; NULL: nothing. */
static const char *find_set(const struct dsf_ds *x, const char *key)
{
    size_t n = strlen(key);

    for (unsigned i = x->wish->nsets; i-- > 0;)
        if (strncmp(x->wish->sets[i], key, n) == 0 &&
            x->wish->sets[i][n] == '=')
            return x->wish->sets[i] + n + 1;
    return NULL;
}

static int64_t wished(const struct dsf_ds *x, const char *key, int64_t fallback)
{
    const char *set = find_set(x, key);

    return set != NULL ? strtoll(set, NULL, 10) : fallback;
}

/* --- job, model, data ----------------------------------------------------- */

/* "ds_config" of "conf/ds_config.json". */
static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t n = strcspn(name, ".");

    return n > 0 ? dsf_xstrndup(name, n) : dsf_xstrdup("job");
}

static void take_job(struct dsf_ds *x)
{
    const char *told = dsf_ds_text(x, "tensorboard.job_name", NULL);
    char *name = told != NULL ? dsf_xstrdup(told) : name_of(x->path);
    char *output = dsf_xasprintf("runs/%s", name);
    int64_t every = dsf_ds_whole(x, "steps_per_print", 0);
    int64_t steps = dsf_ds_whole(x, "scheduler.params.total_num_steps", 0);

    dsf_ds_set_text(
        x, "job", "name",
        told != NULL ? "tensorboard.job_name" : "the name of the file", name);
    dsf_ds_set_text(x, "job", "output", "its name", output);
    if (steps > 0)
        dsf_ds_set(x, "job", "steps", "scheduler.params.total_num_steps",
                   "%lld", (long long)steps);
    else
        dsf_ds_set(x, "job", "steps",
                   "the program that calls DeepSpeed says how many: to be set",
                   "1000");
    /* sys.maxsize and its like: never. */
    if (every > 0)
        dsf_ds_set(x, "job", "log_every", "steps_per_print", "%lld",
                   (long long)(every < MOST_STEPS ? every : MOST_STEPS));
    free(output);
    free(name);
}

static bool sets_model(const struct dsf_ds *x)
{
    for (unsigned i = 0; i < x->wish->nsets; i++)
        if (strncmp(x->wish->sets[i], "model.", 6) == 0)
            return true;
    return false;
}

static void take_model(struct dsf_ds *x)
{
    if (x->wish->model != NULL)
        dsf_ds_set_text(x, "model", "init", "--model", x->wish->model);
    else if (!sets_model(x))
        dsf_ds_leave(x, "model", "init",
                     "a Hugging Face folder, or family, layers, heads, width, "
                     "context: to be set");
}

static void take_data(struct dsf_ds *x)
{
    char *list = NULL;

    for (unsigned i = 0; i < x->wish->ndata; i++) {
        char *one = dsf_toml_quote(x->wish->data[i]);
        char *all = list == NULL ? dsf_xstrdup(one)
                                 : dsf_xasprintf("%s, %s", list, one);

        free(one);
        free(list);
        list = all;
    }
    if (list != NULL)
        dsf_ds_set(x, "data", "train", "--data", "[%s]", list);
    else
        dsf_ds_leave(x, "data", "train", "files of text: to be set");
    free(list);
}

/* --- batch and mesh ------------------------------------------------------- */

/* a x b, or the most there is: a configuration may have any numbers. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t n;

    return __builtin_mul_overflow(a, b, &n) ? INT64_MAX : n;
}

static int64_t find_tensor(struct dsf_ds *x, const char **path)
{
    *path = dsf_ds_get(x, "tensor_parallel.tp.tp_size") != NULL
                ? "tensor_parallel.tp.tp_size"
            : dsf_ds_get(x, "tensor_parallel.tensor_parallel.tp_size") != NULL
                ? "tensor_parallel.tensor_parallel.tp_size"
                : "tensor_parallel.autotp_size";
    return wished(x, "mesh.tensor", dsf_ds_whole(x, *path, 1));
}

static const char sequence_path[] = "sequence_parallel_size";

/* Replicas; 0 with a refusal where the ranks cannot be shared out. */
static int64_t take_mesh(struct dsf_ds *x)
{
    const char *path;
    int64_t tensor = find_tensor(x, &path), pipeline;
    int64_t sequence =
        wished(x, "mesh.sequence", dsf_ds_whole(x, sequence_path, 1));
    int64_t each;

    tensor = tensor > 0 ? tensor : 1;
    sequence = sequence > 0 ? sequence : 1;
    pipeline = wished(x, "mesh.pipeline", 1);
    each = times(times(tensor, sequence), pipeline > 0 ? pipeline : 1);
    if (x->wish->ranks % each != 0) {
        dsf_ds_refuse(x, sequence > 1 ? sequence_path : path,
                      "-n %lld: expected a multiple of %lld, tensor ranks "
                      "times %sstages",
                      (long long)x->wish->ranks, (long long)each,
                      sequence > 1 ? "sequence ranks times " : "");
        return 0;
    }
    dsf_ds_set(x, "mesh", "data",
               sequence > 1 ? "-n over tensor ranks, sequence ranks and stages"
                            : "-n over tensor ranks and stages",
               "%lld", (long long)(x->wish->ranks / each));
    if (sequence > 1)
        dsf_ds_set(x, "mesh", "sequence", sequence_path, "%lld",
                   (long long)sequence);
    if (tensor > 1)
        dsf_ds_set(x, "mesh", "tensor", path, "%lld", (long long)tensor);
    return x->wish->ranks / each;
}

static const char all_path[] = "train_batch_size";
static const char micro_path[] = "train_micro_batch_size_per_gpu";
static const char steps_path[] = "gradient_accumulation_steps";

/* Neither of the two is a number. */
static void leave_batch(struct dsf_ds *x)
{
    if (!dsf_ds_is_auto(x, all_path) && !dsf_ds_is_auto(x, micro_path)) {
        dsf_ds_refuse(x, all_path,
                      "absent, as train_micro_batch_size_per_gpu is: expected "
                      "one of them; --set batch.sequences=N goes on with N "
                      "sequences a step");
        return;
    }
    dsf_ds_leave(x, "batch", "sequences", "\"auto\" there: to be set");
    dsf_ds_leave(x, "batch", "micro", "\"auto\" there: to be set");
}

/* One of the three; 0: it is absent or "auto". */
static int64_t batch_size(struct dsf_ds *x, const char *path)
{
    int64_t n = dsf_ds_whole(x, path, 0);

    if (n < 1 && dsf_ds_get(x, path) != NULL && !dsf_ds_is_auto(x, path))
        dsf_ds_refuse(x, path, "%lld: expected a whole number above 0",
                      (long long)n);
    return n;
}

/* Two of the three say what the third is (DeepSpeed's config.py,
 * _batch_assertion and _set_batch_related_parameters). What --set says of a
 * batch counts, whatever they say. */
static void take_batch(struct dsf_ds *x, int64_t world)
{
    const size_t refused = x->nrefused;
    int64_t all_there = batch_size(x, all_path);
    int64_t micro_there = batch_size(x, micro_path);
    int64_t steps_there = batch_size(x, steps_path);
    int64_t all = wished(x, "batch.sequences", all_there);
    int64_t micro = wished(x, "batch.micro", micro_there);
    int64_t steps = steps_there;

    if (x->nrefused > refused)
        return;
    if (all == 0 && micro == 0) {
        leave_batch(x);
        return;
    }
    /* How many micro-batches, the program says that fills it in. */
    if (all == 0 && steps == 0 &&
        (dsf_ds_is_auto(x, steps_path) || dsf_ds_is_auto(x, all_path))) {
        dsf_ds_leave(x, "batch", "sequences", "\"auto\" there: to be set");
        dsf_ds_set(x, "batch", "micro", micro_path, "%lld", (long long)micro);
        return;
    }
    if (micro == 0 && steps == 0 && dsf_ds_is_auto(x, micro_path)) {
        dsf_ds_set(x, "batch", "sequences", all_path, "%lld", (long long)all);
        dsf_ds_leave(x, "batch", "micro", "\"auto\" there: to be set");
        return;
    }
    if (all != all_there && micro > 0)
        steps = 0;
    if (all == 0)
        all = times(times(micro, steps > 0 ? steps : 1), world);
    if (micro == 0)
        micro = all / times(steps > 0 ? steps : 1, world);
    if (steps == 0 && micro > 0)
        steps = all / times(micro, world);
    if (micro < 1 || all != times(times(micro, steps), world)) {
        dsf_ds_refuse(
            x, all_path,
            "%lld: expected sequences of a micro-batch x micro-batches "
            "x replicas, %lld x %lld x %lld",
            (long long)all, (long long)micro, (long long)steps,
            (long long)world);
        return;
    }
    dsf_ds_set(x, "batch", "sequences",
               all_there > 0     ? all_path
               : steps_there > 0 ? steps_path
                                 : micro_path,
               "%lld", (long long)all);
    dsf_ds_set(x, "batch", "micro", micro_there > 0 ? micro_path : all_path,
               "%lld", (long long)micro);
}

/* --- precision ------------------------------------------------------------ */

static bool is_one_of(const char *text, const char *a, const char *b,
                      const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

/* "bf16" and its like as a job has them; NULL with a refusal. */
static const char *type_of(struct dsf_ds *x, const char *path,
                           const char *fallback)
{
    const char *text = dsf_ds_text(x, path, fallback);

    if (strncmp(text, "torch.", 6) == 0)
        text += 6;
    if (is_one_of(text, "fp32", "float32", "float"))
        return "fp32";
    if (is_one_of(text, "bf16", "bfp16", "bfloat16"))
        return "bf16";
    if (is_one_of(text, "fp16", "float16", "half"))
        return "fp16";
    dsf_ds_refuse(x, path, "%.40s: expected fp32, bf16 or fp16", text);
    return NULL;
}

/* "bf16.enabled" of "enabled": the section has an older name, too. */
static const char *bf16_path(struct dsf_ds *x, const char *key)
{
    static const char *const paths[][2] = {
        { "bf16.enabled", "bfloat16.enabled" },
        { "bf16.check_grad_overflow", "bfloat16.check_grad_overflow" },
        { "bf16.bf16_master_weights_and_grads",
          "bfloat16.bf16_master_weights_and_grads" },
        { "bf16.bf16_optimizer_states", "bfloat16.bf16_optimizer_states" },
    };
    size_t i = 0;

    while (strcmp(strchr(paths[i][0], '.') + 1, key) != 0)
        i++;
    return paths[i][dsf_ds_get(x, "bf16") == NULL];
}

/* The type that --set says, with or without quotes; NULL: none. */
static const char *set_compute(const struct dsf_ds *x)
{
    static const char *const types[] = { "fp32", "bf16", "fp16" };
    const char *set = find_set(x, "precision.compute");

    for (size_t i = 0; set != NULL && i < sizeof(types) / sizeof(*types); i++)
        if (strncmp(set + strspn(set, "\"'"), types[i], 4) == 0)
            return types[i];
    return NULL;
}

/* The type of the step, by which other keys count. */
static const char *take_compute(struct dsf_ds *x)
{
    const char *bf16 = bf16_path(x, "enabled");
    const char *compute = "fp32", *from = "fp16.enabled";

    if (dsf_ds_true(x, "fp16.enabled", false))
        compute = "fp16";
    if (dsf_ds_true(x, bf16, false)) {
        if (strcmp(compute, "fp16") == 0)
            dsf_ds_refuse(x, bf16, "true beside fp16.enabled: expected one");
        compute = "bf16";
        from = bf16;
    }
    if (dsf_ds_true(x, "torch_autocast.enabled", false)) {
        from = dsf_ds_get(x, "torch_autocast.dtype") != NULL
                   ? "torch_autocast.dtype"
                   : "torch_autocast.enabled";
        compute = type_of(x, "torch_autocast.dtype", "bf16");
    }
    if (compute == NULL)
        return "fp32";
    if (dsf_ds_is_auto(x, "fp16.enabled") || dsf_ds_is_auto(x, bf16))
        dsf_ds_leave(x, "precision", "compute",
                     "\"auto\" there: to be set; --set takes the rest of its "
                     "section, too");
    else
        dsf_ds_set_text(x, "precision", "compute", from, compute);
    return set_compute(x) != NULL ? set_compute(x) : compute;
}

static void take_loss_scale(struct dsf_ds *x)
{
    double scale = dsf_ds_number(x, "fp16.loss_scale", 0);
    int64_t power = dsf_ds_whole(x, "fp16.initial_scale_power", 16);

    if (scale > 0) {
        dsf_ds_take_number(x, "precision", "loss_scale", "fp16.loss_scale", 0);
        /* No smaller scale is there to try, and yet it goes on. */
        dsf_ds_set_text(x, "train", "on_nonfinite", "fp16.loss_scale", "skip");
        return;
    }
    if (scale < 0)
        dsf_ds_refuse(x, "fp16.loss_scale",
                      "%g: expected a number above 0, or 0: it is dynamic",
                      scale);
    if (power < 0 || power > 33)
        dsf_ds_refuse(x, "fp16.initial_scale_power",
                      "%lld: expected 0 to 33: the scale is 2 to it",
                      (long long)power);
    else
        dsf_ds_set_number(x, "precision", "initial_scale",
                          "fp16.initial_scale_power",
                          (double)((int64_t)1 << power));
    dsf_ds_set(x, "precision", "scale_window", "fp16.loss_scale_window", "%lld",
               (long long)dsf_ds_whole(x, "fp16.loss_scale_window", 1000));
    dsf_ds_set(x, "precision", "hysteresis", "fp16.hysteresis", "%lld",
               (long long)dsf_ds_whole(x, "fp16.hysteresis", 2));
    if (dsf_ds_true(x, "fp16.consecutive_hysteresis", false))
        dsf_ds_set(x, "precision", "consecutive_hysteresis",
                   "fp16.consecutive_hysteresis", "true");
    dsf_ds_take_number(x, "precision", "min_scale", "fp16.min_loss_scale", 1);
}

/* Gradients of a step in bf16 are as narrow where they are kept, added up and
 * sent: it is one key. */
static void take_gradients(struct dsf_ds *x, const char *path,
                           const char *compute)
{
    const char *type =
        dsf_ds_get(x, path) != NULL ? type_of(x, path, "fp32") : NULL;

    if (type == NULL || strcmp(type, "fp32") == 0)
        return;
    if (strcmp(type, "fp16") == 0 || strcmp(compute, "fp32") == 0)
        dsf_ds_refuse(x, path,
                      "%s: expected fp32, or bf16 beside bf16.enabled or "
                      "fp16.enabled",
                      type);
    else
        dsf_ds_set_text(x, "precision", "gradients", path, type);
}

static void take_types_of_gradients(struct dsf_ds *x, const char *compute)
{
    static const char sent[] = "communication_data_type";
    static const char kept[] = "data_types.grad_accum_dtype";
    const char *a, *b;

    take_gradients(x, sent, compute);
    take_gradients(x, kept, compute);
    if (dsf_ds_get(x, sent) == NULL || dsf_ds_get(x, kept) == NULL)
        return;
    a = type_of(x, sent, "fp32");
    b = type_of(x, kept, "fp32");
    if (a != NULL && b != NULL && strcmp(a, b) != 0)
        dsf_ds_refuse(x, sent,
                      "%s: gradients are sent in the type that they are added "
                      "up in: expected %s, as %s has it",
                      a, b, kept);
}

/* Stages 1 and 2 skip updates by gradients that are not finite, unless they are
 * told not to look; the others do not look. */
static void take_overflow(struct dsf_ds *x)
{
    const char *path = bf16_path(x, "check_grad_overflow");
    int64_t stage = dsf_ds_whole(x, "zero_optimization.stage", 0);

    if (dsf_ds_true(x, path, stage == 1 || stage == 2))
        dsf_ds_set_text(x, "train", "on_nonfinite", path, "skip");
}

static void take_bf16(struct dsf_ds *x)
{
    const char *master = bf16_path(x, "bf16_master_weights_and_grads");
    const char *states = bf16_path(x, "bf16_optimizer_states");

    if (dsf_ds_true(x, master, false)) {
        dsf_ds_set(x, "precision", "master", master, "false");
        dsf_ds_set_text(x, "precision", "gradients", master, "bf16");
    }
    if (dsf_ds_true(x, states, false))
        dsf_ds_set_text(x, "precision", "states", states, "bf16");
    take_overflow(x);
}

static void take_precision(struct dsf_ds *x, const char *compute)
{
    if (strcmp(compute, "fp16") == 0)
        take_loss_scale(x);
    take_types_of_gradients(x, compute);
    if (strcmp(compute, "bf16") == 0)
        take_bf16(x);
}

/* --- recompute, sparse attention ------------------------------------------ */

/* The section says how activations are computed again; that they are, the
 * model's program says. */
static void take_recompute(struct dsf_ds *x)
{
    const char *path = "pipeline.activation_checkpoint_interval";

    if (dsf_ds_whole(x, path, 0) > 0)
        dsf_ds_set_text(x, "recompute", "what", path, "block");
    else if (dsf_ds_get(x, "activation_checkpointing") != NULL)
        dsf_ds_leave(x, "recompute", "what",
                     "\"block\" where the model's program checkpoints "
                     "activations");
}

/* DeepSpeed's engine only hands the section on, to models that read it. */
static void take_sparse(struct dsf_ds *x)
{
    if (dsf_ds_get(x, "sparse_attention") != NULL)
        dsf_ds_leave(x, "sparse_attention", "mode",
                     "where the model's program uses the section: to be set "
                     "from it");
}

/* --- all of it ------------------------------------------------------------ */

void dsf_ds_rules(struct dsf_ds *x)
{
    const char *compute;
    int64_t world;

    take_job(x);
    take_model(x);
    take_data(x);
    world = take_mesh(x);
    if (world > 0)
        take_batch(x, world);
    dsf_ds_optimizer(x);
    compute = take_compute(x);
    take_precision(x, compute);
    dsf_ds_zero(x, compute);
    dsf_ds_memories(x);
    dsf_ds_weights(x, compute);
    dsf_ds_activations(x);
    take_recompute(x);
    take_sparse(x);
    if (dsf_ds_get(x, "tensorboard.enabled") != NULL)
        dsf_ds_set(x, "trace", "tensorboard", "tensorboard.enabled", "%s",
                   dsf_ds_true(x, "tensorboard.enabled", false) ? "true"
                                                                : "false");
}
