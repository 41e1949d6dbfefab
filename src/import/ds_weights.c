/* ds_weights.c - what a configuration says of weights that are trained to be
 * quantized or pruned, as keys of a job.
 *
 * DeepSpeed has weights quantized in two ways. With quantize_weight_in_forward
 * they have target_bits at once. Without it, in MoQ, its optimizer for fp16
 * writes them quantized behind each update, and bits fall; masters stay exact.
 * Both give what [weights] does.
 */
#include "import/ds_groups.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CT           "compression_training."
#define SHARED(name) CT name ".shared_parameters."
#define GROUPS(name) CT name ".different_groups"
#define WQ           SHARED("weight_quantization")
#define SP           SHARED("sparse_pruning")

/* --- quantized ------------------------------------------------------------ */

static bool is_moq(struct dsf_ds *x)
{
    return !dsf_ds_true(x, WQ "quantize_weight_in_forward", false);
}

/* DeepSpeed quantizes what its optimizer for fp16 writes; its kernel for that
 * rounds by chance, whatever `rounding` says. */
static void check_moq(struct dsf_ds *x, const char *compute)
{
    const char *path = WQ "quantize_weight_in_forward";

    if (strcmp(compute, "fp16") != 0 && !dsf_ds_is_auto(x, "fp16.enabled"))
        dsf_ds_refuse(x, path,
                      "false%s: DeepSpeed has it with fp16.enabled alone: "
                      "expected true",
                      dsf_ds_get(x, path) == NULL ? " by default" : "");
    if (dsf_ds_true(x, WQ "quantizer_kernel", false))
        dsf_ds_refuse(x, WQ "quantizer_kernel",
                      "true: that kernel rounds by chance, dsflow to the "
                      "nearest: expected false");
}

/* Bits at first, of MoQ: the others are without effect there. */
static void take_start(struct dsf_ds *x, const struct dsf_ds_groups *g,
                       int64_t bits)
{
    char *from = dsf_ds_param(g->first, "start_bits");
    char *period = dsf_ds_param(g->first, "quantization_period");
    const int64_t start = dsf_ds_whole(x, from, bits);

    if (start < bits || (start > bits && bits < 3)) {
        dsf_ds_refuse(
            x, from, "%lld: expected target_bits%s, %lld", (long long)start,
            bits < 3 ? ", as 2 and 1 bits are from the beginning" : " or more",
            (long long)bits);
    } else if (start > bits) {
        dsf_ds_set(x, "weights", "start_bits", from, "%lld", (long long)start);
        dsf_ds_set(x, "weights", "period", period, "%lld",
                   (long long)dsf_ds_whole(x, period, 1));
    }
    free(from);
    free(period);
}

/* 2 bits are ternary there, and 1 is binary. */
static void take_bits(struct dsf_ds *x, const char *path, int64_t bits)
{
    static const char *const few[] = { NULL, "binary", "ternary" };
    const char *from = WQ "quantization_type";
    const char *type = dsf_ds_text(x, from, "symmetric");
    const bool symmetric = strcmp(type, "symmetric") == 0;

    if (!symmetric && strcmp(type, "asymmetric") != 0) {
        dsf_ds_refuse(x, from, "%.40s: expected symmetric or asymmetric", type);
    } else if (bits < 1) {
        dsf_ds_refuse(x, path, "%lld: expected 1 to 8", (long long)bits);
    } else if (bits >= 3) {
        dsf_ds_set_text(x, "weights", "quantize", from, type);
        dsf_ds_set(x, "weights", "bits", path, "%lld", (long long)bits);
    } else if (symmetric) {
        dsf_ds_set_text(x, "weights", "quantize", path, few[bits]);
    } else {
        dsf_ds_refuse(x, from,
                      "asymmetric: of 2 and 1 bits DeepSpeed refuses "
                      "it, too: expected symmetric");
    }
}

/* There so many slices of a matrix have a scale each. */
static void leave_group(struct dsf_ds *x)
{
    static const char path[] = WQ "quantize_groups";
    const int line = dsf_relaxed_line(&x->json, path);
    const int64_t slices = dsf_ds_whole(x, path, 1);
    char *why;

    if (slices < 1) {
        dsf_ds_refuse(x, path, "%lld: expected 1 or more", (long long)slices);
        return;
    }
    why = dsf_ds_get(x, path) != NULL
              ? dsf_xasprintf("%s, line %d, says %lld scales of a matrix: here "
                              "they are of so many inputs",
                              path, line, (long long)slices)
              : dsf_xasprintf("%s: DeepSpeed's default is 1 scale of a matrix: "
                              "here they are of so many inputs",
                              path);
    dsf_ds_leave(x, "weights", "group", why);
    free(why);
}

static void take_quantization(struct dsf_ds *x, struct dsf_ds_groups *g,
                              const char *compute)
{
    char *path = NULL;
    int64_t bits;

    if (is_moq(x))
        check_moq(x, compute);
    if (!dsf_ds_take_groups(x, g))
        return;
    path = dsf_ds_param(g->first, "target_bits");
    bits = dsf_ds_whole(x, path, 0);
    take_bits(x, path, bits);
    if (is_moq(x))
        take_start(x, g, bits);
    leave_group(x);
    dsf_ds_set(x, "weights", "quantize_from", WQ "schedule_offset", "%lld",
               (long long)dsf_ds_whole(x, WQ "schedule_offset", 0));
    free(path);
}

/* --- pruned --------------------------------------------------------------- */

/* N:M of the smallest M from 4 on, which GPUs have for 2:4. */
static void take_ratio(struct dsf_ds *x, const char *path)
{
    const double ratio = dsf_ds_number(x, path, 0);
    char *why;

    for (int of = 4; of <= 16; of *= 2)
        if (ratio > 0 && ratio < 1 && ratio * of == floor(ratio * of)) {
            why = dsf_xasprintf("%s, line %d: here of each %d inputs, found "
                                "anew after each step",
                                path, dsf_relaxed_line(&x->json, path), of);
            dsf_ds_set(x, "weights", "prune", why, "\"%g:%d\"", ratio * of, of);
            free(why);
            return;
        }
    dsf_ds_refuse(x, path,
                  "%g: of each 16 weights a whole number stays: expected a "
                  "multiple of 0.0625, less than 1",
                  ratio);
}

static void take_pruning(struct dsf_ds *x, struct dsf_ds_groups *g)
{
    const char *method = dsf_ds_text(x, SP "method", "l1");
    char *path;

    if (strcmp(method, "topk") == 0)
        dsf_ds_refuse(x, SP "method",
                      "topk: dsflow learns no scores of "
                      "weights: expected l1");
    else if (strcmp(method, "snip_momentum") == 0)
        dsf_ds_refuse(x, SP "method",
                      "snip_momentum: dsflow prunes by size, "
                      "not by gradients: expected l1");
    else if (strcmp(method, "l1") != 0)
        dsf_ds_refuse(x, SP "method", "%.40s: expected l1", method);
    else if (dsf_ds_take_groups(x, g)) {
        path = dsf_ds_param(g->first, "dense_ratio");
        take_ratio(x, path);
        dsf_ds_set(x, "weights", "prune_from", SP "schedule_offset", "%lld",
                   (long long)dsf_ds_whole(x, SP "schedule_offset", 1000));
        free(path);
    }
}

/* --- both ----------------------------------------------------------------- */

void dsf_ds_weights(struct dsf_ds *x, const char *compute)
{
    static const char *const bits[] = { "start_bits", "target_bits",
                                        "quantization_period", NULL };
    static const char *const ratio[] = { "dense_ratio", NULL };
    static const char of[] = "[weights] is of all matrices of blocks, and of "
                             "embeddings and the head together or not";
    struct dsf_ds_groups q = { .path = GROUPS("weight_quantization"),
                               .params = bits,
                               .of = of,
                               .together = true };
    struct dsf_ds_groups p = { .path = GROUPS("sparse_pruning"),
                               .params = ratio,
                               .of = of,
                               .together = true };

    if (dsf_ds_true(x, WQ "enabled", false))
        take_quantization(x, &q, compute);
    if (dsf_ds_true(x, SP "enabled", false))
        take_pruning(x, &p);
    if (q.taken && p.taken && q.outside != p.outside)
        dsf_ds_refuse(x, p.path,
                      "weights.embedding is of both: expected the modules of "
                      "weight_quantization");
    if ((q.taken && q.outside) || (p.taken && p.outside))
        dsf_ds_set(x, "weights", "embedding",
                   q.taken && q.outside ? q.path : p.path, "true");
    free(q.first);
    free(p.first);
}
