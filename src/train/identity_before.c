/* identity_before.c - the hash that checkpoints from before there was a list of
 * values had of what they are of. */
#include "train/identity.h"

#include "base/alloc.h"
#include "policies/keys.h"
#include "segments/segment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* The built-in optimizers have numbers in it. */
static const char *const numbered[] = { "adamw", "adam", "sgd", "lion" };

static void name_optimizer(const struct dsf_job *j, char *text, size_t size)
{
    for (unsigned i = 0; i < sizeof(numbered) / sizeof(*numbered); i++)
        if (strcmp(numbered[i], j->optimizer.kind) == 0) {
            snprintf(text, size, "%u", i);
            return;
        }
    snprintf(text, size, "%s", j->optimizer.kind);
}

/* What plug-ins compute, and what states are kept as. What was not there yet
 * when these hashes were written makes another one. */
static void name_others(const struct dsf_session *s, char *others, size_t size)
{
    const struct dsf_job *j = s->job;
    const char *name;
    char segments[200];
    size_t at = 0;

    others[0] = '\0';
    for (unsigned i = 0; (name = dsf_segment_name(i)) != NULL && at < size;
         i++) {
        const char *by = dsf_job_replacing(j, name);

        if (strcmp(by, "builtin") != 0)
            at += (size_t)snprintf(others + at, size - at, "%s %s\n", name, by);
    }
    if (dsf_identity_segments(&s->model, segments, sizeof(segments)) &&
        at < size)
        at += (size_t)snprintf(others + at, size - at, "segments %s\n",
                               segments);
    if (dsf_job_states(j) != DSFLOW_FP32 && at < size)
        snprintf(others + at, size - at, "states %d\n",
                 dsf_job_states(j) == DSFLOW_BF16 ? 1 : 2);
}

uint64_t dsf_identity_before(const struct dsf_session *s)
{
    const struct dsf_dims *d = &s->model.dims;
    const struct dsf_job *j = s->job;
    struct dsf_identity_rope rope = dsf_identity_rope(&s->model);
    char optimizer[256], others[256], *text;
    uint64_t hash;

    name_optimizer(j, optimizer, sizeof(optimizer));
    name_others(s, others, sizeof(others));
    text = dsf_xasprintf(
        "%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %.9g %.17g\n"
        "%.17g %.17g %.17g %lld\n%s %.17g\n"
        "%lld %d %d %d %d %d %d %lld %d\n%016" PRIx64 " %016" PRIx64 "\n%s",
        (int)s->model.family, s->model.layers, d->width, d->heads, d->kv_heads,
        d->head_dim, d->ffn, d->context, d->vocab, d->qkv_bias,
        (int)s->model.tied, d->rms, d->swiglu, d->rope,
        (int)s->model.rope_llama3, (double)d->eps, rope.theta, rope.factor,
        rope.low, rope.high, (long long)rope.context, optimizer,
        dsf_identity_momentum(j), (long long)j->batch.sequences,
        s->plan->sequence, s->plan->micro, s->plan->groups,
        s->plan->reduce_micro, s->plan->nparts, s->plan->ntiles,
        (long long)j->main.seed, (int)j->data.shuffle, s->text.content,
        dsf_tokenizer_hash(s->tok), others);
    hash = XXH3_64bits(text, strlen(text));
    free(text);
    return hash;
}
