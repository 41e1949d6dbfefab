/* log.c - lines for people. */
#include "base/log.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static enum dsflow_log_level most = DSFLOW_INFO;
static dsflow_log_fn sink;
static void *sink_user;
static bool without_job;

void dsflow_log_level_set(enum dsflow_log_level level)
{
    most = level;
}

enum dsflow_log_level dsf_log_level(void)
{
    return most;
}

void dsflow_log_sink_set(dsflow_log_fn fn, void *user)
{
    sink = fn;
    sink_user = user;
}

static void write_line(enum dsflow_log_level level, const char *fmt,
                       va_list ap)
{
    char line[1024];

    if (level > most || sink == NULL)
        return;
    vsnprintf(line, sizeof(line), fmt, ap);
    dsf_utf8_clean(line);
    sink(sink_user, level, line);
}

#define LINE(level)                                                            \
    do {                                                                       \
        va_list ap;                                                            \
        va_start(ap, fmt);                                                     \
        write_line(level, fmt, ap);                                            \
        va_end(ap);                                                            \
    } while (0)

void dsf_warn(const char *fmt, ...)
{
    LINE(DSFLOW_WARN);
}

void dsf_warn_of_job(const char *fmt, ...)
{
    if (!without_job)
        LINE(DSFLOW_WARN);
}

void dsf_log_without_job(void)
{
    without_job = true;
}

void dsf_info(const char *fmt, ...)
{
    LINE(DSFLOW_INFO);
}

void dsf_debug(const char *fmt, ...)
{
    LINE(DSFLOW_DEBUG);
}
