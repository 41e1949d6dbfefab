/* fatal.c - what ends the process. */
#include "base/fatal.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void (*last)(const char *line);

void dsf_fatal_set(void (*fn)(const char *line))
{
    last = fn;
}

void dsf_fatal(const char *fmt, ...)
{
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (last != NULL)
        last(line);
    dsf_warn("%s", line);
    abort();
}
