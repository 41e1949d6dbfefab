/* json_lines.h - the texts in a file of JSON Lines (jsonlines.org): one string
 * of the object on each line. */
#ifndef DSF_TEXT_JSON_LINES_H
#define DSF_TEXT_JSON_LINES_H

#include <stddef.h>
#include <dsflow/error.h>

struct dsf_json_lines {
    const char *file;  /* from its beginning */
    size_t at, end;    /* what is left to read of it: whole lines */
    const char *field; /* the name of the string */
};

/* Texts of lines that follow each other. */
struct dsf_json_texts {
    struct dsf_json_text {
        char
            *text; /* from the heap; NULL: the line has none, or an empty one */
        size_t n;
    } * v;
    size_t n, cap;
};

/* Some megabytes more of the file, in the place of what there was, whose texts
 * are the caller's; n = 0: that was all. All cores read. Lines of white space
 * have no text. Error: DSFLOW_EINVAL, with the number of the first line that is
 * no object with such a string, or whose string has a NUL; then there is
 * nothing. */
int dsf_json_lines_read(struct dsf_json_lines *lines,
                        struct dsf_json_texts *texts, struct dsflow_err *err);

#endif
