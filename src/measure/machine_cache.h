/* machine_cache.h - the present machine as the simulator sees it: measured
 * once, and kept in a file. */
#ifndef DSF_MEASURE_MACHINE_CACHE_H
#define DSF_MEASURE_MACHINE_CACHE_H

#include "config/job.h"
#include "measure/bench_measure.h"
#include "measure/calibrate.h"
#include "measure/measured.h"

/* $XDG_CACHE_HOME/dsflow/machine.toml, or the same in ~/.cache; NULL where
 * there is neither. Freed by the caller. */
char *dsf_machine_cache_path(void);

/* A file of this name in our part of the cache; the same. */
char *dsf_machine_cache_file(const char *name);

/* What the file describes, if it has this name. What it says is not believed
 * where it cannot be: a warning says so. */
bool dsf_machine_load(const char *path, const char *name,
                      struct dsf_machine_model *m);

/* Measure. */
void dsf_machine_measure(const struct dsf_machine *machine,
                         struct dsf_machine_model *m);

/* Bytes a second of each core while all of them do this to memory. In a process
 * of its own, as what it takes is not to count in what the run after it has
 * used. */
int dsf_machine_measure_memory(const struct dsf_machine *machine,
                               enum dsf_bench_access access,
                               struct dsf_measured *out,
                               struct dsflow_err *err);

/* Beside, then renamed: readers see the old file or the new one. Folders are
 * made. */
int dsf_machine_save(const struct dsf_machine_model *m, const char *path,
                     struct dsflow_err *err);

/* Can it be saved there? Folders are made. */
int dsf_machine_can_save(const char *path, struct dsflow_err *err);

/* What is known of this machine, measured now where nothing is, with these
 * disks and how far apart their figures were: into the file `path`. */
int dsf_machine_save_disk(const struct dsf_machine_disk *disk,
                          const struct dsf_machine_scatter *scatter,
                          const char *path, struct dsflow_err *err);

/* What the file says, if it is of this processor and these cores; otherwise
 * measure quickly, and save it. Before an executor is open, as its workers
 * would be in the way. */
int dsf_machine_present(const struct dsf_machine *machine,
                        struct dsf_machine_model *m, struct dsflow_err *err);

/* On GPUs, what is kept or measured of them (gpu_once.h), with the disks below;
 * otherwise the same as above, and rates in the type that the job computes in:
 * where the file has none they are measured, and added to it. Where the job
 * keeps something on NVMe, the disks of its folders, with blocks as it has
 * them: in a file of their own, as jobs have several. Other jobs touch no disk.
 * The folders are there: dsf_disks_check. */
int dsf_machine_of_job(const struct dsf_machine *machine,
                       const struct dsf_job *job, struct dsf_machine_model *m,
                       struct dsflow_err *err);

#endif
