/* watched.h - what a process of several tells the watch of its executor. */
#ifndef DSF_TRAIN_WATCHED_H
#define DSF_TRAIN_WATCHED_H

#include "train/session.h"

/* Between the opening of the session's executor and its close. */
void dsf_watched_begin(struct dsf_session *s);
void dsf_watched_end(void);

#endif
