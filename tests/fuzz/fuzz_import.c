/* fuzz_import.c - any bytes as a configuration of DeepSpeed: a job that reads
 * back, or lines that say why not. */
#include "config/job.h"
#include "import/ds_config.h"

#include "fuzz/fuzz.h"

static const char *const words[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "//",
    "/*",
    "*/",
    "#",
    "\n",
    "\\\"",
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1e9",
    "1e400",
    "0.5",
    "65536",
    "9223372036854775807",
    "\"auto\"",
    "\"none\"",
    "\"nvme\"",
    "\"fp16\"",
    "\"enabled\"",
    "\"type\"",
    "\"params\"",
    "\"OneCycle\"",
    "\"LRRangeTest\"",
    "\"WarmupCosineLR\"",
    "\"zero_optimization\"",
    "\"tensor_parallel\"",
    "\"weight_quantization\"",
    "\"sparse_pruning\"",
    "\"activation_quantization\"",
    "\"schedule_offset\"",
    "\"shared_parameters\"",
    "\"different_groups\"",
    "\"modules\"",
    "\"*\"",
    "\\u0000",
    "\xff",
    NULL,
};

static char *sound(size_t *n)
{
    static const char text[] =
        "{ // a comment\n \"train_batch_size\": 8, \"bf16\": {\"enabled\": "
        "true},\n"
        "\"gradient_accumulation_steps\": 2, \"gradient_clipping\": 0.5,\n"
        "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1e-3,\n"
        "\"betas\": [0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0.1}},\n"
        "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\n"
        "\"warmup_num_steps\": 10, \"total_num_steps\": 100}},\n"
        "\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\n"
        "\"device\": \"nvme\", \"nvme_path\": \"/x\", \"ratio\": 0.5}},\n"
        "\"compression_training\": {\"weight_quantization\": {\n"
        "\"shared_parameters\": {\"enabled\": true,\n"
        "\"quantize_weight_in_forward\": true, \"quantize_groups\": 4},\n"
        "\"different_groups\": {\"a\": {\"modules\": [\"attn\", \"mlp\"],\n"
        "\"params\": {\"start_bits\": 8, \"target_bits\": 4}}}},\n"
        "\"sparse_pruning\": {\"shared_parameters\": {\"enabled\": true},\n"
        "\"different_groups\": {\"b\": {\"modules\": [\"h\\\\.\"],\n"
        "\"params\": {\"dense_ratio\": 0.25}}}},\n"
        "\"activation_quantization\": {\"shared_parameters\": {\n"
        "\"enabled\": true}, \"different_groups\": {\"c\": {\n"
        "\"params\": {\"bits\": 8}}}}},\n"
        "\"aio\": {\"block_size\": 1048576, \"queue_depth\": 8,},}\n";

    *n = sizeof(text) - 1;
    return fuzz_copy(text, *n);
}

static unsigned nrefused;

static void refused(const char *line)
{
    nrefused += line[0] != '\0';
}

static void check_job(const char *text, size_t n)
{
    struct dsflow_err err;
    struct dsf_job job;

    if (dsf_job_parse(text, n, "job.toml", NULL, 0, NULL, &job, &err) < 0)
        fuzz_die(err.msg);
    dsf_job_fini(&job);
}

static bool accepts(const char *text, size_t n)
{
    const struct dsf_ds_wish wish = { .ranks = 4 };
    struct dsflow_err err = { .msg = "" };
    char *job = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&job, &bytes);
    int status;

    nrefused = 0;
    if (out == NULL)
        fuzz_die("no memory");
    status =
        dsf_ds_import(fuzz_file("ds.json", text, n), &wish, out, refused, &err);
    fclose(out);
    if (status == DSFLOW_OK)
        check_job(job, bytes);
    else
        fuzz_refused(&err);
    if (status == DSFLOW_OK ? nrefused > 0 : bytes > 0)
        fuzz_die("a job beside keys that are refused");
    free(job);
    return status == DSFLOW_OK;
}

const struct fuzz_reader fuzz_reader = {
    .name = "import",
    .rounds = 4000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
};
