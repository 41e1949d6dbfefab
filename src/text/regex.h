/* regex.h - expressions written for Oniguruma, for PCRE2. */
#ifndef DSF_TEXT_REGEX_H
#define DSF_TEXT_REGEX_H

#include <dsflow/error.h>

/* `*to` is the expression that means for PCRE2 (UTF, UCP, MULTILINE) what
 * `from` means for Oniguruma with Ruby's syntax; free it. What has no sure
 * counterpart is an error. */
int dsf_regex_translate(const char *from, char **to, struct dsflow_err *err);
/* The expression that matches `string` alone; free it. */
char *dsf_regex_quote(const char *string);

#endif
