/* test_schedule_slots.c - the schedules of a pipeline: their orders, their
 * rings, and the idle time that follows from those in a small simulation. */
#include "plan/schedule_slots.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

/* "F0 F1 B0 …"; with chunks, "F0.1" is chunk 1 of micro-batch 0. */
static char *spell(const struct dsf_action *actions, int n, bool chunks)
{
    size_t cap = 16 * (size_t)n + 1, at = 0;
    char *text = calloc(cap, 1);

    for (int i = 0; i < n; i++) {
        at +=
            (size_t)snprintf(text + at, cap - at, "%s%c%d", i > 0 ? " " : "",
                             actions[i].backward ? 'B' : 'F', actions[i].micro);
        if (chunks)
            at +=
                (size_t)snprintf(text + at, cap - at, ".%d", actions[i].chunk);
    }
    return text;
}

static void assert_order(enum dsf_pipeline_schedule schedule, int stages,
                         int stage, int chunks, int micro, const char *expected)
{
    struct dsf_action actions[256];
    char *text;

    dsf_pipeline_order(schedule, stages, stage, chunks, micro, actions);
    text = spell(actions, 2 * chunks * micro, chunks > 1);
    assert_string_equal(text, expected);
    free(text);
}

static void the_order_of_1f1b_is_that_of_deepspeed(void **state)
{
    assert_order(DSF_1F1B, 2, 0, 1, 3, "F0 F1 B0 F2 B1 B2");
    assert_order(DSF_1F1B, 2, 1, 1, 3, "F0 B0 F1 B1 F2 B2");
    assert_order(DSF_1F1B, 4, 0, 1, 4, "F0 F1 F2 F3 B0 B1 B2 B3");
    assert_order(DSF_1F1B, 4, 1, 1, 4, "F0 F1 F2 B0 F3 B1 B2 B3");
    assert_order(DSF_1F1B, 4, 2, 1, 4, "F0 F1 B0 F2 B1 F3 B2 B3");
    assert_order(DSF_1F1B, 4, 3, 1, 4, "F0 B0 F1 B1 F2 B2 F3 B3");
    assert_order(DSF_1F1B, 1, 0, 1, 2, "F0 B0 F1 B1");
    assert_order(DSF_1F1B, 4, 0, 1, 2, "F0 F1 B0 B1");
}

static void gpipe_goes_forward_with_all_before_it_goes_back(void **state)
{
    assert_order(DSF_GPIPE, 4, 0, 1, 3, "F0 F1 F2 B0 B1 B2");
    assert_order(DSF_GPIPE, 4, 3, 1, 3, "F0 F1 F2 B0 B1 B2");
}

/* Narayanan et al. 2021, figure 4, is four stages of this. */
static void interleaved_takes_groups_through_its_chunks(void **state)
{
    assert_order(DSF_INTERLEAVED, 2, 0, 2, 4,
                 "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 "
                 "B2.1 B3.1 B2.0 B3.0");
    assert_order(DSF_INTERLEAVED, 2, 1, 2, 4,
                 "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 "
                 "F3.1 B3.1 B2.0 B3.0");
    assert_order(DSF_INTERLEAVED, 2, 1, 2, 3,
                 "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F2.1 B1.0 B2.1 B2.0");
    assert_order(DSF_INTERLEAVED, 4, 2, 1, 4, "F0 F1 F2 B0 F3 B1 B2 B3");
}

static void slots_are_as_many_as_each_schedule_needs(void **state)
{
    for (int s = 0; s < 8; s++) {
        assert_int_equal(dsf_pipeline_slots(DSF_1F1B, 8, s, 1, 0, 32), 8 - s);
        assert_int_equal(dsf_pipeline_slots(DSF_GPIPE, 8, s, 1, 0, 32), 32);
        assert_int_equal(dsf_pipeline_slots(DSF_ZERO_BUBBLE, 8, s, 1, 0, 32),
                         9);
    }
    assert_int_equal(dsf_pipeline_slots(DSF_1F1B, 8, 0, 1, 0, 3), 3);
    assert_int_equal(dsf_pipeline_slots(DSF_ZERO_BUBBLE, 8, 7, 1, 0, 3), 3);
    assert_int_equal(dsf_pipeline_slots(DSF_INTERLEAVED, 4, 0, 2, 0, 16), 8);
    assert_int_equal(dsf_pipeline_slots(DSF_INTERLEAVED, 4, 0, 2, 1, 16), 4);
    assert_int_equal(dsf_pipeline_slots(DSF_INTERLEAVED, 4, 3, 2, 0, 16), 5);
    assert_int_equal(dsf_pipeline_slots(DSF_INTERLEAVED, 4, 3, 2, 1, 16), 1);
}

/* Each action once; forward before backward; in each chunk micro-batches in
 * order and no more of them at once than there are slots. */
static void assert_whole(enum dsf_pipeline_schedule schedule, int stages,
                         int stage, int chunks, int micro)
{
    int n = 2 * chunks * micro;
    int forward[8] = { 0 }, backward[8] = { 0 };
    struct dsf_action *actions = malloc((size_t)n * sizeof(*actions));

    memset(actions, 0xff, (size_t)n * sizeof(*actions));
    dsf_pipeline_order(schedule, stages, stage, chunks, micro, actions);
    for (int i = 0; i < n; i++) {
        int c = actions[i].chunk;

        assert_in_range(c, 0, chunks - 1);
        assert_int_equal(actions[i].micro,
                         actions[i].backward ? backward[c]++ : forward[c]++);
        assert_true(backward[c] <= forward[c]);
        assert_true(
            forward[c] - backward[c] <=
            dsf_pipeline_slots(schedule, stages, stage, chunks, c, micro));
    }
    for (int c = 0; c < chunks; c++)
        assert_int_equal(backward[c], micro);
    free(actions);
}

static void every_turn_comes_once(void **state)
{
    for (int stages = 1; stages < 6; stages++)
        for (int micro = 1; micro < 14; micro++)
            for (int stage = 0; stage < stages; stage++) {
                assert_whole(DSF_GPIPE, stages, stage, 1, micro);
                assert_whole(DSF_1F1B, stages, stage, 1, micro);
                assert_whole(DSF_ZERO_BUBBLE, stages, stage, 1, micro);
                for (int chunks = 1; chunks < 5; chunks++)
                    assert_whole(DSF_INTERLEAVED, stages, stage, chunks, micro);
            }
}

/* A pipeline that is simulated. A stage starts the ready action that comes
 * first in its order; an action is ready when its neighbours are done and its
 * chunk has a slot. Weight gradients are a part of the backward, or (`put_off`)
 * actions of their own, that free the slot and come when nothing else is ready.
 */
enum { FORWARD, BACKWARD, WEIGHT, NKINDS };
#define MAX_CHUNKS 32 /* of all stages */
#define MAX_MICRO  64

struct pipe {
    enum dsf_pipeline_schedule schedule;
    int stages, chunks, micro;
    bool put_off;
    int costs[NKINDS];

    int position[NKINDS][MAX_CHUNKS][MAX_MICRO];
    int slots[MAX_CHUNKS];
    int end[NKINDS][MAX_CHUNKS][MAX_MICRO]; /* 0: not started */
    int next[NKINDS][MAX_CHUNKS];           /* micro-batch */
    int free_at[MAX_CHUNKS];                /* stage */
};

static bool is_done(const struct pipe *p, int kind, int chunk, int m, int now)
{
    return p->end[kind][chunk][m] > 0 && p->end[kind][chunk][m] <= now;
}

static bool is_ready(const struct pipe *p, int kind, int chunk, int m, int now)
{
    int last = p->stages * p->chunks - 1;
    int ring = m - p->slots[chunk];

    switch (kind) {
    case FORWARD:
        return (chunk == 0 || is_done(p, FORWARD, chunk - 1, m, now)) &&
               (ring < 0 ||
                is_done(p, p->put_off ? WEIGHT : BACKWARD, chunk, ring, now));
    case BACKWARD:
        return is_done(p, FORWARD, chunk, m, now) &&
               (chunk == last || is_done(p, BACKWARD, chunk + 1, m, now));
    default:
        return p->put_off && is_done(p, BACKWARD, chunk, m, now);
    }
}

/* Start what `stage` would; false if there is nothing. */
static bool start_turn(struct pipe *p, int stage, int now)
{
    int best = INT32_MAX, kind = 0, chunk = 0;

    for (int k = 0; k < NKINDS; k++)
        for (int c = stage; c < p->stages * p->chunks; c += p->stages) {
            int m = p->next[k][c];

            if (m < p->micro && p->position[k][c][m] < best &&
                is_ready(p, k, c, m, now)) {
                best = p->position[k][c][m];
                kind = k;
                chunk = c;
            }
        }
    if (best == INT32_MAX)
        return false;
    p->free_at[stage] = now + p->costs[kind];
    p->end[kind][chunk][p->next[kind][chunk]++] = p->free_at[stage];
    return true;
}

static void set_positions(struct pipe *p)
{
    struct dsf_action actions[2 * MAX_CHUNKS * MAX_MICRO];
    int n = 2 * p->chunks * p->micro;

    for (int s = 0; s < p->stages; s++) {
        dsf_pipeline_order(p->schedule, p->stages, s, p->chunks, p->micro,
                           actions);
        for (int i = 0; i < n; i++) {
            int c = actions[i].chunk * p->stages + s;
            int kind = actions[i].backward ? BACKWARD : FORWARD;

            p->position[kind][c][actions[i].micro] = i;
            p->position[WEIGHT][c][actions[i].micro] = n + actions[i].micro;
        }
        for (int v = 0; v < p->chunks; v++)
            p->slots[v * p->stages + s] = dsf_pipeline_slots(
                p->schedule, p->stages, s, p->chunks, v, p->micro);
    }
}

/* Idle time of a stage from the first action of the pipeline to the last. */
static int idle_of(enum dsf_pipeline_schedule schedule, int stages, int chunks,
                   int micro, int forward, int backward, int weight)
{
    struct pipe *p = calloc(1, sizeof(*p));
    int turns = micro * stages * chunks * (weight > 0 ? 3 : 2);
    int now = 0, end = 0;

    assert_true(stages * chunks <= MAX_CHUNKS && micro <= MAX_MICRO);
    *p = (struct pipe){ .schedule = schedule,
                        .stages = stages,
                        .chunks = chunks,
                        .micro = micro,
                        .put_off = weight > 0,
                        .costs = { forward, backward, weight } };
    set_positions(p);
    while (turns > 0) {
        assert_true(now < 100000); /* or it hangs */
        for (int s = 0; s < stages; s++)
            if (p->free_at[s] <= now && start_turn(p, s, now))
                turns--;
        now++;
    }
    for (int s = 0; s < stages; s++)
        if (p->free_at[s] > end)
            end = p->free_at[s];
    free(p);
    return end - micro * chunks * (forward + backward + weight);
}

static void gpipe_and_1f1b_idle_for_all_stages_but_one(void **state)
{
    for (int stages = 1; stages < 9; stages++)
        for (int micro = stages; micro <= 32; micro += 3) {
            assert_int_equal(idle_of(DSF_GPIPE, stages, 1, micro, 1, 2, 0),
                             3 * (stages - 1));
            assert_int_equal(idle_of(DSF_1F1B, stages, 1, micro, 1, 2, 0),
                             3 * (stages - 1));
        }
}

/* Time is that of a chunk, so the share is smaller by the number of chunks. */
static void interleaved_divides_idle_time_by_its_chunks(void **state)
{
    for (int stages = 2; stages < 9; stages++)
        for (int chunks = 1; chunks * stages <= MAX_CHUNKS && chunks < 6;
             chunks++)
            for (int micro = stages; micro <= MAX_MICRO; micro += stages)
                assert_int_equal(
                    idle_of(DSF_INTERLEAVED, stages, chunks, micro, 1, 2, 0),
                    3 * (stages - 1));
}

static void interleaved_works_with_any_number_of_micro_batches(void **state)
{
    for (int stages = 1; stages < 7; stages++)
        for (int chunks = 1; chunks < 5; chunks++)
            for (int micro = 1; micro < 20; micro++)
                assert_true(
                    idle_of(DSF_INTERLEAVED, stages, chunks, micro, 1, 2, 0) <=
                    3 * chunks * (stages - 1) + 3 * stages * chunks);
}

static void zero_bubble_idles_a_third_of_1f1b(void **state)
{
    for (int stages = 2; stages < 9; stages++)
        for (int micro = 2 * stages; micro <= 32; micro += 3)
            assert_int_equal(
                idle_of(DSF_ZERO_BUBBLE, stages, 1, micro, 1, 1, 1),
                stages - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_1f1b_is_that_of_deepspeed),
        cmocka_unit_test(gpipe_goes_forward_with_all_before_it_goes_back),
        cmocka_unit_test(interleaved_takes_groups_through_its_chunks),
        cmocka_unit_test(slots_are_as_many_as_each_schedule_needs),
        cmocka_unit_test(every_turn_comes_once),
        cmocka_unit_test(gpipe_and_1f1b_idle_for_all_stages_but_one),
        cmocka_unit_test(interleaved_divides_idle_time_by_its_chunks),
        cmocka_unit_test(interleaved_works_with_any_number_of_micro_batches),
        cmocka_unit_test(zero_bubble_idles_a_third_of_1f1b),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
