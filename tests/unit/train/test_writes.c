/* test_writes.c - who writes what of a checkpoint. */
#include "train/writes.h"

#include "base/alloc.h"
#include "lib/test.h"

#include <stdlib.h>

static void has(struct dsf_writes *w, uint32_t unit, int64_t at, int64_t elems)
{
    dsf_grow(&w->v, &w->cap, w->n + 1, sizeof(*w->v));
    w->v[w->n++] = (struct dsf_piece){ .unit = unit, .at = at, .elems = elems };
}

static int64_t numbers(const struct dsf_writes *w)
{
    int64_t n = 0;

    for (size_t i = 0; i < w->n; i++)
        n += w->v[i].elems;
    return n;
}

/* How often number `at` of a unit is written. */
static int times(const struct dsf_writes *w, int n, uint32_t unit, int64_t at)
{
    int times = 0;

    for (int p = 0; p < n; p++)
        for (size_t i = 0; i < w[p].n; i++)
            times += w[p].v[i].unit == unit && w[p].v[i].at <= at &&
                     at < w[p].v[i].at + w[p].v[i].elems;
    return times;
}

static void forget(struct dsf_writes *w, int n)
{
    for (int p = 0; p < n; p++)
        dsf_writes_fini(&w[p]);
}

static void replicas_write_as_much_each(void **state)
{
    const int64_t elems = 10000019;
    struct dsf_writes all[3] = { 0 }, writes[3] = { 0 };

    for (int p = 0; p < 3; p++)
        has(&all[p], 4, 0, elems);
    dsf_writes_share(all, 3, writes);
    for (int64_t at = 0; at < elems; at += 99991)
        assert_int_equal(times(writes, 3, 4, at), 1);
    assert_int_equal(times(writes, 3, 4, elems - 1), 1);
    assert_int_equal(
        numbers(&writes[0]) + numbers(&writes[1]) + numbers(&writes[2]), elems);
    for (int p = 0; p < 3; p++)
        assert_in_range(numbers(&writes[p]), elems / 3 - (1 << 20),
                        elems / 3 + (1 << 20));
    forget(all, 3);
    forget(writes, 3);
}

/* One has shards that nobody else has, so the other writes what both have. */
static void what_one_has_alone_counts(void **state)
{
    struct dsf_writes all[2] = { 0 }, writes[2] = { 0 };
    const struct dsf_piece *p;
    size_t n;

    has(&all[0], 0, 0, 1000);
    has(&all[1], 0, 0, 1000);
    has(&all[0], 1, 500, 2000);
    has(&all[1], 1, 0, 500);
    dsf_writes_share(all, 2, writes);
    dsf_writes_of(&writes[0], 0, 0, &n);
    assert_int_equal(n, 0);
    p = dsf_writes_of(&writes[0], 1, 0, &n);
    assert_int_equal(n, 1);
    assert_int_equal(p->at, 500);
    assert_int_equal(p->elems, 2000);
    p = dsf_writes_of(&writes[1], 0, 0, &n);
    assert_int_equal(n, 1);
    assert_int_equal(p->elems, 1000);
    forget(all, 2);
    forget(writes, 2);
}

/* A replica of the whole beside its shards: each number once all the same. */
static void pieces_may_overlap(void **state)
{
    struct dsf_writes all[3] = { 0 }, writes[3] = { 0 };

    has(&all[0], 0, 0, 100);
    has(&all[1], 0, 0, 40);
    has(&all[1], 0, 40, 20);
    has(&all[2], 0, 60, 40);
    dsf_writes_share(all, 3, writes);
    for (int64_t at = 0; at < 100; at++)
        assert_int_equal(times(writes, 3, 0, at), 1);
    forget(all, 3);
    forget(writes, 3);
}

/* What has no pieces is written by one. */
static void arrays_are_not_cut(void **state)
{
    struct dsf_writes all[2] = { 0 }, writes[2] = { 0 };

    for (int p = 0; p < 2; p++) {
        has(&all[p], 0, 0, 5000000);
        all[p].v[0].is_array = 1;
    }
    dsf_writes_share(all, 2, writes);
    assert_int_equal(writes[0].n + writes[1].n, 1);
    forget(all, 2);
    forget(writes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_write_as_much_each),
        cmocka_unit_test(what_one_has_alone_counts),
        cmocka_unit_test(pieces_may_overlap),
        cmocka_unit_test(arrays_are_not_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
