/* mesh.h - the ranks of a job as points of a mesh, and their order. */
#ifndef DSF_PLAN_MESH_H
#define DSF_PLAN_MESH_H

#include <stdint.h>

/* How many ranks there are along each axis; all at least 1. */
struct dsf_mesh {
    int32_t data, pipeline, tensor;
};

int32_t dsf_mesh_ranks(const struct dsf_mesh *mesh);

/* Row-major over pipeline, data, tensor: the ranks of a tensor group follow
 * each other, as they talk most, and stages are farthest apart. `d` and `t` are
 * the coordinates on the axes data and tensor. */
int32_t dsf_mesh_rank(const struct dsf_mesh *mesh, int32_t stage, int32_t d,
                      int32_t t);
void dsf_mesh_coords(const struct dsf_mesh *mesh, int32_t rank, int32_t *stage,
                     int32_t *d, int32_t *t);

#endif
