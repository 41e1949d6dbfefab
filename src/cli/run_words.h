/* run_words.h - what `dsflow run` says at its start and end. */
#ifndef DSF_CLI_RUN_WORDS_H
#define DSF_CLI_RUN_WORDS_H

#include "cli/progress.h"
#include "train/run.h"

void dsf_run_say_start(struct dsf_run *r, struct dsf_progress *p);

/* How well the machine was used. */
void dsf_run_say_end(struct dsf_run *r, struct dsf_progress *p);

#endif
