/* process_tasks.c - the tasks of all processes, as each of them can know its
 * own without those of the others: by their number, and with a hash of them.
 */
#include "policies/processes.h"

#include "base/alloc.h"
#include "graph/task.h"

#include <dsflow/rewrite.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, const char *text)
{
    char word[sizeof(uint64_t)];

    for (size_t n = strlen(text); n > 0;) {
        const size_t some = n < sizeof(word) ? n : sizeof(word);
        uint64_t w;

        memset(word, 0, sizeof(word));
        memcpy(word, text, some);
        memcpy(&w, word, sizeof(w));
        h = mix(h, w);
        text += some;
        n -= some;
    }
    return h;
}

static uint64_t mix_data(uint64_t h, const struct dsflow_data_spec *d)
{
    h = mix(h, (uint64_t)d->elems);
    return mix(h, (uint64_t)(uint16_t)d->home << 16 |
                      (uint64_t)(uint8_t)d->dtype << 8 | (uint8_t)d->role);
}

/* What a task does, and where in the step it stands. */
static uint64_t mix_place(uint64_t h, const struct dsflow_task_spec *t,
                          int32_t rank, uint32_t ndata)
{
    h = mix_text(h, t->op->name);
    h = mix(h, (uint64_t)(uint32_t)rank << 32 | (uint32_t)t->program);
    h = mix(h, (uint64_t)(uint32_t)t->layer << 32 | (uint32_t)t->microbatch);
    return mix(h, (uint64_t)(uint32_t)t->tile << 32 | ndata);
}

/* A task is of its process; what one reads of another is a message of both. */
static void mix_task(const struct dsf_processes *all,
                     const struct dsflow_graph *g,
                     const struct dsflow_task_spec *t, uint64_t *hashes)
{
    const int32_t to = dsf_process_of(all, t->rank);
    uint64_t h = mix_place(hashes[to], t, t->rank, t->ndata);

    for (unsigned i = 0; i < t->ndata; i++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(g, t->data[i]);
        const int32_t from = dsf_process_of(all, d->home);

        h = mix_data(h, d);
        if (from != to)
            hashes[from] = mix(mix_data(hashes[from], d), (uint64_t)to);
    }
    hashes[to] = h;
}

uint64_t dsf_process_hash_plain(const struct dsflow_graph *g)
{
    uint64_t h = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });

        h = mix_place(h, t, t->rank, t->ndata);
        for (unsigned k = 0; k < t->ndata; k++)
            h = mix_data(h, dsflow_graph_data(g, t->data[k]));
    }
    return h;
}

void dsf_process_mix_message(uint64_t *hash, const struct dsflow_task_spec *t,
                             enum dsflow_dtype dtype, int64_t elems,
                             bool direct)
{
    /* Of its ranks, the other process may know no more than whose they are. */
    *hash = mix(mix_place(*hash, t, (int32_t)dtype, direct), (uint64_t)elems);
}

void dsf_process_tasks(const struct dsf_processes *all, struct dsflow_graph *g,
                       struct dsf_graph_part *part)
{
    const uint32_t n = dsflow_graph_ntasks(g);
    const size_t processes = (size_t)all->n;
    uint32_t *at = dsf_xcalloc(processes + 1, sizeof(*at));

    part->ordered = dsf_xcalloc((size_t)n + 1, sizeof(*part->ordered));
    part->first = dsf_xcalloc(processes + 1, sizeof(*part->first));
    part->hashes = dsf_xcalloc(processes, sizeof(*part->hashes));
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t = dsf_nth_task(g, i);

        mix_task(all, g, t, part->hashes);
        part->first[dsf_process_of(all, t->rank) + 1]++;
    }
    for (size_t p = 0; p < processes; p++) {
        part->first[p + 1] += part->first[p];
        at[p] = part->first[p];
    }
    for (uint32_t i = 0; i < n; i++)
        part->ordered[at[dsf_process_of(all, dsf_nth_task(g, i)->rank)]++] = i;
    free(at);
}
