/* plugin.h - what a shared library brings along: [codelets] load of job.toml.
 *
 * A plug-in is a shared library that defines one object, `dsflow_plugin`:
 *
 *   static const struct dsflow_optimizer *const optimizers[] = { &mine, NULL };
 *   const struct dsflow_plugin dsflow_plugin = {
 *       .abi = DSFLOW_PLUGIN_ABI,
 *       .name = "mine", .summary = "an optimizer of mine",
 *       .optimizers = optimizers,
 *   };
 *
 *   cc -shared -fPIC -o libmine.so mine.c $(pkg-config --cflags dsflow)
 *
 * It finds the functions of dsflow in the program that loads it, and so need
 * not be linked with libdsflow, though it may be. What dsflow has itself stands
 * in the same kind of lists. Every structure in them begins with the number of
 * its interface (`abi`) and its name (a codelet's is its kind of task): that
 * stays so, whatever else changes. A name has letters, digits, '.', '_' and
 * '-'.
 */
#ifndef DSFLOW_PLUGIN_H
#define DSFLOW_PLUGIN_H

#include <dsflow/axis.h>
#include <dsflow/codelet.h>
#include <dsflow/lr_schedule.h>
#include <dsflow/op.h>
#include <dsflow/optimizer.h>
#include <dsflow/policy.h>
#include <dsflow/segment.h>
#include <dsflow/sparsity.h>
#include <dsflow/wire_format.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_PLUGIN_ABI 3

struct dsflow_plugin {
    unsigned abi; /* DSFLOW_PLUGIN_ABI */
    const char *name, *summary;

    /* Lists end with NULL; a list that is NULL is empty. A kind of task that
     * others name (of a codelet, an optimizer) must itself stand in `ops`, of
     * this plug-in or of one before; those of a segment that lists its codelets
     * (segment.h) need not, nor these codelets. */
    const struct dsflow_op *const *ops;
    const struct dsflow_codelet *const *codelets;
    const struct dsflow_optimizer *const *optimizers;
    const struct dsflow_lr_schedule *const *schedules;
    const struct dsflow_sparsity *const *layouts;
    const struct dsflow_segment *const *segments;
    const struct dsflow_axis *const *axes;
    const struct dsflow_policy *const *policies;
    const struct dsflow_wire_format *const *formats;
};

/* Each plug-in defines it. */
extern DSFLOW_API const struct dsflow_plugin dsflow_plugin;

/* Make everything of the library at `path` known, or nothing where any of it is
 * wrong: the message then names the library and what is wrong with it. A
 * library that is loaded already is fine. It stays loaded for good. */
DSFLOW_API int dsflow_plugin_load(const char *path, struct dsflow_err *err);

/* The same of a plug-in that the program has itself. `origin` is what messages
 * and lists say of where it comes from; copied. */
DSFLOW_API int dsflow_plugin_add(const struct dsflow_plugin *plugin,
                                 const char *origin, struct dsflow_err *err);

/* The i-th that was loaded or added; NULL past the last. *origin, when it is
 * not NULL, is where it comes from: its path. */
DSFLOW_API const struct dsflow_plugin *dsflow_plugin_at(unsigned i,
                                                        const char **origin);

DSFLOW_END_DECLS

#endif
