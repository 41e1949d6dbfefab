/* exec_memory.h - where an executor has data. */
#ifndef DSF_EXEC_EXEC_MEMORY_H
#define DSF_EXEC_EXEC_MEMORY_H

#include <stdbool.h>
#include <dsflow/exec.h>

/* Is it in main memory? Then dsflow_exec_map gives the memory itself, and any
 * number at a time. */
bool dsf_exec_is_near(const struct dsflow_exec *exec, dsflow_data_id data);

/* Bytes that are allocated on all devices, scratch included. */
size_t dsf_exec_on_devices(const struct dsflow_exec *exec);

/* What a graph takes on devices, before there is an executor. */
struct dsf_exec_needs {
    unsigned first, nranks; /* it has data of the first one to nranks - 1 */
    struct dsf_exec_need {
        size_t device; /* bytes that are allocated on its device for it, with
                          its share of the scratch memory there */
        size_t near;   /* of the data that the graph has on its device: bytes
                          that stand in main memory */
    } * ranks;
    size_t host; /* bytes of main memory for all ranks, beside what they offload
                    there: the buffers between devices and cores or disks, what
                    stands near, the scratch of cores */
};

/* The ranks, *first to *end - 1, that have data of a graph: of a process's part
 * of one, its own. */
void dsf_exec_ranks_of(const struct dsflow_graph *graph, unsigned *first,
                       unsigned *end);

/* As an executor with these options would have it, of which `workers` is given,
 * and `gpus` or `virtuals`; the module of GPUs is open. Freed with
 * dsf_exec_needs_fini. */
int dsf_exec_needs_find(struct dsflow_graph *graph,
                        const struct dsflow_exec_options *options,
                        struct dsf_exec_needs *needs, struct dsflow_err *err);
void dsf_exec_needs_fini(struct dsf_exec_needs *needs);

#endif
