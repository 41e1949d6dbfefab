/* added.h - added tokens, which are found in a text as it is written. */
#ifndef DSF_TEXT_ADDED_H
#define DSF_TEXT_ADDED_H

#include "text/tokenizer.h"

/* All were added: sort them, and note how they begin. */
void dsf_added_index(struct dsf_tokenizer *tok);
/* Of those of this value of `late`, the first in a text of `n` bytes that
 * begins from `*at` on and before `end`; of several there, the longest. `*at`
 * is where. NULL: there is none, and `*at` is `end`. */
const struct dsf_added *dsf_added_find(const struct dsf_tokenizer *tok,
                                       int late, const char *text, size_t n,
                                       size_t *at, size_t end);

#endif
