/* copies.h - tasks that only copy, said as copies: for devices whose engines do
 * that beside their kernels. */
#ifndef DSF_CODELETS_COPIES_H
#define DSF_CODELETS_COPIES_H

#include <stdbool.h>
#include <dsflow/codelet.h>

/* Bytes of port `from`, from `from_at` on, into port `to`. Of several rows, so
 * many bytes of each, which are so many bytes apart; rows = 0: one. */
struct dsf_port_copy {
    unsigned to, from;
    size_t to_at, from_at, bytes;
    size_t rows, to_apart, from_apart;
};

/* Does a task of this op copy, and nothing else? Into which port? */
bool dsf_only_copies(const struct dsflow_op *op);
unsigned dsf_copies_into(const struct dsflow_op *op);

/* All of them: `v` has room for two on each port. Returns how many. */
unsigned dsf_copies(const struct dsflow_op *op, const struct dsflow_call *call,
                    struct dsf_port_copy *v);

#endif
