/* pickle_call.h - a name of a pickle that is called, and its arguments. */
#ifndef DSF_TORCH_PICKLE_CALL_H
#define DSF_TORCH_PICKLE_CALL_H

#include "torch/torch_private.h"

struct dsf_torch_call {
    struct dsf_torch_file *file;
    const char *name;
    struct dsf_torch_node *args; /* a TUPLE */
    struct dsflow_err *err;
};

/* NULL, and the message: "NAME: …". */
struct dsf_torch_node *dsf_torch_refuse(const struct dsf_torch_call *c,
                                        const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* An object of that class, with those arguments. */
struct dsf_torch_node *dsf_torch_object(const struct dsf_torch_call *c);

/* Argument i, or NULL. */
static inline struct dsf_torch_node *arg(const struct dsf_torch_call *c,
                                         uint32_t i)
{
    return i < c->args->n ? c->args->items[i] : NULL;
}

static inline bool is_kind(const struct dsf_torch_node *n,
                           enum dsf_torch_kind kind)
{
    return n != NULL && n->kind == kind;
}

static inline bool is_int(const struct dsf_torch_node *n)
{
    return is_kind(n, DSF_TORCH_INT) && n->integer.big == NULL;
}

static inline bool is_sequence(const struct dsf_torch_node *n)
{
    return is_kind(n, DSF_TORCH_TUPLE) || is_kind(n, DSF_TORCH_LIST);
}

/* pickle_torch.c */
struct dsf_torch_node *dsf_torch_make_tensor(const struct dsf_torch_call *c);
struct dsf_torch_node *dsf_torch_make_parameter(const struct dsf_torch_call *c);
struct dsf_torch_node *dsf_torch_make_subclass(const struct dsf_torch_call *c);
struct dsf_torch_node *dsf_torch_make_device(const struct dsf_torch_call *c);

/* pickle_numpy.c */
struct dsf_torch_node *dsf_torch_make_scalar(const struct dsf_torch_call *c);
struct dsf_torch_node *
dsf_torch_make_from_buffer(const struct dsf_torch_call *c);

#endif
