/* fuzz_machine.c - any bytes as the description of a machine: one that is written
 * and read again as it is, or one line that says what is wrong. */
#include "machine/machine_model.h"

#include "fuzz/fuzz.h"

static const char *const words[] = {
    "\n",     "[",      "]",       "=",          "\"",    "'''",   "[disk]\n",
    "nan",    "-inf",   "1e999",   "0",          "-1",    "1e300", "true",
    "\"9h\"", "[0, 0, 0]",         "[1e-6, 1e-11, 0, 0]", "\"4GiB\"",
    "\"gpu\"",          "[kinds.bf16]\n",        "x.y=1", "# c\n", "\xff",
    NULL,
};

static char *sound(size_t *n)
{
    static const char text[] =
        "[machine]\nname = \"one\"\nkind = \"gpu\"\nnodes = 2\ndevices = 4\n"
        "workers = 8\nmemory = \"80GiB\"\nhost = \"1TiB\"\n"
        "host_bandwidth = 2e11\nhost_link = 2e10\nfp32 = 5e13\n"
        "bandwidth = 3e12\noverhead = \"5us\"\n"
        "[link]\nbandwidth = 3e11\nlatency = \"5us\"\n"
        "[network]\nbandwidth = 5e10\nlatency = \"10us\"\n"
        "[disk]\nread = 6e9\nwrite = 3e9\nlatency = \"100us\"\nduplex = true\n"
        "size = \"8TiB\"\n"
        "[scatter]\nfp32 = 0.01\nlink = 0.3\n"
        "[kinds]\nadam = [1e-6, 0, 3e-12]\n"
        "\"mlp.forward\" = [1e-6, 2e-14, 0, 0]\n"
        "[kinds.bf16]\n\"attention.forward\" = [1e-6, 1e-14, 0, 1e-12]\n"
        "[kinds.host]\nadam = [1e-6, 0, 1e-10]\n";

    *n = sizeof(text) - 1;
    return fuzz_copy(text, *n);
}

/* As it is written; freed by the caller. */
static char *written(const struct dsf_machine_model *m, size_t *n)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n);

    if (out == NULL || dsf_machine_model_write(m, out) < 0 || fclose(out) != 0)
        fuzz_die("what was accepted cannot be written");
    return text;
}

static void check_written(const struct dsf_machine_model *m)
{
    struct dsf_machine_model again;
    struct dsflow_err err;
    size_t n, n_again;
    char *text = written(m, &n), *text_again;

    if (dsf_machine_model_parse(text, n, "again", &again, &err) < 0)
        fuzz_die(err.msg);
    text_again = written(&again, &n_again);
    if (n != n_again || memcmp(text, text_again, n) != 0)
        fuzz_die("what was written is read as another machine");
    free(text);
    free(text_again);
    dsf_machine_model_fini(&again);
}

static bool accepts(const char *text, size_t n)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_machine_model m;

    if (dsf_machine_model_parse(text, n, "m.toml", &m, &err) < 0) {
        fuzz_refused(&err);
        return false;
    }
    check_written(&m);
    dsf_machine_model_fini(&m);
    return true;
}

const struct fuzz_reader fuzz_reader = {
    .name = "machine",
    .rounds = 4000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
};
