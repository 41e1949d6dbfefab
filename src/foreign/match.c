/* match.c - every tensor of a job in a source, and all that is wrong. */
#include "foreign/match.h"

#include "base/alloc.h"
#include "base/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct dsf_scheme *const schemes[] = {
    [DSF_NAMES_HF] = &dsf_scheme_hf,
    [DSF_NAMES_MEGATRON] = &dsf_scheme_megatron,
};

void dsf_match_add(struct dsf_match *m, int64_t to, int64_t from, int64_t rows)
{
    struct dsf_match_run *last = m->nruns > 0 ? &m->runs[m->nruns - 1] : NULL;

    if (last != NULL && last->to + last->rows == to &&
        last->from + last->rows == from) {
        last->rows += rows;
        return;
    }
    dsf_grow(&m->runs, &m->cap, m->nruns + 1, sizeof(*m->runs));
    m->runs[m->nruns++] = (struct dsf_match_run){ to, from, rows };
}

/* Is it a matrix of the vocabulary: does it have a row for each token? */
static bool is_vocabulary(const struct dsf_model *model,
                          const struct dsf_tensor *t)
{
    return !t->vector && !t->transposed && t->rows == model->dims.vocab;
}

int dsf_match_whole(const struct dsf_source *s, struct dsf_match *m,
                    const struct dsf_model *model, const struct dsf_tensor *t,
                    bool hf, struct dsflow_err *err)
{
    const struct dsf_source_tensor *from = m->from;
    bool flipped = hf && t->transposed;
    const int64_t dims[2] = { flipped ? t->cols : t->rows,
                              flipped ? t->rows : t->cols };
    const int64_t *want = t->vector ? &t->cols : dims;
    unsigned ndims = t->vector ? 1 : 2;
    char has[200], wanted[64];
    bool fits = from->ndims == ndims;

    for (unsigned d = 0; d < ndims && fits; d++)
        fits = from->dims[d] == want[d] ||
               (d == 0 && s->padded_vocabulary && is_vocabulary(model, t) &&
                from->dims[0] > want[0]);
    if (!fits)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "%s: shape %s: the model of the job makes it "
            "%s",
            from->name,
            dsf_shape_str(from->ndims, from->dims, has, sizeof(has)),
            dsf_shape_str(ndims, want, wanted, sizeof(wanted)));
    m->transposed = flipped;
    dsf_match_add(m, 0, 0, t->vector ? t->cols : t->rows);
    return DSFLOW_OK;
}

/* What is wrong, a line each. */
struct wrong {
    void (*say)(void *user, const char *line);
    void *user;
    unsigned n;
};

DSFLOW_PRINTF(2, 3)
static void say(struct wrong *w, const char *fmt, ...)
{
    char line[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    w->say(w->user, line);
    w->n++;
}

static void say_line(void *user, const char *line)
{
    say(user, "%s", line);
}

/* What is needed of the tensors of a job. */
struct need {
    unsigned states;
    bool muon;
};

/* Does it have the states that the job needs? Muon and AdamW may share tensors
 * out otherwise there. */
static void check_states(const struct dsf_source_tensor *t,
                         const struct need *need, bool turned, struct wrong *w)
{
    unsigned states = turned ? DSF_SOURCE_SECOND : need->states;

    for (unsigned i = 0; i < states; i++)
        if ((t->has & 1u << i) == 0 && (i == 0 || !t->frozen))
            say(w, "%s: has no %s%s", t->name,
                dsf_source_state_str((enum dsf_source_state)i),
                need->muon && i == DSF_SOURCE_SECOND
                    ? ": Muon moved it there, and AdamW does in the job"
                    : "");
    if (turned && (t->has & 1u << DSF_SOURCE_SECOND) != 0)
        say(w,
            "%s: has a second moment: AdamW moved it there, and Muon does in "
            "the job",
            t->name);
}

static void match_one(const struct dsf_scheme *scheme,
                      const struct dsf_source *s, const struct dsf_model *m,
                      const struct need *need, unsigned u, unsigned i,
                      struct dsf_match *match, struct wrong *w)
{
    const struct dsf_unit *unit = &m->units[u];
    bool turned = need->muon && unit->matrices == DSFLOW_MATRIX &&
                  !unit->tensors[i].vector;
    struct dsflow_err err;
    char wanted[300] = "";
    int status = scheme->find(s, m, unit, &unit->tensors[i], match, wanted,
                              sizeof(wanted), &err);

    if (status < 0)
        say(w, "%s", err.msg);
    else if (match->from == NULL)
        say(w, "%s: is missing", wanted);
    else
        check_states(match->from, need, turned, w);
}

static bool is_used(const struct dsf_matches *all,
                    const struct dsf_source_tensor *t)
{
    const struct dsf_model *m = all->model;

    for (unsigned u = 0; u < m->nunits; u++)
        for (unsigned i = 0; i < m->units[u].ntensors; i++)
            if (all->units[u][i].from == t)
                return true;
    return false;
}

static void find_left_over(const struct dsf_scheme *scheme,
                           const struct dsf_source *s,
                           const struct dsf_matches *all, struct wrong *w)
{
    char shape[200];

    for (size_t i = 0; i < s->n; i++) {
        const struct dsf_source_tensor *t = &s->tensors[i];

        if (!t->again && !is_used(all, t) && !scheme->ignores(s, all->model, t))
            say(w, "%s: %s: the model of the job has no place for it", t->name,
                dsf_shape_str(t->ndims, t->dims, shape, sizeof(shape)));
    }
}

unsigned dsf_match_all(struct dsf_source *s, const struct dsf_model *m,
                       unsigned states, bool muon, struct dsf_matches *out,
                       void (*each)(void *user, const char *line), void *user)
{
    const size_t known = sizeof(schemes) / sizeof(*schemes);
    const struct dsf_scheme *scheme =
        s->names < known ? schemes[s->names] : NULL;
    const struct need need = { states, muon && states > DSF_SOURCE_SECOND };
    struct wrong w = { each, user, 0 };

    *out = (struct dsf_matches){ .model = m };
    if (scheme == NULL) {
        say(&w, "%s: its tensors have names that are not known", s->path);
        return w.n;
    }
    out->units = dsf_xcalloc(m->nunits, sizeof(*out->units));
    if (s->prefix == NULL && scheme->find_prefix != NULL)
        scheme->find_prefix(s, m);
    for (unsigned u = 0; u < m->nunits; u++) {
        out->units[u] =
            dsf_xcalloc(m->units[u].ntensors, sizeof(*out->units[u]));
        for (unsigned i = 0; i < m->units[u].ntensors; i++)
            match_one(scheme, s, m, &need, u, i, &out->units[u][i], &w);
    }
    find_left_over(scheme, s, out, &w);
    if (s->check != NULL)
        s->check(s, m, say_line, &w);
    return w.n;
}

void dsf_matches_fini(struct dsf_matches *all)
{
    for (unsigned u = 0; all->units != NULL && u < all->model->nunits; u++) {
        for (unsigned i = 0; i < all->model->units[u].ntensors; i++)
            free(all->units[u][i].runs);
        free(all->units[u]);
    }
    free(all->units);
    *all = (struct dsf_matches){ 0 };
}
