/* disks.h - the folders that a job offloads to: are they there, and have they
 * room? */
#ifndef DSF_MEASURE_DISKS_H
#define DSF_MEASURE_DISKS_H

#include <dsflow/exec.h>

#include "config/job.h"

/* Do the keys of [offload] and [memory.nvme] make sense, whatever there is? */
int dsf_disks_check_keys(const struct dsf_job *job, struct dsflow_err *err);

/* Does the job keep anything on NVMe? */
bool dsf_disks_are_used(const struct dsf_job *job);

/* Are there folders where the job keeps anything on NVMe, and can they be
 * written? The messages name the key, or the folder. */
int dsf_disks_check(const struct dsf_job *job, struct dsflow_err *err);

/* Have they room for `bytes` bytes in all? */
int dsf_disks_check_room(const struct dsf_job *job, double bytes,
                         struct dsflow_err *err);

/* Of `bytes` bytes in all, those that go to the disk that `path` is on. */
double dsf_disks_bytes_beside(const struct dsf_job *job, double bytes,
                              const char *path);

/* Bytes that are free in its folders, each disk once; without any, where the
 * program was started. INFINITY: unknown. */
double dsf_disks_free(const struct dsf_job *job);

/* What an executor is told of them; borrowed from the job. */
struct dsflow_disk dsf_disks_options(const struct dsf_job *job);

#endif
