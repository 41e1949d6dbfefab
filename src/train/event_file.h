/* event_file.h - the curves of a run in the form TensorBoard reads. */
#ifndef DSF_TRAIN_EVENT_FILE_H
#define DSF_TRAIN_EVENT_FILE_H

#include "train/metrics.h"

struct dsf_event_file {
    int fd; /* valid when path is not NULL */
    char *path;
};

/* A new file in `<output>/tensorboard`, which is made. What older files there
 * say of steps past `done` no longer counts. */
int dsf_event_file_open(struct dsf_event_file *e, const char *output,
                        int64_t done, struct dsflow_err *err);
void dsf_event_file_close(struct dsf_event_file *e);

/* Nothing, and DSFLOW_OK, when it was not opened. */
int dsf_event_file_step(struct dsf_event_file *e, const struct dsf_step *s,
                        struct dsflow_err *err);
int dsf_event_file_validation(struct dsf_event_file *e,
                              const struct dsf_validation *v,
                              struct dsflow_err *err);

#endif
