/* ds_private.h - what the files of an import share. */
#ifndef DSF_IMPORT_DS_PRIVATE_H
#define DSF_IMPORT_DS_PRIVATE_H

#include <stdbool.h>

#include "import/ds_config.h"
#include "import/relaxed_json.h"

struct dsf_ds {
    const char *path;
    const struct dsf_ds_wish *wish;
    struct dsf_relaxed json;
    struct dsf_ds_line { /* of the job */
        const char *table, *key;
        char *value;   /* as TOML; NULL: it is open, and has its default */
        char *path;    /* of the key it is of, or what else it is of */
        char *comment; /* where it comes from */
    } * lines;
    size_t nlines, cap_lines;
    struct dsf_ds_refusal {
        int line; /* of the file; 0: of no line */
        char *path, *text;
    } * refused;
    size_t nrefused, cap_refused;
};

/* --- ds_read.c: what the configuration says ------------------------------- */

/* The value, or NULL where it is absent, null or dropped. */
const json_t *dsf_ds_get(struct dsf_ds *x, const char *path);

/* Hugging Face's word for what its Trainer fills in. */
bool dsf_ds_is_auto(struct dsf_ds *x, const char *path);

/* As in the file, more or less; freed by the caller. */
char *dsf_ds_value_text(const json_t *value);

/* What is asked for cannot be had. Of each path the first one counts. */
void dsf_ds_refuse(struct dsf_ds *x, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A value of this type, or `fallback` where it is absent or "auto"; of another
 * type it is refused. */
bool dsf_ds_true(struct dsf_ds *x, const char *path, bool fallback);
double dsf_ds_number(struct dsf_ds *x, const char *path, double fallback);
int64_t dsf_ds_whole(struct dsf_ds *x, const char *path, int64_t fallback);
const char *dsf_ds_text(struct dsf_ds *x, const char *path,
                        const char *fallback);

/* --- ds_write.c: lines of the job ----------------------------------------- */

/* table.key = value, because of the key at `path`, or of its default; or of what
 * no key says, in words. */
void dsf_ds_set(struct dsf_ds *x, const char *table, const char *key,
                const char *path, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void dsf_ds_set_number(struct dsf_ds *x, const char *table, const char *key,
                       const char *path, double value);
void dsf_ds_set_text(struct dsf_ds *x, const char *table, const char *key,
                     const char *path, const char *value);

/* More words behind what that line's comment says. */
void dsf_ds_add_comment(struct dsf_ds *x, const char *table, const char *key,
                        const char *words);

/* It is left open: `why` says what is to be done. */
void dsf_ds_leave(struct dsf_ds *x, const char *table, const char *key,
                  const char *why);

/* The same from a number, which is left open where it is "auto". */
void dsf_ds_take_number(struct dsf_ds *x, const char *table, const char *key,
                        const char *path, double fallback);

/* "table.key=value" of --set, in the place of what there is. */
void dsf_ds_set_wish(struct dsf_ds *x, const char *set);

/* Of each value that the job does not take, what led to it is refused. --set is
 * left to the job. */
void dsf_ds_check(struct dsf_ds *x);

/* The lines, in the order in which their tables came. */
void dsf_ds_write(const struct dsf_ds *x, FILE *out);

/* --- rules ---------------------------------------------------------------- */

/* ds_rules.c: all that follows for the job, for the batch, the mesh and types
 * there; ds_optimizer.c: for the optimizer and the learning rate; ds_zero.c:
 * for ZeRO, in a step that computes in this type, and for memories;
 * ds_weights.c: for weights that are quantized or pruned; ds_activations.c: for
 * inputs of matrices that are. */
void dsf_ds_rules(struct dsf_ds *x);
void dsf_ds_optimizer(struct dsf_ds *x);
void dsf_ds_zero(struct dsf_ds *x, const char *compute);
void dsf_ds_memories(struct dsf_ds *x);
void dsf_ds_weights(struct dsf_ds *x, const char *compute);
void dsf_ds_activations(struct dsf_ds *x);

#endif
