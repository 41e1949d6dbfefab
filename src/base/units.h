/* units.h - sizes and times as people write them. */
#ifndef DSF_BASE_UNITS_H
#define DSF_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* "80GiB", "1.5 GB", "512": 0 and the bytes, or -1. */
int dsf_parse_size(const char *text, int64_t *bytes);
/* "30s", "5min", "1h", "250ms": 0 and the seconds, or -1. */
int dsf_parse_time(const char *text, double *seconds);

struct dsf_text { char s[32]; };
struct dsf_text dsf_size_text(double bytes);   /* "3.2 GiB" */
/* Beside the text of `other`: in bytes where both would read the same. */
struct dsf_text dsf_size_beside(double bytes, double other);
struct dsf_text dsf_time_text(double seconds); /* "410 ms", "2 min 5 s" */
struct dsf_text dsf_count_text(double n);     /* "12.3k" */
struct dsf_text dsf_percent_text(double x);   /* "87 %" */
struct dsf_text dsf_seconds_text(double seconds); /* four digits: "27.37 s" */
/* As many digits as it takes to read back to the same number: "0.1", "1e-05". */
struct dsf_text dsf_real_text(double x);
/* What was measured beside what was predicted: "5.0 x slower than predicted",
 * "1.3 x faster than predicted", "as predicted" within 5 %; "" where one of
 * them is not known. */
struct dsf_text dsf_against_text(double measured, double predicted);

/* The shape of a tensor: "[2, 3]", in `text`, which is returned. */
const char *dsf_shape_str(unsigned ndims, const int64_t *dims, char *text,
                           size_t size);

/* The same number; a NaN without the sign that printf would show. */
double dsf_unsigned_nan(double x);

double dsf_now(void); /* seconds, monotonic */
/* Seconds that this thread has worked: while another process has the core they
 * stand still. */
double dsf_thread_seconds(void);

#endif
