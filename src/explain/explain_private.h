/* explain_private.h - the two ways to say it; for src/explain. */
#ifndef DSF_EXPLAIN_EXPLAIN_PRIVATE_H
#define DSF_EXPLAIN_EXPLAIN_PRIVATE_H

#include <stdio.h>

#include "explain/account.h"
#include "explain/advice.h"

void dsf_explain_text(const struct dsf_account *a,
                      const struct dsf_advices *advices, FILE *out);
int dsf_explain_json(const struct dsf_account *a,
                     const struct dsf_advices *advices, FILE *out);

#endif
