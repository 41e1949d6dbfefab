/* test_compress.c - what is sent in another format: the same bits whoever codes
 * it, however a unit is cut, and in how many pieces it comes. */
#include "unit/codelets/run.h"

#include "base/half.h"
#include "base/random.h"
#include "codelets/codelets.h"
#include "tasks/coding.h"
#include "tasks/tasks.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 48, CUT = 2 * BLOCK, UNIT = 12 * CUT, MEMBERS = 5 };

static float x[MEMBERS][UNIT], sum[UNIT], got[UNIT + CUT];
static uint8_t coded[MEMBERS][UNIT * 4];
static _Alignas(64) float scratch[64 * BLOCK];

static void fill(void)
{
    uint64_t state = 3;

    for (int m = 0; m < MEMBERS; m++)
        for (int i = 0; i < UNIT; i++)
            x[m][i] = (float)dsf_random_normal(&state);
}

/* Blocks of the format, but for vectors at the end. */
static struct dsf_coding coding_of(const char *format)
{
    struct dsf_coding c = { .block = BLOCK };

    snprintf(c.format, sizeof(c.format), "%s", format);
    dsf_coding_fit(&c, CUT, UNIT - CUT - 5);
    assert_int_equal(c.block, BLOCK);
    assert_int_equal(c.coded, UNIT - 2 * CUT + BLOCK);
    return c;
}

static struct dsflow_buf floats(float *v, int64_t n)
{
    return (struct dsflow_buf){ v, (size_t)n * 4, n, DSFLOW_FP32 };
}

static struct dsflow_buf bytes(uint8_t *v, int64_t n)
{
    return (struct dsflow_buf){ v, (size_t)n, n, DSFLOW_BYTES };
}

static void run(const struct dsflow_codelet *codelet, const void *args,
                unsigned n, const struct dsflow_buf *bufs)
{
    run_codelet(codelet, args, n, bufs, scratch, sizeof(scratch));
}

static void recode(const struct dsf_coding *c, float *in, float *out)
{
    const struct dsf_recode_args a = { .coding = *c, .elems = UNIT };

    run(&dsf_codelet_recode, &a, 2,
        (struct dsflow_buf[]){ floats(in, UNIT), floats(out, UNIT) });
}

static int64_t compress(const struct dsf_coding *c, float *in, int64_t at,
                        int64_t elems, uint8_t *out)
{
    const struct dsf_compress_args a = {
        .coding = *c, .elems = elems, .at = at, .from = at, .out_at = at
    };
    int64_t n = dsf_coding_bytes(c, at, elems);

    run(&dsf_codelet_compress, &a, 2,
        (struct dsflow_buf[]){ floats(in, UNIT), bytes(out, n) });
    return n;
}

static void each_format(void (*test)(const struct dsf_coding *c))
{
    const struct dsflow_wire_format *f;

    fill();
    for (unsigned i = 0; (f = dsflow_wire_format_at(i)) != NULL; i++) {
        struct dsf_coding c = coding_of(f->name);

        test(&c);
    }
}

/* The largest number of a block bounds its errors; vectors have none. */
static void check_errors(const struct dsf_coding *c)
{
    /* What becomes of a number is rounded to fp32, too. */
    const double error =
        dsflow_wire_format_find(c->format)->error * (1 + 0x1p-16);

    recode(c, x[0], got);
    for (int b = 0; b < UNIT; b += BLOCK) {
        double most = 0;

        for (int i = b; i < b + BLOCK; i++)
            most = fabs((double)x[0][i]) > most ? fabs((double)x[0][i]) : most;
        for (int i = b; i < b + BLOCK; i++)
            assert_true(fabs((double)got[i] - (double)x[0][i]) <=
                        (b < c->coded ? error * most : 0));
    }
    assert_memory_not_equal(got, x[0], sizeof(x[0]));
}

static void errors_are_those_that_the_format_names(void **state)
{
    each_format(check_errors);
}

/* Coded in shards and decoded in one: what recode says, in each type. */
static void check_pieces(const struct dsf_coding *c)
{
    for (int members = 1; members <= MEMBERS; members++) {
        struct dsf_decompress_args a = {
            .coding = *c,
            .pieces = { .blocks = UNIT / CUT,
                        .block = CUT,
                        .members = members },
            .runs = members,
        };
        struct dsflow_buf bufs[MEMBERS + 1] = { floats(got, UNIT) };
        uint16_t narrow[UNIT];

        for (int m = 0; m < members; m++) {
            int64_t at = dsf_pieces_at(&a.pieces, m);
            int64_t n =
                compress(c, x[0], at, dsf_pieces_elems(&a.pieces, m), coded[m]);

            bufs[m + 1] = bytes(coded[m], n);
        }
        run(&dsf_codelet_decompress, &a, (unsigned)members + 1, bufs);
        recode(c, x[0], sum);
        assert_memory_equal(got, sum, sizeof(sum));
        bufs[0] =
            (struct dsflow_buf){ narrow, sizeof(narrow), UNIT, DSFLOW_BF16 };
        run(&dsf_codelet_decompress, &a, (unsigned)members + 1, bufs);
        for (int i = 0; i < UNIT; i++)
            assert_int_equal(narrow[i], dsf_to_bf16(sum[i]));
    }
}

static void shards_are_what_the_whole_unit_is(void **state)
{
    each_format(check_pieces);
}

/* add_recoded, of numbers that it must not change but for the first. */
static void sum_all(const struct dsf_coding *c, unsigned n)
{
    const struct dsf_add_recoded_args a = { .coding = *c, .elems = UNIT };
    struct dsflow_buf bufs[MEMBERS];

    memcpy(sum, x[0], sizeof(sum));
    for (unsigned i = 0; i < n; i++)
        bufs[i] = floats(i == 0 ? sum : x[i], UNIT);
    run(&dsf_codelet_add_recoded, &a, n, bufs);
}

/* Each rank's range of what all have coded. */
static void check_sums(const struct dsf_coding *c)
{
    for (unsigned n = 1; n <= MEMBERS; n++) {
        struct dsflow_buf bufs[MEMBERS + 1];
        int64_t all = 0, at;

        sum_all(c, n);
        for (unsigned i = 0; i < n; i++) {
            all = compress(c, x[i], 0, UNIT, coded[i]);
            bufs[i + 1] = bytes(coded[i], all);
        }
        for (at = 0; at < UNIT; at += CUT) {
            const struct dsf_compressed_args a = {
                .coding = *c, .elems = CUT, .at = at, .into_at = 7
            };
            struct dsf_range range = dsf_compressed_move(&a, all);

            bufs[0] = floats(got, CUT + 7);
            bufs[n] = bytes(coded[n - 1], all);
            run(&dsf_codelet_add_compressed, &a, n + 1, bufs);
            assert_memory_equal(got + 7, sum + at, CUT * sizeof(float));
            /* The last of them has come from elsewhere, alone. */
            bufs[n] = bytes(coded[n - 1] + range.from, range.elems);
            run(&dsf_codelet_add_compressed, &a, n + 1, bufs);
            assert_memory_equal(got + 7, sum + at, CUT * sizeof(float));
        }
    }
}

static void ranges_of_a_sum_are_those_of_the_whole(void **state)
{
    each_format(check_sums);
}

/* Of all members in two levels: each node's sum is coded again. */
static void check_nodes(const struct dsf_coding *c)
{
    static float node[MEMBERS][UNIT];
    struct dsflow_buf bufs[MEMBERS];
    float want[UNIT];
    enum { GROUPS = 4 };

    for (int64_t size = 1; size <= GROUPS; size *= 2) {
        struct dsf_add_recoded_args a = { .coding = *c, .elems = UNIT };
        int64_t nodes = GROUPS / size;

        /* The sum of each node, and these as if nodes were groups. */
        for (int64_t j = 0; j < nodes; j++) {
            for (int64_t i = 0; i < size; i++)
                bufs[i] = floats(i == 0 ? node[j] : x[j * size + i], UNIT);
            memcpy(node[j], x[j * size], sizeof(*node));
            run(&dsf_codelet_add_recoded, &a, (unsigned)size, bufs);
        }
        for (int64_t j = 0; j < nodes; j++)
            bufs[j] = floats(node[j], UNIT);
        run(&dsf_codelet_add_recoded, &a, (unsigned)nodes, bufs);
        memcpy(want, node[0], sizeof(want));

        a.node = size;
        memcpy(sum, x[0], sizeof(sum));
        for (int i = 0; i < GROUPS; i++)
            bufs[i] = floats(i == 0 ? sum : x[i], UNIT);
        run(&dsf_codelet_add_recoded, &a, GROUPS, bufs);
        assert_memory_equal(sum, want, sizeof(want));
    }
}

static void sums_of_nodes_are_coded_again(void **state)
{
    each_format(check_nodes);
}

/* Of a rank that has a run of the unit only. */
static void a_range_is_found_in_a_run(void **state)
{
    struct dsf_coding c = coding_of("int4");
    const struct dsf_compressed_args a = {
        .coding = c, .elems = CUT, .at = 5 * CUT, .in_at = 3 * CUT
    };
    int64_t n;

    fill();
    recode(&c, x[0], sum);
    n = compress(&c, x[0], 3 * CUT, 4 * CUT, coded[0]);
    run(&dsf_codelet_add_compressed, &a, 2,
        (struct dsflow_buf[]){ floats(got, CUT), bytes(coded[0], n) });
    assert_memory_equal(got, sum + 5 * CUT, CUT * sizeof(float));
}

static void a_sum_of_one_is_what_recode_makes(void **state)
{
    struct dsf_coding c = coding_of("int4");

    fill();
    sum_all(&c, 1);
    recode(&c, x[0], got);
    assert_memory_equal(got, sum, sizeof(sum));
}

/* Two matrices and a vector behind them, with padding: each has a scale, and
 * what is not wholly of one is as it was. */
static void a_tensor_has_one_scale(void **state)
{
    const struct dsf_coded_tensor of[] = { { 0, 5 * BLOCK + 7 },
                                           { 5 * BLOCK + 16, 9 * BLOCK } };
    const struct dsf_coded_tensor coded_of[] = { { 0, 5 * BLOCK },
                                                 { 6 * BLOCK, 8 * BLOCK } };
    struct dsf_coding c = coding_of("sign");
    struct dsflow_buf bufs[3] = { floats(got, CUT) };
    int64_t all;

    fill();
    for (int i = 0; i < UNIT; i++)
        x[1][i] = i < 5 * BLOCK ? x[1][i] * 3 : 0;
    dsf_coding_by_tensor(&c, 2, of);
    assert_int_equal(c.ntensors, 2);
    assert_memory_equal(c.tensors, coded_of, sizeof(coded_of));
    sum_all(&c, 1);
    for (int i = 0; i < UNIT; i++) {
        const bool first = i < 5 * BLOCK;

        if (!first && (i < 6 * BLOCK || i >= 14 * BLOCK)) {
            assert_true(sum[i] == x[0][i]);
            continue;
        }
        assert_true(fabsf(sum[i]) == fabsf(sum[first ? 0 : 6 * BLOCK]));
        assert_true((sum[i] < 0) == (x[0][i] < 0));
    }
    assert_true(fabsf(sum[0]) != fabsf(sum[6 * BLOCK]));
    /* Ranges of what several have coded. */
    sum_all(&c, 2);
    for (int m = 0; m < 2; m++) {
        all = compress(&c, x[m], 0, UNIT, coded[m]);
        bufs[m + 1] = bytes(coded[m], all);
    }
    assert_int_equal(all, 13 * (4 + BLOCK / 8) + (UNIT - 13 * BLOCK) * 4);
    for (int64_t at = 0; at < UNIT; at += CUT) {
        const struct dsf_compressed_args a = { .coding = c,
                                               .elems = CUT,
                                               .at = at };

        run(&dsf_codelet_add_compressed, &a, 3, bufs);
        assert_memory_equal(got, sum + at, CUT * sizeof(float));
    }
    /* What was 0 is +, where it is of a tensor that is not all zeroes. */
    assert_true(sum[UNIT - 1] == x[0][UNIT - 1]);
}

/* Blocks that divide what squares are added up of at a time, and those that do
 * not: the bytes are those of the scales and of what is coded by them. */
static void a_tensor_is_read_once(void **state)
{
    enum { N = 5 * 1024 };
    static float v[N];
    static uint8_t once[4 * N], twice[4 * N];
    static const int64_t blocks[] = { 16, 48, 1024 };
    uint64_t random = 5;

    for (int i = 0; i < N; i++)
        v[i] = i % 7 == 0 ? 0.0f : (float)dsf_random_normal(&random);
    for (size_t k = 0; k < sizeof(blocks) / sizeof(*blocks); k++) {
        const int64_t b = blocks[k], whole = N / b * b;
        const struct dsf_coding c = { .format = "sign",
                                      .block = b,
                                      .coded = whole,
                                      .ntensors = 2,
                                      .tensors = { { 0, b },
                                                   { 2 * b, whole - 3 * b } } };
        const struct dsf_scales s = dsf_coding_scales(&c, v);
        const size_t n = (size_t)dsf_coding_bytes(&c, 0, whole);

        memset(once, 1, sizeof(once));
        dsf_coding_encode_whole(&c, whole, v, once);
        dsf_coding_encode(&c, &s, 0, whole, v, twice);
        assert_memory_equal(once, twice, n);
        assert_int_equal(once[n], 1);
    }
}

/* Pieces of an update that offload cuts, and what the simulator hears. */
static void a_task_is_cut_between_blocks(void **state)
{
    struct dsf_coding c = coding_of("int8");
    const int64_t gone[] = { CUT, 0 };
    int64_t whole;

    fill();
    whole = compress(&c, x[0], 0, UNIT, coded[0]);
    for (int64_t at = 0; at < UNIT; at += CUT) {
        struct dsf_compress_args a = { .coding = c, .elems = UNIT };

        dsf_op_compress.slice(&a, at, CUT, (const int64_t[]){ at, 0 });
        run(&dsf_codelet_compress, &a, 2,
            (struct dsflow_buf[]){ floats(x[0] + at, CUT),
                                   bytes(coded[1], whole) });
    }
    assert_memory_equal(coded[0], coded[1], (size_t)whole);
    memset(got, 0, sizeof(got));
    for (int64_t at = CUT; at < UNIT; at += CUT) {
        struct dsf_recode_args a = { .coding = c, .elems = UNIT };

        dsf_op_recode.slice(&a, at, CUT, gone);
        run(&dsf_codelet_recode, &a, 2,
            (struct dsflow_buf[]){ floats(x[0] + CUT, UNIT - CUT),
                                   floats(got, UNIT) });
    }
    recode(&c, x[0], sum);
    assert_memory_equal(got + CUT, sum + CUT, (UNIT - CUT) * sizeof(float));
    assert_int_equal(
        dsf_op_add_compressed.reads(
            &dsf_op_add_compressed,
            &(struct dsf_compressed_args){ .coding = c, .elems = CUT }, 1),
        dsf_coding_bytes(&c, 0, CUT));
}

/* Bytes of whole units, scales and vectors among them. */
static void bytes_are_those_of_the_formula(void **state)
{
    struct dsf_coding c = coding_of("int8");

    assert_int_equal(dsf_coding_bytes(&c, 0, c.coded),
                     c.coded + c.coded / BLOCK * 4);
    assert_int_equal(dsf_coding_bytes(&c, 0, UNIT),
                     c.coded + c.coded / BLOCK * 4 + (UNIT - c.coded) * 4);
    assert_int_equal(dsf_coding_bytes(&c, c.coded, UNIT - c.coded),
                     (UNIT - c.coded) * 4);
    c = coding_of("int4");
    assert_int_equal(dsf_coding_bytes(&c, 0, c.coded),
                     c.coded / 2 + c.coded / BLOCK * 4);
    c = coding_of("bf16");
    assert_int_equal(dsf_coding_bytes(&c, 0, c.coded), 2 * c.coded);
    c = coding_of("sign");
    assert_int_equal(dsf_coding_bytes(&c, 0, c.coded),
                     c.coded / 8 + c.coded / BLOCK * 4);
}

static void refused(const struct dsflow_op *op, const void *args, int64_t n,
                    const char *message)
{
    struct dsflow_shape shapes[] = { dsflow_shape_of(DSFLOW_FP32, n),
                                     dsflow_shape_of(DSFLOW_FP32, n) };
    const struct dsflow_case c = { op, shapes, 2, args };
    struct dsflow_err err;

    assert_int_equal(op->check(&c, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
}

static void what_is_no_block_is_refused(void **state)
{
    struct dsf_recode_args a = { .coding = coding_of("int8"), .elems = UNIT };

    a.at = 5;
    refused(&dsf_op_recode, &a, UNIT,
            "recode: 1152 numbers from 5 on: expected whole blocks of 48");
    a.at = 0;
    a.coding.block = 24;
    refused(&dsf_op_recode, &a, UNIT,
            "recode: blocks of 24, 1008 numbers of them: expected a multiple "
            "of 16, and whole blocks");
    a.coding.block = BLOCK;
    {
        struct dsf_compress_args part = {
            .coding = coding_of("sign"), .elems = CUT, .at = CUT, .out_at = CUT
        };

        dsf_coding_by_tensor(&part.coding, 1,
                             &(struct dsf_coded_tensor){ 0, UNIT / 2 });
        refused(&dsf_op_compress, &part, UNIT,
                "compress: 96 numbers from 96 on: expected whole tensors");
        strcpy(part.coding.format, "int8");
        refused(&dsf_op_compress, &part, UNIT,
                "compress: 1 tensors of format int8: expected whole blocks, in "
                "order, of a format with a scale for each");
    }
    strcpy(a.coding.format, "int3");
    refused(&dsf_op_recode, &a, UNIT, "recode: format int3: there is none");
    refused(&dsf_op_add_recoded,
            &(struct dsf_add_recoded_args){
                .coding = coding_of("int8"), .elems = UNIT, .node = 3 },
            UNIT,
            "add_recoded: node: 3: expected a divisor of the 2 that are added");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_those_that_the_format_names),
        cmocka_unit_test(shards_are_what_the_whole_unit_is),
        cmocka_unit_test(ranges_of_a_sum_are_those_of_the_whole),
        cmocka_unit_test(sums_of_nodes_are_coded_again),
        cmocka_unit_test(a_range_is_found_in_a_run),
        cmocka_unit_test(a_sum_of_one_is_what_recode_makes),
        cmocka_unit_test(a_tensor_has_one_scale),
        cmocka_unit_test(a_tensor_is_read_once),
        cmocka_unit_test(a_task_is_cut_between_blocks),
        cmocka_unit_test(bytes_are_those_of_the_formula),
        cmocka_unit_test(what_is_no_block_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
