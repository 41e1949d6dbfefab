/* tensor_norms.h - how large the parameters are: where to look when the loss is
 * not finite any more. */
#ifndef DSF_TRAIN_TENSOR_NORMS_H
#define DSF_TRAIN_TENSOR_NORMS_H

#include "train/contents.h"

enum { DSF_LARGEST_NORMS = 3 };

struct dsf_tensor_norms {
    unsigned ntensors, ninfinite; /* all of the model; not finite */
    unsigned n;                   /* of these, the largest first: */
    struct {
        const char *name; /* Hugging Face's; borrowed from the model */
        double norm;
    } largest[DSF_LARGEST_NORMS]; /* NaN counts as the largest of all */
};

/* Reads all parameters, a unit at a time. Nothing may be running. Errors: as of
 * dsf_contents_get. */
int dsf_tensor_norms(struct dsf_contents *c, struct dsf_tensor_norms *norms,
                     struct dsflow_err *err);

/* "the largest norms of parameters: a 7.1, b 3.6, c 3.2" */
struct dsf_norms_text {
    char s[DSF_LARGEST_NORMS * 120 + 60];
};
struct dsf_norms_text dsf_norms_text(const struct dsf_tensor_norms *norms);

#endif
