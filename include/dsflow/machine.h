/* machine.h - a machine, as planning and prediction see it.
 *
 * One that was read or measured does not change: several threads may plan for
 * it, one after the other (dsflow.h), or write it at a time.
 */
#ifndef DSFLOW_MACHINE_H
#define DSFLOW_MACHINE_H

#include <dsflow/error.h>

DSFLOW_BEGIN_DECLS

struct dsflow_machine; /* opaque; it does not change */

/* This one: what the file of an earlier measurement says, or measured now,
 * which takes some seconds and is kept in that file (in $XDG_CACHE_HOME, or
 * ~/.cache). No run may be open. */
DSFLOW_API int dsflow_machine_present(struct dsflow_machine **machine,
                                      struct dsflow_err *err);

/* The one that a machine file describes. Errors: DSFLOW_EINVAL, with file, line
 * and key. */
DSFLOW_API int dsflow_machine_read(const char *path,
                                   struct dsflow_machine **machine,
                                   struct dsflow_err *err);
DSFLOW_API int dsflow_machine_write(const struct dsflow_machine *machine,
                                    const char *path, struct dsflow_err *err);

DSFLOW_API void
dsflow_machine_free(struct dsflow_machine *machine); /* NULL is fine */

DSFLOW_END_DECLS

#endif
