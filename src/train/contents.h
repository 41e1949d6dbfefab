/* contents.h - what a run keeps as whole tensors of the model, however the mesh
 * shares them out, and in whatever memory they are. One tensor is in memory
 * beside them at a time, where it does not stand in one piece; two, where
 * several processes write it. */
#ifndef DSF_TRAIN_CONTENTS_H
#define DSF_TRAIN_CONTENTS_H

#include <dsflow/exec.h>

#include "base/safetensors_write.h"
#include "model/model.h"
#include "plan/plan.h"

/* One piece of data, whose type its description says (whole tensors and those in
 * files are fp32), of what is kept at place `kind` of the list: of a unit, a
 * replica or a part of it; of what is by rank or by worker, that of one. */
struct dsf_holding {
    uint32_t unit, kind; /* unit: or the rank, or the worker */
    int32_t part;
    int64_t at; /* within the part */
    dsflow_data_id id;
};

/* Numbers of a holding that a process has, or writes. */
struct dsf_piece {
    uint32_t unit, kind; /* as above */
    int32_t part;
    uint32_t is_array; /* it has no pieces: one writes all of it */
    int64_t at, elems;
};

struct dsf_contents {
    const struct dsf_model *model; /* borrowed, all four */
    struct dsflow_graph *graph;
    struct dsflow_exec *exec;
    const struct dsf_kept_list *kept;
    int32_t tensor;         /* parts of a unit */
    struct dsf_holding *v;  /* by unit, kind, part and place in it */
    size_t n, cap;
};

void dsf_contents_init(struct dsf_contents *c, const struct dsf_model *model,
                       struct dsflow_graph *graph, struct dsflow_exec *exec,
                       const struct dsf_kept_list *kept, int32_t tensor);
void dsf_contents_fini(struct dsf_contents *c);

/* Is it in one piece in memory? Then it can be mapped, until the next submit.
 */
bool dsf_contents_stands(const struct dsf_contents *c, unsigned unit,
                         unsigned kind);
void *dsf_contents_map(struct dsf_contents *c, unsigned unit, unsigned kind,
                       enum dsflow_access access);

/* Copy the whole unit (units[unit].elems numbers) out of, or into, all pieces
 * there are. Here and below, errors are of a disk that fails, or of memory. */
int dsf_contents_get(struct dsf_contents *c, unsigned unit, unsigned kind,
                     float *whole, struct dsflow_err *err);
int dsf_contents_put(struct dsf_contents *c, unsigned unit, unsigned kind,
                     const float *whole, struct dsflow_err *err);

/* The same with what `read` fills in. */
int dsf_contents_fill(struct dsf_contents *c, unsigned unit, unsigned kind,
                      dsf_unit_fn read, void *user, struct dsflow_err *err);

/* The same to and from a file. */
int dsf_contents_write(struct dsf_contents *c, unsigned unit, unsigned kind,
                       struct dsf_st_writer *out, struct dsflow_err *err);
int dsf_contents_read(struct dsf_contents *c, unsigned unit, unsigned kind,
                      const struct dsf_st_file *file,
                      const struct dsf_st_tensor *from, struct dsflow_err *err);

/* The same of the `n` pieces of it that are this process's to write, in order;
 * the rest of its `bytes` in the file is skipped. */
int dsf_contents_write_some(struct dsf_contents *c, unsigned unit,
                            unsigned kind, const struct dsf_piece *pieces,
                            size_t n, size_t bytes, struct dsf_st_writer *out,
                            struct dsflow_err *err);

#endif
