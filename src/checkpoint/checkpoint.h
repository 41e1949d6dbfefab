/* checkpoint.h - a training run on disk: complete or absent.
 *
 *   <output>/checkpoints/step-120/manifest.json
 *                                 params.safetensors  states.safetensors
 *                        latest   (text: "step-120")
 *
 * A checkpoint is written as step-120.tmp, every file synced and summed, then
 * the manifest, then renamed, then `latest` is replaced (write, sync, rename).
 * Of several processes one does so; the others write parts of the files, and
 * sync them, before there is a manifest.
 */
#ifndef DSF_CHECKPOINT_CHECKPOINT_H
#define DSF_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <dsflow/error.h>
#include "base/safetensors_write.h"

/* What a checkpoint holds beside tensors: strings in the manifest. */
struct dsf_ckpt_meta {
    int64_t step;      /* steps done */
    char job[64];      /* its name */
    uint64_t identity; /* hash of what must not change on resume */
    bool edited;       /* of saving: write it, though there may be one of the
                          same step and identity; not kept */
    /* To be written; NULL where it was read: the same with names, … */
    const struct dsf_ckpt_fields *of;
    const struct dsf_ckpt_fields *numbers; /* … and those that are no arrays:
                                              "control.step" is "7" */
    const struct dsf_ckpt_others *others;  /* of saving: who writes, too */
};

/* The processes that write parts of the files, as dsf_ckpt_save asks. */
struct dsf_ckpt_others {
    void *user;
    /* The files in `folder` have their headers and sizes: let them begin. */
    int (*begin)(void *user, const char *folder, struct dsflow_err *err);
    /* When all are through: `sums` by file are put to those of this process.
     * Called where they have begun, whatever has failed here. */
    int (*end)(void *user, uint64_t *sums, struct dsflow_err *err);
};

/* What a checkpoint is of, key by key: "batch.groups" is "2". */
struct dsf_ckpt_fields {
    struct dsf_ckpt_field {
        char *key, *value;
    } * v;
    size_t n, cap;
};
void dsf_ckpt_fields_add(struct dsf_ckpt_fields *of, const char *key,
                         const char *value);
const char *dsf_ckpt_fields_find(const struct dsf_ckpt_fields *of,
                                 const char *key); /* or NULL */
void dsf_ckpt_fields_fini(struct dsf_ckpt_fields *of);

/* "of" or "numbers" of the checkpoint in folder `path`; none where it is of a
 * version that did not write them. */
int dsf_ckpt_fields_read(const char *path, const char *which,
                         struct dsf_ckpt_fields *fields,
                         struct dsflow_err *err);

/* Read tensor `i`, which the file has as `from`, with dsf_st_read. */
typedef int (*dsf_ckpt_take_fn)(void *user, unsigned i,
                                const struct dsf_st_file *file,
                                const struct dsf_st_tensor *from,
                                struct dsflow_err *err);

/* The tensors of one file of the checkpoint, "params" or "states". Those that
 * have no data here pass by one at a time, in their order: `put` hands them out
 * to be saved, `take` takes them back. */
struct dsf_ckpt_part {
    const char *name;
    struct dsf_st_tensor *tensors;
    unsigned n;
    dsf_st_put_fn put;
    dsf_ckpt_take_fn take;
    void *user;
};

/* Write checkpoint of `meta->step` under `dir` (…/checkpoints), then delete
 * the oldest beyond `keep` (0: none). On any error nothing that was whole is
 * lost, and what was begun is removed. */
int dsf_ckpt_save(const char *dir, const struct dsf_ckpt_meta *meta,
                  const struct dsf_ckpt_part *parts, unsigned nparts,
                  int64_t keep, struct dsflow_err *err);

/* One of the others: the bytes that `put` does not skip of each tensor, into
 * the files in `folder`, on disk when it returns; their sums, by file. Tensors
 * that are not in `parts` are skipped. */
int dsf_ckpt_write_some(const char *folder, const struct dsf_ckpt_part *parts,
                        unsigned nparts, uint64_t *sums,
                        struct dsflow_err *err);

/* Remove every checkpoint of `dir`. */
void dsf_ckpt_remove_all(const char *dir);

/* Is the checkpoint in folder `path` whole (manifest, sizes, hashes)? */
int dsf_ckpt_verify(const char *path, struct dsf_ckpt_meta *meta,
                    struct dsflow_err *err);

/* The path (freed by the caller) of the checkpoint to resume from: what
 * `latest` names, verified; with `good`, or where a run died before it wrote
 * `latest`, the newest whole one. No checkpoint at all: DSFLOW_OK and *path
 * NULL; a folder that cannot be read is an error. A damaged `latest` is an
 * error that names it and says what
 * --resume=latest-good would take. */
int dsf_ckpt_latest(const char *dir, int good, char **path,
                    struct dsf_ckpt_meta *meta, struct dsflow_err *err);

/* `latest` names the checkpoint of this path from now on, if it did not. */
int dsf_ckpt_name_latest(const char *path, struct dsflow_err *err);

/* Fill the tensors of `parts` (names, types, sizes, and writable data or `take`
 * are given) from the checkpoint in `path`. */
int dsf_ckpt_load(const char *path, const struct dsf_ckpt_part *parts,
                  unsigned nparts, struct dsflow_err *err);

/* The tensors of part `name` of the checkpoint in `path`; closed by the caller.
 */
int dsf_ckpt_open_part(const char *path, const char *name,
                       struct dsf_st_file **file, struct dsflow_err *err);

/* The tensor of that name, type and size; NULL with a message where the file has
 * none. */
const struct dsf_st_tensor *dsf_ckpt_find(const struct dsf_st_file *file,
                                          const struct dsf_st_tensor *wanted,
                                          struct dsflow_err *err);

/* What there is in `dir`, whole or not: nothing is read. */
struct dsf_ckpt_use {
    unsigned n;        /* checkpoints, … */
    double bytes;      /* … in all, … */
    int64_t newest;    /* … and the step of the last */
    double unfinished; /* bytes that a run which died left behind: the next
                          save removes them */
};
struct dsf_ckpt_use dsf_ckpt_use(const char *dir);

/* For `dsflow checkpoint list`: calls `each` for every folder, oldest first;
 * `err->msg` says why one is not whole. */
int dsf_ckpt_list(const char *dir,
                  void (*each)(void *user, const char *path,
                               const struct dsf_ckpt_meta *meta,
                               int64_t bytes, int status,
                               const struct dsflow_err *why),
                  void *user, struct dsflow_err *err);

#endif
