/* cmd_codelet.c - try what a plug-in brings, each in a process of its own. */
#include "base/alloc.h"
#include "base/registry.h"
#include "cli/cmd.h"
#include "plugin/plugin.h"
#include "verify/try_component.h"
#include "verify/try_cuda.h"
#include "verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was found, and how wide its longest name is. */
struct count {
    unsigned all, faults;
    int width;
};

static int width_of(const struct dsf_verified *t)
{
    return (int)(strlen(t->sort) + strlen(t->name));
}

static void print_head(int width)
{
    printf("%-*s %5s  %-7s %10s %8s %8s %10s\n", width, "", "cases", "", "time",
           "GFLOP/s", "GB/s", "reference");
}

static void print(const struct dsf_verified *t, int width)
{
    const struct dsf_verdict *v = &t->verdict;
    double scale = v->seconds < 1e-3 ? 1e6 : 1e3;

    printf("%s%s%*s ", t->sort, t->name, width - width_of(t), "");
    if (v->untried[0] != '\0') {
        printf("%5s  not tried: %s\n", "-", v->untried);
    } else if (v->fault[0] != '\0') {
        printf("%5u  FAULT   %s\n", v->cases, v->fault);
    } else if (v->seconds <= 0) {
        printf("%5u  ok%s%s\n", v->cases, v->note[0] != '\0' ? "; " : "",
               v->note);
    } else {
        printf("%5u  %-7s %7.1f %s %8.2f %8.2f", v->cases, "ok",
               v->seconds * scale, scale > 1e3 ? "us" : "ms",
               1e-9 * v->flops / v->seconds, 1e-9 * v->bytes / v->seconds);
        if (v->reference > 0)
            printf(" %9.2fx", v->reference / v->seconds);
        printf("\n");
    }
    fflush(stdout);
}

static void widen(void *user, const struct dsf_verified *t)
{
    struct count *count = user;

    if (width_of(t) > count->width)
        count->width = width_of(t);
}

static void note(void *user, const struct dsf_verified *t)
{
    struct count *count = user;

    if (count->all++ == 0)
        print_head(count->width);
    print(t, count->width);
    count->faults += t->verdict.fault[0] != '\0';
}

/* What the flags say; how->sets is freed by the caller. */
static int read_flags(const struct dsf_cli_args *args,
                      struct dsf_verify_options *how, struct dsflow_err *err)
{
    int64_t seed = 1, cases = 16;
    int status = dsf_flag_whole(args, "seed", 0, INT64_MAX / 16, &seed, err);

    if (status == DSFLOW_OK)
        status = dsf_flag_whole(args, "cases", 1, 100000, &cases, err);
    if (status == DSFLOW_OK)
        status = dsf_flag_number(args, "timeout", 0.1, 86400, &how->limit, err);
    how->seed = (uint64_t)seed;
    how->cases = (unsigned)cases;
    how->sets = dsf_flag_values(args, "set", &how->nsets);
    return status;
}

/* Twice: the first time for the width of names. */
static void verify_all(struct dsf_verify *verify)
{
    struct dsflow_err no_gpu;
    bool has_cuda = dsf_verify_has_cuda(verify);

    verify->on_gpu = has_cuda && dsf_cuda_find(&no_gpu) == DSFLOW_OK;
    verify->each = widen;
    verify->untried = true;
    dsf_verify(verify);
    verify->each = note;
    verify->untried = false;
    dsf_verify(verify);
    if (has_cuda && !verify->on_gpu)
        printf("CUDA sides were not tried: %s\n", no_gpu.msg);
}

static int check(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const char *library = args->words[1];
    bool builtin = strcmp(library, "builtin") == 0;
    struct dsf_verify_options how = { .limit = 10 };
    struct count count = { .width = 28 };
    struct dsf_verify verify = {
        .origin = builtin ? DSF_BUILTIN : library,
        .how = &how,
        .names = args->words + 2,
        .nnames = args->nwords - 2,
        .seen = dsf_xcalloc(args->nwords, sizeof(bool)),
        .user = &count,
    };
    int status = read_flags(args, &how, err);

    if (status == DSFLOW_OK && !builtin)
        status = dsflow_plugin_load(library, err);
    if (status == DSFLOW_OK)
        status = dsf_try_keys(&how, err);
    if (status == DSFLOW_OK)
        verify_all(&verify);
    for (unsigned i = 0; i < verify.nnames && status == DSFLOW_OK; i++)
        if (!verify.seen[i])
            status = dsflow_fail(
                err, DSFLOW_EINVAL,
                "%s: has no codelet, schedule, policy or format %.60s", library,
                verify.names[i]);
    free(verify.seen);
    free(how.sets);
    return status < 0 ? status : count.faults > 0;
}

static int codelet(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    if (strcmp(args->words[0], "check") == 0)
        return check(args, err);
    return dsflow_fail(err, DSFLOW_EINVAL, "codelet: %.60s: expected check",
                       args->words[0]);
}

static const struct dsf_flag codelet_flags[] = {
    { "seed", "N", "the first case is that of seed N (default 1)" },
    { "cases", "N", "random cases of each codelet (default 16)" },
    { "set", "TABLE.KEY=VALUE", "a key of the small jobs it tries" },
    { "timeout", "SECONDS", "a case that takes longer hangs (default 10)" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_codelet = {
    .name = "codelet",
    .args = "check LIBRARY|builtin [NAME…]",
    .summary = "try the codelets of a plug-in before a job does",
    .help =
        "Runs each codelet of the library on random cases, in a process of\n"
        "its own: beside its reference or the built-in one it replaces, its\n"
        "gradients beside differences of its forward pass, twice, with other\n"
        "garbage in what it only writes, in other places; where there is a\n"
        "GPU, each CUDA side beside the CPU side; then each schedule and each\n"
        "policy in small jobs. Says what is wrong and how to repeat it, how long\n"
        "the largest case takes, and how fast that is beside the reference.\n"
        "Exits with 1 when anything was wrong.",
    .flags = codelet_flags,
    .least = 2,
    .most = 64,
    .run = codelet,
};
