/* schedule_slots.c - lengths of rings and order of actions of the schedules.
 *
 * With F and B the time of a stage's forward and backward of a micro-batch, S
 * stages and M micro-batches, the pipeline is idle for
 *
 *   gpipe, 1f1b   (S - 1) (F + B), of (M + S - 1) (F + B)
 *   interleaved   that by the number of chunks (Megatron-LM's order: Narayanan
 *                 et al. 2021), where M is a multiple of S
 *   zero_bubble   (S - 1) (F + B - 2 W) with W the part of B that weight
 *                 gradients are (ZB-H1: Qi et al. 2023): a third of 1f1b's
 *                 where F = W = B - W
 *
 * in an executor that starts what is ready with the smallest position. */
#include "plan/schedule_slots.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Forwards before the first backward, but for the one that comes with it. */
static int warmup(enum dsf_pipeline_schedule schedule, int stages, int stage,
                  int chunks, int micro)
{
    switch (schedule) {
    case DSF_GPIPE:
        return micro;
    case DSF_INTERLEAVED:
        return smaller(2 * (stages - stage - 1) + (chunks - 1) * stages,
                       chunks * micro);
    case DSF_1F1B:
    case DSF_ZERO_BUBBLE:
        break;
    }
    return smaller(stages - stage - 1, micro);
}

/* Turn i of all forwards (or backwards) of a stage: `stages` micro-batches
 * through its first chunk, the same through the next; then the next ones. */
static struct dsf_action action_at(int i, int stages, int chunks, int micro,
                                   bool backward)
{
    int group = i / (stages * chunks) * stages; /* its first micro-batch */
    int length = smaller(stages, micro - group);
    int within = i - group * chunks;
    int chunk = within / length;

    return (struct dsf_action){
        .chunk = backward ? chunks - 1 - chunk : chunk,
        .micro = group + within % length,
        .backward = backward,
    };
}

void dsf_pipeline_order(enum dsf_pipeline_schedule schedule, int stages,
                        int stage, int chunks, int micro,
                        struct dsf_action *actions)
{
    int ahead = warmup(schedule, stages, stage, chunks, micro);
    int n = chunks * micro;

    assert(stage >= 0 && stage < stages && micro > 0);
    assert(chunks == 1 || (chunks > 0 && schedule == DSF_INTERLEAVED));
    for (int i = 0; i < n; i++) {
        /* Forward i has the backwards before it of all that is not ahead. */
        int after = i > ahead ? i - ahead : 0;

        actions[i + after] = action_at(i, stages, chunks, micro, false);
    }
    for (int i = 0; i < n; i++) {
        int before = smaller(n, i + ahead + 1);

        actions[i + before] = action_at(i, stages, chunks, micro, true);
    }
}

static int most_of_chunk(int stages, int stage, int chunks, int chunk,
                         int micro)
{
    struct dsf_action *actions =
        dsf_xcalloc(2 * (size_t)chunks * (size_t)micro, sizeof(*actions));
    int kept = 0, most = 0;

    dsf_pipeline_order(DSF_INTERLEAVED, stages, stage, chunks, micro, actions);
    for (int i = 0; i < 2 * chunks * micro; i++) {
        if (actions[i].chunk != chunk)
            continue;
        kept += actions[i].backward ? -1 : 1;
        if (kept > most)
            most = kept;
    }
    free(actions);
    return most;
}

int dsf_pipeline_slots(enum dsf_pipeline_schedule schedule, int stages,
                       int stage, int chunks, int chunk, int micro)
{
    assert(chunk >= 0 && chunk < chunks);
    switch (schedule) {
    case DSF_GPIPE:
        return micro;
    case DSF_INTERLEAVED:
        return most_of_chunk(stages, stage, chunks, chunk, micro);
    case DSF_ZERO_BUBBLE:
        /* While the last backwards go up the pipeline, its last stage has
         * nothing but the weight gradients that it put off: of `stages`
         * micro-batches. So every stage keeps what 1f1b's first one does, and
         * one more that takes up what is late. */
        return smaller(stages + 1, micro);
    case DSF_1F1B:
        break;
    }
    return smaller(stages - stage, micro);
}
