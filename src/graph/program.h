/* program.h - names of programs. */
#ifndef DSF_GRAPH_PROGRAM_H
#define DSF_GRAPH_PROGRAM_H

#include <stdbool.h>

/* Letters, digits and `_`: names stand in DOT, in files of other tools and in
 * JSON. */
bool dsf_program_is_name(const char *name);

#endif
