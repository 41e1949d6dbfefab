/* axes.c - the axes of the mesh, and the keys that say how many ranks there are
 * along each. */
#include "config/axes.h"

#include "config/job.h"

#include <stdbool.h>
#include <string.h>

static const struct dsflow_axis data_axis = {
    .abi = DSFLOW_AXIS_ABI,
    .name = "data",
    .summary = "replicas of the model, each with its own share of the "
               "micro-batches",
    .shares = DSFLOW_SHARE_SEQUENCES,
    .order = 20,
    .max = 1024,
};

/* Outermost: stages talk least. */
static const struct dsflow_axis pipeline_axis = {
    .abi = DSFLOW_AXIS_ABI,
    .name = "pipeline",
    .summary = "stages, each with its own layers",
    .shares = DSFLOW_SHARE_LAYERS,
    .order = 10,
    .max = 1024,
};

/* Innermost: the ranks along it talk in every layer. */
static const struct dsflow_axis tensor_axis = {
    .abi = DSFLOW_AXIS_ABI,
    .name = "tensor",
    .summary = "ranks that share the heads and columns of each layer",
    .shares = DSFLOW_SHARE_TENSORS,
    .order = 30,
    .max = 64,
    .regroups = 1,
};

/* Those of one replica, which send each other keys and values in every layer.
 */
static const struct dsflow_axis sequence_axis = {
    .abi = DSFLOW_AXIS_ABI,
    .name = "sequence",
    .summary = "ranks that share the tokens of each sequence",
    .shares = DSFLOW_SHARE_TOKENS,
    .order = 25,
    .max = 1024,
};

static const void *const builtin[] = {
    [DSF_AXIS_DATA] = &data_axis,
    [DSF_AXIS_PIPELINE] = &pipeline_axis,
    [DSF_AXIS_TENSOR] = &tensor_axis,
    [DSF_AXIS_SEQUENCE] = &sequence_axis,
    NULL,
};

#define MESH struct dsf_job_mesh
static const char *const transports[] = { DSF_TRANSPORTS(DSF_CHOICE_NAME)
                                              NULL };
static const char *const sequence_kinds[] = { DSF_SEQUENCE_KINDS(
    DSF_CHOICE_NAME) NULL };
static const struct dsflow_option others[DSF_MESH_KEYS] = {
    DSFLOW_OPTION_CHOICE(MESH, transport, "\"auto\"", transports,
                         "what carries messages between processes; nccl: from "
                         "GPU to GPU, or the job is refused; auto: so where "
                         "each process has GPUs of its own and NCCL is there",
                         "mesh.data >= 2 or mesh.pipeline >= 2 or mesh.tensor "
                         ">= 2 or mesh.sequence >= 2"),
    DSFLOW_OPTION_CHOICE(MESH, sequence_kind, "\"auto\"", sequence_kinds,
                         "how ranks that share sequences attend to what others "
                         "have; keys: keys and values of earlier tokens are "
                         "sent to the queries, and gradients of them come "
                         "back; heads: for attention each rank is given all "
                         "tokens of its heads, and gives the results back; "
                         "auto: what is predicted to be faster; with more than "
                         "64 ranks heads, where those that share sequences "
                         "are on several nodes, have as many heads each, and "
                         "would receive half as many bytes more of keys. No "
                         "bits depend on it",
                         "mesh.sequence >= 2"),
    DSFLOW_OPTION_AUTO(MESH, key_slots, "\"auto\"", 1, 1024,
                       "buffers of keys and values of other ranks that a rank "
                       "has at a time, of batch.key_tiles tiles each, and of "
                       "sums of their gradients; auto: those of a stretch for "
                       "every other rank, and 2, or its workers + 1",
                       "mesh.sequence >= 2 or batch.sequence_groups >= 2"),
};

/* Is there a key of this name that is of no axis? */
static bool is_key(const char *name)
{
    for (size_t i = 0; i < DSF_MESH_KEYS; i++)
        if (strcmp(others[i].key, name) == 0)
            return true;
    return false;
}

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_axis *axis = thing;
    int status = dsf_registry_check(&dsf_axes, axis->abi, axis->name,
                                    axis->summary, err);

    if (status < 0)
        return status;
    if (dsf_registry_count(&dsf_axes) == DSF_MAX_AXES)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "axis %.60s: expected at most %d axes in all",
                           axis->name, DSF_MAX_AXES);
    if (strcspn(axis->name, ". =[]\"") != strlen(axis->name) ||
        is_key(axis->name))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "axis %.60s: expected a name that can be a key of "
                           "[mesh]",
                           axis->name);
    if (axis->max < 1 || axis->max > INT16_MAX)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "axis %.60s: max: %d: expected 1 to %d", axis->name,
                           (int)axis->max, INT16_MAX);
    return dsf_registry_add(&dsf_axes, axis->name, axis, origin, err);
}

struct dsf_registry dsf_axes = {
    .sort = "axis",
    .abi = DSFLOW_AXIS_ABI,
    .add = add,
    .builtin = builtin,
};

int dsflow_axis_register(const struct dsflow_axis *axis, struct dsflow_err *err)
{
    return dsf_axes.add(axis, "the program", err);
}

const struct dsflow_axis *dsflow_axis_at(unsigned i)
{
    return dsf_registry_thing_at(&dsf_axes, i);
}

int dsf_axis_find(const char *name)
{
    const struct dsflow_axis *axis;

    for (unsigned i = 0; (axis = dsflow_axis_at(i)) != NULL; i++)
        if (strcmp(axis->name, name) == 0)
            return (int)i;
    return -1;
}

unsigned dsf_axes_in_order(int order[DSF_MAX_AXES])
{
    const struct dsflow_axis *axis;
    unsigned n;

    for (n = 0; (axis = dsflow_axis_at(n)) != NULL; n++) {
        unsigned at = n;

        for (; at > 0 &&
               dsflow_axis_at((unsigned)order[at - 1])->order > axis->order;
             at--)
            order[at] = order[at - 1];
        order[at] = (int)n;
    }
    return n;
}

int dsf_axis_sharing(const int64_t size[DSF_MAX_AXES], unsigned shares)
{
    const struct dsflow_axis *axis;

    for (unsigned i = 0; (axis = dsflow_axis_at(i)) != NULL; i++)
        if (size[i] > 1 && (axis->shares & shares))
            return (int)i;
    return -1;
}

struct dsflow_option dsf_axes_keys[DSF_MAX_AXES + DSF_MESH_KEYS + 1];

/* Again when an axis came, or those of a wrong plug-in went. */
void dsf_axes_make_keys(void)
{
    static size_t made;
    size_t n = dsf_registry_count(&dsf_axes);

    if (made == n)
        return;
    memset(dsf_axes_keys, 0, sizeof(dsf_axes_keys));
    for (size_t i = 0; i < n; i++) {
        const struct dsflow_axis *axis = dsflow_axis_at((unsigned)i);

        dsf_axes_keys[i] = (struct dsflow_option){
            .key = axis->name,
            .type = DSFLOW_INT,
            .offset = i * sizeof(int64_t),
            .fallback = "1",
            .min = 1,
            .max = axis->max,
            .help = axis->summary,
        };
    }
    memcpy(dsf_axes_keys + n, others, sizeof(others));
    made = n;
}
