/* same_folder.h - whether all processes have the output folder of the first
 * one: on another host a folder of that name may be another, or none. */
#ifndef DSF_TRAIN_SAME_FOLDER_H
#define DSF_TRAIN_SAME_FOLDER_H

#include "base/aside.h"
#include "config/job.h"

struct dsf_same_folder {
    struct dsf_aside file;
    char name[80]; /* "": there is none */
};

/* In the first: put a file into the folder whose `name` no other has. EIO. */
int dsf_same_folder_begin(struct dsf_same_folder *f, const struct dsf_job *job,
                          struct dsflow_err *err);

/* In the others. DSFLOW_EINVAL: it is not in what they have for the folder. */
int dsf_same_folder_check(const struct dsf_job *job, const char *name,
                          struct dsflow_err *err);

/* In the first, once all have looked, or will not any more. */
void dsf_same_folder_end(struct dsf_same_folder *f);

#endif
