/* tagged.c - what mpirun -tag-output writes: whose each byte is. */
#include "cli/tagged.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void dsf_tagged_init(struct dsf_tagged *t,
                     void (*take)(void *user, int process, const char *bytes,
                                  size_t n),
                     void *user)
{
    *t = (struct dsf_tagged){ .take = take,
                              .user = user,
                              .process = DSF_OF_MPIRUN };
}

/* `*at` moves behind the digits; false: there are none. */
static bool skip_digits(const char **at)
{
    const char *begin = *at;

    while (isdigit((unsigned char)**at))
        ++*at;
    return *at > begin;
}

enum match { NO_TAG, PART_OF_ONE, WHOLE };

/* Is it "[1,2]<stderr>:", or how one begins? */
static enum match look(const char *tag, int *process)
{
    static const char *const ends[] = { "]<stdout>:", "]<stderr>:",
                                        "]<stddiag>:" };
    const char *at = tag + 1;
    size_t n;

    if (*at == '\0')
        return PART_OF_ONE;
    if (!skip_digits(&at) || (*at != '\0' && *at != ','))
        return NO_TAG;
    if (*at == '\0' || *++at == '\0')
        return PART_OF_ONE;
    *process = atoi(at);
    if (!skip_digits(&at))
        return NO_TAG;
    n = strlen(at);
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
        if (strncmp(at, ends[i], n) == 0)
            return ends[i][n] == '\0' ? WHOLE : PART_OF_ONE;
    return NO_TAG;
}

static void give(struct dsf_tagged *t, const char *bytes, size_t n)
{
    if (n == 0)
        return;
    t->take(t->user, t->process, bytes, n);
    if (bytes[n - 1] == '\n')
        t->process = DSF_OF_MPIRUN;
}

/* One more byte of what may be a tag. */
static void add_to_tag(struct dsf_tagged *t, char c)
{
    enum match match;
    int process;

    t->tag[t->ntag++] = c;
    t->tag[t->ntag] = '\0';
    match = t->ntag + 1 < sizeof(t->tag) ? look(t->tag, &process) : NO_TAG;
    if (match == PART_OF_ONE)
        return;
    if (match == WHOLE)
        t->process = process;
    else
        give(t, t->tag, t->ntag);
    t->ntag = 0;
}

void dsf_tagged_add(struct dsf_tagged *t, const char *bytes, size_t n)
{
    size_t from = 0; /* what was not given */

    for (size_t i = 0; i < n; i++) {
        if (t->ntag > 0 && bytes[i] != '[') {
            add_to_tag(t, bytes[i]);
            from = i + 1;
        } else if (bytes[i] == '[') {
            give(t, bytes + from, i - from);
            give(t, t->tag, t->ntag); /* was none */
            t->ntag = 0;
            add_to_tag(t, '[');
            from = i + 1;
        } else if (bytes[i] == '\n') {
            give(t, bytes + from, i + 1 - from);
            from = i + 1;
        }
    }
    give(t, bytes + from, n - from);
}

void dsf_tagged_end(struct dsf_tagged *t)
{
    give(t, t->tag, t->ntag);
    t->ntag = 0;
}
