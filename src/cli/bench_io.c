/* bench_io.c - dsflow bench io: blocks and depths are tried on the files of one
 * store; then threads, several files, and fio with the best of them. */
#include "cli/bench_io.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/fio.h"
#include "cli/screen.h"
#include "measure/bench_disk.h"
#include "measure/disk_load.h"
#include "measure/machine_cache.h"
#include "measure/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BLOCK = 4 << 20, MOST_DEPTH = 16, MOST_CASES = 16 };
/* Of one file: enough for the largest requests to follow each other. */
enum { LEAST_FILE = 16 << 20 };

static const size_t all_blocks[] = { 256 << 10, 1 << 20, MOST_BLOCK };
static const unsigned all_depths[] = { 1, 2, 4, 8, MOST_DEPTH };
static const unsigned quick_depths[] = { 1, 4, MOST_DEPTH };

/* One way to use the disks, and what it gives. */
struct way {
    size_t block;
    unsigned depth, threads, files; /* of each path */
    double read, write, both;       /* bytes a second */
    struct dsf_machine_scatter scatter; /* of reading and of writing */
    double score; /* of the three the least share of the best there is */
};

struct bench {
    const char *const *paths;
    unsigned npaths;
    int64_t size;
    double seconds; /* of one figure */
    size_t blocks[sizeof(all_blocks) / sizeof(*all_blocks)];
    unsigned depths[sizeof(all_depths) / sizeof(*all_depths)];
    unsigned nblocks, ndepths;
    struct way ways[MOST_CASES];
    unsigned nways;

    struct dsf_io *io;
    unsigned files; /* of each path, in it */
    unsigned done, figures;
    bool bar;
};

static void clear_bar(struct bench *b)
{
    if (b->bar)
        fputs("\r\033[K", stderr);
    b->bar = false;
}

/* One more figure is about to be taken. */
static void draw(struct bench *b, const char *what)
{
    enum { CELLS = 24 };
    static struct dsf_row row;
    struct dsf_screen screen = dsf_screen_look(STDERR_FILENO);
    double part = (double)b->done++ / b->figures;

    if (!screen.terminal || dsf_log_level() < DSFLOW_INFO)
        return;
    dsf_row_start(&row, screen.columns - 1, screen.colour);
    dsf_row_add_bar(&row, part, CELLS);
    dsf_row_add(&row, NULL, " %s  %s", dsf_percent_text(part).s, what);
    fprintf(stderr, "\r\033[K%s", row.s);
    fflush(stderr);
    b->bar = true;
}

static struct dsf_disk_load load_of(const struct bench *b, const struct way *w)
{
    return (struct dsf_disk_load){ .io = b->io,
                                   .size = b->size,
                                   .block = w->block,
                                   .depth = w->depth,
                                   .nfiles = b->npaths * b->files,
                                   .threads = w->threads,
                                   .seconds = b->seconds };
}

static int measure(struct bench *b, struct way *w, dsf_disk_measure_fn fn,
                   struct dsflow_err *err)
{
    struct dsf_disk_load load = load_of(b, w);
    struct dsf_disk_rate rate = { 0 };
    int status;

    draw(b, "reading");
    status = dsf_disk_measure_rate(fn, &load, true, false, &rate, err);
    w->read = rate.read;
    w->scatter.read = rate.scatter;
    if (status == DSFLOW_OK) {
        draw(b, "writing");
        status = dsf_disk_measure_rate(fn, &load, false, true, &rate, err);
        w->write = rate.write;
        w->scatter.write = rate.scatter;
    }
    if (status == DSFLOW_OK) {
        draw(b, "reading and writing");
        status = dsf_disk_measure_rate(fn, &load, true, true, &rate, err);
        w->both = rate.read + rate.write;
    }
    clear_bar(b);
    return status;
}

/* With so many files on each path, all of which were written once. */
static int open_store(struct bench *b, unsigned files, struct dsflow_err *err)
{
    unsigned n = b->npaths * files;
    const char **paths = dsf_xcalloc(n, sizeof(*paths));
    struct dsf_io_options options = { .paths = paths,
                                      .npaths = n,
                                      .block = MOST_BLOCK,
                                      .depth = MOST_DEPTH,
                                      .size = b->size };
    struct way whole = { .block = MOST_BLOCK, .depth = 2, .threads = 1 };
    struct dsf_disk_load load;
    int64_t filled;
    int status;

    for (unsigned i = 0; i < n; i++)
        paths[i] = b->paths[i % b->npaths];
    dsf_io_close(b->io);
    b->io = NULL;
    b->files = files;
    status = dsf_io_open(&options, &b->io, err);
    free(paths);
    if (status < 0)
        return status;
    draw(b, "writing the files");
    load = load_of(b, &whole);
    status = dsf_disk_fill(&load, INFINITY, &filled, err);
    clear_bar(b);
    return status;
}

static struct dsf_text block_text(size_t block)
{
    struct dsf_text t;

    if (block % (1 << 20) == 0)
        snprintf(t.s, sizeof(t.s), "%zuMiB", block >> 20);
    else
        snprintf(t.s, sizeof(t.s), "%zuKiB", block >> 10);
    return t;
}

static void print_titles(const char *first, const char *second)
{
    printf("%-8s %8s %14s %14s %14s %11s\n", first, second, "read, GB/s",
           "write, GB/s", "both at once", "scatter, %");
}

static void print_rates(const struct way *w)
{
    printf("%14.2f %14.2f %14.2f", w->read / 1e9, w->write / 1e9,
           w->both / 1e9);
    if (w->scatter.read > 0 || w->scatter.write > 0)
        printf(" %11.0f", 100 * fmax(w->scatter.read, w->scatter.write));
    printf("\n");
    fflush(stdout);
}

static int sweep(struct bench *b, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    print_titles("block", "depth");
    for (unsigned i = 0; i < b->nblocks; i++)
        for (unsigned k = 0; k < b->ndepths && status == DSFLOW_OK; k++) {
            struct way *w = &b->ways[b->nways++];

            *w = (struct way){ .block = b->blocks[i],
                               .depth = b->depths[k],
                               .threads = 1,
                               .files = 1 };
            dsf_io_tune(b->io, w->block, w->depth);
            status = measure(b, w, dsf_disk_measure, err);
            if (status < 0)
                return status;
            printf("%-8s %8u ", block_text(w->block).s, w->depth);
            print_rates(w);
        }
    return status;
}

static void score_all(struct bench *b)
{
    struct way most = { 0 };

    for (unsigned i = 0; i < b->nways; i++) {
        most.read = fmax(most.read, b->ways[i].read);
        most.write = fmax(most.write, b->ways[i].write);
        most.both = fmax(most.both, b->ways[i].both);
    }
    for (unsigned i = 0; i < b->nways; i++) {
        struct way *w = &b->ways[i];

        w->score = fmin(fmin(w->read / most.read, w->write / most.write),
                        w->both / most.both);
    }
}

#define NEAR 0.97 /* as good as the best */

/* What is in flight is memory that waits: the smallest depth that is near the
 * best one, and of those the best block. */
static const struct way *choose(struct bench *b)
{
    const struct way *chosen = NULL;
    double best = 0;

    score_all(b);
    for (unsigned i = 0; i < b->nways; i++)
        best = fmax(best, b->ways[i].score);
    for (unsigned i = 0; i < b->nways; i++) {
        const struct way *w = &b->ways[i];

        if (w->score < NEAR * best)
            continue;
        if (chosen == NULL || w->depth < chosen->depth ||
            (w->depth == chosen->depth && w->score > chosen->score))
            chosen = w;
    }
    return chosen;
}

/* Does one way do better than another in all three? */
static bool is_better(const struct way *a, const struct way *than)
{
    return a->read * NEAR > than->read && a->write * NEAR > than->write &&
           a->both * NEAR > than->both;
}

/* `way` with other threads and files; it gets the figures of one of each, and
 * two files where those are better. */
static int try_threads_and_files(struct bench *b, struct way *way,
                                 struct dsflow_err *err)
{
    static const struct {
        unsigned threads, files;
    } cases[] = { { 1, 1 }, { 2, 1 }, { 1, 2 } };
    struct way ways[sizeof(cases) / sizeof(*cases)];
    int status = DSFLOW_OK;

    printf("\n");
    print_titles("threads", "files");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct way *w = &ways[i];

        *w = *way;
        w->threads = cases[i].threads;
        w->files = cases[i].files;
        if (w->files != b->files)
            status = open_store(b, w->files, err);
        if (status == DSFLOW_OK) {
            dsf_io_tune(b->io, w->block, w->depth);
            status = measure(b, w, dsf_disk_measure, err);
        }
        if (status < 0)
            return status;
        printf("%-8u %8u ", w->threads, w->files);
        print_rates(w);
    }
    *way = is_better(&ways[2], &ways[0]) ? ways[2] : ways[0];
    return DSFLOW_OK;
}

/* The engine once more, and fio right after it: a disk that is shared is not
 * the same a minute later. */
static int beside_fio(struct bench *b, struct way *way, struct dsflow_err *err)
{
    struct way fio = *way;
    int status = DSFLOW_OK;

    if (way->files != b->files)
        status = open_store(b, way->files, err);
    if (status == DSFLOW_OK) {
        dsf_io_tune(b->io, way->block, way->depth);
        status = measure(b, way, dsf_disk_measure, err);
    }
    if (status < 0)
        return status;
    printf("\n%-17s ", "dsflow");
    print_rates(way);
    status = measure(b, &fio, dsf_fio_measure, err);
    if (status < 0) { /* nothing depends on it */
        printf("%-17s %s\n", "fio", err->msg);
        return DSFLOW_OK;
    }
    printf("%-17s ", "fio");
    print_rates(&fio);
    printf("%-17s %14.3f %14.3f %14.3f\n", "dsflow / fio", way->read / fio.read,
           way->write / fio.write, way->both / fio.both);
    return DSFLOW_OK;
}

/* In a TOML string. */
static void print_quoted(const char *path)
{
    putchar('"');
    for (const char *c = path; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            putchar('\\');
        putchar(*c);
    }
    putchar('"');
}

static void print_sections(const struct bench *b, const struct way *way,
                           const struct dsf_machine_disk *disk)
{
    printf("\nfor job.toml:\n\n[memory.nvme]\npath = [");
    for (unsigned i = 0; i < b->npaths * way->files; i++) {
        if (i > 0)
            printf(", ");
        print_quoted(b->paths[i % b->npaths]);
    }
    printf("]\nblock = \"%s\"\ndepth = %u\n", block_text(way->block).s,
           way->depth);
    printf("\nfor a machine file (dsflow plan --machine):\n");
    dsf_machine_disk_write(disk, stdout);
}

static void say_remark(const struct dsf_io *io)
{
    struct dsf_io_info info;

    dsf_io_info(io, &info);
    if (info.remark[0] != '\0')
        printf("note: %s\n\n", info.remark);
}

/* The file of this machine, with these disks. */
static int save(const char *path, const struct dsf_machine_disk *disk,
                const struct dsf_machine_scatter *scatter,
                struct dsflow_err *err)
{
    struct dsf_machine machine;
    struct dsf_machine_model model;
    int status = dsf_machine_probe(&machine, err);

    if (status == DSFLOW_OK)
        status = dsf_machine_present(&machine, &model, err);
    if (status < 0)
        return status;
    model.disk = *disk;
    model.scatter.read = scatter->read;
    model.scatter.write = scatter->write;
    status = dsf_machine_save(&model, path, err);
    if (status == DSFLOW_OK)
        printf("\nwritten to %s\n", path);
    dsf_machine_model_fini(&model);
    return status;
}

static void warn_of_scatter(const struct way *way)
{
    struct dsf_machine_model m = { .scatter = way->scatter };

    fflush(stdout);
    dsf_warn_of_scatter(&m, "the disk", "run dsflow bench io again");
}

static int run(struct bench *b, const char *output, struct dsflow_err *err)
{
    struct dsf_machine_disk disk;
    struct dsf_disk_load load;
    struct way way;
    double latency;
    int status = open_store(b, 1, err);

    if (status < 0)
        return status;
    say_remark(b->io);
    status = sweep(b, err);
    if (status < 0)
        return status;
    way = *choose(b);
    load = load_of(b, &way);
    status = dsf_disk_latency(&load, &latency, err);
    if (status == DSFLOW_OK)
        status = try_threads_and_files(b, &way, err);
    if (status == DSFLOW_OK)
        status = beside_fio(b, &way, err);
    if (status < 0)
        return status;
    disk = dsf_disk_of_rates(way.read, way.write, way.both, latency);
    print_sections(b, &way, &disk);
    warn_of_scatter(&way);
    return output != NULL ? save(output, &disk, &way.scatter, err) : DSFLOW_OK;
}

/* A flag that is a size in [min, max], a multiple of a page. */
static int flag_size(const struct dsf_cli_args *args, const char *name,
                     int64_t min, int64_t max, int64_t *value,
                     struct dsflow_err *err)
{
    const char *text = dsf_flag_value(args, name);

    if (text == NULL || (dsf_parse_size(text, value) == 0 && *value >= min &&
                         *value <= max && *value % DSF_IO_ALIGN == 0))
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "bench io: --%s: %.60s: expected a size such as "
                       "\"%s\", %s to %s, a multiple of 4KiB",
                       name, text, strcmp(name, "size") == 0 ? "1GiB" : "1MiB",
                       dsf_size_text((double)min).s,
                       dsf_size_text((double)max).s);
}

/* What is tried: all, or what was named. */
static int read_cases(struct bench *b, const struct dsf_cli_args *args,
                      struct dsflow_err *err)
{
    bool quick = dsf_flag_value(args, "quick") != NULL;
    const unsigned *depths = quick ? quick_depths : all_depths;
    size_t size = quick ? sizeof(quick_depths) : sizeof(all_depths);
    int64_t block = 0, depth = 0;
    int status =
        flag_size(args, "block", DSF_IO_ALIGN, MOST_BLOCK, &block, err);

    if (status == DSFLOW_OK)
        status = dsf_flag_whole(args, "depth", 1, MOST_DEPTH, &depth, err);
    if (status == DSFLOW_OK && block > 0 && MOST_BLOCK % block != 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "bench io: --block: expected 4MiB or what it is "
                             "a multiple of");
    b->nblocks = sizeof(all_blocks) / sizeof(*all_blocks);
    b->ndepths = (unsigned)(size / sizeof(*depths));
    memcpy(b->blocks, all_blocks, sizeof(all_blocks));
    memcpy(b->depths, depths, size);
    if (block > 0) {
        b->nblocks = 1;
        b->blocks[0] = (size_t)block;
    }
    if (depth > 0) {
        b->ndepths = 1;
        b->depths[0] = (unsigned)depth;
    }
    return status;
}

int dsf_bench_io(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    bool quick = dsf_flag_value(args, "quick") != NULL;
    struct bench b = { .paths = args->words + 1,
                       .npaths = args->nwords - 1,
                       .size = quick ? 256 << 20 : 1 << 30,
                       .seconds = quick ? 0.1 : 0.5 };
    int64_t turn = (int64_t)b.npaths * 2 * LEAST_FILE;
    int status = read_cases(&b, args, err);

    if (status == DSFLOW_OK && b.npaths == 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "bench io: expected the folders to measure, such "
                             "as /tmp");
    if (status == DSFLOW_OK)
        status = flag_size(args, "size", DSF_IO_ALIGN, INT64_C(1) << 50,
                           &b.size, err);
    if (status < 0)
        return status;
    b.size = (b.size + turn - 1) / turn * turn;
    /* The ways of the sweep, three more, the engine and fio; files twice. */
    b.figures = 3 * (b.nblocks * b.ndepths + 5) + 2;
    status = run(&b, dsf_flag_value(args, "output"), err);
    clear_bar(&b);
    dsf_io_close(b.io);
    return status;
}
