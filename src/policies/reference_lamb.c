/* reference_lamb.c - 1-bit LAMB (Li et al. 2021, arXiv 2104.06069): before the
 * freeze, what later steps need of LAMB's; after it the exchange of all tensors
 * at once, and what comes back. reference_onebit.c has what 1-bit Adam has,
 * too.
 */
#include "policies/reference_private.h"

#include "base/alloc.h"
#include "policies/onebit.h"
#include "tasks/lamb.h"

#include <dsflow/rewrite.h>

#include <stdio.h>
#include <stdlib.h>

enum { MOMENTUM, SECOND };

/* The squares of the coded numbers of `of`, and of `server` added to them where
 * it is one. */
static dsflow_data_id square(struct step *s, unsigned u, dsflow_data_id of,
                             dsflow_data_id server, const char *name)
{
    enum { SERVER = 1 };
    const struct dsf_unit *unit = &s->model->units[u];
    const bool has = dsf_is_data(server);
    const struct dsf_chunk_args args = { .coding = dsf_onebit_coding_of(s, u),
                                         .elems = unit->elems,
                                         .groups = dsf_plan_sums(s->plan) };
    const dsflow_data_id sums = dsflow_rewrite_named(
        s->g, &DSF_DOUBLES(unit->elems / args.coding.block), "%s.%s", name,
        unit->name);

    dsf_step_emit_without(s, &dsf_op_chunk_squares, &args, unit->layer,
                          has ? 0 : 1u << SERVER, 2 + has,
                          has ? (dsflow_data_id[]){ of, server, sums }
                              : (dsflow_data_id[]){ of, sums });
    return sums;
}

/* --- what is sent --------------------------------------------------------- */

/* That of group `i`, whose last micro-batch is where the step stands. */
static void send_group(struct step *s, int32_t i)
{
    const unsigned n = s->model->nunits;
    dsflow_data_id *squares = dsf_xcalloc(n, sizeof(*squares)), total;
    char name[40];
    size_t k = 0;

    snprintf(name, sizeof(name), "squares.g%d", (int)i);
    for (unsigned u = 0; u < n; u++)
        if (s->units[u].grad.errors != NULL)
            squares[k++] =
                square(s, u, s->units[u].grad.of[i], dsf_no_data(), name);
    total = dsf_step_sum(s, squares, k);
    for (unsigned u = 0; u < n; u++) {
        const struct gradients *g = &s->units[u].grad;
        const struct dsf_send_args args = { .coding =
                                                dsf_onebit_coding_of(s, u),
                                            .elems = s->model->units[u].elems,
                                            .all = s->ncoded };

        if (g->errors != NULL)
            EMIT(s, &dsf_op_send_signs, &args, s->model->units[u].layer, 0,
                 g->of[i], g->errors[i], total);
    }
    free(squares);
}

void dsf_lamb_send_all(struct step *s)
{

    for (int32_t i = 0; i < dsf_plan_sums(s->plan) && s->ncoded > 0; i++) {
        dsf_step_stand_at_group(s, i);
        send_group(s, i);
    }
    dsf_step_stand_aside(s);
}

/* --- what comes back ------------------------------------------------------ */

static struct dsf_united_args united(const struct step *s, unsigned u)
{
    const double *betas = s->plan->job->optimizer.betas;

    return (struct dsf_united_args){
        .at = { .coding = dsf_onebit_coding_of(s, u),
                .elems = s->model->units[u].elems,
                .groups = dsf_plan_sums(s->plan) },
        .before = s->units[u].coded_before,
        .all = s->ncoded,
        .beta1 = betas[0],
        .beta2 = betas[1],
    };
}

void dsf_lamb_find_scales(struct step *s)
{
    const int64_t each = 2 * (int64_t)dsf_plan_sums(s->plan);
    const unsigned n = s->model->nunits;
    dsflow_data_id *chunks = dsf_xcalloc(n, sizeof(*chunks)), sums;
    size_t k = 0;

    for (unsigned u = 0; u < n; u++) {
        const struct dsf_unit *unit = &s->model->units[u];
        const struct dsf_united_args args = united(s, u);

        if (s->units[u].grad.errors == NULL)
            continue;
        sums =
            square(s, u, s->units[u].grad.of[0], s->units[u].server, "chunks");
        chunks[k] =
            dsf_add_named(s->g, &DSF_DOUBLES(each), "parts.%s", unit->name);
        EMIT(s, &dsf_op_chunk_sums, &args, unit->layer, 0, chunks[k], sums);
        k++;
    }
    if (k > 0)
        s->chunks = dsf_step_sum_each(s, chunks, k, each);
    free(chunks);
}

static void serve(struct step *s, unsigned u)
{
    enum { CHUNKS = 2, LAMB, SERVER };
    const struct dsf_unit *unit = &s->model->units[u];
    const struct unit_data *d = &s->units[u];
    const struct dsf_united_args args = united(s, u);

    if (d->grad.errors == NULL)
        dsf_step_emit_without(s, &dsf_op_serve_lamb, &args, unit->layer,
                              1u << CHUNKS | 1u << LAMB | 1u << SERVER, 4,
                              (dsflow_data_id[]){ s->control, d->grad.of[0],
                                                  d->states[MOMENTUM],
                                                  d->fresh });
    else
        EMIT(s, &dsf_op_serve_lamb, &args, unit->layer, 0, s->control,
             d->grad.of[0], s->chunks, d->lamb, d->server, d->states[MOMENTUM],
             d->fresh);
}

dsflow_data_id dsf_lamb_serve(struct step *s, unsigned u,
                              const struct dsf_update_args *args)
{
    const struct dsf_onebit_lamb_keys *keys =
        dsf_onebit_lamb_keys(s->plan->job);
    const struct dsf_unit *unit = &s->model->units[u];
    const struct unit_data *d = &s->units[u];
    struct dsf_weigh_args norms = { .of = *args };
    struct dsf_factor_args factor = { .least = keys->factor_min,
                                      .most = keys->factor_max,
                                      .threshold = keys->factor_threshold,
                                      .n = (int32_t)unit->ntensors };
    dsflow_data_id sums, totals, ratio;

    serve(s, u);
    norms.of.width = factor.width =
        (int32_t)dsf_lamb_width(2 * (int32_t)unit->ntensors);
    sums = dsf_add_named(
        s->g, &DSF_DOUBLES(unit->elems / unit->block * norms.of.width),
        "weights.%s", unit->name);
    totals = dsf_add_named(s->g, &DSF_DOUBLES(4 * (int64_t)unit->ntensors),
                           "totals.%s", unit->name);
    ratio = dsflow_rewrite_named(s->g, &DSF_DOUBLES(unit->ntensors), "ratio.%s",
                                 unit->name);
    EMIT(s, &dsf_op_lamb_norms, &norms, unit->layer, 0, s->control, d->fresh,
         d->param, d->states[MOMENTUM], d->states[SECOND], sums);
    EMIT(s, &dsf_op_lamb_totals, &factor, unit->layer, 0, totals, sums);
    EMIT(s, &dsf_op_lamb_factor, &factor, unit->layer, 0, s->control, totals,
         d->lamb, ratio);
    return ratio;
}

/* --- up to the freeze ----------------------------------------------------- */

void dsf_lamb_keep_mean(struct step *s, unsigned u, dsflow_data_id ratio)
{
    const struct dsf_onebit_lamb_keys *keys =
        dsf_onebit_lamb_keys(s->plan->job);
    const struct dsf_unit *unit = &s->model->units[u];
    struct dsf_mean_args args = { .n = unit->ntensors };

    if (keys == NULL)
        return;
    args.beta = keys->coeff_beta;
    EMIT(s, &dsf_op_lamb_mean, &args, unit->layer, 0, s->control, ratio,
         s->units[u].lamb);
}

/* The roots of the mean squares of the momenta of each tensor. */
static dsflow_data_id own_scales(struct step *s, unsigned u)
{
    const struct dsf_unit *unit = &s->model->units[u];
    const int64_t n = unit->ntensors;
    const struct dsf_united_args args = {
        .at = { .coding = dsf_onebit_coding_of(s, u), .groups = n },
        .all = s->ncoded,
        .by_tensor = 1,
    };
    dsflow_data_id squares =
        square(s, u, s->units[u].states[MOMENTUM], dsf_no_data(), "moments");
    dsflow_data_id sums =
        dsf_add_named(s->g, &DSF_DOUBLES(2 * n), "tensors.%s", unit->name);
    dsflow_data_id scales =
        dsf_add_named(s->g, &DSF_DOUBLES(n), "own.%s", unit->name);

    EMIT(s, &dsf_op_chunk_sums, &args, unit->layer, 0, sums, squares);
    EMIT(s, &dsf_op_tensor_scales, NULL, unit->layer, 0, scales, sums);
    return scales;
}

void dsf_lamb_freeze(struct step *s)
{
    const unsigned n = s->model->nunits;
    dsflow_data_id *own = dsf_xcalloc(n, sizeof(*own)), total;
    size_t k = 0;

    for (unsigned u = 0; u < n; u++) {
        dsf_step_add(s, u, s->units[u].fresh, &s->units[u].states[SECOND], 1,
                     true);
        if (s->units[u].grad.errors != NULL)
            own[k++] = own_scales(s, u);
    }
    total = k > 0 ? dsf_step_sum(s, own, k) : dsf_no_data();
    k = 0;
    for (unsigned u = 0; u < n; u++) {
        enum { OWN, TOTAL };
        const struct dsf_unite_args args = { s->ncoded_tensors,
                                             s->model->units[u].ntensors };
        const int l = s->model->units[u].layer;

        if (s->units[u].grad.errors == NULL) {
            dsf_step_emit_without(s, &dsf_op_unite_scales, &args, l,
                                  1u << OWN | 1u << TOTAL, 1,
                                  &s->units[u].lamb);
            continue;
        }
        EMIT(s, &dsf_op_unite_scales, &args, l, 0, own[k], total,
             s->units[u].lamb);
        k++;
    }
    free(own);
}
