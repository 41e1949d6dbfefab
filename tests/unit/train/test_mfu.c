/* test_mfu.c - operations of a token, and what GPUs are built for. */
#include "train/mfu.h"

#include "lib/test.h"
#include "machine/gpu_peak.h"

static double operations(const char *keys, int64_t sequence, bool padded)
{
    char text[512];
    int len =
        snprintf(text, sizeof(text),
                 "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n[model]\n%s", keys);
    struct dsf_model m;
    struct dsf_job job;
    struct dsflow_err err;
    double n;

    if (dsf_job_parse(text, (size_t)len, "job.toml", NULL, 0, NULL, &job,
                      &err) < 0 ||
        dsf_model_init(&m, &job, &err) < 0)
        fail_msg("%s", err.msg);
    if (padded)
        dsf_model_pad(&m);
    n = dsf_token_operations(&m, sequence);
    dsf_model_fini(&m);
    dsf_job_fini(&job);
    return n;
}

/* GPT-2 124M: 12 blocks of 12 C^2 + 13 C parameters and the last norm of 2 C,
 * and 50257 words, which padding and learned positions add nothing to. */
static void operations_of_gpt2(void **state)
{
    const char *keys = "layers = 12\nheads = 12\nwidth = 768\n"
                       "vocab = 50257\ncontext = 1024\n";
    double blocks = 12 * (12 * 768.0 * 768 + 13 * 768) + 2 * 768;
    double want = 6 * (blocks + 50257 * 768.0) + 6 * 12 * 768.0 * 1024;

    assert_true(operations(keys, 1024, false) == want);
    assert_true(operations(keys, 1024, true) == want);
}

/* Queries are wider than the stream, keys fewer; the head is not the embedding.
 */
static void operations_of_llama(void **state)
{
    const char *keys =
        "family = \"llama\"\nlayers = 2\nheads = 4\nkv_heads = 2\nwidth = 36\n"
        "head_dim = 10\nffn_width = 31\nvocab = 61\ncontext = 64\n"
        "tied = false\n";
    double block = (40 + 2 * 20) * 36 + 36 * 40 + 3 * 31 * 36 + 2 * 36;

    assert_true(operations(keys, 16, false) ==
                6 * (2 * block + 36 + 61 * 36) + 6 * 2 * 40 * 16);
}

static void peaks_of_gpus(void **state)
{
    assert_true(dsf_gpu_peak("NVIDIA H200", DSFLOW_BF16) == 989.4e12);
    assert_true(dsf_gpu_peak("NVIDIA H200", DSFLOW_FP16) == 989.4e12);
    assert_true(dsf_gpu_peak("NVIDIA H200", DSFLOW_FP32) == 66.9e12);
    assert_true(dsf_gpu_peak("NVIDIA GH200 480GB", DSFLOW_BF16) == 989.4e12);
    assert_true(dsf_gpu_peak("NVIDIA H100 PCIe", DSFLOW_BF16) == 756e12);
    assert_true(dsf_gpu_peak("NVIDIA H100 80GB HBM3", DSFLOW_BF16) == 989.4e12);
    assert_true(dsf_gpu_peak("NVIDIA A100-SXM4-80GB", DSFLOW_BF16) == 312e12);
    assert_true(dsf_gpu_peak("NVIDIA A10", DSFLOW_BF16) == 0);
    assert_true(dsf_gpu_peak("emulated GPU", DSFLOW_BF16) == 0);
    assert_true(dsf_gpu_peak("NVIDIA H200", DSFLOW_INT8) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_gpt2),
        cmocka_unit_test(operations_of_llama),
        cmocka_unit_test(peaks_of_gpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
