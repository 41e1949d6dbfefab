/* disk_load.h - how fast the disks under a store are. */
#ifndef DSF_MEASURE_DISK_LOAD_H
#define DSF_MEASURE_DISK_LOAD_H

#include "io/io.h"

struct dsf_disk_load {
    struct dsf_io *io;
    int64_t size;                    /* of the part of the store that is used */
    size_t block;                    /* as the store has it now */
    unsigned depth, nfiles, threads; /* that submit */
    double seconds;
};

struct dsf_disk_rate {
    double read, write; /* bytes a second */
    double scatter; /* of both together, over parts of the time; 0: unknown */
};

/* Reads, writes or both at once, one after the other through the store. */
typedef int (*dsf_disk_measure_fn)(const struct dsf_disk_load *load, bool reads,
                                   bool writes, struct dsf_disk_rate *rate,
                                   struct dsflow_err *err);
int dsf_disk_measure(const struct dsf_disk_load *load, bool reads, bool writes,
                     struct dsf_disk_rate *rate, struct dsflow_err *err);

/* The same by `measure`; where nothing came to its end, as when others are busy
 * with the disk, again and for longer. DSFLOW_EFAIL: that did not help. */
int dsf_disk_measure_rate(dsf_disk_measure_fn measure,
                          const struct dsf_disk_load *load, bool reads,
                          bool writes, struct dsf_disk_rate *rate,
                          struct dsflow_err *err);

/* Write all of it once, or for so many seconds: what was never written is not
 * read from the disk, and takes longer to write. `filled` is how far it came,
 * in whole blocks of every file. */
int dsf_disk_fill(const struct dsf_disk_load *load, double seconds,
                  int64_t *filled, struct dsflow_err *err);

/* Seconds of a read of a page when the disk does nothing else. */
int dsf_disk_latency(const struct dsf_disk_load *load, double *seconds,
                     struct dsflow_err *err);

#endif
