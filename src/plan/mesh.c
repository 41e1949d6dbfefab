/* mesh.c - the ranks of a job as points of a mesh, and their order. */
#include "plan/mesh.h"

#include <assert.h>

int32_t dsf_mesh_ranks(const struct dsf_mesh *mesh)
{
    return mesh->pipeline * mesh->data * mesh->tensor;
}

int32_t dsf_mesh_rank(const struct dsf_mesh *mesh, int32_t stage, int32_t d,
                      int32_t t)
{
    assert(stage >= 0 && stage < mesh->pipeline);
    assert(d >= 0 && d < mesh->data);
    assert(t >= 0 && t < mesh->tensor);
    return (stage * mesh->data + d) * mesh->tensor + t;
}

void dsf_mesh_coords(const struct dsf_mesh *mesh, int32_t rank, int32_t *stage,
                     int32_t *d, int32_t *t)
{
    assert(rank >= 0 && rank < dsf_mesh_ranks(mesh));
    *t = rank % mesh->tensor;
    *d = rank / mesh->tensor % mesh->data;
    *stage = rank / mesh->tensor / mesh->data;
}
