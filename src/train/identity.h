/* identity.h - what a checkpoint is of: a list of named values that must stay
 * the same for a run to go on from it bit for bit. */
#ifndef DSF_TRAIN_IDENTITY_H
#define DSF_TRAIN_IDENTITY_H

#include "train/session.h"

/* What another value does to what was saved. */
enum dsf_effect {
    DSF_EFFECT_WEIGHTS, /* from here … */
    DSF_EFFECT_STATES,
    DSF_EFFECT_TOKENS, /* … to here: it means nothing any more */
    DSF_EFFECT_MODEL,
    DSF_EFFECT_UPDATE,
    DSF_EFFECT_ROUNDING,
    DSF_EFFECT_PRECISION, /* nothing: checkpoints are in fp32 */
    DSF_EFFECT_DEVICE,    /* last bits, as another kind of device has */
    DSF_EFFECT_KEPT,
    DSF_EFFECT_TEXT, /* what was read of the text says nothing of the new one */
    DSF_EFFECT_BATCH,
    DSF_EFFECT_BITS,
};
const char *dsf_effect_str(enum dsf_effect effect);

/* Keys, as a job names them, with the values that count where it says "auto". */
struct dsf_identity {
    struct dsf_identity_key {
        char *key;
        char *value; /* NULL: not known by now, or part of another one's */
        const char *whole; /* that one, whose value says it all; or NULL */
        enum dsf_effect effect;
    } * v;
    size_t n, cap;
};

/* Before the plan, the values of the batch are not known; before the text, its
 * contents. */
void dsf_identity_list(const struct dsf_session *s, struct dsf_identity *of);
/* Those that say what the model of a job is and computes. */
void dsf_identity_of_model(const struct dsf_job *job, const struct dsf_model *m,
                           struct dsf_identity *of);
void dsf_identity_fini(struct dsf_identity *of);

/* NULL: a checkpoint does not depend on this key. */
const struct dsf_identity_key *dsf_identity_find(const struct dsf_identity *of,
                                                 const char *key);

/* identity_saved.c: the values that are known, as a checkpoint has them. */
void dsf_identity_fields(const struct dsf_identity *of,
                         struct dsf_ckpt_fields *fields);

/* What the checkpoint in `folder` has of them, under the names of now; nothing
 * where it is an old one that has no list. */
int dsf_identity_read(const char *folder, struct dsf_ckpt_fields *was,
                      struct dsflow_err *err);

/* The GPU that the run was on, of which its hash knows nothing; on cores there is
 * no such field. */
#define DSF_IDENTITY_ON "machine.on"

/* Of those, in any order: two checkpoints with the same one are of the same run.
 */
uint64_t dsf_identity_hash(const struct dsf_identity *of);

/* identity_before.c: what stood in the place of that hash in checkpoints of
 * before. It never changes for the same job. After the text. */
uint64_t dsf_identity_before(const struct dsf_session *s);

/* How positions turn; the defaults of keys that nothing reads, so that they
 * count for nothing. */
struct dsf_identity_rope {
    double theta, factor, low, high;
    int64_t context;
};
struct dsf_identity_rope dsf_identity_rope(const struct dsf_model *m);

/* The segments of a layer in order; whether they are other than usual. */
bool dsf_identity_segments(const struct dsf_model *m, char *text, size_t size);

/* The momentum; 0 where the optimizer has none. */
double dsf_identity_momentum(const struct dsf_job *j);

#endif
