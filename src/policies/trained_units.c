/* trained_units.c - which weights of a job are quantized or pruned, and how. */
#include "policies/trained_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool dsf_read_pruning(const char *text, int *keep, int *of)
{
    char rest;

    *keep = *of = 0;
    if (strcmp(text, DSF_UNPRUNED) == 0)
        return true;
    return sscanf(text, "%9d:%9d%c", keep, of, &rest) == 2 && *keep >= 1 &&
           *keep < *of && *of <= DSF_QUANTIZE_MOST_OF && (*of & (*of - 1)) == 0;
}

bool dsf_changes_weights(const struct dsf_job *job)
{
    const struct dsf_weights_keys *keys = dsf_weights_keys(job);

    return keys->quantize != DSF_UNQUANTIZED ||
           strcmp(keys->prune, DSF_UNPRUNED) != 0;
}

/* A unit of a block has an even share in the work of the model; embeddings and
 * the head are what a quantized model suffers from first. */
static bool is_chosen(const struct dsf_weights_keys *keys,
                      const struct dsf_model *model,
                      const struct dsf_unit *unit)
{
    const bool in_block = unit->layer >= 0 && unit->layer < model->layers;

    return in_block || keys->embedding;
}

bool dsf_trained_form(const struct dsf_job *job, const struct dsf_model *model,
                      const struct dsf_unit *unit, struct dsf_weight_form *form)
{
    const struct dsf_weights_keys *keys;
    int keep, of;

    if (job == NULL || !dsf_changes_weights(job))
        return false;
    keys = dsf_weights_keys(job);
    if (!is_chosen(keys, model, unit))
        return false;
    dsf_read_pruning(keys->prune, &keep, &of);
    *form = (struct dsf_weight_form){
        .quantizer = keys->quantize,
        .group = keys->quantize == DSF_UNQUANTIZED ? DSF_QUANTIZE_LEAST
                                                   : (int32_t)keys->group,
        .keep = keep,
        .of = of,
        .quantize_from = keys->quantize_from,
        .prune_from = keys->prune_from,
    };
    if (keys->quantize == DSF_SYMMETRIC || keys->quantize == DSF_ASYMMETRIC) {
        form->bits = (int32_t)keys->bits;
        form->start_bits =
            keys->start_bits < 0 ? form->bits : (int32_t)keys->start_bits;
        form->period = keys->period;
    }
    form->matrices = unit->decay / form->group * form->group;
    return form->matrices > 0;
}

void dsf_trained_apply(const struct dsf_job *job, const struct dsf_model *model,
                       unsigned unit, int64_t updates, float *numbers)
{
    const struct dsf_unit *u = &model->units[unit];
    struct dsf_weight_form form;

    if (dsf_trained_form(job, model, u, &form))
        dsf_weight_form_apply(&form, updates, 0, u->elems, numbers, numbers);
}
