/* bench_io.c - dsflow bench io: a table of the ways to use disks, and what to
 * paste. */
#include "base/log.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/screen.h"
#include "config/toml_read.h"
#include "measure/disk_sweep.h"
#include "measure/fio.h"
#include "measure/machine_cache.h"
#include "measure/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t all_blocks[] = { 256 << 10, 1 << 20, DSF_SWEEP_BLOCK };
static const unsigned all_depths[] = { 1, 2, 4, 8, DSF_SWEEP_DEPTH };
static const unsigned quick_depths[] = { 1, 4, DSF_SWEEP_DEPTH };

struct bench {
    struct dsf_disk_sweep sweep;
    struct dsf_disk_found found;
    enum dsf_sweep_stage stage;
    unsigned nways; /* of this stage */
    bool bar;
};

static void clear_bar(struct bench *b)
{
    if (b->bar)
        fputs("\r\033[K", stderr);
    b->bar = false;
}

static void draw(void *user, double part, const char *what)
{
    enum { CELLS = 24 };
    static struct dsf_row row;
    struct dsf_screen screen = dsf_screen_look(STDERR_FILENO);
    struct bench *b = user;

    if (!screen.terminal || dsf_log_level() < DSFLOW_INFO)
        return;
    dsf_row_start(&row, screen.columns - 1, screen.colour);
    dsf_row_add_bar(&row, part, CELLS);
    dsf_row_add(&row, NULL, " %s  %s", dsf_percent_text(part).s, what);
    fprintf(stderr, "\r\033[K%s", row.s);
    fflush(stderr);
    b->bar = true;
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

static void print_stage(void *user, enum dsf_sweep_stage stage)
{
    struct bench *b = user;

    clear_bar(b);
    b->stage = stage;
    b->nways = 0;
    if (stage == DSF_SWEEP_REQUESTS && b->found.remark[0] != '\0')
        printf("note: %s\n\n", b->found.remark);
    if (stage != DSF_SWEEP_REQUESTS)
        printf("\n");
    if (stage == DSF_SWEEP_REQUESTS)
        print_titles("block", "depth");
    else if (stage == DSF_SWEEP_FILES)
        print_titles("threads", "files");
}

static void print_way(void *user, const struct dsf_disk_way *w)
{
    struct bench *b = user;

    clear_bar(b);
    if (b->stage == DSF_SWEEP_REQUESTS)
        printf("%-8s %8u ", block_text(w->block).s, w->depth);
    else if (b->stage == DSF_SWEEP_FILES)
        printf("%-8u %8u ", w->threads, w->files);
    else
        printf("%-17s ", b->nways == 0 ? "dsflow" : "fio");
    b->nways++;
    printf("%14.2f %14.2f %14.2f", w->read / 1e9, w->write / 1e9,
           w->both / 1e9);
    if (w->scatter.read > 0 || w->scatter.write > 0)
        printf(" %11.0f", 100 * fmax(w->scatter.read, w->scatter.write));
    printf("\n");
    fflush(stdout);
}

static void print_found(const struct bench *b)
{
    const struct dsf_disk_way *way = &b->found.best, *fio = &b->found.beside;

    if (b->found.not_beside.status < 0)
        printf("%-17s %s\n", "fio", b->found.not_beside.msg);
    else
        printf("%-17s %14.3f %14.3f %14.3f\n", "dsflow / fio",
               way->read / fio->read, way->write / fio->write,
               way->both / fio->both);
    printf("\nfor job.toml:\n\n[memory.nvme]\npath = [");
    for (unsigned i = 0; i < b->sweep.nfolders * way->files; i++) {
        char *path = dsf_toml_quote(b->sweep.folders[i % b->sweep.nfolders]);

        printf("%s%s", i > 0 ? ", " : "", path);
        free(path);
    }
    printf("]\nblock = \"%s\"\ndepth = %u\n", block_text(way->block).s,
           way->depth);
    printf("\nfor a machine file (dsflow plan --machine):\n");
    dsf_machine_disk_write(&b->found.disk, stdout);
}

static void warn_of_scatter(const struct dsf_disk_way *way)
{
    struct dsf_machine_model m = { .scatter = way->scatter };

    fflush(stdout);
    dsf_warn_of_scatter(&m, "the disk", "run dsflow bench io again");
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
static int read_cases(struct dsf_disk_sweep *s, const struct dsf_cli_args *args,
                      struct dsflow_err *err)
{
    bool quick = dsf_flag_value(args, "quick") != NULL;
    const unsigned *depths = quick ? quick_depths : all_depths;
    size_t size = quick ? sizeof(quick_depths) : sizeof(all_depths);
    int64_t block = 0, depth = 0;
    int status =
        flag_size(args, "block", DSF_IO_ALIGN, DSF_SWEEP_BLOCK, &block, err);

    if (status == DSFLOW_OK)
        status = dsf_flag_whole(args, "depth", 1, DSF_SWEEP_DEPTH, &depth, err);
    if (status == DSFLOW_OK && block > 0 && DSF_SWEEP_BLOCK % block != 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "bench io: --block: expected 4MiB or what it is "
                             "a multiple of");
    s->nblocks = sizeof(all_blocks) / sizeof(*all_blocks);
    s->ndepths = (unsigned)(size / sizeof(*depths));
    memcpy(s->blocks, all_blocks, sizeof(all_blocks));
    memcpy(s->depths, depths, size);
    if (block > 0) {
        s->nblocks = 1;
        s->blocks[0] = (size_t)block;
    }
    if (depth > 0) {
        s->ndepths = 1;
        s->depths[0] = (unsigned)depth;
    }
    return status;
}

int dsf_bench_io(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    bool quick = dsf_flag_value(args, "quick") != NULL;
    const char *output = dsf_flag_value(args, "output");
    struct bench b = { .sweep = { .folders = args->words + 1,
                                  .nfolders = args->nwords - 1,
                                  .size = quick ? 256 << 20 : 1 << 30,
                                  .seconds = quick ? 0.1 : 0.5,
                                  .measure = dsf_disk_measure,
                                  .beside = dsf_fio_measure,
                                  .user = &b,
                                  .on_stage = print_stage,
                                  .on_figure = draw,
                                  .on_way = print_way } };
    int status = read_cases(&b.sweep, args, err);

    if (status == DSFLOW_OK && b.sweep.nfolders == 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "bench io: expected the folders to measure, such "
                             "as /tmp");
    if (status == DSFLOW_OK)
        status = flag_size(args, "size", DSF_IO_ALIGN, INT64_C(1) << 50,
                           &b.sweep.size, err);
    if (status == DSFLOW_OK && output != NULL)
        status = dsf_machine_can_save(output, err);
    if (status == DSFLOW_OK)
        status = dsf_disk_sweep(&b.sweep, &b.found, err);
    clear_bar(&b);
    if (status < 0)
        return status;
    print_found(&b);
    warn_of_scatter(&b.found.best);
    if (output != NULL)
        status = dsf_machine_save_disk(&b.found.disk, &b.found.best.scatter,
                                       output, err);
    if (output != NULL && status == DSFLOW_OK)
        printf("\nwritten to %s\n", output);
    return status;
}
