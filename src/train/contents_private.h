/* contents_private.h - what contents.c has for contents_files.c: pieces of
 * data, by their places in dsf_contents. */
#ifndef DSF_TRAIN_CONTENTS_PRIVATE_H
#define DSF_TRAIN_CONTENTS_PRIVATE_H

#include "train/contents.h"

/* The first piece of a unit, and how many there are. */
size_t dsf_contents_find(const struct dsf_contents *c, unsigned unit,
                         unsigned kind, size_t *n);

const struct dsflow_data_spec *dsf_contents_spec(const struct dsf_contents *c,
                                                 size_t i);

/* Do its pieces have the numbers of the whole? */
bool dsf_contents_is_plain(const struct dsf_contents *c, unsigned unit,
                           unsigned kind);

/* The memory of a piece; NULL with a message. On NVMe, until the next one. */
float *dsf_contents_near(struct dsf_contents *c, size_t i,
                         enum dsflow_access access, struct dsflow_err *err);

#endif
