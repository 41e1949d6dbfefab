/* export.h - what libdsflow shows to the outside. */
#ifndef DSFLOW_EXPORT_H
#define DSFLOW_EXPORT_H

#if defined(__GNUC__)
#define DSFLOW_API               __attribute__((visibility("default")))
#define DSFLOW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define DSFLOW_API
#define DSFLOW_PRINTF(fmt, args)
#endif

/* DSFLOW_OF makes a structure from its fields, as macros do that fill one
 * (DSFLOW_BATCHES(.vocab = 256, …)). In C++ they are those of C++20, in the
 * order in which they are declared. */
#ifdef __cplusplus
#define DSFLOW_BEGIN_DECLS extern "C" {
#define DSFLOW_END_DECLS   }
#define DSFLOW_OF(type, ...) (type{ __VA_ARGS__ })
#else
#define DSFLOW_BEGIN_DECLS
#define DSFLOW_END_DECLS
#define DSFLOW_OF(type, ...) ((struct type){ __VA_ARGS__ })
#endif

#endif
