/* bench_disk.c - the disks of a job, measured in a moment. */
#include "measure/bench_disk.h"
#include "measure/disk_load.h"

#include <math.h>

/* Reads and writes leave each other alone where both give half as much more
 * than one. */
struct dsf_machine_disk dsf_disk_of_rates(double read, double write,
                                          double both, double latency)
{
    return (struct dsf_machine_disk){
        .read = read,
        .write = write,
        .latency = latency,
        .duplex = both >= 1.5 * fmax(read, write),
        .size = -1,
    };
}

/* Reading, writing and both at once, on files that were written. */
static int measure_load(const struct dsf_disk_load *load,
                        struct dsf_machine_disk *disk,
                        struct dsf_machine_scatter *scatter,
                        struct dsflow_err *err)
{
    struct dsf_disk_rate read, write, both;
    double latency;
    int status =
        dsf_disk_measure_rate(dsf_disk_measure, load, true, false, &read, err);

    if (status == DSFLOW_OK)
        status = dsf_disk_measure_rate(dsf_disk_measure, load, false, true,
                                       &write, err);
    if (status == DSFLOW_OK)
        status = dsf_disk_measure(load, true, true, &both, err);
    if (status == DSFLOW_OK)
        status = dsf_disk_latency(load, &latency, err);
    if (status < 0)
        return status;
    *disk = dsf_disk_of_rates(read.read, write.write, both.read + both.write,
                              latency);
    scatter->read = read.scatter;
    scatter->write = write.scatter;
    return DSFLOW_OK;
}

/* As the job has it, but for what would need too much memory: blocks this large
 * are all alike. */
static void limit(struct dsf_io_options *o)
{
    enum { BLOCK = 16 << 20, IN_FLIGHT = 64 << 20 };
    size_t turn;

    o->block = o->block == 0 ? DSF_IO_BLOCK : o->block;
    o->block = o->block > BLOCK ? BLOCK : o->block;
    o->depth = o->depth == 0 ? DSF_IO_DEPTH : o->depth;
    turn = o->block * o->npaths;
    if (o->depth * turn > IN_FLIGHT)
        o->depth = turn < IN_FLIGHT ? (unsigned)(IN_FLIGHT / turn) : 1;
}

int dsf_bench_disk(const char *const *paths, unsigned npaths, size_t block,
                   unsigned depth, struct dsf_machine_disk *disk,
                   struct dsf_machine_scatter *scatter, struct dsflow_err *err)
{
    enum { ENOUGH = 256 << 20 };
    struct dsf_io_options options = {
        .paths = paths, .npaths = npaths, .block = block, .depth = depth
    };
    struct dsf_disk_load load;
    size_t turn;
    int status;

    limit(&options);
    turn = options.block * (npaths > 0 ? npaths : 1);
    options.size = (int64_t)((ENOUGH + turn - 1) / turn * turn);
    load = (struct dsf_disk_load){ .size = options.size,
                                   .block = options.block,
                                   .depth = options.depth,
                                   .nfiles = npaths,
                                   .threads = 1,
                                   .seconds = 0.2 };
    status = dsf_io_open(&options, &load.io, err);
    if (status < 0)
        return status;
    status = dsf_disk_fill(&load, 0.3, &load.size, err);
    if (status == DSFLOW_OK)
        status = measure_load(&load, disk, scatter, err);
    dsf_io_close(load.io);
    return status;
}
