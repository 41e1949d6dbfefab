/* stop.h - what SIGINT, SIGTERM and SIGHUP do to a command. One that has
 * nothing to lose ends at the first; a run that trains finishes its steps and
 * saves, and a second signal ends it at once. All is said at once, by the
 * handler. SIGBUS is said, and ends it. */
#ifndef DSF_CLI_STOP_H
#define DSF_CLI_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* What a run is doing, and what the first signal then does. */
enum dsf_stop_stage {
    DSF_STOP_NO_RUN,     /* another command: as if nobody caught it */
    DSF_STOP_PREPARING,  /* ends the process: nothing is lost */
    DSF_STOP_STEPPING,   /* finish the steps that have begun, then save */
    DSF_STOP_SAVING,     /* finish the checkpoint */
    DSF_STOP_VALIDATING, /* end the validation, then save */
    DSF_STOP_SAMPLING,   /* end the sample */
    DSF_STOP_ENDING,     /* nothing: the end is near */
};

/* Catch the signals; for every command. A signal that is ignored stays so.
 * Files that are not whole are removed when one ends the process. */
void dsf_stop_catch(void);

/* A run prepares. SIGINT and SIGTERM are caught even where they were ignored,
 * as a shell does for what is in the background. `resumes`: there is a
 * checkpoint that stays; `quiet`: only what is lost is said. */
void dsf_stop_prepare(bool resumes, bool quiet);

/* `fd`: metrics.jsonl, which learns of an end that comes at once; -1: does not.
 */
void dsf_stop_metrics(int fd);

/* The steps that are done, and the last one that is saved (-1: none). */
void dsf_stop_progress(int64_t done, int64_t saved);

/* A process of several has died: says so behind `front` (why is NULL: another
 * one does), with what there is to go on from, and leaves what is not whole.
 * The caller ends the process. */
void dsf_stop_died(const char *front, const char *why);

/* May step `step` begin? If so, a signal waits for its end from now on. */
bool dsf_stop_claim(int64_t step);

/* Returns the signal that came before: what was answered to it holds. */
int dsf_stop_stage(enum dsf_stop_stage stage);

/* The signal that came; 0: none did. */
int dsf_stop_signal(void);

/* Ends the process as that signal does where nobody catches it. */
void dsf_stop_raise(void);

#endif
