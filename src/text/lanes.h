/* lanes.h - text becomes tokens on all cores, and they leave in its order. */
#ifndef DSF_TEXT_LANES_H
#define DSF_TEXT_LANES_H

#include "text/normal.h"
#include "text/text.h"

/* What comes in is dealt out to so many lanes, each of which gets about so many
 * bytes; when all have theirs, each core works on some of them, and what they
 * gave goes out. No token depends on either. */
struct dsf_lanes_size {
    int lanes;
    size_t bytes;
};
struct dsf_lanes_size dsf_lanes_of_cores(void); /* a lane for each core */

/* Where tokens go. */
struct dsf_encoding {
    /* The next ones. */
    void (*take)(void *user, const int32_t *ids, size_t n);
    /* Some megabytes of text were read, which may be let go. */
    void (*let_go)(void *user);
    void *user;
    /* A folder for what much of a text becomes in between; NULL: memory. */
    const char *folder;
};

struct dsf_lanes; /* opaque */

/* Whatever fails later is told in `err`. */
struct dsf_lanes *dsf_lanes_new(const struct dsf_tokenizer *tok,
                                struct dsf_lanes_size size,
                                const struct dsf_encoding *to,
                                struct dsflow_err *err);
void dsf_lanes_free(struct dsf_lanes *lanes);
/* The name of the texts that come now, for messages; NULL: none. */
void dsf_lanes_name(struct dsf_lanes *lanes, const char *name);

/* What comes next: a text in UTF-8, which has to stay where it is; bytes that
 * are one word; a token. */
int dsf_lanes_text(struct dsf_lanes *lanes, const char *text, size_t n);
int dsf_lanes_word(struct dsf_lanes *lanes, const char *word, size_t n);
int dsf_lanes_token(struct dsf_lanes *lanes, int32_t id);
/* The first word of what comes next gets a space in front. */
void dsf_lanes_lead(struct dsf_lanes *lanes);
/* So many bytes were read besides. */
void dsf_lanes_has_read(struct dsf_lanes *lanes, size_t n);
/* The text goes when all that came before is out. */
void dsf_lanes_keep(struct dsf_lanes *lanes, struct dsf_normal text);
/* What came until now goes out. */
int dsf_lanes_end(struct dsf_lanes *lanes);

#endif
