/* machine_cache.c - the present machine, measured once. */
#include "measure/machine_cache.h"

#include "base/alloc.h"
#include "base/aside.h"
#include "base/log.h"
#include "base/synced.h"
#include "measure/apart.h"
#include "measure/bench_disk.h"
#include "measure/bench_measure.h"
#include "measure/disks.h"
#include "measure/gpu_once.h"
#include "measure/measured.h"
#include "policies/keys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xxhash.h>

char *dsf_machine_cache_file(const char *name)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache != NULL && cache[0] == '/')
        return dsf_xasprintf("%s/dsflow/%s", cache, name);
    if (home != NULL && home[0] == '/')
        return dsf_xasprintf("%s/.cache/dsflow/%s", home, name);
    return NULL;
}

char *dsf_machine_cache_path(void)
{
    return dsf_machine_cache_file("machine.toml");
}

/* What tells this machine from another that has the same folder. */
static char *name_of(const struct dsf_machine *machine)
{
    return dsf_xasprintf("%s, %u core%s, %s", machine->cpu, machine->cores,
                         machine->cores == 1 ? "" : "s", machine->isa);
}

struct touching {
    enum dsf_bench_access access;
    unsigned cores;
    double seconds;
};

static int touch_there(void *user, void *rate, struct dsflow_err *err)
{
    const struct touching *how = user;

    return dsf_bench_memory(how->access, how->cores, 64 << 20, how->seconds,
                            rate, err);
}

static int touch_memory(void *user, double seconds, double *value,
                        struct dsflow_err *err)
{
    struct touching *how = user;

    how->seconds = seconds;
    return dsf_apart(touch_there, how, value, sizeof(*value), err);
}

int dsf_machine_measure_memory(const struct dsf_machine *machine,
                               enum dsf_bench_access access,
                               struct dsf_measured *out, struct dsflow_err *err)
{
    struct touching how = { access, machine->cores, 0 };

    return dsf_measure("memory", touch_memory, &how, 0.12, out, err);
}

void dsf_machine_measure(const struct dsf_machine *machine,
                         struct dsf_machine_model *m)
{
    struct dsf_measured copy = { 0 };
    struct dsf_samples samples = { 0 };
    double fp32;

    dsf_machine_model_init(m);
    free(m->main.name);
    m->main.name = name_of(machine);
    m->main.workers = machine->cores;
    m->main.memory = machine->memory;
    dsf_calibrate_tasks(machine, machine->cores, DSF_CALIBRATE_QUICK,
                        DSFLOW_FP32, &samples);
    dsf_rates_fit(&samples, m);
    fp32 = dsf_samples_flops(&samples, DSFLOW_BYTES);
    if (fp32 > 0)
        m->main.fp32 = fp32;
    m->scatter.tasks = dsf_samples_scatter(&samples);
    dsf_machine_measure_memory(machine, DSF_BENCH_COPY, &copy, NULL);
    m->main.bandwidth = copy.value;
    m->scatter.bandwidth = copy.scatter;
    m->link.bandwidth = m->network.bandwidth = m->main.bandwidth / 2;
    if (dsf_calibrate_overhead(machine, m, NULL) < 0)
        dsf_debug("StarPU does not start: its overhead is a guess");
    free(samples.v);
}

/* Add rates of what computes in bf16 or fp16, and of kinds of task that have
 * none; what is in `m` stays. Returns whether all that was measured is sound.
 */
static bool measure_type(const struct dsf_machine *machine,
                         enum dsflow_dtype type, struct dsf_machine_model *m)
{
    struct dsf_samples samples = { 0 };
    struct dsflow_err err;
    char assumed[32];
    bool sound = true;

    dsf_calibrate_tasks(machine, machine->cores, DSF_CALIBRATE_QUICK, type,
                        &samples);
    m->scatter.tasks = fmax(m->scatter.tasks, dsf_samples_scatter(&samples));
    dsf_samples_keep_new(&samples, m);
    dsf_rates_fit(&samples, m);
    *(type == DSFLOW_BF16 ? &m->main.bf16 : &m->main.fp16) =
        dsf_samples_flops(&samples, type);
    free(samples.v);
    while (dsf_machine_model_check(m, &err) < 0) {
        dsf_machine_model_mend(m, assumed, sizeof(assumed));
        dsf_warn("measured: %s; %s is assumed", err.msg, assumed);
        sound = false;
    }
    return sound && dsf_machine_model_knows(m, type);
}

/* What takes the place of the file, in folders that there are then. */
static int begin_file(struct dsf_aside *file, const char *path,
                      struct dsflow_err *err)
{
    const char *slash = strrchr(path, '/');
    int why = 0; /* a folder is not there */

    if (slash != NULL && slash > path) {
        char *folder = dsf_xstrndup(path, (size_t)(slash - path));

        if (dsf_synced_folders(folder, NULL) < 0)
            why = errno;
        free(folder);
    }
    if (dsf_aside_open(file, path) == 0)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s", path,
                       strerror(why != 0 ? why : errno));
}

int dsf_machine_can_save(const char *path, struct dsflow_err *err)
{
    struct dsf_aside file;
    int status = begin_file(&file, path, err);

    if (status == DSFLOW_OK)
        dsf_aside_close(&file, false);
    return status;
}

int dsf_machine_save(const struct dsf_machine_model *m, const char *path,
                     struct dsflow_err *err)
{
    struct dsf_aside file;
    int status = dsf_machine_model_check(m, err);

    if (status == DSFLOW_OK)
        status = begin_file(&file, path, err);
    if (status < 0)
        return status;
    fprintf(file.out, "# Measured by dsflow bench, or by the first dsflow plan "
                      "or run.\n");
    dsf_machine_model_write(m, file.out);
    return dsf_aside_close(&file, true) < 0
               ? dsflow_fail(err, DSFLOW_EIO, "%s: %m", path)
               : DSFLOW_OK;
}

/* Does the file describe `what`, which has this name? Then it is read. What it
 * says is not believed where it cannot be. */
static bool load(const char *path, const char *what, const char *name,
                 struct dsf_machine_model *m)
{
    struct dsflow_err err;

    if (access(path, R_OK) < 0)
        return false;
    if (dsf_machine_model_read(path, m, &err) < 0) {
        dsf_warn("%s; %s is measured again", err.msg, what);
        return false;
    }
    if (strcmp(m->main.name, name) == 0)
        return true;
    dsf_machine_model_fini(m);
    return false;
}

/* The cores of this node, whatever ranks are on: gpu_present.c measures GPUs.
 */
static struct dsf_machine cores_of(const struct dsf_machine *machine)
{
    struct dsf_machine cores = *machine;

    cores.gpus = 0;
    if (machine->processes > 0)
        cores.cores = machine->node_cores;
    return cores;
}

static void measure_quickly(void *machine, struct dsf_machine_model *m)
{
    dsf_machine_measure(machine, m);
}

/* What is assumed is not kept. */
static void keep(const struct dsf_machine_model *m, const char *path)
{
    struct dsflow_err err;

    if (path != NULL && dsf_machine_save(m, path, &err) < 0)
        dsf_warn("what was measured is not kept: %s", err.msg);
}

bool dsf_machine_load(const char *path, const char *name,
                      struct dsf_machine_model *m)
{
    return load(path, "the machine", name, m);
}

int dsf_machine_present(const struct dsf_machine *machine,
                        struct dsf_machine_model *m, struct dsflow_err *err)
{
    struct dsf_machine cores = cores_of(machine);
    char *path = dsf_machine_cache_path(), *name = name_of(&cores);

    if (path == NULL || !load(path, "the machine", name, m)) {
        dsf_info("measuring the machine, once: this takes some seconds");
        if (dsf_measure_machine(measure_quickly, &cores, m))
            keep(m, path);
        dsf_warn_of_scatter(m, "the machine", "run dsflow bench");
    }
    free(path);
    free(name);
    return DSFLOW_OK;
}

/* What tells the disks of a job from others: where they are, and how they are
 * used. */
static char *name_disks(const struct dsf_job *job, const char *machine)
{
    const struct dsf_job_nvme *nvme = &job->nvme;
    char *name = dsf_xasprintf("%s, block %lld, depth %lld", machine,
                               (long long)nvme->block, (long long)nvme->depth);

    for (size_t i = 0; i < nvme->path.n; i++) {
        struct stat st = { 0 };
        struct statfs fs = { 0 };
        char *before = name;

        stat(nvme->path.v[i], &st); /* dsf_disks_check has found them */
        statfs(nvme->path.v[i], &fs);
        name = dsf_xasprintf("%s, disk %u:%u of %llx", before, major(st.st_dev),
                             minor(st.st_dev), (unsigned long long)fs.f_type);
        free(before);
    }
    return name;
}

/* A disk that is full, or that others are busy with, is no reason not to plan,
 * nor to run. */
static bool measure_disks(const struct dsf_job *job,
                          struct dsf_machine_model *m)
{
    const struct dsf_job_nvme *nvme = &job->nvme;
    struct dsflow_err err;

    dsf_info("measuring the disk of memory.nvme.path, once");
    if (dsf_bench_disk((const char *const *)nvme->path.v,
                       (unsigned)nvme->path.n, (size_t)nvme->block,
                       (unsigned)nvme->depth, &m->disk, &m->scatter,
                       &err) == DSFLOW_OK &&
        dsf_machine_model_check(m, &err) == DSFLOW_OK)
        return true;
    m->disk.read = m->disk.write = 1e9;
    dsf_warn("%s: the disk is not measured, and 1 GB/s is assumed", err.msg);
    return false;
}

/* A file without a disk is not what was kept. */
static bool load_disks(const char *path, const char *name,
                       struct dsf_machine_model *m)
{
    if (!load(path, "the disk", name, m))
        return false;
    if (dsf_machine_has_disk(m))
        return true;
    dsf_warn("%s: disk: is missing; the disk is measured again", path);
    dsf_machine_model_fini(m);
    return false;
}

/* The disks of a job, in a file of their own, as another job has others. */
static void find_disks(const struct dsf_job *job, struct dsf_machine_model *m)
{
    struct dsf_machine_model disks;
    char *name = name_disks(job, m->main.name), *path, *again;
    char *file =
        dsf_xasprintf("disk-%016llx.toml",
                      (unsigned long long)XXH3_64bits(name, strlen(name)));

    path = dsf_machine_cache_file(file);
    if (path == NULL || !load_disks(path, name, &disks)) {
        dsf_machine_model_init(&disks);
        free(disks.main.name);
        disks.main.name = dsf_xstrdup(name);
        if (measure_disks(job, &disks))
            keep(&disks, path);
        again = path != NULL
                    ? dsf_xasprintf("remove %s and measure it again", path)
                    : dsf_xstrdup("measure it again");
        dsf_warn_of_scatter(&disks, "the disk", again);
        free(again);
    }
    m->disk = disks.disk;
    dsf_machine_model_fini(&disks);
    free(name);
    free(file);
    free(path);
}

/* What was measured before a job asked for this type is completed. */
static void find_type(const struct dsf_machine *machine, enum dsflow_dtype type,
                      struct dsf_machine_model *m)
{
    struct dsf_machine cores = cores_of(machine);
    char *path;

    if (type == DSFLOW_FP32 || dsf_machine_model_knows(m, type))
        return;
    dsf_info("measuring the machine in %s, once: this takes some seconds",
             dsflow_dtype_str(type));
    path = dsf_machine_cache_path();
    if (measure_type(&cores, type, m))
        keep(m, path);
    free(path);
    dsf_warn_of_scatter(m, "the machine", "run dsflow bench");
}

int dsf_machine_of_job(const struct dsf_machine *machine,
                       const struct dsf_job *job, struct dsf_machine_model *m,
                       struct dsflow_err *err)
{
    bool gpus = machine->gpus > 0 && dsf_gpu_once(machine, job, m);
    int status = gpus ? DSFLOW_OK : dsf_machine_present(machine, m, err);

    if (status < 0)
        return status;
    m->here = true;
    if (!gpus)
        find_type(machine, dsf_compute_type(job), m);
    if (dsf_disks_are_used(job))
        find_disks(job, m);
    return DSFLOW_OK;
}

int dsf_machine_save_disk(const struct dsf_machine_disk *disk,
                          const struct dsf_machine_scatter *scatter,
                          const char *path, struct dsflow_err *err)
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
    dsf_machine_model_fini(&model);
    return status;
}
