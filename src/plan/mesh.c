/* mesh.c - the ranks of a job as points of a mesh, and their order. */
#include "plan/mesh.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>

void dsf_mesh_init(struct dsf_mesh *mesh, const int64_t size[DSF_MAX_AXES])
{
    int order[DSF_MAX_AXES];
    int32_t stride = 1;

    for (int a = 0; a < DSF_MAX_AXES; a++)
        mesh->size[a] = mesh->stride[a] = 1;
    for (unsigned i = dsf_axes_in_order(order); i-- > 0;) {
        mesh->size[order[i]] = (int32_t)size[order[i]];
        mesh->stride[order[i]] = stride;
        stride *= mesh->size[order[i]];
    }
}

int32_t dsf_mesh_ranks(const struct dsf_mesh *mesh)
{
    int32_t ranks = 1;

    for (int a = 0; a < DSF_MAX_AXES; a++)
        ranks *= mesh->size[a];
    return ranks;
}

struct dsf_coords dsf_mesh_coords(const struct dsf_mesh *mesh, int32_t rank)
{
    struct dsf_coords coords;

    for (int a = 0; a < DSF_MAX_AXES; a++)
        coords.at[a] = dsf_mesh_at(mesh, rank, a);
    return coords;
}

int32_t dsf_mesh_at(const struct dsf_mesh *mesh, int32_t rank, int axis)
{
    return rank / mesh->stride[axis] % mesh->size[axis];
}

int32_t dsf_mesh_peer(const struct dsf_mesh *mesh, int32_t rank, int axis,
                      int32_t at)
{
    assert(at >= 0 && at < mesh->size[axis]);
    return rank + (at - dsf_mesh_at(mesh, rank, axis)) * mesh->stride[axis];
}

/* Does `b` have what `a` has of what is shared out? */
static bool is_same(const struct dsf_mesh *mesh, int32_t a, int32_t b,
                    unsigned shares)
{
    const struct dsflow_axis *axis;

    for (int i = 0; (axis = dsflow_axis_at((unsigned)i)) != NULL; i++)
        if ((axis->shares & shares) &&
            dsf_mesh_at(mesh, a, i) != dsf_mesh_at(mesh, b, i))
            return false;
    return true;
}

int32_t dsf_mesh_same(const struct dsf_mesh *mesh, int32_t rank,
                      unsigned shares, int32_t *ranks)
{
    int32_t n = 0, all = dsf_mesh_ranks(mesh);

    for (int32_t r = 0; r < all; r++) {
        if (!is_same(mesh, rank, r, shares))
            continue;
        if (ranks != NULL)
            ranks[n] = r;
        n++;
    }
    return n;
}

struct dsf_mesh_text dsf_mesh_text(const struct dsf_mesh *mesh)
{
    struct dsf_mesh_text text = { "" };
    const struct dsflow_axis *axis;
    size_t n = 0;

    for (unsigned i = 0; (axis = dsflow_axis_at(i)) != NULL; i++)
        if (n < sizeof(text.s))
            n += (size_t)snprintf(text.s + n, sizeof(text.s) - n, "%s%s %d",
                                  i > 0 ? " x " : "", axis->name,
                                  (int)mesh->size[i]);
    return text;
}
