/* pieces.h - tensors of a source that stand in pieces in files of torch.save:
 * shards of ranks, fragments, or one tensor whole. */
#ifndef DSF_FOREIGN_PIECES_H
#define DSF_FOREIGN_PIECES_H

#include "foreign/source.h"
#include "torch/torch.h"

/* Elements [at, at + n) of a tensor of a file; or all of the one in the file
 * `path`, which is opened when it is read: there may be more of those than can
 * be open. */
struct dsf_piece_of {
    const struct dsf_torch_file *file;
    const struct dsf_torch_tensor *tensor;
    int64_t at, n;
    char *path;
};

/* The files that are open, and the pieces of each tensor of the source. */
struct dsf_tensor_pieces {
    struct dsf_torch_file **files;
    size_t nfiles, cap_files;
    const char *last; /* the path of the one that was read last, and it */
    struct dsf_torch_file *last_file;
    /* By source tensor's `at`. */
    struct dsf_pieces_of {
        struct dsf_pieces_list {
            struct dsf_piece_of *v;
            size_t n, cap;
            int64_t elems;
        } states[DSF_SOURCE_STATES];
    } * v;
    size_t n, cap;
};

/* Let `s` be read from such pieces; they belong to it. */
struct dsf_tensor_pieces *dsf_pieces_begin(struct dsf_source *s);
struct dsf_tensor_pieces *dsf_pieces_of(struct dsf_source *s);

/* A file of folder `folder`, open until the source is closed. */
int dsf_pieces_open(struct dsf_source *s, const char *folder, const char *name,
                    const struct dsf_torch_file **file, struct dsflow_err *err);

/* The tensor of that name, with a list of pieces; made where there is none. */
struct dsf_source_tensor *dsf_pieces_tensor(struct dsf_source *s,
                                            const char *name);

/* The next elements of `state` of tensor `t`; none where n is 0. They must be
 * within `node`, which is a tensor of `file`. */
int dsf_pieces_add(struct dsf_source *s, const struct dsf_source_tensor *t,
                   enum dsf_source_state state,
                   const struct dsf_torch_file *file,
                   const struct dsf_torch_node *node, int64_t at, int64_t n,
                   struct dsflow_err *err);

/* All elements of the tensor that `path`, a file of a universal checkpoint, has
 * as `state` of `t`. */
void dsf_pieces_add_file(struct dsf_source *s,
                         const struct dsf_source_tensor *t,
                         enum dsf_source_state state, const char *path);
/* The tensor of such a file: it itself, or the entry "param". */
int dsf_pieces_alone(const struct dsf_torch_file *file,
                     const struct dsf_torch_tensor **tensor,
                     struct dsflow_err *err);

/* `t`, which has none yet, has the pieces of `of` again. */
void dsf_pieces_again(struct dsf_source *s, const struct dsf_source_tensor *of,
                      struct dsf_source_tensor *t);

/* Every tensor that has pieces of a state must have all its elements; it is
 * then said to have it. */
int dsf_pieces_end(struct dsf_source *s, struct dsflow_err *err);

#endif
