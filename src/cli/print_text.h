/* print_text.h - text of a model, on standard output as it comes. */
#ifndef DSF_CLI_PRINT_TEXT_H
#define DSF_CLI_PRINT_TEXT_H

#include "train/sample.h"
#include "train/session.h"

/* Print `prompt` and up to `tokens` tokens after it, and a newline. */
int dsf_print_text(const struct dsf_session *s,
                   const struct dsf_text_weights *weights, const char *prompt,
                   int64_t tokens, const struct dsf_sampling *sampling,
                   struct dsf_sampled *sampled, struct dsflow_err *err);

#endif
