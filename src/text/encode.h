/* encode.h - texts of any size become tokens. */
#ifndef DSF_TEXT_ENCODE_H
#define DSF_TEXT_ENCODE_H

#include "text/lanes.h"

struct dsf_encoder; /* opaque */

/* Tokens go to `to`, and what fails is told in `err`, both borrowed. */
struct dsf_encoder *dsf_encoder_new(const struct dsf_tokenizer *tok,
                                    struct dsf_lanes_size size,
                                    const struct dsf_encoding *to,
                                    struct dsflow_err *err);
void dsf_encoder_free(struct dsf_encoder *encoder);

/* The next text, of any bytes. It stays where it is until the end, and so does
 * its name, which is for messages. `special`: added tokens in it are
 * recognised. */
int dsf_encoder_text(struct dsf_encoder *encoder, const char *name,
                     const char *text, size_t bytes, int special);
/* A text that came, from the heap: freed when it may go. */
void dsf_encoder_keep(struct dsf_encoder *encoder, char *text);
/* A token between two texts. */
int dsf_encoder_token(struct dsf_encoder *encoder, int32_t id);
/* All that came goes out; more may come. */
int dsf_encoder_end(struct dsf_encoder *encoder);

#endif
