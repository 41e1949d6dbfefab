/* mesh.h - the ranks of a job as points of a mesh: coordinates, groups, and the
 * order of the ranks. */
#ifndef DSF_PLAN_MESH_H
#define DSF_PLAN_MESH_H

#include <stdint.h>

#include "config/axes.h"

/* By axis, as in the table (config/axes.h). */
struct dsf_mesh {
    int32_t size[DSF_MAX_AXES];   /* ranks along it, at least 1 */
    int32_t stride[DSF_MAX_AXES]; /* from a rank to the next one along it */
};

struct dsf_coords {
    int32_t at[DSF_MAX_AXES];
};

/* What ranks must not share out to be asked for together. */
enum { DSF_SAME_WEIGHTS = DSFLOW_SHARE_LAYERS | DSFLOW_SHARE_TENSORS };

/* `size`: ranks along each axis, as in struct dsf_job_mesh. */
void dsf_mesh_init(struct dsf_mesh *mesh, const int64_t size[DSF_MAX_AXES]);

int32_t dsf_mesh_ranks(const struct dsf_mesh *mesh);

/* Row-major over the axes in their order: with those that dsflow has, the ranks
 * of a tensor group follow each other, as they talk most, and stages are
 * farthest apart. */
struct dsf_coords dsf_mesh_coords(const struct dsf_mesh *mesh, int32_t rank);

/* One coordinate of a rank; and the rank that has another one on this axis and
 * the same ones on all others. */
int32_t dsf_mesh_at(const struct dsf_mesh *mesh, int32_t rank, int axis);
int32_t dsf_mesh_peer(const struct dsf_mesh *mesh, int32_t rank, int axis,
                      int32_t at);

/* The ranks, `rank` among them, that have the same of what `shares` names:
 * those that differ from it only on axes that share out none of it. With
 * DSF_SAME_WEIGHTS, the ranks that have the weights it has. In increasing order
 * into `ranks` (NULL: not wanted); returns how many. */
int32_t dsf_mesh_same(const struct dsf_mesh *mesh, int32_t rank,
                      unsigned shares, int32_t *ranks);

/* "data 2 x pipeline 1 x tensor 4". */
struct dsf_mesh_text {
    char s[200];
};
struct dsf_mesh_text dsf_mesh_text(const struct dsf_mesh *mesh);

#endif
