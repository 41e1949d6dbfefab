/* job_keys_machine.c - the keys of job.toml that say where a run is, and what
 * it may use. */
#include "config/job_keys.h"

/* Conditions that several keys have. */
#define OFFLOADED(where)                                                       \
    "offload.optimizer " where " or offload.params " where                     \
    " or offload.gradients " where " or offload.activations " where
#define VIRTUAL "machine.virtual >= 1"

#define MEMORY struct dsf_job_memory
const struct dsflow_option dsf_memory_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MEMORY, device, "\"auto\"",
                     "what each rank may use of its device; auto: an equal "
                     "share of what is free, less what the program itself "
                     "needs"),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MEMORY, host, "\"auto\"",
                     "what each rank may use of main memory beside its device, "
                     "for what is offloaded; auto: an equal share of what is "
                     "free; of cores, what memory.device leaves of it",
                     "memory.device = auto or " OFFLOADED("!= none")),
    { 0 },
};

#define NVME struct dsf_job_nvme
const struct dsflow_option dsf_nvme_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, NVME, path, "[]",
                     "folders on the disks that take what is offloaded to "
                     "nvme; bytes are striped over them",
                     OFFLOADED("= nvme")),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, NVME, size, "\"auto\"",
                     "of the files together; auto: what is needed, if it is "
                     "free",
                     OFFLOADED("= nvme")),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, NVME, block, "\"1MiB\"",
                     "of one request: a multiple of 4KiB (dsflow bench io "
                     "finds the best)",
                     OFFLOADED("= nvme")),
    DSFLOW_OPTION_INT(NVME, depth, "4", 1, 256,
                      "requests in flight on each path, of reads and of "
                      "writes",
                      OFFLOADED("= nvme")),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, NVME, verify, "false",
                     "keep a checksum of every block, and check it when the "
                     "block is read",
                     OFFLOADED("= nvme")),
    { 0 },
};

#define MACHINE struct dsf_job_machine
const struct dsflow_option dsf_machine_options[] = {
    DSFLOW_OPTION_AUTO(
        MACHINE, workers, "\"auto\"", 1, 128,
        "CPU workers; auto: one for each core; more than that share the "
        "cores, which is slower"),
    DSFLOW_OPTION_AUTO(
        MACHINE, gpus, "0", 0, 64,
        "GPUs of each node: rank r is on GPU r modulo their number; auto: all "
        "that the driver shows, and cores where it shows none"),
    DSFLOW_OPTION_FULL("virtual", DSFLOW_INT, offsetof(MACHINE, virtuals), "0",
                       0, 8, NULL,
                       "virtual devices: threads with memory of their own, "
                       "each on a core; rank r is on device r modulo their "
                       "number, and cores do what is in main memory"),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MACHINE, virtual_memory, "\"auto\"",
                     "memory of each virtual device, in which its ranks must "
                     "fit; auto: no limit",
                     VIRTUAL),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MACHINE, virtual_link, "\"auto\"",
                     "bytes a second of the link of each virtual device, in "
                     "each direction, to which its copies are held; auto: as "
                     "fast as they are",
                     VIRTUAL),
    DSFLOW_OPTION_NAME(MACHINE, scheduler, "\"auto\"", dsf_job_scheduler_name,
                       "StarPU's scheduler; auto: lws; no bit depends on it"),
    { 0 },
};

#define RUN struct dsf_job_run
const struct dsflow_option dsf_run_options[] = {
    DSFLOW_OPTION_INT(
        RUN, patience, "60", 0, MANY,
        "of several processes: seconds, beside those of the "
        "predicted step, after which one that is silent, or whose "
        "task does not end, ends the run; 0: never"),
    DSFLOW_OPTION_INT(RUN, whole, "500000", 0, MANY,
                      "of several processes: up to about so many tasks of a "
                      "step process 0 has the graph of all ranks, by which it "
                      "predicts, meters and traces all; of a larger one it has "
                      "its own ranks, as each process has"),
    { 0 },
};

#define CODELETS struct dsf_job_codelets
const struct dsflow_option dsf_codelets_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, CODELETS, load, "[]",
                     "plug-ins: libraries that bring kinds of task, codelets, "
                     "optimizers, schedules, segments and policies"),
    { 0 },
};
