/* codelets.h - the kernels of the built-in kinds of task. */
#ifndef DSF_CODELETS_CODELETS_H
#define DSF_CODELETS_CODELETS_H

#include <stdbool.h>
#include <dsflow/codelet.h>

#include "base/registry.h"
#include "tasks/tasks.h"

/* For each of DSF_OPS; collectives and messages have none. */
#define DSF_NO_CODELET(name)
#define DECLARE(name) extern const struct dsflow_codelet dsf_codelet_##name;
DSF_OPS(DECLARE, DSF_NO_CODELET)
#undef DECLARE

/* dsf_codelet_<name>: how dsf_op_<name> is computed. */
#define DSF_CODELET(name, ...)                                                 \
    const struct dsflow_codelet dsf_codelet_##name = {                         \
        .abi = DSFLOW_CODELET_ABI, .op = &dsf_op_##name, __VA_ARGS__           \
    }

/* The same of a task of a segment, and of one that only parts of it have. */
#define DSF_SEGMENT_CODELET(name, fn)                                          \
    DSF_CODELET(name, .cpu = fn, .trials = &dsf_trials_segment)
#define DSF_PART_CODELET(name, fn)                                             \
    DSF_CODELET(name, .cpu = fn, .trials = &dsf_trials_part)

/* Does it take some thousand doubles at most, and one after the other? */
bool dsf_takes_few(const struct dsflow_op *op);

/* All that are known, by the name of their kind of task. */
extern struct dsf_registry dsf_codelet_kinds;

#endif
