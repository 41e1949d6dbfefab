/* fio.h - the same transfers by fio(1), a figure that is not our own. */
#ifndef DSF_MEASURE_FIO_H
#define DSF_MEASURE_FIO_H

#include "measure/disk_load.h"

/* A dsf_disk_measure_fn, on the files of the same store. DSFLOW_ENOSYS: there
 * is no fio in PATH. */
int dsf_fio_measure(const struct dsf_disk_load *load, bool reads, bool writes,
                    struct dsf_disk_rate *rate, struct dsflow_err *err);

#endif
