/* fio.h - the same transfers by fio(1), a figure that is not our own. */
#ifndef DSF_CLI_FIO_H
#define DSF_CLI_FIO_H

#include "measure/disk_load.h"

/* As dsf_disk_measure does it, on the same files. DSFLOW_ENOSYS: there is no
 * fio here. */
int dsf_fio_measure(const struct dsf_disk_load *load, bool reads, bool writes,
                    struct dsf_disk_rate *rate, struct dsflow_err *err);

#endif
