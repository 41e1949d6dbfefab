/* pickle_machine.h - the machine of Python's pickles: bytes, stack and memo.
 * All functions return a status, whose message is in `err` of the machine. */
#ifndef DSF_TORCH_PICKLE_MACHINE_H
#define DSF_TORCH_PICKLE_MACHINE_H

#include "torch/torch_private.h"

enum { DSF_PICKLE_WINDOW = 1 << 16 };

struct dsf_pickle {
    struct dsf_torch_file *file;
    int64_t base, at, end; /* of the next byte; in the file */
    int64_t op_at;
    const char *op; /* its name, for messages */
    struct dsflow_err *err;

    unsigned char *window;
    int64_t window_at;
    size_t window_n;

    struct dsf_torch_node **stack;
    size_t n, cap;
    size_t *marks; /* how much of the stack is below each */
    size_t nmarks, marks_cap;
    struct dsf_torch_node **memo;
    size_t memo_n, memo_cap, memo_count;
};

/* DSFLOW_EINVAL: "FILE: its pickle, byte 12: BUILD: message". */
int dsf_pickle_refuse(struct dsf_pickle *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, of a message that another file made. */
int dsf_pickle_refuse_for(struct dsf_pickle *m, const struct dsflow_err *why);

/* Is there memory for the tree, with `more` bytes? */
int dsf_pickle_room(struct dsf_pickle *m, size_t more);

/* n bytes that are left; the next n; a little-endian count of `bytes` bytes. */
int dsf_pickle_need(struct dsf_pickle *m, uint64_t n);
int dsf_pickle_take(struct dsf_pickle *m, void *to, size_t n);
int dsf_pickle_take_count(struct dsf_pickle *m, size_t bytes, uint64_t *x);

int dsf_pickle_push(struct dsf_pickle *m, const struct dsf_torch_node *node);
/* Are there n above the last mark? */
int dsf_pickle_has(struct dsf_pickle *m, size_t n);
int dsf_pickle_mark(struct dsf_pickle *m);
/* What is above the last mark is v[0 .. n), and off the stack. */
int dsf_pickle_pop_mark(struct dsf_pickle *m, struct dsf_torch_node ***v,
                        size_t *n);

int dsf_pickle_put_memo(struct dsf_pickle *m, uint64_t i);
int dsf_pickle_get_memo(struct dsf_pickle *m, uint64_t i);

/* pickle_values.c: what has nothing below it, from the bytes that follow. */
int dsf_pickle_push_bool(struct dsf_pickle *m, bool x);
int dsf_pickle_push_int(struct dsf_pickle *m, int64_t x);
int dsf_pickle_push_float(struct dsf_pickle *m);
int dsf_pickle_push_long(struct dsf_pickle *m, uint64_t n);
int dsf_pickle_push_bytes(struct dsf_pickle *m, uint64_t n);
int dsf_pickle_push_str(struct dsf_pickle *m, uint64_t n);
int dsf_pickle_push_old_str(struct dsf_pickle *m, uint64_t n);
int dsf_pickle_push_global(struct dsf_pickle *m);
int dsf_pickle_push_stack_global(struct dsf_pickle *m);

#endif
