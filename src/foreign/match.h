/* match.h - which tensors of a job those of another program are: a table of
 * schemes of names, and a check that lists all that is missing, left over or
 * of another shape. */
#ifndef DSF_FOREIGN_MATCH_H
#define DSF_FOREIGN_MATCH_H

#include "foreign/source.h"
#include "model/model.h"

/* Consecutive rows of a tensor of the job, and where they are there; of a vector,
 * numbers. Those of a tensor are in the order of the job. */
struct dsf_match_run {
    int64_t to, from, rows;
};

/* One tensor of the job. */
struct dsf_match {
    const struct dsf_source_tensor *from;
    bool transposed; /* it is [cols][rows] there; then it is one run */
    struct dsf_match_run *runs;
    size_t nruns, cap;
};

/* A scheme of names: the tensors of a source, as units of a model. */
struct dsf_scheme {
    /* Fill `match` for tensor `t` of unit `u`. DSFLOW_OK with match->from NULL:
     * it is missing; `wanted` (of `size`) is then the name it would have. A
     * shape that is not that of the job is DSFLOW_EINVAL. */
    int (*find)(const struct dsf_source *s, const struct dsf_model *m,
                const struct dsf_unit *u, const struct dsf_tensor *t,
                struct dsf_match *match, char *wanted, size_t size,
                struct dsflow_err *err);
    /* Set what stands before all names, where it is not known. Or NULL. */
    void (*find_prefix)(struct dsf_source *s, const struct dsf_model *m);
    /* It is no weight, or one again: a buffer, the head of a tied model. */
    bool (*ignores)(const struct dsf_source *s, const struct dsf_model *m,
                    const struct dsf_source_tensor *t);
};

extern const struct dsf_scheme dsf_scheme_hf;
extern const struct dsf_scheme dsf_scheme_megatron;

/* Of every tensor of the model, in the order of units. */
struct dsf_matches {
    const struct dsf_model *model;
    struct dsf_match **units; /* [nunits][ntensors] */
};

/* `states`: how many of weight, first and second moment the job needs of each
 * tensor; `muon`: matrices of layers have no second one (tasks/muon.h). All
 * that is wrong is handed to `say`, a line each, and counted: nothing is to be
 * written unless it is 0. */
unsigned dsf_match_all(struct dsf_source *s, const struct dsf_model *m,
                       unsigned states, bool muon, struct dsf_matches *out,
                       void (*say)(void *user, const char *line), void *user);
void dsf_matches_fini(struct dsf_matches *m);

/* For schemes: `n` rows from `from` on are those of the job from `to` on. */
void dsf_match_add(struct dsf_match *m, int64_t to, int64_t from, int64_t rows);
/* All rows, in order, of a tensor that must have the shape of `t`, that of
 * Hugging Face (`hf`: may be transposed) or of the job. More rows of the
 * vocabulary are left out where the source may have them. */
int dsf_match_whole(const struct dsf_source *s, struct dsf_match *m,
                    const struct dsf_model *model, const struct dsf_tensor *t,
                    bool hf, struct dsflow_err *err);

#endif
