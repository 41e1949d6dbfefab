/* ds_keys.h - the keys of DeepSpeed's configuration, and what becomes of each.
 *
 * They are those of DeepSpeed 0.19's config.py, zero/config.py and its other
 * models of sections.
 */
#ifndef DSF_IMPORT_DS_KEYS_H
#define DSF_IMPORT_DS_KEYS_H

#include <stddef.h>

enum dsf_ds_fate {
    DSF_DS_BECOMES,  /* keys of a job: `words` are these */
    DSF_DS_NEEDLESS, /* nothing: `words` say why none is needed */
    DSF_DS_DEAD,     /* nothing: DeepSpeed reads it and does nothing with it */
    DSF_DS_REFUSED,  /* dsflow does not have it: `words` say what */
    DSF_DS_NFATES
};

struct dsf_ds_key {
    const char *key; /* "fp16.enabled"; "compile.*": all below it, too */
    enum dsf_ds_fate fate;
    const char *words;
    /* Of one that is refused: the value, as JSON, with which it asks for
     * nothing. NULL: false, null and, of a section, one that is not enabled. */
    const char *off;
};

/* The i-th; NULL past the last. */
const struct dsf_ds_key *dsf_ds_key_at(size_t i);

/* Those of compression_training, which are the last of these. */
const struct dsf_ds_key *dsf_ds_weights_key_at(size_t i);

/* That of a key, or of all below one that it is below; NULL: there is none. */
const struct dsf_ds_key *dsf_ds_key_find(const char *path);

/* "becomes", "is not needed", … */
const char *dsf_ds_fate_str(enum dsf_ds_fate fate);

#endif
