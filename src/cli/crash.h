/* crash.h - a command that dies in the code of a plug-in says so. */
#ifndef DSF_CLI_CRASH_H
#define DSF_CLI_CRASH_H

/* Catch the signals of crashes, and calls of exit. Those of dsflow's own do
 * what they did. */
void dsf_crash_catch(void);

#endif
