/* fuzz_job.c - any bytes as job.toml: a job, or one line that says why not. */
#include "config/job.h"

#include "fuzz/fuzz.h"

enum { ROUNDS = 4000, CAP = 4096 };

static const char sound[] =
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
};

static int try(const char *text, size_t n)
{
    static const char *const sets[] = { "optimizer.lr=1e-3" };
    struct dsflow_err err = { .msg = "" };
    struct dsf_job job;
    int status = dsf_job_parse(text, n, "job.toml", sets, 1, NULL, &job, &err);

    if (status < 0 && (err.msg[0] == '\0' || strchr(err.msg, '\n') != NULL))
        fuzz_die("refused without a line");
    if (status == DSFLOW_OK)
        dsf_job_fini(&job);
    return status == DSFLOW_OK;
}

int main(void)
{
    unsigned jobs = 0;
    char text[CAP];

    if (!try(sound, sizeof(sound) - 1))
        fuzz_die("the sound job was refused");
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t n = sizeof(sound) - 1;

        memcpy(text, sound, n);
        for (size_t faults = 1 + fuzz_any(3); faults > 0; faults--)
            fuzz_damage(text, &n, CAP, words, sizeof(words) / sizeof(*words));
        jobs += (unsigned)try(text, n);
    }
    printf("%d damaged files, %u of them still jobs\n", ROUNDS, jobs);
    return 0;
}
