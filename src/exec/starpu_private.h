/* starpu_private.h - StarPU 1.4 as this project sees it. Nothing outside
 * src/exec includes it. */
#ifndef DSF_EXEC_STARPU_PRIVATE_H
#define DSF_EXEC_STARPU_PRIVATE_H

#include "exec/exec_private.h"

#include <starpu.h>

/* Buffers of a task as StarPU hands them over, unpacked. */
typedef void (*dsf_starpu_fn)(void *buffers[], void *call);

/* Run the task on a virtual device: maps its OpenCL buffers. NULL in a build
 * whose StarPU knows no OpenCL. */
extern const dsf_starpu_fn dsf_starpu_run_virtual;

/* Environment that makes StarPU and PoCL offer `n` virtual devices of `bytes`
 * each (0: no limit); before starpu_init. Refused where PoCL cannot start. */
int dsf_starpu_offer_virtual(unsigned n, size_t bytes, struct dsflow_err *err);

/* starpu_sched.c: one that is offered, or NULL, the default. `sleeping`: idle
 * workers leave the cores to others. */
void dsf_starpu_set_scheduler(struct starpu_conf *conf, const char *name,
                              bool sleeping);

/* starpu_tensor.c: register data of the executor, whose copies between memories
 * are then noted (what is on NVMe has none); and the lanes of those copies. */
void dsf_starpu_register(struct dsflow_exec *exec, uint32_t data,
                         starpu_data_handle_t *handle);
void dsf_starpu_add_links(struct dsf_timeline *timeline);

enum starpu_data_access_mode dsf_starpu_mode(enum dsflow_access access);

/* starpu_disk.c: tasks that a disk does. */
struct dsf_starpu_disk {
    struct starpu_codelet fetch, transfer;
};
void dsf_starpu_disk_init(struct dsf_starpu_disk *disk);
/* Handles by data. Returns what StarPU does. */
int dsf_starpu_disk_submit(struct dsf_starpu_disk *disk,
                           struct dsf_exec_call *call,
                           starpu_data_handle_t *handles);

/* starpu_submit.c: a thread that hands over the tasks of a program with `task`,
 * and then calls `end` with the last, + 1. NULL: there is no thread. */
struct dsf_starpu_submitter;
typedef int (*dsf_starpu_submit_fn)(struct dsflow_exec *exec, uint32_t task,
                                    struct dsflow_err *err);
struct dsf_starpu_submitter *
dsf_starpu_submitter_new(struct dsflow_exec *exec, dsf_starpu_submit_fn task,
                         dsf_starpu_submit_fn end);
/* Ends the thread, once all was handed over. NULL is fine. */
void dsf_starpu_submitter_free(struct dsf_starpu_submitter *submitter);
void dsf_starpu_submitter_add(struct dsf_starpu_submitter *submitter,
                              uint32_t first, uint32_t last);
/* Until all was handed over. */
void dsf_starpu_submitter_wait(struct dsf_starpu_submitter *submitter);

/* Worker `w` of the executor that runs the calling thread. */
unsigned dsf_starpu_worker(void);

#endif
