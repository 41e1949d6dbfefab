/* test_locale.c - files have points in their numbers where the program writes
 * them with commas. */
#include <dsflow.h>

#include "lib/train.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

static const char toml[] = "[job]\n"
                           "steps = 2\n"
                           "[model]\n"
                           "layers = 1\n"
                           "heads = 2\n"
                           "width = 32\n"
                           "context = 16\n"
                           "[batch]\n"
                           "sequences = 2\nmicro = 2\n"
                           "[optimizer]\n"
                           "lr = 1.5e-3\n";

/* The locale is made here, as few machines have one with commas. */
static int make_comma(void **state)
{
    char cmd[128];

    if (make_folder(state) < 0)
        return -1;
    snprintf(cmd, sizeof(cmd),
             "localedef -i de_DE -f UTF-8 %s/comma >/dev/null 2>&1", folder);
    setenv("LOCPATH", folder, 1);
    if (system(cmd) != 0 || setlocale(LC_ALL, "comma") == NULL ||
        strcmp(localeconv()->decimal_point, ",") != 0) {
        remove_folder(state);
        exit(77);
    }
    return 0;
}

static void assert_own_locale(void)
{
    assert_string_equal(localeconv()->decimal_point, ",");
}

/* The line of a file below `folder` that begins with `key`. */
static void assert_line(const char *name, const char *key, const char *rest)
{
    char path[128], line[512], wanted[64];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(wanted, sizeof(wanted), "%s = %s\n", key, rest);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ' ')
            break;
    fclose(file);
    assert_string_equal(line, wanted);
}

static void a_run_goes_on_from_its_own_files(void **state)
{
    struct dsflow_batches batches =
        DSFLOW_BATCHES(.vocab = 50, .train = count_up);
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches, .serial = 1,
                             .start = DSFLOW_START_RESUME);
    struct dsflow_job *text, *job, *read;
    struct dsflow_run *run;
    struct dsflow_err err;
    char output[64];
    const char *sets[] = { output };

    snprintf(output, sizeof(output), "job.output=%s/run", folder);
    must(dsflow_job_parse(toml, "test", &text, &err), &err);
    must(dsflow_job_with(text, sets, 1, &job, &err), &err);
    must(dsflow_train(job, &options, &err), &err);
    assert_own_locale();
    assert_line("run/job.toml", "lr", "0.0015");

    snprintf(output, sizeof(output), "%s/run", folder);
    must(dsflow_job_read(output, &read, &err), &err);
    /* The checkpoint is as of a program that has no commas. */
    setlocale(LC_ALL, "C");
    must(dsflow_run_open(read, &options, &run, &err), &err);
    assert_int_equal(dsflow_run_done(run), 2);
    dsflow_run_close(run);
    setlocale(LC_ALL, "comma");
    dsflow_job_free(read);
    dsflow_job_free(job);
    dsflow_job_free(text);
}

static void a_size_has_a_point(void **state)
{
    struct dsflow_job *text, *job;
    struct dsflow_err err;
    const char *sets[] = { "memory.host=1.5GiB" };

    must(dsflow_job_parse(toml, "test", &text, &err), &err);
    must(dsflow_job_with(text, sets, 1, &job, &err), &err);
    dsflow_job_free(job);
    dsflow_job_free(text);
    assert_own_locale();
}

static void a_machine_is_read_back(void **state)
{
    const char *source = getenv("srcdir");
    struct dsflow_machine *machine, *again;
    struct dsflow_err err;
    char path[512];

    snprintf(path, sizeof(path), "%s/examples/machines/laptop.toml",
             source != NULL ? source : ".");
    must(dsflow_machine_read(path, &machine, &err), &err);
    snprintf(path, sizeof(path), "%s/machine.toml", folder);
    must(dsflow_machine_write(machine, path, &err), &err);
    must(dsflow_machine_read(path, &again, &err), &err);
    assert_line("machine.toml", "fp32", "7.200000e+10");
    assert_own_locale();
    dsflow_machine_free(again);
    dsflow_machine_free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_goes_on_from_its_own_files),
        cmocka_unit_test(a_size_has_a_point),
        cmocka_unit_test(a_machine_is_read_back),
    };

    return cmocka_run_group_tests(tests, make_comma, remove_folder);
}
