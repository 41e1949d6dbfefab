/* pattern.h - the patterns by which checkpoints of DeepSpeed say which tensors
 * they mean. */
#ifndef DSF_FOREIGN_PATTERN_H
#define DSF_FOREIGN_PATTERN_H

#include <dsflow/error.h>

/* Does `text` begin with what `pattern` says, as Python's re.match does? 1 or
 * 0. Known are characters, ".", "[…]", "\d", "\w", "\s" and "\." with "*", "+"
 * or "?" behind them, "^" and "$" at the ends, and "|" between patterns; the
 * time is at most that of pattern times text. Errors: DSFLOW_EINVAL, for what
 * else Python has. */
int dsf_pattern_match(const char *pattern, const char *text,
                      struct dsflow_err *err);

#endif
