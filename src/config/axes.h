/* axes.h - the table of the axes of the mesh: dsflow's, and those of plug-ins.
 * The keys of [mesh] are made from it. */
#ifndef DSF_CONFIG_AXES_H
#define DSF_CONFIG_AXES_H

#include <dsflow/axis.h>
#include <dsflow/option.h>

#include "base/registry.h"

#define DSF_MAX_AXES 8

/* Positions in the table. The others follow, as they are registered. */
enum dsf_axis {
    DSF_AXIS_DATA,
    DSF_AXIS_PIPELINE,
    DSF_AXIS_TENSOR,
    DSF_AXIS_SEQUENCE
};

extern struct dsf_registry dsf_axes;

/* The position of the axis of this name; -1: there is none. */
int dsf_axis_find(const char *name);

/* Positions of all axes, the outermost first; returns how many there are. */
unsigned dsf_axes_in_order(int order[DSF_MAX_AXES]);

/* The first axis with several ranks that shares out any of `shares`; -1: none.
 * `size`: of struct dsf_job_mesh. */
int dsf_axis_sharing(const int64_t size[DSF_MAX_AXES], unsigned shares);

/* The keys of [mesh], fields of struct dsf_job_mesh: one for each axis that was
 * there when they were made, and those that are of no axis. */
enum { DSF_MESH_KEYS = 3 };
extern struct dsflow_option dsf_axes_keys[DSF_MAX_AXES + DSF_MESH_KEYS + 1];
void dsf_axes_make_keys(void);

#endif
