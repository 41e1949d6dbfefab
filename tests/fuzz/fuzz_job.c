/* fuzz_job.c - any bytes as job.toml: a job, or one line that says why not. */
#include "config/job.h"

#include "fuzz/fuzz.h"

static const char text[] =
    "[job]\nname = \"x\"\nsteps = 10\nseed = 7\noutput = \"runs/x\"\n"
    "[model]\nfamily = 'llama'\nlayers = 2\nheads = 4\nkv_heads = 2\n"
    "width = 64\ncontext = 128\nnorm_eps = 1e-5\ntied = false\n"
    "[data]\ntrain = [\"a.txt\", \"b*.txt\"]\nvalidation = 0.1\n"
    "[batch]\nsequences = 8\nmicro = 2\nsequence = 64\ntile = \"auto\"\n"
    "[optimizer]\nkind = \"adamw\"\nlr = 3e-4\nbetas = [0.9, 0.95]\n"
    "[schedule]\nkind = \"warmup_cosine\"\nwarmup = 2\n"
    "[machine]\nvirtual_memory = \"512MiB\"\nscheduler = \"lws\"\n";

static const char *const words[] = {
    "\n",       "[",     "]",     "=",      "\"",        "'''",
    "[job]\n",  "[[a]]", "x.y=1", "nan",    "-inf",      "1e999",
    "99999999999999999999",       "0x7f",   "1979-05-27", "true",
    "{ a = 1 }", "\\u0000",       "\xff",   "\"\"\"",    "# c\n",
    NULL,
};

static char *sound(size_t *n)
{
    *n = sizeof(text) - 1;
    return fuzz_copy(text, *n);
}

static bool accepts(const char *bytes, size_t n)
{
    static const char *const sets[] = { "optimizer.lr=1e-3" };
    struct dsflow_err err = { .msg = "" };
    struct dsf_job job;

    if (dsf_job_parse(bytes, n, "job.toml", sets, 1, NULL, &job, &err) < 0) {
        fuzz_refused(&err);
        return false;
    }
    dsf_job_fini(&job);
    return true;
}

const struct fuzz_reader fuzz_reader = {
    .name = "job",
    .rounds = 4000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
};
