/* plugin.h - what was loaded. */
#ifndef DSF_PLUGIN_PLUGIN_H
#define DSF_PLUGIN_PLUGIN_H

#include <dsflow/plugin.h>

/* The path of the library that has this code, or of the one that is being
 * loaded; NULL: it is of none. For handlers of signals: allocates nothing. */
const char *dsf_plugin_of(const void *code);

#endif
