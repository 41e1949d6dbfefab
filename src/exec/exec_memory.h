/* exec_memory.h - where an executor has data. */
#ifndef DSF_EXEC_EXEC_MEMORY_H
#define DSF_EXEC_EXEC_MEMORY_H

#include <stdbool.h>
#include <dsflow/exec.h>

/* Is it in main memory? Then dsflow_exec_map gives the memory itself, and any
 * number at a time. */
bool dsf_exec_is_near(const struct dsflow_exec *exec, dsflow_data_id data);

#endif
