/* identity.h - what a checkpoint is of: what must stay the same for a run to go
 * on from it bit for bit, as a hash, and key by key. */
#ifndef DSF_CLI_IDENTITY_H
#define DSF_CLI_IDENTITY_H

#include "cli/session.h"

/* After the text. It never changes for the same job: checkpoints have it. */
uint64_t dsf_identity_hash(const struct dsf_session *s);

/* The same with the names of keys, and the values that count where a job says
 * "auto": those that are known by now (before the plan, without the batch;
 * before the text, without its contents). */
void dsf_identity_list(const struct dsf_session *s, struct dsf_ckpt_fields *of);

/* Does a checkpoint depend on this key of a job? */
bool dsf_identity_has(const char *key);

/* What another value does to what was saved. */
enum dsf_effect {
    DSF_EFFECT_WEIGHTS, /* from here … */
    DSF_EFFECT_STATES,
    DSF_EFFECT_TOKENS, /* … to here: it means nothing any more */
    DSF_EFFECT_MODEL,
    DSF_EFFECT_UPDATE,
    DSF_EFFECT_ROUNDING,
    DSF_EFFECT_TEXT, /* what was read of the text says nothing of the new one */
    DSF_EFFECT_BATCH,
    DSF_EFFECT_BITS,
};
enum dsf_effect dsf_identity_effect(const struct dsf_session *s,
                                    const char *key, const char *was,
                                    const char *now);
const char *dsf_effect_str(enum dsf_effect effect);

#endif
