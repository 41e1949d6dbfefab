/* ds_groups.h - groups of modules, as sections of compression_training have
 * them in different_groups. */
#ifndef DSF_IMPORT_DS_GROUPS_H
#define DSF_IMPORT_DS_GROUPS_H

#include "import/ds_private.h"

enum { DSF_DS_MOST_MODULES = 32 };

struct dsf_ds_groups {
    const char *path;          /* of all of them */
    const char *const *params; /* that each may have */
    const char *of;            /* which modules a job can have, in words */
    bool together;             /* those outside of blocks: all or none */
    char *first; /* path of the first one, to be freed; NULL: there is none */
    bool hit[DSF_DS_MOST_MODULES];
    bool taken;
    bool outside; /* some outside of blocks are hit */
};

/* True: there are groups that can be had, all of them alike. */
bool dsf_ds_take_groups(struct dsf_ds *x, struct dsf_ds_groups *g);

/* "group.params.key"; freed by the caller. */
char *dsf_ds_param(const char *group, const char *key);

#endif
