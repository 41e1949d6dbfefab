/* disk_sweep.c - ways to use disks are tried, and the best is chosen. */
#include "measure/disk_sweep.h"

#include "base/alloc.h"
#include "base/multiple.h"
#include "measure/bench_disk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WAYS = DSF_SWEEP_BLOCKS * DSF_SWEEP_DEPTHS };
/* Of one file: enough for the largest requests to follow each other. */
enum { LEAST_FILE = 16 << 20 };

static const struct {
    unsigned threads, files;
} shapes[] = { { 1, 1 }, { 2, 1 }, { 1, 2 } };
enum { NSHAPES = sizeof(shapes) / sizeof(*shapes), MOST_FILES = 2 };

struct sweep {
    const struct dsf_disk_sweep *how;
    int64_t size;
    struct dsf_io *io;
    unsigned files; /* of each folder, in it */
    unsigned done, figures;
};

static void tell_figure(struct sweep *s, const char *what)
{
    double part = (double)s->done++ / s->figures;

    if (s->how->on_figure != NULL)
        s->how->on_figure(s->how->user, part, what);
}

static void tell_stage(const struct sweep *s, enum dsf_sweep_stage stage)
{
    if (s->how->on_stage != NULL)
        s->how->on_stage(s->how->user, stage);
}

static struct dsf_disk_load load_of(const struct sweep *s,
                                    const struct dsf_disk_way *w)
{
    return (struct dsf_disk_load){ .io = s->io,
                                   .size = s->size,
                                   .block = w->block,
                                   .depth = w->depth,
                                   .nfiles = s->how->nfolders * s->files,
                                   .threads = w->threads,
                                   .seconds = s->how->seconds };
}

/* With so many files in each folder, all of which were written once. */
static int open_store(struct sweep *s, unsigned files, struct dsflow_err *err)
{
    unsigned n = s->how->nfolders * files;
    const char **paths = dsf_xcalloc(n, sizeof(*paths));
    struct dsf_io_options options = { .paths = paths,
                                      .npaths = n,
                                      .block = DSF_SWEEP_BLOCK,
                                      .depth = DSF_SWEEP_DEPTH,
                                      .size = s->size };
    struct dsf_disk_way whole = { .block = DSF_SWEEP_BLOCK,
                                  .depth = 2,
                                  .threads = 1 };
    struct dsf_disk_load load;
    int64_t filled;
    int status;

    for (unsigned i = 0; i < n; i++)
        paths[i] = s->how->folders[i % s->how->nfolders];
    dsf_io_close(s->io);
    s->io = NULL;
    s->files = files;
    status = dsf_io_open(&options, &s->io, err);
    free(paths);
    if (status < 0)
        return status;
    tell_figure(s, "writing the files");
    load = load_of(s, &whole);
    return dsf_disk_fill(&load, INFINITY, &filled, err);
}

static int measure(struct sweep *s, struct dsf_disk_way *w,
                   dsf_disk_measure_fn fn, struct dsflow_err *err)
{
    struct dsf_disk_load load = load_of(s, w);
    struct dsf_disk_rate rate = { 0 };
    int status;

    tell_figure(s, "reading");
    status = dsf_disk_measure_rate(fn, &load, true, false, &rate, err);
    w->read = rate.read;
    w->scatter.read = rate.scatter;
    if (status == DSFLOW_OK) {
        tell_figure(s, "writing");
        status = dsf_disk_measure_rate(fn, &load, false, true, &rate, err);
        w->write = rate.write;
        w->scatter.write = rate.scatter;
    }
    if (status == DSFLOW_OK) {
        tell_figure(s, "reading and writing");
        status = dsf_disk_measure_rate(fn, &load, true, true, &rate, err);
        w->both = rate.read + rate.write;
    }
    if (status == DSFLOW_OK && s->how->on_way != NULL)
        s->how->on_way(s->how->user, w);
    return status;
}

/* By the engine, with as many files as the way has. */
static int try(struct sweep *s, struct dsf_disk_way *w, struct dsflow_err *err)
{
    int status =
        w->files != s->files ? open_store(s, w->files, err) : DSFLOW_OK;

    if (status < 0)
        return status;
    dsf_io_tune(s->io, w->block, w->depth);
    return measure(s, w, s->how->measure, err);
}

#define NEAR 0.97 /* as good as the best */

/* The least share of the most there is, of the three figures. */
static double score(const struct dsf_disk_way *w,
                    const struct dsf_disk_way *most)
{
    return fmin(fmin(w->read / most->read, w->write / most->write),
                w->both / most->both);
}

const struct dsf_disk_way *dsf_disk_choose(const struct dsf_disk_way *ways,
                                           unsigned n)
{
    const struct dsf_disk_way *chosen = NULL;
    struct dsf_disk_way most = { 0 };
    double best = 0;

    for (unsigned i = 0; i < n; i++) {
        most.read = fmax(most.read, ways[i].read);
        most.write = fmax(most.write, ways[i].write);
        most.both = fmax(most.both, ways[i].both);
    }
    for (unsigned i = 0; i < n; i++)
        best = fmax(best, score(&ways[i], &most));
    for (unsigned i = 0; i < n; i++) {
        const struct dsf_disk_way *w = &ways[i];

        if (score(w, &most) < NEAR * best)
            continue;
        if (chosen == NULL || w->depth < chosen->depth ||
            (w->depth == chosen->depth &&
             score(w, &most) > score(chosen, &most)))
            chosen = w;
    }
    return chosen;
}

static int try_requests(struct sweep *s, struct dsf_disk_way *best,
                        struct dsflow_err *err)
{
    const struct dsf_disk_sweep *how = s->how;
    struct dsf_disk_way ways[MOST_WAYS];
    unsigned n = 0;

    tell_stage(s, DSF_SWEEP_REQUESTS);
    for (unsigned i = 0; i < how->nblocks; i++)
        for (unsigned k = 0; k < how->ndepths; k++, n++) {
            int status;

            ways[n] = (struct dsf_disk_way){ .block = how->blocks[i],
                                             .depth = how->depths[k],
                                             .threads = 1,
                                             .files = 1 };
            status = try(s, &ways[n], err);
            if (status < 0)
                return status;
        }
    *best = *dsf_disk_choose(ways, n);
    return DSFLOW_OK;
}

/* Does one way do better than another in all three? */
static bool is_better(const struct dsf_disk_way *a,
                      const struct dsf_disk_way *than)
{
    return a->read * NEAR > than->read && a->write * NEAR > than->write &&
           a->both * NEAR > than->both;
}

/* `way` with other threads and files; it gets the figures of one of each, and
 * two files where those are better. */
static int try_shapes(struct sweep *s, struct dsf_disk_way *way,
                      struct dsflow_err *err)
{
    struct dsf_disk_way ways[NSHAPES];

    tell_stage(s, DSF_SWEEP_FILES);
    for (size_t i = 0; i < NSHAPES; i++) {
        int status;

        ways[i] = *way;
        ways[i].threads = shapes[i].threads;
        ways[i].files = shapes[i].files;
        status = try(s, &ways[i], err);
        if (status < 0)
            return status;
    }
    *way = is_better(&ways[2], &ways[0]) ? ways[2] : ways[0];
    return DSFLOW_OK;
}

/* Nothing depends on `beside`. */
static int try_beside(struct sweep *s, struct dsf_disk_found *found,
                      struct dsflow_err *err)
{
    int status;

    tell_stage(s, DSF_SWEEP_BESIDE);
    status = try(s, &found->best, err);
    found->beside = found->best;
    if (status == DSFLOW_OK)
        measure(s, &found->beside, s->how->beside, &found->not_beside);
    return status;
}

static int run(struct sweep *s, struct dsf_disk_found *found,
               struct dsflow_err *err)
{
    struct dsf_disk_way *best = &found->best;
    struct dsf_disk_load load;
    struct dsf_io_info info;
    double latency = 0;
    int status = open_store(s, 1, err);

    if (status < 0)
        return status;
    dsf_io_info(s->io, &info);
    memcpy(found->remark, info.remark, sizeof(found->remark));
    status = try_requests(s, best, err);
    load = load_of(s, best);
    if (status == DSFLOW_OK)
        status = dsf_disk_latency(&load, &latency, err);
    if (status == DSFLOW_OK)
        status = try_shapes(s, best, err);
    if (status == DSFLOW_OK)
        status = try_beside(s, found, err);
    if (status == DSFLOW_OK)
        found->disk =
            dsf_disk_of_rates(best->read, best->write, best->both, latency);
    return status;
}

int dsf_disk_sweep(const struct dsf_disk_sweep *how,
                   struct dsf_disk_found *found, struct dsflow_err *err)
{
    int64_t turn = (int64_t)how->nfolders * MOST_FILES * LEAST_FILE;
    struct sweep s = { .how = how };
    int status;

    memset(found, 0, sizeof(*found));
    if (how->nfolders == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "expected the folders to measure");
    s.size = dsf_round_up(how->size, turn);
    /* All ways, the best with other threads and files, and once more beside
     * another; the files are written twice. */
    s.figures = 3 * (how->nblocks * how->ndepths + NSHAPES + 2) + 2;
    status = run(&s, found, err);
    dsf_io_close(s.io);
    return status;
}
