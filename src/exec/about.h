/* about.h - what StarPU this build runs on. */
#ifndef DSF_EXEC_ABOUT_H
#define DSF_EXEC_ABOUT_H

const char *dsf_exec_starpu_version(void);
int dsf_exec_has_cuda(void);

#endif
