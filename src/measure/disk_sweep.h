/* disk_sweep.h - which way to use the disks of some folders is best: requests
 * of several sizes, so many of them in flight, threads that submit them, and
 * several files in a folder are tried on one store. */
#ifndef DSF_MEASURE_DISK_SWEEP_H
#define DSF_MEASURE_DISK_SWEEP_H

#include "machine/machine_model.h"
#include "measure/disk_load.h"

enum { DSF_SWEEP_BLOCK = 4 << 20, DSF_SWEEP_DEPTH = 16 }; /* at most */
enum { DSF_SWEEP_BLOCKS = 3, DSF_SWEEP_DEPTHS = 5 };

/* One way to use the disks, and what it gives. */
struct dsf_disk_way {
    size_t block;
    unsigned depth, threads, files;     /* of each folder */
    double read, write, both;           /* bytes a second */
    struct dsf_machine_scatter scatter; /* of reading and of writing */
};

/* What is tried, in this order. */
enum dsf_sweep_stage {
    DSF_SWEEP_REQUESTS, /* blocks and depths */
    DSF_SWEEP_FILES,    /* the best of them with other threads and files */
    DSF_SWEEP_BESIDE,   /* the best of all once more, and then `beside`: a disk
                           that is shared is not the same a minute later */
};

struct dsf_disk_sweep {
    const char *const *folders;
    unsigned nfolders;
    int64_t size;   /* of all files together; it is made one that all ways share
                       out evenly */
    double seconds; /* of one figure */
    size_t blocks[DSF_SWEEP_BLOCKS]; /* DSF_SWEEP_BLOCK is a multiple of each */
    unsigned depths[DSF_SWEEP_DEPTHS];
    unsigned nblocks, ndepths;
    dsf_disk_measure_fn measure; /* dsf_disk_measure */
    dsf_disk_measure_fn beside;  /* another program, such as dsf_fio_measure */

    void *user;
    void (*on_stage)(void *user, enum dsf_sweep_stage stage);
    /* The next figure is being taken; `part` of all are there. */
    void (*on_figure)(void *user, double part, const char *what);
    void (*on_way)(void *user, const struct dsf_disk_way *way);
};

struct dsf_disk_found {
    char remark[200]; /* of the disks, before the first stage; or "" */
    struct dsf_disk_way best, beside;
    struct dsflow_err not_beside; /* status DSFLOW_OK: that was measured */
    struct dsf_machine_disk disk; /* as a machine file has it */
};

/* Errors: DSFLOW_EINVAL for a folder; DSFLOW_EIO, DSFLOW_EFIT of a disk;
 * DSFLOW_EFAIL where it is too slow to be measured. */
int dsf_disk_sweep(const struct dsf_disk_sweep *how,
                   struct dsf_disk_found *found, struct dsflow_err *err);

/* What is in flight is memory that waits: of `n` ways, the one of the smallest
 * depth that gives nearly as much as the best one in all three figures, and of
 * those the best block. */
const struct dsf_disk_way *dsf_disk_choose(const struct dsf_disk_way *ways,
                                           unsigned n);

#endif
