/* launched.h - what a process of several does beside its part of the run: what
 * it says to the launcher that started it (launch.c), and what signals do to
 * it. */
#ifndef DSF_CLI_LAUNCHED_H
#define DSF_CLI_LAUNCHED_H

#include "net/wire.h"

#include <stdbool.h>

/* What the launcher hands over in the environment: the number of the start,
 * from 0, and how the one before had failed. */
#define DSF_LAUNCHED  "DSFLOW_LAUNCHED"
#define DSF_WHY_AGAIN "DSFLOW_WHY_AGAIN"

/* A line of standard error that is for the launcher begins with this. */
#define DSF_TO_LAUNCHER '\036'

/* Text of any bytes could have what mpirun puts before lines, "[1,0]<stdout>:".
 * So behind each '[' of it stands this, which the launcher takes out. */
#define DSF_NO_TAG '\036'

/* Was this process started by the launcher? */
bool dsf_is_launched(void);

/* How often the run was begun again, and why the last time; 0: never. */
int64_t dsf_launched_again(const char **why);

/* At its beginning, with the handlers of signals set: it ends with what started
 * it. Where it was not launched, these do nothing. */
void dsf_launched_begin(void);

/* Text of a model, for standard output, launched or not. */
void dsf_launched_text(const char *text, size_t n);

/* All have begun, and take signals: in process 0. */
void dsf_launched_joined(void);

/* The command ends with this status, whose error is said here: the last thing.
 * Returns what is left to return: an exit status. */
int dsf_launched_end(int status, const struct dsflow_err *err);

/* Process 0 is silent, and this one ends: mpirun's daemon on this host, which
 * may not hear of that for a quarter of an hour, ends too. */
void dsf_launched_cut_off(void);

/* SIGINT, SIGTERM or SIGHUP of any process is one of process 0. Between
 * dsf_net_open and dsf_net_close, in all of them; NULL: nothing. */
void dsf_share_signals(struct dsf_wire *wire);
void dsf_share_signals_end(struct dsf_wire *wire);

#endif
