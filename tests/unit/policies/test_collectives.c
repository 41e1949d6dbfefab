/* test_collectives.c - what members of a group have after a collective, with
 * any number of them and any cut, on both executors; sums have the bits of the
 * tree of pairs. */
#include "policies/collective.h"
#include "policies/policies.h"
#include "tasks/tasks.h"

#include <dsflow/exec.h>

#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 128

/* One collective: `has` of each member before, `gets` afterwards (in place, the
 * same data). */
struct group {
    struct dsf_pieces pieces;
    bool in_place;
    const struct dsflow_op *op;
    struct dsflow_graph *before, *after;
    dsflow_data_id has[MEMBERS], gets[MEMBERS];
    int64_t nhas[MEMBERS], ngets[MEMBERS];
};

static int64_t elems(const struct group *g, int32_t m)
{
    return dsf_pieces_elems(&g->pieces, m);
}

static int64_t at(const struct group *g, int32_t m)
{
    return dsf_pieces_at(&g->pieces, m);
}

static dsflow_data_id add_data(struct group *g, const char *name, int32_t m,
                               int64_t n)
{
    char text[32];

    snprintf(text, sizeof(text), "%s%d", name, (int)m);
    return dsflow_graph_add_data(
        g->before, &DSFLOW_DATA(.name = text, .elems = n, .dtype = DSFLOW_FP32,
                                .role = DSFLOW_BUFFERS, .home = (int16_t)m,
                                .unit = -1, .persistent = 1));
}

/* How much each member has, and gets. */
static void size_group(struct group *g)
{
    int64_t all = at(g, g->pieces.members);
    bool gather = g->op == &dsf_op_all_gather;

    for (int32_t m = 0; m < g->pieces.members; m++) {
        g->nhas[m] = gather && !g->in_place ? elems(g, m) : all;
        g->ngets[m] =
            g->op == &dsf_op_all_to_all ? elems(g, m) * g->pieces.members
            : g->op == &dsf_op_reduce_scatter && !g->in_place ? elems(g, m)
                                                              : all;
    }
}

static void build(struct group *g, const struct dsflow_op *op, int32_t members,
                  int64_t blocks, bool in_place)
{
    struct dsf_collective c = { .op = op, .from = g->has, .id = 1 };

    *g = (struct group){ .pieces = { blocks, 3, members, members / 2 },
                         .in_place = in_place,
                         .op = op,
                         .before = dsflow_graph_new() };
    size_group(g);
    c.pieces = g->pieces;
    dsflow_graph_add_program(g->before, "step");
    for (int32_t m = 0; m < members; m++) {
        g->has[m] = g->gets[m] = add_data(g, "has", m, g->nhas[m] + 2);
        if (!in_place)
            g->gets[m] = add_data(g, "gets", m, g->ngets[m] + 2);
    }
    for (int32_t m = 0; m < members; m++)
        dsf_collective_emit(
            g->before, &DSFLOW_TASK(.layer = -1, .microbatch = -1, .tile = -1),
            &c, m, m, g->gets[m]);
}

static int lower(struct group *g, struct dsflow_err *err)
{
    struct dsflow_plan plan = { .nranks = g->pieces.members };

    g->after = dsflow_graph_new();
    dsflow_graph_add_program(g->after, "step");
    return dsf_policy_collectives.rewrite(NULL, &plan, g->before, g->after,
                                          err);
}

static void free_group(struct group *g)
{
    dsflow_graph_free(g->before);
    dsflow_graph_free(g->after);
}

static float number(int32_t m, int64_t i)
{
    return (float)(sin((double)i * 1.7 + m) * pow(10, (double)((i + m) % 7)));
}

/* Numbers at strides of 1, 2, 4 … are added to each other. */
static float tree_sum(int32_t members, int64_t i)
{
    float x[MEMBERS];

    for (int32_t m = 0; m < members; m++)
        x[m] = number(m, i);
    for (int32_t stride = 1; stride < members; stride *= 2)
        for (int32_t m = 0; m + stride < members; m += 2 * stride)
            x[m] += x[m + stride];
    return x[0];
}

/* The member that has element `i`. */
static int32_t owner_of(const struct group *g, int64_t i)
{
    int32_t m = 0;

    while (i >= at(g, m + 1))
        m++;
    return m;
}

/* What a gather leaves in element `i`: of a buffer of all, the owner's i-th; of
 * a piece, the element that is i-th there. */
static float gathered(const struct group *g, int64_t i)
{
    int32_t m = owner_of(g, i);

    return number(m, g->in_place ? i : i - at(g, m));
}

static float expected(const struct group *g, int32_t m, int64_t i)
{
    int32_t n = g->pieces.members;

    if (g->op == &dsf_op_all_gather)
        return gathered(g, i);
    if (g->op == &dsf_op_all_reduce)
        return tree_sum(n, i);
    if (g->op == &dsf_op_broadcast)
        return number(g->pieces.owner, i);
    if (g->op == &dsf_op_all_to_all)
        return number((int32_t)(i / elems(g, m)), at(g, m) + i % elems(g, m));
    if (!g->in_place)
        return tree_sum(n, at(g, m) + i);
    return i >= at(g, m) && i < at(g, m + 1) ? tree_sum(n, i) : number(m, i);
}

static dsflow_data_id named(const struct group *g, dsflow_data_id before)
{
    dsflow_data_id id = { 0 };

    dsflow_graph_find(g->after, dsflow_graph_data(g->before, before)->name,
                      &id);
    return id;
}

static void run_and_compare(struct group *g, enum dsflow_exec_kind kind)
{
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = kind, .workers = 2,
                            .ranks = (unsigned)g->pieces.members);
    struct dsflow_exec *exec;
    struct dsflow_err err;

    if (dsflow_graph_check(g->after, &err) < 0 ||
        dsflow_exec_open(g->after, &options, NULL, &exec, &err) < 0)
        fail_msg("%s: %s", g->op->name, err.msg);
    for (int32_t m = 0; m < g->pieces.members; m++) {
        dsflow_data_id id;

        if (!dsflow_graph_find(
                g->after, dsflow_graph_data(g->before, g->has[m])->name, &id))
            continue; /* nobody reads what it has */
        for (int64_t i = 0; i < g->nhas[m] + 2; i++)
            ((float *)dsflow_exec_map(exec, id, DSFLOW_RW))[i] = number(m, i);
    }
    assert_int_equal(dsflow_exec_submit(exec, 0, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    for (int32_t m = 0; m < g->pieces.members; m++) {
        const float *got;

        if (g->ngets[m] == 0)
            continue;
        got = dsflow_exec_map(exec, named(g, g->gets[m]), DSFLOW_R);
        for (int64_t i = 0; i < g->ngets[m]; i++)
            if (memcmp(&got[i], &(float){ expected(g, m, i) }, sizeof(*got)) !=
                0)
                fail_msg("%s%s of %d members and %d blocks: element %d of "
                         "member %d is %.9g: expected %.9g",
                         g->op->name, g->in_place ? " in place" : "",
                         (int)g->pieces.members, (int)g->pieces.blocks, (int)i,
                         (int)m, (double)got[i], (double)expected(g, m, i));
    }
    dsflow_exec_close(exec);
}

/* All up to 9; then some that go by levels of 4, 8 and 2, and of 8, 8 and 2. */
static int32_t next(int32_t members)
{
    return members < 9     ? members + 1
           : members == 9  ? 12
           : members == 12 ? 16
           : members == 16 ? MEMBERS
                           : MEMBERS + 1;
}

static void check_collective(const struct dsflow_op *op, bool in_place)
{
    static const int64_t blocks[] = { 1, 2, 7, 9, 26, 300 };

    for (int32_t members = 2; members <= MEMBERS; members = next(members))
        for (unsigned k = 0; k < sizeof(blocks) / sizeof(*blocks); k++) {
            struct dsflow_err err;
            struct group g;

            build(&g, op, members, blocks[k], in_place);
            if (dsflow_graph_check(g.before, &err) < 0 || lower(&g, &err) < 0)
                fail_msg("%s", err.msg);
            run_and_compare(&g, DSFLOW_SERIAL);
            if (members == 2 || members == 7)
                run_and_compare(&g, DSFLOW_STARPU);
            free_group(&g);
        }
}

static void all_gather_gives_each_the_pieces_of_all(void **state)
{
    check_collective(&dsf_op_all_gather, false);
    check_collective(&dsf_op_all_gather, true);
}

static void reduce_scatter_gives_each_its_piece_of_the_sum(void **state)
{
    check_collective(&dsf_op_reduce_scatter, false);
    check_collective(&dsf_op_reduce_scatter, true);
}

static void all_reduce_gives_each_the_sum(void **state)
{
    check_collective(&dsf_op_all_reduce, false);
    check_collective(&dsf_op_all_reduce, true);
}

static void all_to_all_gives_each_its_piece_of_all(void **state)
{
    check_collective(&dsf_op_all_to_all, false);
}

static void broadcast_gives_each_what_one_has(void **state)
{
    check_collective(&dsf_op_broadcast, false);
}

/* The tasks on the longest way through the graph. */
static unsigned depth_of(struct dsflow_graph *g)
{
    uint32_t n = dsflow_graph_ntasks(g);
    unsigned *depth = calloc(n + 1, sizeof(*depth)), most = 0;

    for (uint32_t i = 0; i < n; i++) {
        const dsflow_task_id *preds;
        uint32_t npreds = dsflow_graph_preds(g, (dsflow_task_id){ i }, &preds);

        for (uint32_t k = 0; k < npreds; k++)
            if (depth[preds[k].i] > depth[i])
                depth[i] = depth[preds[k].i];
        most = ++depth[i] > most ? depth[i] : most;
    }
    free(depth);
    return most;
}

/* Whatever their number: in place too, nobody waits for another's result. */
static void members_do_not_wait_for_each_other_in_a_row(void **state)
{
    static const struct dsflow_op *const ops[] = { &dsf_op_all_gather,
                                                   &dsf_op_reduce_scatter,
                                                   &dsf_op_all_reduce };

    for (unsigned k = 0; k < 3; k++) {
        struct dsflow_err err;
        struct group g;

        build(&g, ops[k], 9, 26, true);
        assert_int_equal(lower(&g, &err), DSFLOW_OK);
        assert_true(depth_of(g.after) <= 2);
        assert_int_equal(dsflow_graph_ndata(g.after), 2 * 9);
        free_group(&g);
    }
}

/* 128 members are two blocks of 64, which are blocks of 8. */
static void many_members_read_from_a_few(void **state)
{
    static const struct {
        const struct dsflow_op *op;
        uint32_t each; /* data that a member reads, in all its tasks */
        unsigned depth;
    } cases[] = { { &dsf_op_all_gather, 8 + 8 + 2, 3 },
                  { &dsf_op_reduce_scatter, 8 + 8 + 2, 3 },
                  { &dsf_op_all_reduce, 2 * (8 + 8 + 2), 6 } };

    for (unsigned k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        struct dsflow_err err;
        struct group g;
        uint32_t reads = 0;

        build(&g, cases[k].op, MEMBERS, 300, false);
        assert_int_equal(lower(&g, &err), DSFLOW_OK);
        for (uint32_t i = 0; i < dsflow_graph_ntasks(g.after); i++)
            reads += dsf_nth_task(g.after, i)->ndata - 1;
        assert_int_equal(reads, MEMBERS * cases[k].each);
        assert_int_equal(depth_of(g.after), cases[k].depth);
        free_group(&g);
    }
}

static void a_collective_that_is_left_is_not_run(void **state)
{
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL, .ranks = 3);
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct group g;

    build(&g, &dsf_op_all_reduce, 3, 4, false);
    assert_int_equal(dsflow_exec_open(g.before, &options, NULL, &exec, &err),
                     DSFLOW_ENOSYS);
    assert_string_equal(err.msg,
                        "task all_reduce: a collective: expected the copies "
                        "and sums that the policy collectives makes of it");
    free_group(&g);
}

static void what_is_no_collective_is_refused(void **state)
{
    struct dsflow_err err;
    struct group g;

    build(&g, &dsf_op_all_to_all, 3, 4, true);
    assert_int_equal(lower(&g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "all_to_all: member 0: reads what it writes: "
                                 "expected other data");
    free_group(&g);
}

/* In place, what the others have is needed from each of them. */
static void a_member_that_is_missing_is_refused(void **state)
{
    struct dsf_collective c = { .op = &dsf_op_all_gather, .id = 7 };
    struct dsflow_err err;
    struct group g;

    build(&g, &dsf_op_broadcast, 3, 4, true);
    c.pieces = g.pieces;
    c.from = g.has;
    for (int32_t m = 0; m < 2; m++)
        dsf_collective_emit(
            g.before, &DSFLOW_TASK(.layer = -1, .microbatch = -1, .tile = -1),
            &c, m, m, g.has[m]);
    assert_int_equal(lower(&g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "collectives: all_gather 7: 2 tasks follow "
                                 "each other: expected one for each of 3 "
                                 "members");
    free_group(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_gather_gives_each_the_pieces_of_all),
        cmocka_unit_test(reduce_scatter_gives_each_its_piece_of_the_sum),
        cmocka_unit_test(all_reduce_gives_each_the_sum),
        cmocka_unit_test(all_to_all_gives_each_its_piece_of_all),
        cmocka_unit_test(broadcast_gives_each_what_one_has),
        cmocka_unit_test(members_do_not_wait_for_each_other_in_a_row),
        cmocka_unit_test(many_members_read_from_a_few),
        cmocka_unit_test(a_collective_that_is_left_is_not_run),
        cmocka_unit_test(what_is_no_collective_is_refused),
        cmocka_unit_test(a_member_that_is_missing_is_refused),
    };

    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
