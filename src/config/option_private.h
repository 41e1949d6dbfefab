/* option_private.h - what option.c and option_fields.c share. */
#ifndef DSF_CONFIG_OPTION_PRIVATE_H
#define DSF_CONFIG_OPTION_PRIVATE_H

#include <stddef.h>

#include "config/option.h"

/* option_fields.c: the bytes of a field; and free what it owns, it is empty
 * then. */
size_t dsf_field_size(enum dsflow_option_type type);
void dsf_field_free(const struct dsflow_option *option, void *field);

#endif
