/* wrap.h - text in lines that fit. */
#ifndef DSF_CLI_WRAP_H
#define DSF_CLI_WRAP_H

#include <stdio.h>

/* Print `text` in lines of at most `columns`: the first behind `first`, the
 * others behind `prefix`. Words that are longer have lines of their own. */
void dsf_wrap(FILE *out, unsigned columns, const char *first,
              const char *prefix, const char *text);

#endif
