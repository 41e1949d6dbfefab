/* trial.c - small jobs written in a line. */
#include "trial.h"

#include "lib/test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char gpt2[] = "[model]\nfamily = \"gpt2\"\nlayers = 4\nheads = 4\n"
                           "width = 32\ncontext = 32\nvocab = 97\n";
static const char llama[] = "[model]\nfamily = \"llama\"\nlayers = 6\n"
                            "heads = 8\nkv_heads = 4\nwidth = 64\n"
                            "ffn_width = 96\ncontext = 32\nvocab = 128\n";
static const char common[] = "[job]\nname = \"trial\"\nsteps = 5\n"
                             "output = \"none\"\n"
                             "[data]\ntrain = \"none\"\n"
                             "[batch]\nsequences = 8\nmicro = 1\n"
                             "[optimizer]\nlr = 1e-2\nclip = 0.5\n"
                             "[schedule]\nkind = \"warmup_cosine\"\n"
                             "warmup = 2\n";

void must(const char *text, int status, const struct dsflow_err *err)
{
    if (status < 0)
        fail_msg("%s: %s", text, err->msg);
}

static void cut_words(struct trial *trial, const char *text)
{
    char *word, *rest = NULL;

    assert_true(strlen(text) < sizeof(trial->text));
    strcpy(trial->text, text);
    trial->family = strtok_r(trial->text, " ", &rest);
    while ((word = strtok_r(NULL, " ", &rest)) != NULL) {
        if (sscanf(word, "logits=%" SCNd64, &trial->logits) == 1)
            continue;
        assert_true(trial->nsets < MAX_SETS);
        trial->sets[trial->nsets++] = word;
    }
}

/* Layers that are not alike: in width, and in heads. */
static void mix(void *user, int32_t layer, struct dsf_dims *dims)
{
    if (layer % 3 == 1)
        dims->ffn = 160;
    if (layer % 4 == 2) {
        dims->heads = 4;
        dims->kv_heads = 2;
    }
}

void plan_trial(struct trial *trial, const char *text)
{
    plan_trial_until(trial, text, NULL);
}

void plan_trial_until(struct trial *trial, const char *text, const char *until)
{
    static struct dsf_machine machine;
    char job[sizeof(common) + sizeof(llama) + 64];
    struct dsflow_err err;
    int n;

    memset(trial, 0, sizeof(*trial));
    cut_words(trial, text);
    if (strcmp(trial->family, "gpt2") != 0 &&
        strcmp(trial->family, "llama") != 0 &&
        strcmp(trial->family, "mixed") != 0)
        fail_msg("%s: expected gpt2, llama or mixed, and keys", text);
    if (machine.cores == 0)
        must(text, dsf_machine_probe(&machine, &err), &err);
    n = snprintf(job, sizeof(job), "%s%s", common,
                 strcmp(trial->family, "gpt2") == 0 ? gpt2 : llama);
    must(text,
         dsf_job_parse(job, (size_t)n, text, trial->sets, trial->nsets, NULL,
                       &trial->job, &err),
         &err);
    must(text,
         dsf_model_init_layers(&trial->model, &trial->job,
                               strcmp(trial->family, "mixed") == 0 ? mix : NULL,
                               NULL, &err),
         &err);
    if (getenv("ON_GPUS") != NULL && trial->job.machine.gpus != 0 &&
        strcmp(trial->family, "mixed") != 0)
        dsf_model_pad(&trial->model);
    machine.logits = trial->logits;
    machine.gpus =
        trial->job.machine.gpus > 0 ? (unsigned)trial->job.machine.gpus : 0;
    must(text,
         dsf_plan_new(&trial->job, &trial->model, &machine, &trial->plan, &err),
         &err);
    must(text, dsf_policies_build(trial->plan, until, &trial->graph, &err),
         &err);
}

void end_trial(struct trial *trial)
{
    dsflow_graph_free(trial->graph);
    dsf_plan_free(trial->plan);
    dsf_model_fini(&trial->model);
    dsf_job_fini(&trial->job);
}
