/* print_text.c - text of a model, on standard output as it comes. */
#include "cli/print_text.h"

#include "cli/launched.h"

#include <stdio.h>
#include <string.h>

static void print(void *user, const char *text, size_t n)
{
    dsf_launched_text(text, n);
    *(bool *)user = true;
}

int dsf_print_text(const struct dsf_session *s,
                   const struct dsf_text_weights *weights, const char *prompt,
                   int64_t tokens, const struct dsf_sampling *sampling,
                   struct dsf_sampled *sampled, struct dsflow_err *err)
{
    struct dsf_sampling own = *sampling;
    bool begun = false;
    int status;

    /* Those of an open run do not leave the cores. */
    own.workers = s->exec != NULL ? 1 : 0;
    own.user = &begun;
    own.on_text = print;
    status = dsf_generate(&s->model, s->job, weights, s->tok, prompt,
                          strlen(prompt), tokens, &own, sampled, err);
    /* Before the messages, which may share its terminal. */
    if (begun) {
        putchar('\n');
        fflush(stdout);
    }
    return status;
}
