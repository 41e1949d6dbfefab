/* fuzz.h - a reader of files that is given any bytes. fuzz_x.c says what it
 * reads and what it promises; fuzz.c finds the bytes. */
#ifndef DSF_TESTS_FUZZ_FUZZ_H
#define DSF_TESTS_FUZZ_FUZZ_H

#include <dsflow/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fuzz_reader {
    const char *name; /* tests/fuzz/corpus/NAME.* are bytes for it */
    unsigned rounds;  /* damaged files to be tried */
    /* Bytes that it must accept; freed by the caller. */
    char *(*sound)(size_t *n);
    /* Words that a file for it may have anywhere. */
    const char *const *words;
    /* Read them. false: they were refused. What it promises and does not hold
     * is fuzz_die. */
    bool (*accepts)(const char *text, size_t n);
    /* Make good in damaged bytes what all else is refused for: a length, a sum.
     * NULL: nothing is. */
    void (*mend)(char *text, size_t n);
};
extern const struct fuzz_reader fuzz_reader;

/* Ends the program, as a fault that was found. */
_Noreturn void fuzz_die(const char *why);

/* A refusal has one line that says why. */
void fuzz_refused(const struct dsflow_err *err);

/* A copy of bytes, for `sound`. */
char *fuzz_copy(const void *from, size_t n);

/* A folder that is removed at the end; and file `name` in it, which gets these
 * bytes. Its path is valid until the next one. */
const char *fuzz_folder(void);
const char *fuzz_file(const char *name, const char *text, size_t n);
/* What the file has. */
char *fuzz_load(const char *path, size_t *n);

#endif
