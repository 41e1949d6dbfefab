/* test_layout.c - layouts of sparse attention, of up to 200 blocks: what is
 * packed and counted is what each query sees, token by token. */
#include "kernels/layout.h"

#include "base/random.h"

#include "lib/test.h"

#include <stdbool.h>
#include <string.h>

enum { CASES = 2000, BLOCKS = 200, WORDS = (BLOCKS + 63) / 64, HEADS = 3 };

struct example {
    uint64_t bits[HEADS * BLOCKS * WORDS], state;
    struct dsf_layout layout;
    struct dsf_layout_pair pair;
    size_t head, heads; /* from head on */
};

static size_t draw(struct example *e, size_t n)
{
    return dsf_random(&e->state) % n;
}

/* Blocks that are on are few, many, or all; two tiles of a sequence, or one
 * that meets itself; its ends are in the midst of blocks, or are not. */
static void fill(struct example *e, uint64_t seed)
{
    struct dsf_layout *l = &e->layout;
    size_t blocks, one_of, tile;

    memset(e, 0, sizeof(*e));
    e->state = seed;
    blocks = 1 + draw(e, BLOCKS);
    one_of = (size_t)1 << draw(e, 8);
    l->bits = e->bits;
    l->block = 1 + draw(e, 20);
    l->words = dsf_layout_words(blocks);
    l->apart = draw(e, 2) * blocks * l->words;
    e->heads = 1 + draw(e, HEADS);
    e->head = l->apart > 0 ? draw(e, HEADS + 1 - e->heads) : 0;
    for (size_t h = 0; h < HEADS; h++)
        for (size_t r = 0; r < blocks; r++)
            for (size_t c = 0; c <= r; c++)
                if (draw(e, one_of) == 0)
                    e->bits[h * l->apart + r * l->words + c / 64] |= (uint64_t)1
                                                                     << c % 64;
    tile = 1 + draw(e, blocks * l->block);
    e->pair.pos = draw(e, blocks * l->block / tile) * tile;
    e->pair.key_pos = draw(e, e->pair.pos / tile + 1) * tile;
    e->pair.queries = e->pair.keys = tile;
    e->pair.window = draw(e, 2) * (1 + draw(e, blocks * l->block));
}

/* Does a query see a key that it may see, both of their sequence? */
static bool is_on(const struct example *e, size_t h, size_t query, size_t key)
{
    const size_t row = query / e->layout.block, c = key / e->layout.block;

    return e->bits[h * e->layout.apart + row * e->layout.words + c / 64] >>
               c % 64 &
           1;
}

/* Is a column on for some query of the tile? */
static bool is_met(const struct example *e, size_t column)
{
    for (size_t h = e->head; h < e->head + e->heads; h++)
        for (size_t q = 0; q < e->pair.queries; q++)
            if (is_on(e, h, e->pair.pos + q, column * e->layout.block))
                return true;
    return false;
}

static bool is_in_window(const struct example *e, size_t query, size_t key)
{
    return e->pair.window == 0 || query < key + e->pair.window;
}

/* The keys of a column that are in the window of the first query, whose window
 * reaches farthest back; sixteen of them are loaded together. */
static void check_slot(const struct example *e, size_t column,
                       const struct dsf_layout_slot *slot)
{
    const struct dsf_layout_pair *p = &e->pair;
    size_t from = column * e->layout.block, end = from + e->layout.block, key;

    from = from > p->key_pos ? from : p->key_pos;
    end = end < p->key_pos + p->keys ? end : p->key_pos + p->keys;
    for (key = from; key < end && !is_in_window(e, p->pos, key);)
        key++;
    if (key == end || !is_met(e, column)) {
        assert_int_equal(slot->n, 0);
        return;
    }
    assert_int_equal(slot->key, from + (key - from) / 16 * 16 - p->key_pos);
    assert_int_equal(slot->key + slot->n, end - p->key_pos);
}

static void packed_are_the_keys_that_a_query_sees(void **state)
{
    static struct dsf_layout_slot slots[BLOCKS + 1];
    static struct example e;

    for (uint64_t seed = 0; seed < CASES; seed++) {
        size_t first, end, n, at = 0;

        fill(&e, seed);
        first = dsf_layout_first(&e.layout, &e.pair);
        end = dsf_layout_end(&e.layout, &e.pair);
        n = dsf_layout_pack(&e.layout, &e.pair, e.head, e.heads, slots);
        assert_int_equal(
            dsf_layout_pack(&e.layout, &e.pair, e.head, e.heads, NULL), n);
        for (size_t c = first; c < end; c++) {
            check_slot(&e, c, &slots[c - first]);
            assert_int_equal(slots[c - first].at, at);
            at += (slots[c - first].n + 15) / 16 * 16;
        }
        assert_int_equal(n, at);
    }
}

static void pairs_are_counted(void **state)
{
    static struct example e;

    for (uint64_t seed = 0; seed < CASES / 20; seed++) {
        double n = 0;

        fill(&e, seed);
        for (size_t h = e.head; h < e.head + e.heads; h++)
            for (size_t q = e.pair.pos; q < e.pair.pos + e.pair.queries; q++)
                for (size_t k = e.pair.key_pos;
                     k < e.pair.key_pos + e.pair.keys && k <= q; k++)
                    n += is_in_window(&e, q, k) && is_on(&e, h, q, k);
        assert_true(dsf_layout_count(&e.layout, &e.pair, e.head, e.heads) == n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_are_the_keys_that_a_query_sees),
        cmocka_unit_test(pairs_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
