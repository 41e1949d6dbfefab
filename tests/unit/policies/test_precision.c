/* test_precision.c - which data has fewer bits, and where casts stand, in graphs
 * of a few tasks written by hand. */
#include "same/trial.h"

#include "lib/test.h"
#include "plan/programs.h"
#include "tasks/tasks.h"
#include "unit/policies/hand.h"

#include <string.h>

/* Kinds of task of two segments: one that takes bf16, and one that does not. */
#define KIND(name_, segment_, ...)                                             \
    static const struct dsflow_op name_ = { .abi = DSFLOW_OP_ABI,              \
                                            .name = #name_,                    \
                                            .segment = segment_,               \
                                            .check = hand_check,               \
                                            DSFLOW_PORTS(__VA_ARGS__) }
#define NARROW .floats = DSFLOW_NARROW

KIND(narrow_make, "narrow", { "y", DSFLOW_W, DSFLOW_FP32, NARROW });
KIND(narrow_use, "narrow", { "y", DSFLOW_W, DSFLOW_FP32, NARROW },
     { "x", DSFLOW_R, DSFLOW_FP32, NARROW });
KIND(narrow_of, "narrow", { "y", DSFLOW_W, DSFLOW_FP32, NARROW },
     { "x", DSFLOW_R, DSFLOW_FP32, NARROW },
     { "unit", DSFLOW_R, DSFLOW_FP32, NARROW });
KIND(sum, "sum",
     { "sum", DSFLOW_RW, DSFLOW_FP32, .floats = DSFLOW_NARROW_SUM },
     { "x", DSFLOW_R, DSFLOW_FP32, NARROW });
KIND(narrow_weight, "narrow",
     { "grad", DSFLOW_RW, DSFLOW_FP32, .floats = DSFLOW_NARROW_ALONE },
     { "x", DSFLOW_R, DSFLOW_FP32, NARROW });
KIND(wide_weight, "wide", { "grad", DSFLOW_RW, DSFLOW_FP32 });
KIND(wide_make, "wide", { "y", DSFLOW_W, DSFLOW_FP32 });
KIND(wide_use, "wide", { "y", DSFLOW_W, DSFLOW_FP32 },
     { "x", DSFLOW_R, DSFLOW_FP32 });

static void no_slice(void *args, int64_t from, int64_t elems,
                     const int64_t *gone)
{
}
static const struct dsflow_op update = {
    .abi = DSFLOW_OP_ABI,
    .name = "update",
    .check = hand_check,
    .slice = no_slice,
    DSFLOW_PORTS({ "param", DSFLOW_RW, DSFLOW_FP32, DSFLOW_ELEMS }),
};

struct fixture {
    struct trial trial;
    struct dsflow_graph *in, *out;
};

static void begin_job(struct fixture *f, const char *text)
{
    plan_trial(&f->trial, text);
    f->in = dsflow_graph_new();
    f->out = dsflow_graph_new();
}

static void begin(struct fixture *f)
{
    begin_job(f, "gpt2 precision.compute=bf16 machine.workers=1");
}

static void begin_halved(struct fixture *f)
{
    begin_job(f, "gpt2 precision.compute=bf16 precision.gradients=bf16");
}

static void end(struct fixture *f)
{
    dsflow_graph_free(f->in);
    dsflow_graph_free(f->out);
    end_trial(&f->trial);
}

/* A task with `n` data; what it reads and writes is only written, if `fresh`. */
static void add(struct fixture *f, const struct dsflow_op *op, bool fresh,
                unsigned n, const dsflow_data_id *data)
{
    dsflow_graph_add_task(f->in,
                          &DSFLOW_TASK(.op = op, .ndata = n, .data = data,
                                       .fresh = fresh, .microbatch = -1,
                                       .tile = -1));
}
#define ADD(f, op, fresh, ...)                                                 \
    add(f, op, fresh,                                                          \
        sizeof((dsflow_data_id[]){ __VA_ARGS__ }) / sizeof(dsflow_data_id),    \
        (dsflow_data_id[]){ __VA_ARGS__ })

static void rewrite(struct fixture *f)
{
    struct dsflow_err err;

    must("precision",
         dsf_policy_precision.rewrite(&(struct dsf_precision_keys){ 0 },
                                      f->trial.plan, f->in, f->out, &err),
         &err);
}

/* "make y; cast y wide": what each task is, and what it has. */
static char *words(const struct dsflow_graph *g)
{
    static char text[2000];
    size_t at = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        at += (size_t)sprintf(text + at, "%s%s", i > 0 ? "; " : "",
                              hand_task(g, i)->op->name);
        for (unsigned p = 0; p < hand_task(g, i)->ndata; p++)
            at += (size_t)sprintf(text + at, " %s", hand_name(g, i, p));
    }
    return text;
}

static enum dsflow_dtype type_of(const struct dsflow_graph *g, const char *name)
{
    dsflow_data_id id;

    assert_true(dsflow_graph_find(g, name, &id));
    return (enum dsflow_dtype)dsflow_graph_data(g, id)->dtype;
}

static void what_narrow_tasks_share_is_narrow(void **state)
{
    struct fixture f;

    begin(&f);
    dsflow_data_id a = hand_data(f.in, "a", 0), b = hand_data(f.in, "b", 0);
    ADD(&f, &narrow_make, false, a);
    ADD(&f, &narrow_use, false, b, a);
    rewrite(&f);
    assert_string_equal(words(f.out), "narrow_make a; narrow_use b a");
    assert_int_equal(type_of(f.out, "a"), DSFLOW_BF16);
    assert_int_equal(type_of(f.out, "b"), DSFLOW_BF16);
    end(&f);
}

/* What is moved has one type, and what nobody wants in bf16 stays. */
static void what_is_moved_has_one_type(void **state)
{
    const struct dsf_range range = { 8, 0, 0 };
    struct fixture f;

    begin(&f);
    dsflow_data_id a = hand_data(f.in, "a", 0), b = hand_data(f.in, "b", 0);
    dsflow_data_id c = hand_data(f.in, "c", 0), d = hand_data(f.in, "d", 0);
    ADD(&f, &narrow_make, false, a);
    dsflow_graph_add_task(f.in,
                          &DSFLOW_TASK(.op = &dsf_op_copy, .args = &range,
                                       .ndata = 2, .fresh = 1,
                                       .data = (dsflow_data_id[]){ b, a }));
    ADD(&f, &wide_make, false, c);
    ADD(&f, &wide_use, false, d, c);
    rewrite(&f);
    assert_string_equal(words(f.out),
                        "narrow_make a; copy b a; wide_make c; wide_use d c");
    assert_int_equal(type_of(f.out, "b"), DSFLOW_BF16);
    assert_int_equal(type_of(f.out, "c"), DSFLOW_FP32);
    assert_int_equal(type_of(f.out, "d"), DSFLOW_FP32);
    end(&f);
}

/* One cast serves two readers, until the original is written again. */
static void a_reader_of_fp32_gets_a_buffer(void **state)
{
    struct fixture f;

    begin(&f);
    dsflow_data_id a = hand_data(f.in, "a", 0), b = hand_data(f.in, "b", 0);
    ADD(&f, &narrow_make, false, a);
    ADD(&f, &wide_use, false, b, a);
    ADD(&f, &wide_use, false, b, a);
    ADD(&f, &narrow_make, false, a);
    ADD(&f, &wide_use, false, b, a);
    rewrite(&f);
    assert_string_equal(words(f.out),
                        "narrow_make a; cast a fp32.z8.c0.f0.r0; "
                        "wide_use b fp32.z8.c0.f0.r0; "
                        "wide_use b fp32.z8.c0.f0.r0; "
                        "narrow_make a; cast a fp32.z8.c0.f1.r0; "
                        "wide_use b fp32.z8.c0.f1.r0");
    assert_int_equal(type_of(f.out, "fp32.z8.c0.f0.r0"), DSFLOW_FP32);
    end(&f);
}

static void what_a_task_writes_in_fp32_is_cast_behind_it(void **state)
{
    struct fixture f;

    begin(&f);
    dsflow_data_id a = hand_data(f.in, "a", 0), b = hand_data(f.in, "b", 0);
    ADD(&f, &wide_make, false, a);
    ADD(&f, &narrow_use, false, b, a);
    ADD(&f, &wide_make, false, a); /* nobody reads that */
    rewrite(&f);
    assert_string_equal(words(f.out),
                        "wide_make fp32.z8.c0.f0.r0; cast fp32.z8.c0.f0.r0 a; "
                        "narrow_use b a; wide_make fp32.z8.c0.f1.r0");
    end(&f);
}

/* What several tasks add up is rounded once, behind the last of them; what one
 * does alone, by itself. */
static void sums_are_rounded_once(void **state)
{
    struct fixture f;

    begin(&f);
    dsflow_data_id x = hand_data(f.in, "x", 0), s = hand_data(f.in, "s", 0);
    dsflow_data_id b = hand_data(f.in, "b", 0);
    ADD(&f, &narrow_make, false, x);
    ADD(&f, &sum, true, s, x);
    ADD(&f, &narrow_use, false, b, s);
    ADD(&f, &sum, true, s, x);
    ADD(&f, &sum, false, s, x);
    ADD(&f, &sum, false, s, x);
    ADD(&f, &narrow_use, false, b, s);
    rewrite(&f);
    assert_string_equal(
        words(f.out),
        "narrow_make x; sum s x; narrow_use b s; "
        "sum fp32.z8.c0.f0.r0 x; sum fp32.z8.c0.f0.r0 x; "
        "sum fp32.z8.c0.f0.r0 x; cast fp32.z8.c0.f0.r0 s; narrow_use b s");
    end(&f);
}

static dsflow_data_id unit(struct fixture *f)
{
    return dsflow_graph_add_data(
        f->in, &DSFLOW_DATA(.name = "unit", .elems = 8, .dtype = DSFLOW_FP32,
                            .role = DSFLOW_PARAMS, .persistent = 1,
                            .kept = 1 + DSF_KEPT_PARAM, .block = 8));
}

static void an_update_works_on_the_master(void **state)
{
    const struct dsflow_data_spec *master, *copy;
    dsflow_program prepare;
    struct fixture f;
    uint32_t first;

    begin(&f);
    dsflow_data_id a = hand_data(f.in, "a", 0), b = hand_data(f.in, "b", 0);
    dsflow_data_id u = unit(&f);
    ADD(&f, &narrow_make, false, a);
    ADD(&f, &narrow_of, false, b, a, u);
    ADD(&f, &update, false, u);
    ADD(&f, &update, false, u);
    rewrite(&f);
    assert_string_equal(words(f.out),
                        "narrow_make a; narrow_of b a unit.bf16; update unit; "
                        "update unit; cast unit unit.bf16; cast unit unit.bf16");
    master = dsflow_graph_data(f.out, hand_task(f.out, 4)->data[0]);
    copy = dsflow_graph_data(f.out, hand_task(f.out, 4)->data[1]);
    assert_int_equal(master->role, DSFLOW_STATES);
    assert_int_equal(master->kept, 1 + DSF_KEPT_PARAM);
    assert_int_equal(master->dtype, DSFLOW_FP32);
    assert_int_equal(copy->role, DSFLOW_PARAMS);
    assert_int_equal(copy->kept, 0);
    assert_int_equal(copy->dtype, DSFLOW_BF16);
    assert_true(copy->persistent);
    assert_true(dsflow_graph_find_program(f.out, DSF_PREPARE, &prepare));
    assert_int_equal(dsflow_graph_program_tasks(f.out, prepare, &first), 1);
    assert_int_equal(first, 5);
    end(&f);
}

/* Casts of masters in a step, and updates that write the copy themselves. */
static void count_copies(const struct trial *t, unsigned *casts,
                         unsigned *written)
{
    *casts = *written = 0;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        if (k->op->update)
            *written += ((const struct dsf_update_args *)k->args)->copies != 0;
        else if (k->op == &dsf_op_cast && k->program == DSFLOW_STEP)
            *casts +=
                dsflow_graph_data(t->graph, k->data[1])->role == DSFLOW_PARAMS;
    }
}

/* Where the copy is there when they run; 14 units, 12 of them matrices. */
static void updates_write_the_copy_where_it_stays(void **state)
{
    static const struct {
        const char *keys;
        unsigned casts, written;
    } jobs[] = {
        { "", 0, 14 },
        { "offload.optimizer=cpu", 0, 14 },
        { "offload.optimizer=cpu offload.params=cpu", 0, 14 },
        { "offload.optimizer=nvme offload.params=cpu offload.share=0.5", 0,
          14 },
        { "offload.params=cpu", 14, 0 },
        { "offload.optimizer=cpu offload.params=nvme", 14, 0 },
        { "offload.optimizer=cpu offload.params=cpu machine.gpus=1 "
          "optimizer.kind=muon",
          12, 2 },
    };
    unsigned casts, written;

    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
        char text[200];
        struct trial t;

        snprintf(text, sizeof(text), "gpt2 precision.compute=bf16 %s",
                 jobs[i].keys);
        plan_trial(&t, text);
        count_copies(&t, &casts, &written);
        assert_int_equal(casts, jobs[i].casts);
        assert_int_equal(written, jobs[i].written);
        end_trial(&t);
    }
}

/* Who wants the parameters in fp32 makes a segment that has them too fp32. */
static void a_unit_that_fp32_tasks_use_has_no_copy(void **state)
{
    struct fixture f;

    begin(&f);
    dsflow_data_id a = hand_data(f.in, "a", 0), b = hand_data(f.in, "b", 0);
    dsflow_data_id u = unit(&f);
    ADD(&f, &narrow_make, false, a);
    ADD(&f, &narrow_of, false, b, a, u);
    ADD(&f, &wide_use, false, b, u);
    ADD(&f, &update, false, u);
    rewrite(&f);
    assert_string_equal(words(f.out), "narrow_make a; narrow_of b a unit; "
                                      "wide_use b unit; update unit");
    assert_int_equal(type_of(f.out, "a"), DSFLOW_FP32);
    end(&f);
}

static dsflow_data_id gradient(struct fixture *f, const char *name)
{
    return dsflow_graph_add_data(
        f->in, &DSFLOW_DATA(.name = name, .elems = 8, .dtype = DSFLOW_FP32,
                            .role = DSFLOW_GRADS, .block = 8));
}

/* The tasks that add to one, and no others. */
static void gradients_have_a_type_of_their_own(void **state)
{
    const struct dsf_sum_args all = { .elems = 8 };
    struct fixture f;

    for (int halved = 0; halved < 2; halved++) {
        (halved ? begin_halved : begin)(&f);
        dsflow_data_id x = hand_data(f.in, "x", 0);
        dsflow_data_id g = gradient(&f, "g"), h = gradient(&f, "h");
        ADD(&f, &narrow_make, false, x);
        ADD(&f, &narrow_weight, true, g, x);
        ADD(&f, &narrow_weight, true, h, x);
        dsflow_graph_add_task(
            f.in, &DSFLOW_TASK(.op = &dsf_op_add, .args = &all, .ndata = 2,
                               .data = (dsflow_data_id[]){ g, h }));
        rewrite(&f);
        assert_string_equal(words(f.out), "narrow_make x; narrow_weight g x; "
                                          "narrow_weight h x; add g h");
        assert_int_equal(type_of(f.out, "x"), DSFLOW_BF16);
        assert_int_equal(type_of(f.out, "g"),
                         halved ? DSFLOW_BF16 : DSFLOW_FP32);
        assert_int_equal(type_of(f.out, "h"),
                         halved ? DSFLOW_BF16 : DSFLOW_FP32);
        end(&f);
    }
}

/* What is added up with the gradient of a segment in fp32 is fp32, too. */
static void gradients_of_fp32_tasks_are_fp32(void **state)
{
    const struct dsf_sum_args all = { .elems = 8 };
    struct fixture f;

    begin_halved(&f);
    dsflow_data_id x = hand_data(f.in, "x", 0);
    dsflow_data_id g = gradient(&f, "g"), h = gradient(&f, "h");
    dsflow_data_id other = gradient(&f, "other");
    ADD(&f, &narrow_make, false, x);
    ADD(&f, &narrow_weight, true, g, x);
    ADD(&f, &narrow_weight, true, other, x);
    ADD(&f, &wide_weight, true, h);
    dsflow_graph_add_task(
        f.in, &DSFLOW_TASK(.op = &dsf_op_add, .args = &all, .ndata = 2,
                           .data = (dsflow_data_id[]){ g, h }));
    rewrite(&f);
    assert_int_equal(type_of(f.out, "g"), DSFLOW_FP32);
    assert_int_equal(type_of(f.out, "h"), DSFLOW_FP32);
    assert_int_equal(type_of(f.out, "other"), DSFLOW_BF16);
    end(&f);
}

/* An optimizer that knows fp32 only, say. */
static void who_cannot_read_gradients_is_named(void **state)
{
    struct dsflow_err err = { .msg = "" };
    struct fixture f;

    begin_halved(&f);
    dsflow_data_id x = hand_data(f.in, "x", 0), g = gradient(&f, "g");
    ADD(&f, &narrow_make, false, x);
    ADD(&f, &narrow_weight, true, g, x);
    ADD(&f, &update, false, g);
    assert_true(dsf_policy_precision.rewrite(&(struct dsf_precision_keys){ 0 },
                                             f.trial.plan, f.in, f.out,
                                             &err) < 0);
    assert_non_null(strstr(err.msg, "precision: gradients: bf16: expected "
                                    "fp32: task update takes nothing else"));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_narrow_tasks_share_is_narrow),
        cmocka_unit_test(what_is_moved_has_one_type),
        cmocka_unit_test(a_reader_of_fp32_gets_a_buffer),
        cmocka_unit_test(what_a_task_writes_in_fp32_is_cast_behind_it),
        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(an_update_works_on_the_master),
        cmocka_unit_test(updates_write_the_copy_where_it_stays),
        cmocka_unit_test(a_unit_that_fp32_tasks_use_has_no_copy),
        cmocka_unit_test(gradients_have_a_type_of_their_own),
        cmocka_unit_test(gradients_of_fp32_tasks_are_fp32),
        cmocka_unit_test(who_cannot_read_gradients_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
