/* starpu_private.h - StarPU 1.4 as this project sees it. Nothing outside
 * src/exec includes it. */
#ifndef DSF_EXEC_STARPU_PRIVATE_H
#define DSF_EXEC_STARPU_PRIVATE_H

#include "exec/exec_private.h"

#include <starpu.h>

/* starpu_files.c: starpu_init() that reads and leaves no files of the user. */
int dsf_starpu_init(struct starpu_conf *conf, struct dsflow_err *err);

/* starpu_sched.c: one that is offered, or NULL, the default. `sleeping`: idle
 * workers leave the cores to others. */
void dsf_starpu_set_scheduler(struct starpu_conf *conf, const char *name,
                              bool sleeping);

/* Name, priority and data of a task, each with the access that it has. */
void dsf_starpu_describe(struct starpu_task *task,
                         const struct dsf_exec_call *call,
                         starpu_data_handle_t *handles);

/* starpu_nowhere.c: tasks of devices and of disks. Returns what StarPU does. */
int dsf_starpu_submit_nowhere(struct dsf_exec_call *call,
                              starpu_data_handle_t *handles);
/* A task of a core, whose cl_arg becomes its struct dsf_staged: with what
 * brings it the data of devices, and what takes it back. */
int dsf_starpu_submit_staged(struct starpu_task *task,
                             starpu_data_handle_t *handles);

/* starpu_touch.c: idle cores, of these workers (NULL: all), touch the main
 * memory of a rank (-1: of all) that such tasks write first. Until all has
 * ended, and that is soon once `end` was called, it lives; in a list. NULL is
 * fine. */
struct dsf_starpu_touch;
struct dsf_starpu_touch *dsf_starpu_touch(struct dsflow_exec *exec,
                                          uint32_t first, uint32_t last,
                                          int rank, uint32_t *mask,
                                          unsigned mask_words,
                                          struct dsf_starpu_touch *older);
void dsf_starpu_touch_end(struct dsf_starpu_touch *newest);
void dsf_starpu_touch_free(struct dsf_starpu_touch *newest);

/* starpu_submit.c: a thread that hands over the tasks of a program with `task`.
 * NULL: there is no thread. */
struct dsf_starpu_submitter;
typedef int (*dsf_starpu_submit_fn)(struct dsflow_exec *exec, uint32_t task,
                                    struct dsflow_err *err);
struct dsf_starpu_submitter *
dsf_starpu_submitter_new(struct dsflow_exec *exec, dsf_starpu_submit_fn task);
/* Ends the thread, once all was handed over. NULL is fine. */
void dsf_starpu_submitter_free(struct dsf_starpu_submitter *submitter);
void dsf_starpu_submitter_add(struct dsf_starpu_submitter *submitter,
                              uint32_t first, uint32_t last);
/* Until all was handed over. */
void dsf_starpu_submitter_wait(struct dsf_starpu_submitter *submitter);

#endif
