/* torch.h - files that torch.save wrote, read without running anything.
 *
 * Such a file is a pickle and the storages of its tensors, in a zip archive
 * (torch 1.6 and later) or in a stream. The pickle becomes a tree of nodes that
 * only say what was written: a class that is named is a name, a call of it a
 * node with its arguments. Numbers stay in the file until they are asked for.
 * Nothing in a file is trusted: it is refused where it names something that
 * runs, where a tensor has numbers that its storage lacks, and where the tree
 * would take far more memory than its pickle has bytes. */
#ifndef DSF_TORCH_TORCH_H
#define DSF_TORCH_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/dtype.h>
#include <dsflow/error.h>

enum {
    DSF_TORCH_MOST_DIMS = 8,
    DSF_TORCH_MOST_DEPTH = 200, /* of a tree */
};

enum dsf_torch_kind {
    DSF_TORCH_NONE,
    DSF_TORCH_BOOL,
    DSF_TORCH_INT,
    DSF_TORCH_FLOAT,
    DSF_TORCH_STR,
    DSF_TORCH_BYTES, /* bytes and bytearray */
    DSF_TORCH_LIST,
    DSF_TORCH_TUPLE,  /* torch.Size, too */
    DSF_TORCH_SET,    /* frozenset, too */
    DSF_TORCH_DICT,   /* OrderedDict, argparse.Namespace, …, too */
    DSF_TORCH_TENSOR, /* Parameter and numpy's arrays, too */
    DSF_TORCH_STORAGE,
    DSF_TORCH_GLOBAL, /* a class or a function, by its name; torch.float32 */
    DSF_TORCH_OBJECT, /* of any other class */
    DSF_TORCH_NKINDS
};

/* Elements that tensors share; the bytes are in the file. */
struct dsf_torch_storage {
    const char *key; /* "0", as the file names it */
    enum dsflow_dtype dtype;
    int64_t elems;
    int64_t at;        /* its first byte in the file */
    const void *bytes; /* or here, where it is not NULL */
    struct dsf_torch_entry *entry; /* that has it, of an archive; or NULL */
};

struct dsf_torch_tensor {
    const struct dsf_torch_storage *storage;
    enum dsflow_dtype dtype; /* fp32 fp64 bf16 fp16 int8 to int64, uint8 to
                              * uint64, boolean, fp8 */
    unsigned ndims;          /* 0: one number */
    int64_t dims[DSF_TORCH_MOST_DIMS];
    int64_t strides[DSF_TORCH_MOST_DIMS]; /* in elements */
    int64_t offset;                       /* in elements, of the storage */
    int64_t elems;                        /* product of dims */
};

/* Everything is borrowed from the file, until it is closed. A node may stand in
 * several places of the tree, but never below itself. */
struct dsf_torch_node {
    enum dsf_torch_kind kind;
    uint32_t n; /* items of a LIST, TUPLE or SET; entries of a DICT; bytes of a
                 * STR or BYTES */
    /* Of what was an object, its class ("argparse.Namespace"); else NULL. */
    const char *of;
    /* What was set on it beside its contents (an OrderedDict's attributes, an
     * OBJECT's state); or NULL. */
    const struct dsf_torch_node *state;
    union {
        bool truth;
        /* `big`: the number in hexadecimal, "-0x1f…", where it does not fit
         * 64 bits; else NULL. */
        struct {
            int64_t value;
            const char *big;
        } integer;
        double real;
        const char *str; /* UTF-8, ends with a NUL that `n` does not count */
        /* The bytes are in the file from `at` on, or at `here`. */
        struct {
            int64_t at;
            const void *here;
        } bytes;
        struct dsf_torch_node *const *items; /* of a DICT: key, value, … */
        const struct dsf_torch_tensor *tensor;
        const struct dsf_torch_storage *storage;
        const char *global; /* "torch.float32" */
        struct {
            const char *name;                  /* its class or function */
            const struct dsf_torch_node *args; /* a TUPLE, or NULL */
            /* LIST or DICT that it was filled with, or NULL. */
            const struct dsf_torch_node *filled;
        } object;
    };
};

struct dsf_torch_file; /* opaque */

/* Reads the tree, and where the storages are. Errors: DSFLOW_EINVAL when it is
 * no such file or one that is refused, with the file, the byte of its pickle
 * and what was expected; DSFLOW_EIO when it cannot be read. */
int dsf_torch_open(const char *path, struct dsf_torch_file **file,
                   struct dsflow_err *err);
void dsf_torch_close(struct dsf_torch_file *file); /* NULL is fine */
const char *dsf_torch_path(const struct dsf_torch_file *file);
const struct dsf_torch_node *dsf_torch_root(const struct dsf_torch_file *file);

/* Does the file begin as one of torch.save does? false, too, where it cannot be
 * opened. Cheap: reads some bytes. */
bool dsf_torch_is(const char *path);

/* The value at a key of a DICT; NULL where there is none, or `dict` is NULL or
 * no DICT. Keys that are "0" and 0 are different. */
const struct dsf_torch_node *dsf_torch_find(const struct dsf_torch_node *dict,
                                            const char *key);
const struct dsf_torch_node *
dsf_torch_find_int(const struct dsf_torch_node *dict, int64_t key);

/* Entry i (< n) of a DICT, in order; item i (< n) of a LIST, TUPLE or SET. */
const struct dsf_torch_node *dsf_torch_key(const struct dsf_torch_node *dict,
                                           uint32_t i);
const struct dsf_torch_node *dsf_torch_value(const struct dsf_torch_node *dict,
                                             uint32_t i);
const struct dsf_torch_node *dsf_torch_item(const struct dsf_torch_node *list,
                                            uint32_t i);

/* Where a node is in the tree, for messages: "optimizer.state[0].exp_avg"; ""
 * for the root. Free it. */
char *dsf_torch_where(const struct dsf_torch_file *file,
                      const struct dsf_torch_node *node);

/* DSFLOW_EINVAL: "FILE: WHERE: message". */
int dsf_torch_fail(const struct dsf_torch_file *file,
                   const struct dsf_torch_node *node, struct dsflow_err *err,
                   const char *fmt, ...) DSFLOW_PRINTF(4, 5);

/* What must be there, and of this kind. The errors name file and place. A LIST
 * that is asked for may be a TUPLE, and an INT a BOOL. */
int dsf_torch_entry(const struct dsf_torch_file *file,
                    const struct dsf_torch_node *dict, const char *key,
                    enum dsf_torch_kind kind,
                    const struct dsf_torch_node **value,
                    struct dsflow_err *err);
int dsf_torch_expect(const struct dsf_torch_file *file,
                     const struct dsf_torch_node *node,
                     enum dsf_torch_kind kind, struct dsflow_err *err);
int dsf_torch_int(const struct dsf_torch_file *file,
                  const struct dsf_torch_node *node, int64_t *x,
                  struct dsflow_err *err);
/* An INT will do. */
int dsf_torch_real(const struct dsf_torch_file *file,
                   const struct dsf_torch_node *node, double *x,
                   struct dsflow_err *err);
int dsf_torch_str(const struct dsf_torch_file *file,
                  const struct dsf_torch_node *node, const char **s,
                  struct dsflow_err *err);
int dsf_torch_tensor(const struct dsf_torch_file *file,
                     const struct dsf_torch_node *node,
                     const struct dsf_torch_tensor **t, struct dsflow_err *err);

/* The same of floating point; and whether it is one. */
int dsf_torch_floats(const struct dsf_torch_file *file,
                     const struct dsf_torch_node *node,
                     const struct dsf_torch_tensor **t, struct dsflow_err *err);
bool dsf_torch_is_floats(const struct dsf_torch_node *node);

/* "a list", "a tensor": for messages. */
const char *dsf_torch_kind_str(enum dsf_torch_kind kind);

/* The type that a GLOBAL such as torch.bfloat16 names; or DSFLOW_BYTES. */
enum dsflow_dtype dsf_torch_dtype(const struct dsf_torch_node *node);

/* Elements [at, at + n) of a tensor, counted row by row whatever its strides
 * are: as fp32 (rounded to nearest where the type is wider), or as they are, in
 * its type. Takes less than a MiB of memory; from several threads at once, too.
 * Of an archive all bytes of the storage are read first, once, where it has a
 * CRC-32 of them. Errors: DSFLOW_EIO, DSFLOW_EINVAL: it has another one. */
int dsf_torch_read_f32(const struct dsf_torch_file *file,
                       const struct dsf_torch_tensor *t, int64_t at, int64_t n,
                       float *to, struct dsflow_err *err);
int dsf_torch_read(const struct dsf_torch_file *file,
                   const struct dsf_torch_tensor *t, int64_t at, int64_t n,
                   void *to, struct dsflow_err *err);

/* Bytes [from, from + n) of a BYTES. */
int dsf_torch_read_bytes(const struct dsf_torch_file *file,
                         const struct dsf_torch_node *node, uint32_t from,
                         uint32_t n, void *to, struct dsflow_err *err);

#endif
