/* plugin.h - what was loaded. */
#ifndef DSF_PLUGIN_PLUGIN_H
#define DSF_PLUGIN_PLUGIN_H

#include <dsflow/plugin.h>

#include "base/registry.h"

/* By name; the origin is the path of the library. */
extern struct dsf_registry dsf_plugins;

#endif
