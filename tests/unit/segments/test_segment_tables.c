/* test_segment_tables.c - the description of each segment is whole: its ports,
 * its tasks, its units, and its rules for tensor ranks. */
#include "model/model.h"
#include "segments/segment.h"

#include "lib/test.h"

#include <string.h>

/* Call `check` for each task of each segment. */
static void each_op(void (*check)(const struct dsflow_segment *s,
                                  const struct dsflow_op *op))
{
    for (unsigned i = 0; dsf_segment_at(i) != NULL; i++)
        for (unsigned k = 0; k < DSF_SEGMENT_OPS; k++)
            if (dsf_segment_op(dsf_segment_at(i), k) != NULL)
                check(dsf_segment_at(i), dsf_segment_op(dsf_segment_at(i), k));
}

static void check_ports(const struct dsflow_segment *s,
                        const struct dsflow_op *op)
{
    assert_true(op->nports <= s->nports);
    assert_true(s->nports <= DSFLOW_SEGMENT_PORTS);
    for (unsigned p = 0; p < op->nports; p++) {
        const struct dsflow_port *port = &op->ports[p];

        if (port->name == NULL)
            continue;
        for (unsigned q = 0; q < p; q++)
            assert_true(op->ports[q].name == NULL ||
                        strcmp(op->ports[q].name, port->name) != 0);
        assert_non_null(s->ports[p].name);
        if (s->ports[p].from == DSFLOW_FROM_NOTHING && !port->optional)
            fail_msg("%s: %s is required and comes from nothing", op->name,
                     port->name);
    }
    assert_string_equal(op->segment, s->name);
    assert_true(dsf_segment_of_op(op) == s);
    assert_true(op->args_size <= DSFLOW_SEGMENT_ARGS);
}

static void each_port_of_a_task_is_one_of_its_segment(void **state)
{
    each_op(check_ports);
}

static void each_port_of_a_segment_is_of_some_task(void **state)
{
    for (unsigned i = 0; dsf_segment_at(i) != NULL; i++) {
        const struct dsflow_segment *s = dsf_segment_at(i);

        for (unsigned p = 0; p < s->nports; p++) {
            bool found = false;

            for (unsigned k = 0; k < DSF_SEGMENT_OPS; k++)
                found |= dsf_segment_op(s, k) != NULL &&
                         p < dsf_segment_op(s, k)->nports &&
                         dsf_segment_op(s, k)->ports[p].name != NULL;
            for (const struct dsflow_op_rules *r = s->rules;
                 r != NULL && r->op != NULL; r++)
                for (const struct dsflow_rule *rule = r->rules;
                     rule->kind != DSFLOW_RULE_END; rule++)
                    found |= rule->kind == DSFLOW_RULE_OTHER &&
                             p < rule->op->nports &&
                             strcmp(rule->op->segment, s->name) == 0 &&
                             rule->op->ports[p].name != NULL;
            if (!found)
                fail_msg("%s: port %s: no task has it", s->name,
                         s->ports[p].name);
        }
    }
}

/* What the forward pass leaves for the backward pass can be dropped. */
static void what_is_kept_is_dropped_by_recompute(void **state)
{
    for (unsigned i = 0; dsf_segment_at(i) != NULL; i++) {
        const struct dsflow_segment *s = dsf_segment_at(i);

        for (unsigned p = 0; p < s->nports; p++)
            if (s->ports[p].from == DSFLOW_FROM_KEPT &&
                s->ports[p].dropped == DSFLOW_DROPPED_NEVER)
                fail_msg("%s: %s is kept always", s->name, s->ports[p].name);
    }
}

static void what_another_segment_has_is_its_own(void **state)
{
    for (unsigned i = 0; dsf_segment_at(i) != NULL; i++) {
        const struct dsflow_segment *s = dsf_segment_at(i);

        for (unsigned p = 0; p < s->nports; p++) {
            const struct dsflow_segment_port *port = &s->ports[p];

            const struct dsflow_segment *other;

            assert_int_equal(port->from == DSFLOW_FROM_OTHER,
                             port->other != NULL);
            if (port->other == NULL)
                continue;
            other = dsflow_segment_find(NULL, port->other);
            assert_true(port->unit < other->nports);
            assert_string_equal(port->name, other->ports[port->unit].name);
            assert_int_equal(port->cut, other->ports[port->unit].cut);
        }
    }
}

static bool has_parameters(const struct dsflow_segment *s,
                           const struct dsflow_op *op)
{
    for (unsigned p = 0; p < op->nports; p++)
        if (op->ports[p].name != NULL &&
            (s->ports[p].from == DSFLOW_FROM_PARAMETERS ||
             s->ports[p].from == DSFLOW_FROM_GRADIENTS))
            return true;
    return false;
}

/* Whether a rule's task can have its port there: what it refers to is a port of
 * the old task, or was written by a rule before. */
static void check_ref(const struct dsflow_op *whole, unsigned ref, bool writes,
                      uint32_t *written)
{
    unsigned port;

    if (ref >= DSFLOW_REF_XN) {
        if (writes)
            *written |= 1u << (ref - DSFLOW_REF_XN);
        else if (!(*written >> (ref - DSFLOW_REF_XN) & 1))
            fail_msg("%s: a rule reads a buffer that none wrote", whole->name);
        return;
    }
    port =
        ref - (ref >= DSFLOW_REF_SHARED ? DSFLOW_REF_SHARED : DSFLOW_REF_OWN);
    if (port >= whole->nports || whole->ports[port].name == NULL)
        fail_msg("%s: a rule refers to port %u", whole->name, port);
}

static void check_rule(const struct dsflow_op *whole,
                       const struct dsflow_rule *rule, uint32_t *written)
{
    const struct dsflow_op *op = dsf_rule_op(rule, whole);

    if (rule->kind == DSFLOW_RULE_GATHER || rule->kind == DSFLOW_RULE_SCATTER) {
        check_ref(whole, rule->from, false, written);
        check_ref(whole, rule->to, true, written);
        return;
    }
    assert_true(rule->fill != NULL || op != whole ||
                rule->kind == DSFLOW_RULE_PART);
    for (unsigned i = 0; i < rule->nports; i++)
        assert_true(rule->ports[i].port < op->nports &&
                    op->ports[rule->ports[i].port].name != NULL);
    for (unsigned p = 0; p < op->nports; p++) {
        unsigned ref = dsf_rule_ref(rule, whole, p);

        if (op->ports[p].name == NULL)
            continue;
        if (ref == DSFLOW_LEFT_OUT && !op->ports[p].optional)
            fail_msg("%s: a rule leaves out %s of %s", whole->name,
                     op->ports[p].name, op->name);
        if (ref != DSFLOW_LEFT_OUT)
            check_ref(whole, ref, op->ports[p].access == DSFLOW_W, written);
    }
}

static void check_rules(const struct dsflow_segment *s,
                        const struct dsflow_op *op)
{
    const struct dsflow_op_rules *rules = dsf_rules_find(op);
    uint32_t written = 0;

    if (op == s->logits) /* generation has one rank */
        return;
    if (rules == NULL && !has_parameters(s, op))
        return;
    if (rules == NULL) {
        fail_msg("%s: has no rule for tensor ranks", op->name);
        return;
    }
    for (const struct dsflow_rule *r = rules->rules; r->kind != DSFLOW_RULE_END;
         r++)
        check_rule(op, r, &written);
    for (unsigned p = 0; p < op->nports; p++)
        if (op->ports[p].name != NULL &&
            s->ports[p].from != DSFLOW_FROM_NOTHING &&
            dsf_rules_cut(op, p) == DSFLOW_CUT_UNKNOWN)
            fail_msg("%s: it is not said how %s is cut", op->name,
                     op->ports[p].name);
}

static void each_task_with_parameters_has_rules(void **state)
{
    each_op(check_rules);
}

static void build(struct dsf_job *job, struct dsf_model *model,
                  const char *family, dsf_layer_fn change)
{
    struct dsflow_err err = { .msg = "" };
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "[job]\nname = \"t\"\nsteps = 1\noutput = \"o\"\n"
                     "[data]\ntrain = \"x\"\n[model]\nfamily = \"%s\"\n"
                     "layers = 3\nheads = 4\nwidth = 32\nvocab = 97\n"
                     "context = 16\n",
                     family);

    if (dsf_job_parse(text, (size_t)n, "job.toml", NULL, 0, NULL, job, &err) <
            0 ||
        dsf_model_init_layers(model, job, change, NULL, &err) < 0)
        fail_msg("%s", err.msg);
}

/* The data of every port that a whole task has, sized from its arguments. */
static void check_sizes(const struct dsf_model *model, int l,
                        const struct dsflow_segment *s)
{
    const struct dsf_unit *units[DSFLOW_SEGMENT_UNITS] = { NULL };
    struct dsflow_site site = { .tile = dsf_model_tile(model, l),
                                .parts = 1,
                                .tokens = 8,
                                .keys = 8,
                                .diagonal = true };

    site.tile.rows = 8;
    site.tile.nseq = 1;
    for (unsigned u = 0; dsf_segment_unit(s, u) != NULL; u++) {
        units[u] = &model->units[dsf_model_unit(model, l, s, u)];
        site.at[u] = units[u]->at;
    }
    for (unsigned p = 0; p < s->nports; p++) {
        struct dsflow_need need = dsf_segment_need(s, &site, p);
        bool none = s->ports[p].from == DSFLOW_FROM_NOTHING ||
                    s->ports[p].from == DSFLOW_FROM_LAYOUT ||
                    (s->ports[p].from == DSFLOW_FROM_ROPE && !model->dims.rope);

        if ((need.rows * need.cols == 0) != none)
            fail_msg("%s: %s of %lld x %lld", s->name, s->ports[p].name,
                     (long long)need.rows, (long long)need.cols);
        if (s->ports[p].from == DSFLOW_FROM_PARAMETERS)
            assert_true(need.cols <= units[s->ports[p].unit]->elems);
    }
}

static void each_port_has_a_size(void **state)
{
    static const char *const families[] = { "gpt2", "llama" };

    for (int f = 0; f < 2; f++) {
        struct dsf_job job;
        struct dsf_model model;

        build(&job, &model, families[f], NULL);
        for (int l = -1; l <= model.layers; l++)
            for (unsigned i = 0; dsf_model_layer(&model, l)->segments[i]; i++)
                check_sizes(&model, l, dsf_model_layer(&model, l)->segments[i]);
        dsf_model_fini(&model);
        dsf_job_fini(&job);
    }
}

static void widen(void *user, int32_t layer, struct dsf_dims *dims)
{
    if (layer == 1)
        dims->ffn *= 2;
}

/* Units of one kind may take turns in buffers: they are as large. */
static void units_of_a_kind_are_of_one_size(void **state)
{
    struct dsf_job job;
    struct dsf_model m;

    build(&job, &m, "gpt2", widen);
    assert_true(m.units[dsf_model_unit(&m, 0, &dsf_segment_mlp, 0)].kind !=
                m.units[dsf_model_unit(&m, 1, &dsf_segment_mlp, 0)].kind);
    assert_true(m.units[dsf_model_unit(&m, 0, &dsf_segment_out, 0)].kind ==
                m.units[dsf_model_unit(&m, 1, &dsf_segment_out, 0)].kind);
    for (unsigned a = 0; a < m.nunits; a++)
        for (unsigned b = 0; b < m.nunits; b++)
            if (m.units[a].kind >= 0 && m.units[a].kind == m.units[b].kind) {
                assert_true(m.units[a].segment == m.units[b].segment);
                assert_int_equal(m.units[a].elems, m.units[b].elems);
            }
    assert_true(m.units[dsf_model_unit(&m, 1, &dsf_segment_mlp, 0)].elems >
                m.units[dsf_model_unit(&m, 0, &dsf_segment_mlp, 0)].elems);
    dsf_model_fini(&m);
    dsf_job_fini(&job);
}

/* The norm of a segment may be another one than that of the model. */
static void a_norm_without_a_bias_is_rms_norm(void **state)
{
    const struct dsflow_rule rule =
        DSFLOW_NORM_ROWS(DSFLOW_MLP_X, DSFLOW_MLP_UNIT);
    struct dsflow_mlp_args whole = {
        .tile = { .rows = 4, .nseq = 1, .width = 8, .heads = 2, .kv_heads = 2,
                  .ffn = 8, .vocab = 9 }
    };
    struct dsf_part part = { .norm_w = 16, .norm_b = -1 };
    struct dsf_norm_args args;

    dsf_rule_fill(&rule, &dsf_op_mlp_forward, 2, 0, &part, &part, &whole,
                  &args);
    assert_int_equal(args.tile.rms, 1);
    part.norm_b = 32;
    whole.tile.rms = 1;
    dsf_rule_fill(&rule, &dsf_op_mlp_forward, 2, 0, &part, &part, &whole,
                  &args);
    assert_int_equal(args.tile.rms, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_port_of_a_task_is_one_of_its_segment),
        cmocka_unit_test(each_port_of_a_segment_is_of_some_task),
        cmocka_unit_test(what_is_kept_is_dropped_by_recompute),
        cmocka_unit_test(what_another_segment_has_is_its_own),
        cmocka_unit_test(each_task_with_parameters_has_rules),
        cmocka_unit_test(each_port_has_a_size),
        cmocka_unit_test(units_of_a_kind_are_of_one_size),
        cmocka_unit_test(a_norm_without_a_bias_is_rms_norm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
