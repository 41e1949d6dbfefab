/* utf8.h - which bytes are UTF-8 (RFC 3629), and what a terminal can be trusted
 * with. */
#ifndef DSF_BASE_UTF8_H
#define DSF_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at `s` (1 to 4), or 0 if there is none: a byte that
 * starts nothing, a sequence that is cut, overlong, of a surrogate, or beyond
 * U+10FFFF. `n` (> 0) bytes are there. */
size_t dsf_utf8_char(const char *s, size_t n);
/* The character of the `len` bytes that dsf_utf8_char found. */
uint32_t dsf_utf8_code(const char *s, size_t len);
/* The longest start of `s` that is UTF-8. */
size_t dsf_utf8_valid(const char *s, size_t n);
/* The longest start of `s` in which no character begins. */
size_t dsf_utf8_invalid(const char *s, size_t n);

/* What is no character (as half of one, where a text was cut), and control
 * characters, become '?'. The text gets no longer. */
void dsf_utf8_clean(char *s);
/* The same of a text of several lines, whose ends stay. */
void dsf_utf8_clean_lines(char *s);

#endif
