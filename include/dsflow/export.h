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

#ifdef __cplusplus
#define DSFLOW_BEGIN_DECLS extern "C" {
#define DSFLOW_END_DECLS   }
#else
#define DSFLOW_BEGIN_DECLS
#define DSFLOW_END_DECLS
#endif

#endif
