/* export.c - a model and its tokenizer as a Hugging Face folder. */
#include "train/export.h"

#include "base/log.h"
#include "model/hf.h"
#include "model/model_inputs.h"
#include "model/pruned.h"
#include "policies/trained_weights.h"
#include "text/tokenizer_export.h"
#include "train/identity.h"
#include "train/vocabulary.h"

#include <stdlib.h>
#include <string.h>

/* What config.json has no words for. */
static void warn_of_model(const struct dsf_session *s, int64_t updates)
{
    static const char cannot[] = "a Hugging Face folder cannot say";
    const char *name, *by;
    char segments[300];

    if (strcmp(s->job->sparse.mode, "dense") != 0)
        dsf_warn("%s sparse_attention.mode = \"%s\": there this model attends "
                 "to all tokens before, as it was not trained to",
                 cannot, s->job->sparse.mode);
    if (s->job->activations.quantize != DSF_INPUTS_EXACT &&
        !dsf_inputs_wait(s->job, updates))
        dsf_warn("%s [activations]: there the inputs of matrices are exact, "
                 "unless what loads the model rounds them",
                 cannot);
    if (dsf_identity_segments(&s->model, segments, sizeof(segments)))
        dsf_warn(
            "%s that layers are of %s: there they are of " DSF_USUAL_SEGMENTS,
            cannot, segments);
    for (unsigned i = 0; (name = dsf_segment_name(i)) != NULL; i++) {
        by = dsf_job_replacing(s->job, name);
        if (strcmp(by, "builtin") != 0)
            dsf_warn("%s model.%s = \"%s\": there it is what \"builtin\" "
                     "computes",
                     cannot, name, by);
    }
}

/* Weights as the model has them. */
struct trained {
    const struct dsf_session *s;
    const struct dsf_export_spec *spec;
};

static int read_trained(void *user, unsigned unit, float *to,
                        struct dsflow_err *err)
{
    const struct trained *t = user;
    int status = t->spec->read(t->spec->user, unit, to, err);

    if (status == DSFLOW_OK)
        dsf_trained_apply(t->s->job, &t->s->model, unit, t->spec->updates, to);
    return status;
}

/* The files of the tokenizer, and what config.json says of it. */
static int export_tokenizer(const struct dsf_session *s,
                            struct dsf_tokenizer_export *tok,
                            struct dsflow_err *err)
{
    char *source = dsf_vocabulary_source(s);
    const bool other = source == NULL || s->origin.path != NULL;
    int status = DSFLOW_OK;

    if (dsf_vocabulary_fits(s->job, &s->model, s->tok, NULL) == DSFLOW_OK)
        status = dsf_tokenizer_export(s->tok, source, s->model.dims.context,
                                      tok, err);
    else
        tok->ids = json_pack("{s:n, s:n, s:n}", "bos_token_id", "eos_token_id",
                             "pad_token_id");
    free(source);
    if (status < 0)
        return status;
    if (tok->nfiles == 0)
        dsf_warn("no tokenizer is exported: the model has %d tokens, and "
                 "nothing says what they stand for (data.tokenizer)",
                 s->model.dims.vocab);
    else if (other && s->model.family == DSF_LLAMA && s->model.dims.qkv_bias)
        dsf_warn("AutoTokenizer of transformers splits text as Qwen2 does for "
                 "any model of that kind (model.qkv_bias): load this tokenizer "
                 "with PreTrainedTokenizerFast");
    return DSFLOW_OK;
}

static int export_pruned(const struct dsf_export_spec *spec,
                         const struct dsf_hf_export_spec *hf,
                         struct trained *trained, const struct dsf_model *left,
                         struct dsflow_err *err)
{
    struct dsf_pruned *pruned =
        dsf_pruned_open(&trained->s->model, left, spec->prune->layers,
                        (struct dsf_pruned_source){ read_trained, trained },
                        (struct dsf_pruned_source){ dsf_second_moments_read,
                                                    spec->prune->moments });
    int status = dsf_hf_export(left, hf, dsf_pruned_read, pruned, err);

    dsf_pruned_close(pruned);
    return status;
}

/* With the tokenizer; `left`: of what is pruned. */
static int export(const struct dsf_session *s,
                  const struct dsf_export_spec *spec,
                  const struct dsf_model *left, struct dsflow_err *err)
{
    struct trained trained = { s, spec };
    struct dsf_tokenizer_export tok = { .nfiles = 0 };
    struct dsf_hf_file files[DSF_MOST_TOKENIZER_FILES];
    struct dsf_hf_export_spec hf = { .folder = spec->folder,
                                     .dtype = spec->dtype,
                                     .files = files };
    int status = export_tokenizer(s, &tok, err);

    if (status < 0)
        return status;
    warn_of_model(s, spec->updates);
    for (; hf.nfiles < tok.nfiles; hf.nfiles++) {
        const struct dsf_tokenizer_file *from = &tok.files[hf.nfiles];

        files[hf.nfiles] =
            (struct dsf_hf_file){ from->name, from->text, from->n };
    }
    hf.config = tok.ids;
    status = spec->prune != NULL
                 ? export_pruned(spec, &hf, &trained, left, err)
                 : dsf_hf_export(&s->model, &hf, read_trained, &trained, err);
    dsf_tokenizer_export_fini(&tok);
    return status;
}

int dsf_export(const struct dsf_session *s, const struct dsf_export_spec *spec,
               struct dsflow_err *err)
{
    struct dsf_model left;
    int status;

    if (spec->prune == NULL)
        return export(s, spec, NULL, err);
    status = dsf_prune_model(s, spec->prune, &left, err);
    if (status < 0)
        return status;
    status = export(s, spec, &left, err);
    dsf_model_fini(&left);
    return status;
}
