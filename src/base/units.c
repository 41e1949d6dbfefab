/* units.c - sizes and times as people write them. */
#include "base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct unit {
    const char *name;
    double factor;
};

static const struct unit sizes[] = {
    { "", 1 },          { "B", 1 },          { "KiB", 0x1p10 },
    { "MiB", 0x1p20 },  { "GiB", 0x1p30 },   { "TiB", 0x1p40 },
    { "PiB", 0x1p50 },  { "kB", 1e3 },       { "KB", 1e3 },
    { "MB", 1e6 },      { "GB", 1e9 },       { "TB", 1e12 },
    { "PB", 1e15 },     { NULL, 0 },
};
static const struct unit times[] = {
    { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 },   { "min", 60 },
    { "h", 3600 },  { "d", 86400 }, { NULL, 0 },
};

/* "1.5 GB" over `units`: 0 and the value, or -1. */
static int parse(const char *text, const struct unit *units, double *value)
{
    char *end;
    double number;

    if (!isdigit((unsigned char)*text))
        return -1;
    number = strtod(text, &end);
    while (*end == ' ')
        end++;
    for (const struct unit *u = units; u->name != NULL; u++)
        if (strcmp(end, u->name) == 0) {
            *value = number * u->factor;
            return isfinite(*value) ? 0 : -1;
        }
    return -1;
}

int dsf_parse_size(const char *text, int64_t *bytes)
{
    double value;

    if (parse(text, sizes, &value) < 0 || value > 0x1p62)
        return -1;
    *bytes = (int64_t)value;
    return 0;
}

int dsf_parse_time(const char *text, double *seconds)
{
    return parse(text, times, seconds);
}

double dsf_unsigned_nan(double x)
{
    return isnan(x) ? (double)NAN : x;
}

struct dsf_text dsf_size_text(double bytes)
{
    static const char *const names[] = { "B",   "KiB", "MiB",
                                         "GiB", "TiB", "PiB" };
    struct dsf_text t;
    unsigned u = 0;

    while (bytes >= 1024 && u + 1 < sizeof(names) / sizeof(*names)) {
        bytes /= 1024;
        u++;
    }
    snprintf(t.s, sizeof(t.s), u == 0 ? "%.0f %s" : "%.1f %s",
             dsf_unsigned_nan(bytes), names[u]);
    return t;
}

struct dsf_text dsf_size_beside(double bytes, double other)
{
    struct dsf_text t = dsf_size_text(bytes);

    if (bytes != other && strcmp(t.s, dsf_size_text(other).s) == 0)
        snprintf(t.s, sizeof(t.s), "%.0f B", bytes);
    return t;
}

struct dsf_text dsf_time_text(double seconds)
{
    struct dsf_text t;
    long s = isnan(seconds) ? 0 : lround(seconds);

    if (isnan(seconds))
        snprintf(t.s, sizeof(t.s), "nan s");
    else if (seconds < 1e-3)
        snprintf(t.s, sizeof(t.s), "%.0f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(t.s, sizeof(t.s), "%.0f ms", seconds * 1e3);
    else if (seconds < 60)
        snprintf(t.s, sizeof(t.s), "%.1f s", seconds);
    else if (s < 3600)
        snprintf(t.s, sizeof(t.s), "%ld min %ld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(t.s, sizeof(t.s), "%ld h %ld min", s / 3600, s / 60 % 60);
    else
        snprintf(t.s, sizeof(t.s), "%ld d %ld h", s / 86400, s / 3600 % 24);
    return t;
}

struct dsf_text dsf_count_text(double n)
{
    struct dsf_text t;

    n = dsf_unsigned_nan(n);
    if (n < 1000)
        snprintf(t.s, sizeof(t.s), "%.0f", n);
    else if (n < 1e6)
        snprintf(t.s, sizeof(t.s), "%.1fk", n / 1e3);
    else
        snprintf(t.s, sizeof(t.s), "%.1fM", n / 1e6);
    return t;
}

struct dsf_text dsf_percent_text(double x)
{
    struct dsf_text t;

    snprintf(t.s, sizeof(t.s), "%.0f %%", dsf_unsigned_nan(100 * x));
    return t;
}

struct dsf_text dsf_real_text(double x)
{
    struct dsf_text t;

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(t.s, sizeof(t.s), "%.*g", digits, x);
        if (strtod(t.s, NULL) == x)
            break;
    }
    return t;
}

struct dsf_text dsf_seconds_text(double seconds)
{
    struct dsf_text t;

    seconds = dsf_unsigned_nan(seconds);
    if (seconds >= 1)
        snprintf(t.s, sizeof(t.s), "%.4g s", seconds);
    else if (seconds >= 1e-4)
        snprintf(t.s, sizeof(t.s), "%.4g ms", seconds * 1e3);
    else
        snprintf(t.s, sizeof(t.s), "%.4g us", seconds * 1e6);
    return t;
}

struct dsf_text dsf_against_text(double measured, double predicted)
{
    double ratio = measured / predicted;
    bool slower = ratio >= 1;
    struct dsf_text t = { "" };

    if (!isfinite(ratio) || ratio <= 0)
        return t;
    if (!slower)
        ratio = 1 / ratio;
    if (ratio < 1.05)
        snprintf(t.s, sizeof(t.s), "as predicted");
    else
        snprintf(t.s, sizeof(t.s), "%.*f x %s than predicted",
                 ratio < 9.95 ? 1 : 0, fmin(ratio, 1e6),
                 slower ? "slower" : "faster");
    return t;
}

static double seconds_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double dsf_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double dsf_thread_seconds(void)
{
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

const char *dsf_shape_str(unsigned ndims, const int64_t *dims, char *text,
                           size_t size)
{
    size_t at = (size_t)snprintf(text, size, "[");

    for (unsigned d = 0; d < ndims && at < size; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld",
                               d > 0 ? ", " : "", (long long)dims[d]);
    if (at < size)
        snprintf(text + at, size - at, "]");
    return text;
}
