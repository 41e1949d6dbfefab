/* truth.h - models of random numbers, and whether a source is one again. */
#ifndef DSF_TESTS_FOREIGN_TRUTH_H
#define DSF_TESTS_FOREIGN_TRUTH_H

#include "foreign/match.h"

#include "config/job.h"
#include "unit/foreign/shards.h"
#include "lib/folder.h"

static struct dsf_job job;
static struct dsf_model model;
static struct dsf_source source;
static struct dsflow_err err;

static const char gpt2[] =
    "[job]\nname = \"t\"\nsteps = 1\n[data]\ntrain = \"t\"\n[model]\nfamily = "
    "\"gpt2\"\nlayers = 4\nheads = 4\n"
    "width = 24\ncontext = 10\nvocab = 37\n";
static const char llama[] =
    "[job]\nname = \"t\"\nsteps = 1\n[data]\ntrain = \"t\"\n[model]\nfamily = "
    "\"llama\"\nlayers = 4\nheads = 8\nkv_heads = 4\n"
    "width = 32\nhead_dim = 6\nffn_width = 20\ncontext = 16\nvocab = 45\n"
    "tied = false\n";
static const char qwen[] =
    "[job]\nname = \"t\"\nsteps = 1\n[data]\ntrain = \"t\"\n[model]\nfamily = "
    "\"llama\"\nlayers = 2\nheads = 4\nkv_heads = 4\n"
    "width = 16\nffn_width = 24\ncontext = 16\nvocab = 45\ntied = true\n"
    "qkv_bias = true\n";

static inline void make_model(const char *text)
{
    if (dsf_job_parse(text, strlen(text), "job.toml", NULL, 0, NULL, &job,
                      &err) < 0 ||
        dsf_model_init(&model, &job, &err) < 0)
        fail_msg("%s", err.msg);
}

/* Numbers that are alike each time, and that 16 bits do not hold. */
static inline void make_truth(struct shards *s)
{
    uint32_t x = 12345;

    for (int k = 0; k < DSF_SOURCE_STATES; k++)
        for (unsigned u = 0; u < model.nunits; u++) {
            size_t n = (size_t)model.units[u].file_elems;

            s->truth[k][u] = dsf_xcalloc(n, sizeof(float));
            for (size_t i = 0; i < n; i++) {
                x = x * 1664525 + 1013904223;
                s->truth[k][u][i] = (float)(x >> 8) / 4096;
            }
        }
}

static inline void free_truth(struct shards *s)
{
    for (int k = 0; k < DSF_SOURCE_STATES; k++)
        for (unsigned u = 0; u < model.nunits; u++)
            free(s->truth[k][u]);
}

static char said[20][700];
static unsigned nsaid;

static inline void note(void *user, const char *line)
{
    assert_true(nsaid < 20);
    snprintf(said[nsaid++], sizeof(said[0]), "%s", line);
}

/* A tensor of the job as put.c would write it; `piece` numbers at a time. */
static inline void check_tensor(const struct shards *s, unsigned u, unsigned i,
                                const struct dsf_match *match,
                                enum dsf_source_state state, int64_t piece)
{
    const struct dsf_tensor *t = &model.units[u].tensors[i];
    int64_t cols = t->vector ? 1 : t->cols, done = 0;
    float *v = dsf_xcalloc((size_t)(t->rows * t->cols), sizeof(*v));

    assert_false(match->transposed);
    for (size_t r = 0; r < match->nruns; r++) {
        int64_t at = match->runs[r].from * cols;
        int64_t left = match->runs[r].rows * cols;

        assert_int_equal(match->runs[r].to * cols, done);
        while (left > 0) {
            int64_t n = left < piece ? left : piece;

            if (source.read(&source, match->from, state, at, (size_t)n,
                            v + done, &err) < 0)
                fail_msg("%s", err.msg);
            at += n;
            left -= n;
            done += n;
        }
    }
    assert_int_equal(done, t->rows * t->cols);
    for (int64_t k = 0; k < done; k++)
        if (v[k] != s->truth[state][u][t->file_offset + k])
            fail_msg("%s (%s): number %lld is %g, not %g", t->name,
                     dsf_source_state_str(state), (long long)k, (double)v[k],
                     (double)s->truth[state][u][t->file_offset + k]);
    free(v);
}

/* Every tensor of the model is in `source`, with its first `states` states. */
static inline void check_all(const struct shards *s, unsigned states)
{
    struct dsf_matches matches;

    nsaid = 0;
    if (dsf_match_all(&source, &model, states, false, &matches, note, NULL) > 0)
        fail_msg("%s", said[0]);
    for (unsigned u = 0; u < model.nunits; u++)
        for (unsigned i = 0; i < model.units[u].ntensors; i++)
            for (unsigned k = 0; k < states; k++) {
                const struct dsf_match *m = &matches.units[u][i];

                check_tensor(s, u, i, m, (enum dsf_source_state)k, 1 << 20);
                if (u < 3)
                    check_tensor(s, u, i, m, (enum dsf_source_state)k, 7);
            }
    dsf_matches_fini(&matches);
}

static inline void end_shards(void)
{
    dsf_source_fini(&source);
    dsf_model_fini(&model);
    dsf_job_fini(&job);
    remove_folder(NULL);
    make_folder(NULL);
}

#endif
