/* fuzz_manifest.c - any bytes as the manifest.json of a checkpoint: it is whole,
 * or one line says what is damaged. */
#include "checkpoint/checkpoint.h"

#include "base/alloc.h"

#include "fuzz/fuzz.h"

#include <unistd.h>

static const char *const words[] = {
    "{",     "}",       "[",          "]",       ",",      ":",       "\"",
    "null",  "true",    "0",          "-1",      "1e9",    "\"\"",    "\n",
    "9223372036854775807",            "\"../\"", "\"step\"", "\\u0000", "\xff",
    "\"files\"",        "\"version\"",           "\"params.safetensors\"",
    NULL,
};

/* A checkpoint of a tensor of four numbers, in the folder. */
static char *sound(size_t *n)
{
    static float numbers[4] = { 1, 2, 3, 4 };
    struct dsf_ckpt_fields of = { 0 };
    struct dsf_ckpt_meta meta = {
        .step = 3, .job = "a job", .identity = 7, .of = &of, .numbers = &of
    };
    struct dsf_st_tensor t = { .name = (char *)"w",
                               .dtype = DSFLOW_FP32,
                               .ndims = 1,
                               .dims = { 4 },
                               .data = numbers,
                               .bytes = sizeof(numbers) };
    struct dsf_ckpt_part part = { .name = "params", .tensors = &t, .n = 1 };
    struct dsflow_err err;
    char *dir = dsf_xasprintf("%s/saved", fuzz_folder()), *path, *text, *params;
    size_t nparams;

    dsf_ckpt_fields_add(&of, "batch.groups", "2");
    if (dsf_ckpt_save(dir, &meta, &part, 1, 0, &err) < 0)
        fuzz_die(err.msg);
    path = dsf_xasprintf("%s/step-3/params.safetensors", dir);
    params = fuzz_load(path, &nparams);
    fuzz_file("params.safetensors", params, nparams);
    free(params);
    free(path);
    path = dsf_xasprintf("%s/step-3/manifest.json", dir);
    text = fuzz_load(path, n);
    dsf_ckpt_remove_all(dir);
    dsf_ckpt_fields_fini(&of);
    rmdir(dir);
    free(path);
    free(dir);
    return text;
}

static bool accepts(const char *text, size_t n)
{
    struct dsf_ckpt_fields fields = { 0 };
    struct dsflow_err err = { .msg = "" };
    struct dsf_ckpt_meta meta;

    fuzz_file("manifest.json", text, n);
    if (dsf_ckpt_fields_read(fuzz_folder(), "of", &fields, &err) < 0)
        fuzz_refused(&err);
    dsf_ckpt_fields_fini(&fields);
    if (dsf_ckpt_verify(fuzz_folder(), &meta, &err) < 0) {
        fuzz_refused(&err);
        return false;
    }
    if (strlen(meta.job) >= sizeof(meta.job))
        fuzz_die("a name without its end");
    return true;
}

const struct fuzz_reader fuzz_reader = {
    .name = "manifest",
    .rounds = 2000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
};
