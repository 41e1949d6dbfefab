/* tagged.h - what mpirun -tag-output writes: whose each byte is. */
#ifndef DSF_CLI_TAGGED_H
#define DSF_CLI_TAGGED_H

#include <stddef.h>

/* So it says of what a process wrote: "[1,2]<stderr>:" stands before each line,
 * and before each piece of one. What has no such tag is mpirun's own. */
struct dsf_tagged {
    void (*take)(void *user, int process, const char *bytes, size_t n);
    void *user;

    int process;  /* of the bytes that come; DSF_OF_MPIRUN */
    char tag[32]; /* what may be one */
    size_t ntag;
};

enum { DSF_OF_MPIRUN = -1 };

void dsf_tagged_init(struct dsf_tagged *t,
                     void (*take)(void *user, int process, const char *bytes,
                                  size_t n),
                     void *user);

/* `take` is called for what is in these bytes, in their order; a tag may be cut
 * anywhere. */
void dsf_tagged_add(struct dsf_tagged *t, const char *bytes, size_t n);

/* Nothing more comes. */
void dsf_tagged_end(struct dsf_tagged *t);

#endif
