/* exec_waiting.h - what was submitted and has not ended: for who waits for it
 * and sees nothing happen. */
#ifndef DSF_EXEC_EXEC_WAITING_H
#define DSF_EXEC_EXEC_WAITING_H

#include <dsflow/exec.h>

/* Tasks that have ended since the executor was opened. */
uint64_t dsf_exec_ended(const struct dsflow_exec *exec);

/* What is under way in this process, which any thread may ask: of tasks of its
 * part of the graph. Borrowed from that. */
struct dsf_exec_now {
    uint64_t ended;                      /* tasks */
    const struct dsflow_task_spec *runs; /* on some worker; NULL: none */
    /* The message that has been awaited longest; NULL: none is. */
    const struct dsflow_task_spec *awaits;
    int32_t from; /* which process */
    double since; /* of dsf_now */
};
struct dsf_exec_now dsf_exec_look(struct dsflow_exec *exec);

enum dsf_waiting_for {
    DSF_WAITING_END,     /* it runs, on worker `on` */
    DSF_WAITING_DISK,    /* it was handed to the disk */
    DSF_WAITING_DEVICE,  /* it was handed to device `on` */
    DSF_WAITING_PROCESS, /* it is a message to or from process `on` */
    DSF_WAITING_WORKER,  /* nothing holds it back, and no worker has taken it */
    DSF_WAITING_TASK,    /* task `on` of its run has not ended */
};

struct dsf_waiting {
    uint32_t task;
    enum dsf_waiting_for what;
    uint32_t on;
};

/* Of the oldest run that is not complete, of the first program that has one:
 * which it is of the runs of this *program (from 0, since the executor was
 * opened), and how many tasks of it have not ended. Up to `most`
 * of them are listed, those first that wait for no other: *n is their number.
 * While tasks end, it is a guess. Only for the thread that submits. 0: all have
 * ended. */
uint32_t dsf_exec_waiting(struct dsflow_exec *exec, dsflow_program *program,
                          uint32_t *run, struct dsf_waiting *v, unsigned most,
                          unsigned *n);

#endif
