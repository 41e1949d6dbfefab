/* torch_private.h - between the files of src/torch. */
#ifndef DSF_TORCH_TORCH_PRIVATE_H
#define DSF_TORCH_TORCH_PRIVATE_H

#include "base/blocks.h"
#include "torch/torch.h"

/* A file of the archive: `bytes` of them from byte `at` of it on. */
struct dsf_torch_entry {
    const char *name;
    int64_t at, bytes;
    uint32_t crc;
    _Atomic bool unchecked; /* whether they have that CRC-32 */
};

/* What can change: of a LIST, TUPLE, SET, DICT, TENSOR or OBJECT. */
struct node {
    struct dsf_torch_node pub; /* first */
    uint32_t cap;              /* of its items */
    bool visited, ended;       /* while the whole is checked */
    uint16_t depth;            /* below it, and its own */
    uint32_t weight;           /* nodes below it, and itself */
    uint32_t
        *sorted; /* entries of a large DICT in the order of keys, or NULL */
};

struct dsf_torch_file {
    char *path;
    int fd;
    int64_t bytes;
    struct dsf_blocks mem; /* what nodes point to */
    const struct dsf_torch_node *root;

    struct dsf_torch_entry *entries; /* by name; of an archive */
    size_t nentries;
    const char *top; /* folder of the archive, with its '/' */

    struct dsf_torch_storage **storages; /* by a hash of keys; or NULL */
    size_t nstorages, cap;
    bool stream; /* storages are found after the tree */
};

/* Bytes [at, at + bytes) of the file. */
int dsf_torch_read_file(const struct dsf_torch_file *f, int64_t at, void *to,
                        size_t bytes, struct dsflow_err *err);

/* torch_zip.c: fills entries and top. */
int dsf_torch_zip_open(struct dsf_torch_file *f, struct dsflow_err *err);
struct dsf_torch_entry *dsf_torch_zip_find(const struct dsf_torch_file *f,
                                           const char *name);
/* Are its bytes those that were written? They are read the first time. */
int dsf_torch_zip_check(const struct dsf_torch_file *f,
                        struct dsf_torch_entry *e, struct dsflow_err *err);

/* The storage of this key, as a tensor names it: made when it is first named.
 * NULL: the message says why not, and names no file. */
struct dsf_torch_storage *dsf_torch_storage_named(struct dsf_torch_file *f,
                                                  const char *key,
                                                  enum dsflow_dtype dtype,
                                                  int64_t elems,
                                                  struct dsflow_err *err);

/* pickle.c: run the machine on the bytes of the file from `*at` to `end`;
 * `*at` is then behind what ended it. `base`: messages count from there. */
int dsf_torch_unpickle(struct dsf_torch_file *f, int64_t *at, int64_t end,
                       int64_t base, const struct dsf_torch_node **root,
                       struct dsflow_err *err);

/* torch_check.c: nothing is below itself, the tree is neither too deep nor,
 * with what stands in several places counted each time, too large, and no DICT
 * has a key twice. */
int dsf_torch_check(struct dsf_torch_file *f, const struct dsf_torch_node *root,
                    struct dsflow_err *err);

/* The order in which keys are looked for; 0, too, of kinds that have none. */
int dsf_torch_key_order(const struct dsf_torch_node *a,
                        const struct dsf_torch_node *b);

/* For pickle.c and pickle_names.c. Messages have neither file nor place. */
struct node *dsf_torch_node_new(struct dsf_torch_file *f,
                                enum dsf_torch_kind kind);
struct dsf_torch_node *dsf_torch_leaf(struct dsf_torch_file *f,
                                      enum dsf_torch_kind kind);
struct dsf_torch_node *dsf_torch_text(struct dsf_torch_file *f, const char *s,
                                      size_t n);
struct dsf_torch_node *dsf_torch_number(struct dsf_torch_file *f, int64_t x);
void dsf_torch_put(struct dsf_torch_file *f, struct node *to,
                   struct dsf_torch_node *const *items, size_t n);
static inline struct node *node_of(const struct dsf_torch_node *n)
{
    return (struct node *)(void *)n;
}
/* Is it a node that has room for what `struct node` adds? */
static inline bool is_grown(const struct dsf_torch_node *n)
{
    return n->kind >= DSF_TORCH_LIST && n->kind <= DSF_TORCH_OBJECT &&
           n->kind != DSF_TORCH_STORAGE && n->kind != DSF_TORCH_GLOBAL;
}

/* pickle_runs.c: does a name stand for something that runs? */
bool dsf_torch_name_runs(const char *name);
/* pickle_names.c: what a name is called with, or made with: the node it means;
 * NULL: the message says why it cannot be. `args` is a TUPLE. */
struct dsf_torch_node *dsf_torch_call(struct dsf_torch_file *f,
                                      const char *name,
                                      struct dsf_torch_node *args,
                                      struct dsflow_err *err);
/* The state that is set on a node. */
int dsf_torch_build(struct dsf_torch_file *f, struct dsf_torch_node *node,
                    struct dsf_torch_node *state, struct dsflow_err *err);
/* pickle_torch.c: what a persistent id stands for. */
struct dsf_torch_node *dsf_torch_persistent(struct dsf_torch_file *f,
                                            const struct dsf_torch_node *id,
                                            struct dsflow_err *err);
/* pickle_numpy.c */
int dsf_torch_numpy_array(struct dsf_torch_file *f, struct dsf_torch_node *node,
                          const struct dsf_torch_node *state,
                          struct dsflow_err *err);

/* A tensor of these sizes; strides NULL: row by row. The storage must have all
 * of its numbers. 0, or the message. */
int dsf_torch_shape(struct dsf_torch_tensor *t,
                    const struct dsf_torch_node *dims,
                    const struct dsf_torch_node *strides,
                    struct dsflow_err *err);

#endif
