/* normal.h - texts of any size in normal form C. */
#ifndef DSF_TEXT_NORMAL_H
#define DSF_TEXT_NORMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <dsflow/error.h>

/* How a text is gone through. */
struct dsf_normalizing {
    /* Where more than `memory` bytes of what it becomes are kept meanwhile, in
     * a file without a name; NULL, or where it cannot be written: in memory. */
    const char *folder;
    size_t memory;
    /* So many bytes of it were read. */
    void (*has_read)(void *user, size_t n);
    void *user;
};

/* A text in normal form: the given one, where that has it already. */
struct dsf_normal {
    const char *text;
    size_t n;
    char *memory; /* it is here, */
    size_t cap;
    bool in_file; /* or in a file that is mapped, */
    int fd;       /* and written before */
};

/* Errors: DSFLOW_EIO where the file cannot be written, DSFLOW_ENOMEM where it
 * cannot be mapped. */
int dsf_normal_init(struct dsf_normal *normal, const char *text, size_t n,
                    const struct dsf_normalizing *how, struct dsflow_err *err);
/* What was read of it may leave memory. */
void dsf_normal_let_go(const struct dsf_normal *normal);
void dsf_normal_fini(struct dsf_normal *normal);

#endif
