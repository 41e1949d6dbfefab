/* test_tensor_parallel.c - the step in parts learns what the whole step learns,
 * and moves no more than it must. */
#include "policies/policies.h"

#include <dsflow/exec.h>

#include "lib/test.h"
#include "model/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4 };

struct fixture {
    struct dsf_job job;
    struct dsf_model model;
    struct dsf_machine machine;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
    struct dsflow_err err;
    int parts;
    double loss[STEPS], norm[STEPS], eval;
    int nloss;
};

static const char gpt2[] = "family = \"gpt2\"\nlayers = 2\nheads = 4\n"
                           "width = 32\ncontext = 24\nvocab = 97\n";
static const char llama[] = "family = \"llama\"\nlayers = 2\nheads = 8\n"
                            "kv_heads = 4\nwidth = 40\nhead_dim = 6\n"
                            "ffn_width = 48\ncontext = 24\nvocab = 61\n"
                            "tied = false\nqkv_bias = true\n";
static const char plain[] = "[batch]\nsequences = 4\nmicro = 2\n";

static int parse(struct fixture *f, const char *model, const char *rest,
                 int parts)
{
    char text[1024];
    int n = snprintf(text, sizeof(text),
                     "[job]\nname = \"t\"\nsteps = 4\noutput = \"o\"\n"
                     "[data]\ntrain = \"x\"\n[machine]\nworkers = 2\n"
                     "[mesh]\ntensor = %d\n[optimizer]\nlr = 1e-2\n"
                     "clip = 0.5\n[model]\n%s%s",
                     parts, model, rest);

    memset(f, 0, sizeof(*f));
    f->machine.cores = 2;
    f->parts = parts;
    if (dsf_job_parse(text, (size_t)n, "job.toml", NULL, 0, NULL, &f->job,
                      &f->err) < 0 ||
        dsf_model_init(&f->model, &f->job, &f->err) < 0 ||
        dsf_plan_new(&f->job, &f->model, &f->machine, &f->plan, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    return dsf_policy_tensor_parallel.decide(NULL, f->plan, &f->err);
}

/* What the policy makes of `in`, which is freed unless it goes on. */
static struct dsflow_graph *apply(struct fixture *f,
                                  const struct dsflow_policy *policy,
                                  struct dsflow_graph *in)
{
    struct dsflow_graph *out = dsflow_graph_new();
    int status;

    dsf_rewrite_programs(in, out);
    status = policy->rewrite(NULL, f->plan, in, out, &f->err);
    dsflow_graph_free(status == DSFLOW_UNCHANGED ? out : in);
    if (status == DSFLOW_UNCHANGED)
        out = in;
    if (status < 0 || dsflow_graph_check(out, &f->err) < 0)
        fail_msg("%s: %s", policy->name, f->err.msg);
    return out;
}

/* The plain step, then in parts, and what that is for one process. */
static void build(struct fixture *f, const char *model, const char *rest,
                  int parts)
{
    if (parse(f, model, rest, parts) < 0 ||
        dsf_policies_build(f->plan, "reference", &f->graph, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    f->graph = apply(f, &dsf_policy_tensor_parallel, f->graph);
    f->graph = apply(f, &dsf_policy_collectives, f->graph);
}

static void done(struct fixture *f)
{
    dsflow_graph_free(f->graph);
    dsf_plan_free(f->plan);
    dsf_model_fini(&f->model);
    dsf_job_fini(&f->job);
}

static void load_batch(void *user, const struct dsflow_batch *b)
{
    const struct fixture *f = user;
    int32_t length = b->rows / b->nseq, vocab = f->model.dims.vocab;

    for (int32_t r = 0; r < b->rows; r++) {
        int64_t s = b->seq + r / length, i = b->pos + r % length;
        int64_t token = (s * 31 + i * (7 + s) + b->step) % vocab;

        b->tokens[r] = (int32_t)token;
        b->targets[r] = i == 5 ? -1 : (int32_t)((token * 3 + 1) % vocab);
    }
}

static void report(void *user, const struct dsflow_step_report *of)
{
    struct fixture *f = user;

    if (strcmp(of->program, "eval") == 0) {
        f->eval = of->loss;
        return;
    }
    f->norm[f->nloss] = of->norm;
    f->loss[f->nloss++] = of->loss;
}

static float *map(const struct fixture *f, struct dsflow_exec *exec,
                  const char *name)
{
    dsflow_data_id id;

    if (!dsflow_graph_find(f->graph, name, &id))
        fail_msg("no %s", name);
    return dsflow_exec_map(exec, id, DSFLOW_RW);
}

/* All parameters, to the parts of the graph or from them. */
static void move_params(struct fixture *f, struct dsflow_exec *exec,
                        float **params, int back)
{
    for (unsigned u = 0; u < f->model.nunits; u++)
        for (int p = 0; p <= f->parts; p++) {
            struct dsf_part part;

            dsf_part_init(&part, &f->model, f->parts, u, p);
            if (part.elems == 0)
                continue;
            if (back)
                dsf_part_merge(&part, map(f, exec, part.name), params[u]);
            else
                dsf_part_split(&part, params[u], map(f, exec, part.name));
        }
}

/* Four steps and an evaluation; the parameters they end with, by unit. */
static float **run(struct fixture *f)
{
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL);
    struct dsflow_host host = { f, load_batch, report };
    float **params = calloc(f->model.nunits, sizeof(*params));
    struct dsflow_exec *exec;
    dsflow_program eval;

    assert_true(dsflow_graph_find_program(f->graph, "eval", &eval));
    if (dsflow_exec_open(f->graph, &options, &host, &exec, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    if (f->model.dims.rope)
        dsf_model_rope_table(&f->model, map(f, exec, "rope"));
    for (unsigned u = 0; u < f->model.nunits; u++) {
        params[u] = calloc((size_t)f->model.units[u].elems, sizeof(float));
        dsf_model_randomize(&f->model, u, 1, params[u]);
        for (int64_t i = 0; i < f->model.units[u].decay; i++)
            params[u][i] *= 5; /* far from the flat start: more to get wrong */
    }
    move_params(f, exec, params, 0);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &f->err), 0);
    assert_int_equal(dsflow_exec_submit(exec, eval, &f->err), 0);
    assert_int_equal(dsflow_exec_wait(exec, &f->err), 0);
    move_params(f, exec, params, 1);
    dsflow_exec_close(exec);
    return params;
}

static void free_params(const struct fixture *f, float **params)
{
    for (unsigned u = 0; u < f->model.nunits; u++)
        free(params[u]);
    free(params);
}

static void assert_near(const char *what, double a, double b, double bound)
{
    if (!(fabs(a - b) <= bound * fabs(b)))
        fail_msg("%s: %.9g, and %.9g with one part", what, a, b);
}

static void check_same(const char *model, const char *rest, int parts)
{
    struct fixture one, many;
    float **a, **b;

    build(&one, model, rest, 1);
    build(&many, model, rest, parts);
    a = run(&one);
    b = run(&many);
    assert_int_equal(one.nloss, STEPS);
    assert_int_equal(many.nloss, STEPS);
    for (int i = 0; i < STEPS; i++) {
        assert_near("loss", many.loss[i], one.loss[i], 1e-5);
        assert_near("norm", many.norm[i], one.norm[i], 1e-4);
    }
    assert_near("loss before any update", many.loss[0], one.loss[0], 1e-6);
    assert_near("norm before any update", many.norm[0], one.norm[0], 1e-5);
    assert_near("loss of the evaluation", many.eval, one.eval, 1e-5);
    assert_true(fabs(one.loss[0] - one.loss[STEPS - 1]) > 1e-3);
    for (unsigned u = 0; u < one.model.nunits; u++) {
        double diff = 0, size = 0;

        for (int64_t i = 0; i < one.model.units[u].elems; i++) {
            diff += pow((double)b[u][i] - (double)a[u][i], 2);
            size += pow((double)a[u][i], 2);
        }
        /* A first step of Adam has the size of lr whatever the gradient's: what
         * is nearly 0 may go either way. */
        if (!(sqrt(diff) <= 1e-3 * sqrt(size)))
            fail_msg("%s: %g of %g", one.model.units[u].name, sqrt(diff),
                     sqrt(size));
    }
    free_params(&one, a);
    free_params(&many, b);
    done(&one);
    done(&many);
}

static void a_step_in_parts_learns_the_same(void **state)
{
    for (int parts = 2; parts <= 4; parts += 2) {
        check_same(gpt2, plain, parts);
        check_same(llama, plain, parts);
    }
}

static void pieces_of_sequences_and_uneven_rows_are_no_trouble(void **state)
{
    check_same(gpt2,
               "[batch]\nsequences = 2\nmicro = 1\nsequence = 23\n"
               "tile = 16\n",
               4);
    check_same(llama,
               "[batch]\nsequences = 4\nmicro = 2\nsequence = 21\n"
               "tile = 16\n",
               2);
}

static void groups_and_optimizers_are_no_trouble(void **state)
{
    check_same(gpt2,
               "[batch]\nsequences = 4\nmicro = 1\ngroups = 4\n"
               "[zero]\nreduce = \"micro\"\n",
               2);
    check_same(llama,
               "[batch]\nsequences = 4\nmicro = 1\ngroups = 2\n"
               "order = \"layer_major\"\n",
               4);
}

/* Eight ranks: more than one task has ports for. */
static void more_ranks_than_ports_are_no_trouble(void **state)
{
    static const char wide[] = "family = \"gpt2\"\nlayers = 1\nheads = 16\n"
                               "width = 32\ncontext = 24\nvocab = 97\n";

    check_same(wide, plain, 8);
    check_same(wide, plain, 16);
}

/* More ranks than heads of keys: several use the same one. */
static void keys_that_ranks_share_are_no_trouble(void **state)
{
    static const char few[] = "family = \"llama\"\nlayers = 2\nheads = 8\n"
                              "kv_heads = 2\nwidth = 40\nhead_dim = 6\n"
                              "ffn_width = 48\ncontext = 24\nvocab = 61\n"
                              "qkv_bias = true\n";
    static const char one[] = "family = \"llama\"\nlayers = 1\nheads = 4\n"
                              "kv_heads = 1\nwidth = 32\nffn_width = 48\n"
                              "context = 24\nvocab = 61\ntied = false\n";

    check_same(few, plain, 2);
    check_same(few, plain, 4);
    check_same(few,
               "[batch]\nsequences = 4\nmicro = 1\nsequence = 24\n"
               "tile = 16\ngroups = 2\n",
               8);
    check_same(one, plain, 2);
    check_same(one, plain, 4);
}

static void a_rank_touches_only_what_is_its_own(void **state)
{
    struct fixture f;
    uint32_t n;
    int8_t *home;

    build(&f, llama, plain, 4);
    n = dsflow_graph_ndata(f.graph);
    home = malloc(n);
    memset(home, -1, n);
    /* Where it is written is where it is; only what moves data may read what is
     * elsewhere, and what all share: parameters, and the table of angles. */
    for (uint32_t i = 0; i < dsflow_graph_ntasks(f.graph); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(f.graph, (dsflow_task_id){ i });

        for (unsigned k = 0; k < t->ndata && t->microbatch >= 0; k++) {
            const struct dsflow_data_spec *d =
                dsflow_graph_data(f.graph, t->data[k]);
            bool shared = d->persistent && (d->unit < 0 || d->part >= 4);

            assert_in_range(t->rank, 0, 3);
            if (dsflow_task_access(t, k) & DSFLOW_W && home[t->data[k].i] < 0)
                home[t->data[k].i] = (int8_t)t->rank;
            if (d->persistent && d->unit >= 0 && d->part < 4)
                assert_int_equal(d->part, t->rank);
            if (!t->op->comm && !shared && !d->persistent &&
                home[t->data[k].i] != t->rank)
                fail_msg("%s of rank %d: %s is of rank %d", t->op->name,
                         t->rank, d->name, home[t->data[k].i]);
        }
    }
    free(home);
    done(&f);
}

/* Per block, four sums or gathers forward, and six backward, two of which are
 * the rows that are not kept; each moves what T - 1 of the ranks have to each
 * (Korthikanti et al. 2022, 4.2.2). */
static void a_block_moves_ten_times_its_rows(void **state)
{
    enum { PARTS = 4 };
    struct fixture f;
    uint32_t n;
    int16_t *home;
    double moved = 0, rows;

    build(&f, gpt2, plain, PARTS);
    n = dsflow_graph_ndata(f.graph);
    home = malloc(n * sizeof(*home));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(f.graph); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(f.graph, (dsflow_task_id){ i });

        for (unsigned k = 0; k < t->ndata; k++) {
            if (dsflow_task_access(t, k) & DSFLOW_W)
                home[t->data[k].i] = t->rank;
            else if (t->op->comm && t->layer == 1 && t->tile >= 0 &&
                     t->program == DSFLOW_STEP &&
                     home[t->data[k].i] != t->rank &&
                     dsflow_graph_data(f.graph, t->data[k])->role !=
                         DSFLOW_GRADS)
                moved += sizeof(float) *
                         (double)t->op->reads(t->op, t->args, k);
        }
    }
    rows = (double)f.plan->nmicro * f.plan->micro * f.plan->sequence;
    assert_true(moved ==
                10.0 * (PARTS - 1) * rows * f.model.dims.width * sizeof(float));
    free(home);
    done(&f);
}

static void the_parts_of_a_unit_are_all_of_it(void **state)
{
    struct fixture f;
    double bytes[DSFLOW_NROLES] = { 0 }, params = 0;

    build(&f, gpt2, plain, 2);
    for (uint32_t i = 0; i < dsflow_graph_ndata(f.graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(f.graph, (dsflow_data_id){ i });

        bytes[d->role] += (double)d->bytes;
        if (d->unit >= 0)
            assert_true(d->block > 0 &&
                        d->bytes / sizeof(float) % (size_t)d->block == 0);
    }
    params = (double)f.model.params * sizeof(float);
    assert_true(bytes[DSFLOW_PARAMS] >= params);
    assert_true(bytes[DSFLOW_STATES] == 2 * bytes[DSFLOW_PARAMS]);
    done(&f);
}

/* Buffers that pass by too: rows of `width`, or of what the head says. */
static void buffers_say_what_they_are_made_of(void **state)
{
    struct fixture f;
    unsigned normed = 0;

    build(&f, gpt2, plain, 2);
    for (uint32_t i = 0; i < dsflow_graph_ndata(f.graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(f.graph, (dsflow_data_id){ i });

        if (d->role != DSFLOW_BUFFERS || strncmp(d->name, "xn.", 3) != 0)
            continue;
        assert_int_equal(d->ndims, 2);
        assert_int_equal(d->dims[0], 24); /* half of two sequences of 24 */
        assert_int_equal(d->dims[1], 32);
        normed++;
    }
    assert_true(normed > 0);
    done(&f);
}

static void the_same_plan_gives_the_same_graph(void **state)
{
    char *text[2];
    size_t bytes[2];

    for (int i = 0; i < 2; i++) {
        struct fixture f;
        FILE *out = open_memstream(&text[i], &bytes[i]);

        build(&f, llama, plain, 2);
        assert_int_equal(dsflow_graph_write_dot(f.graph, out, NULL), 0);
        fclose(out);
        done(&f);
    }
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

static void check_refused(const char *model, const char *rest, int parts,
                          const char *why)
{
    struct fixture f;

    assert_int_equal(parse(&f, model, rest, parts), DSFLOW_EINVAL);
    assert_non_null(strstr(f.err.msg, "mesh: tensor: "));
    assert_string_equal(strstr(f.err.msg, "tensor: ") + 8, why);
    f.graph = NULL;
    done(&f);
}

static void what_does_not_split_is_refused_with_what_would(void **state)
{
    check_refused(gpt2, plain, 3,
                  "3: heads, 4, does not split: expected one of 1, 2, 4");
    check_refused("family = \"llama\"\nlayers = 1\nheads = 12\n"
                  "kv_heads = 3\nwidth = 48\nffn_width = 48\n"
                  "context = 24\nvocab = 97\n",
                  plain, 2,
                  "2: kv_heads, 3, does not split: expected one of 1, 3, 6, "
                  "12");
    check_refused("family = \"gpt2\"\nlayers = 1\nheads = 6\nwidth = 24\n"
                  "ffn_width = 32\ncontext = 24\nvocab = 97\n",
                  plain, 6,
                  "6: ffn_width, 32, does not split: expected one of 1, 2");
    check_refused(gpt2, "[batch]\nsequences = 2\nmicro = 1\nsequence = 3\n", 4,
                  "4: tile, 3, does not split: expected one of 1, 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_in_parts_learns_the_same),
        cmocka_unit_test(pieces_of_sequences_and_uneven_rows_are_no_trouble),
        cmocka_unit_test(groups_and_optimizers_are_no_trouble),
        cmocka_unit_test(more_ranks_than_ports_are_no_trouble),
        cmocka_unit_test(keys_that_ranks_share_are_no_trouble),
        cmocka_unit_test(a_rank_touches_only_what_is_its_own),
        cmocka_unit_test(a_block_moves_ten_times_its_rows),
        cmocka_unit_test(the_parts_of_a_unit_are_all_of_it),
        cmocka_unit_test(buffers_say_what_they_are_made_of),
        cmocka_unit_test(the_same_plan_gives_the_same_graph),
        cmocka_unit_test(what_does_not_split_is_refused_with_what_would),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
