/* state_dict.c - optimizers of torch, as their state_dict has them. */
#include "foreign/state_dict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Which moment this is to torch; false: none that is kept here. */
static bool is_moment(const char *name, enum dsf_source_state *state)
{
    static const struct {
        const char *name;
        enum dsf_source_state state;
    } states[] = {
        { "exp_avg", DSF_SOURCE_FIRST },
        { "momentum_buffer", DSF_SOURCE_FIRST },
        { "sum", DSF_SOURCE_FIRST },
        { "exp_avg_sq", DSF_SOURCE_SECOND },
    };

    for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++)
        if (strcmp(states[i].name, name) == 0) {
            *state = states[i].state;
            return true;
        }
    return false;
}

bool dsf_state_dict_next(const struct dsf_torch_node *state, uint32_t *i,
                         enum dsf_source_state *which,
                         const struct dsf_torch_node **moment)
{
    while (state != NULL && state->kind == DSF_TORCH_DICT && *i < state->n) {
        const struct dsf_torch_node *key = dsf_torch_key(state, *i);

        *moment = dsf_torch_value(state, (*i)++);
        if (key->kind == DSF_TORCH_STR && is_moment(key->str, which))
            return true;
    }
    return false;
}

/* A number, or a tensor of one. */
static bool read_number(const struct dsf_torch_file *file,
                        const struct dsf_torch_node *n, double *x)
{
    float f;

    if (n == NULL)
        return false;
    if (n->kind == DSF_TORCH_TENSOR && n->tensor->elems == 1) {
        if (dsf_torch_read_f32(file, n->tensor, 0, 1, &f, NULL) < 0)
            return false;
        *x = (double)f;
        return true;
    }
    return dsf_torch_real(file, n, x, NULL) == DSFLOW_OK;
}

void dsf_state_dict_step(struct dsf_source *s,
                         const struct dsf_torch_file *file,
                         const struct dsf_torch_node *step)
{
    double x;

    if (s->updates < 0 && read_number(file, step, &x) && x >= 0 && x < 0x1p62)
        s->updates = (int64_t)x;
}

/* The class is not in a state_dict; some settings are of one alone. */
static void take_rule(struct dsf_source *s, const struct dsf_torch_node *group)
{
    const struct dsf_torch_node *amsgrad = dsf_torch_find(group, "amsgrad");
    const char *rule = "";

    if (dsf_torch_find(group, "dampening") != NULL)
        rule = "SGD";
    else if (dsf_torch_find(group, "initial_accumulator_value") != NULL)
        rule = "Adagrad";
    else if (amsgrad != NULL && amsgrad->kind == DSF_TORCH_BOOL &&
             amsgrad->truth && dsf_torch_find(group, "betas") != NULL)
        rule = "AMSGrad"; /* of a class that is called Adam */
    else if (dsf_torch_find(group, "betas") != NULL &&
             dsf_torch_find(group, "eps") == NULL)
        rule = "Lion";
    if (rule[0] != '\0' &&
        (s->optimizer[0] == '\0' || strcmp(rule, "AMSGrad") == 0))
        snprintf(s->optimizer, sizeof(s->optimizer), "%s", rule);
}

/* What one group says, of what no group before has said. */
static void take_group(struct dsf_source *s, const struct dsf_torch_file *file,
                       const struct dsf_torch_node *group)
{
    const struct dsf_torch_node *betas = dsf_torch_find(group, "betas");
    const struct {
        const char *key;
        double *to;
    } numbers[] = { { "eps", &s->eps },
                    { "lr", &s->lr },
                    { "momentum", &s->momentum } };
    double x;

    take_rule(s, group);
    dsf_state_dict_step(s, file, dsf_torch_find(group, "step"));
    for (uint32_t i = 0; betas != NULL && i < 2; i++)
        if ((betas->kind == DSF_TORCH_TUPLE || betas->kind == DSF_TORCH_LIST) &&
            i < betas->n && isnan(s->betas[i]) &&
            read_number(file, dsf_torch_item(betas, i), &x))
            s->betas[i] = x;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (isnan(*numbers[i].to) &&
            read_number(file, dsf_torch_find(group, numbers[i].key), &x))
            *numbers[i].to = x;
    if (!read_number(file, dsf_torch_find(group, "weight_decay"), &x))
        return;
    if (!(x <= s->weight_decay)) /* it may be NaN */
        s->weight_decay = x;
    if (!(x >= s->least_decay))
        s->least_decay = x;
}

void dsf_state_dict_said(struct dsf_source *s,
                         const struct dsf_torch_file *file,
                         const struct dsf_torch_node *groups,
                         const struct dsf_torch_node *state)
{
    dsf_state_dict_step(s, file, dsf_torch_find(state, "step"));
    for (uint32_t i = 0;
         groups != NULL && groups->kind == DSF_TORCH_LIST && i < groups->n; i++)
        take_group(s, file, dsf_torch_item(groups, i));
}
