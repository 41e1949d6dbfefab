/* about.h - what StarPU this build runs on. */
#ifndef DSF_EXEC_ABOUT_H
#define DSF_EXEC_ABOUT_H

const char *dsf_exec_starpu_version(void);

#endif
