/* zero_joining.h - what the files of the joining of tensor ranks share. */
#ifndef DSF_FOREIGN_ZERO_JOINING_H
#define DSF_FOREIGN_ZERO_JOINING_H

#include "foreign/merge.h"
#include "foreign/zero_private.h"

/* What a joined source is read from. */
struct dsf_joined_source {
    struct dsf_source *ranks;
    int n;
    struct dsf_joined_of {
        struct dsf_merge merge;
        size_t *at; /* which tensor of each rank */
    } * v;
    size_t count;
};

/* One tensor that is to be joined. */
struct dsf_joining {
    const struct dsf_zero_source *z; /* of the first rank */
    const struct dsf_joined_source *j;
    struct dsf_joined_of *of;
    const char *name;            /* as ranks have it */
    struct dsf_source_tensor *t; /* with the shape of the first rank */
};

/* --- zero_joined.c -------------------------------------------------------- */

const struct dsf_source_tensor *dsf_joining_rank(const struct dsf_joining *g,
                                                 int r);

/* Does one of a list of patterns, or of the keys of a dict, match the name? 1,
 * 0, or an error with its place. `*which`: the pattern; or NULL. */
int dsf_joining_matches(const struct dsf_joining *g,
                        const struct dsf_torch_node *list,
                        const struct dsf_torch_node **which,
                        struct dsflow_err *err);

/* DSFLOW_EINVAL: what a rank has of it is not what was expected. */
int dsf_joining_fail(const struct dsf_joining *g, int rank,
                     const char *expected, struct dsflow_err *err);

/* --- zero_parted.c -------------------------------------------------------- */

/* An entry of parameter_with_sub_params: a shape, one dimension of which is
 * parted. */
struct dsf_parted {
    const struct dsf_torch_node *at, *pattern;
    const struct dsf_torch_node *shape;
    int64_t dim;
};

/* The one of the tensor: 1, 0 where there is none, or an error. */
int dsf_parted_find(const struct dsf_joining *g, struct dsf_parted *p,
                    struct dsflow_err *err);
int dsf_parted_join(const struct dsf_joining *g, const struct dsf_parted *p,
                    struct dsflow_err *err);

#endif
