/* encode_source.h - the texts of a job become the tokens of a cache. */
#ifndef DSF_TEXT_ENCODE_SOURCE_H
#define DSF_TEXT_ENCODE_SOURCE_H

#include "text/text_source.h"
#include "text/token_cache.h"

/* Each text is ended by the end-of-text token; where there is none, texts of
 * JSON Lines are by a newline. `key` is that of the source. */
int dsf_encode_source(const struct dsf_text_source *s, const char *cache_dir,
                      uint64_t key, struct dsf_token_store *store,
                      struct dsflow_err *err);

#endif
