/* machine_model.c - the description of a machine, from TOML and back. */
#include "machine/machine_model_private.h"

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "config/job_tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ranges of rates: what is outside cannot be a machine that trains, but a
 * measurement that went wrong, or a unit that was mistaken. */
#define FLOPS  1e8, 1e18 /* operations a second */
#define NARROW 0, 1e18
#define MEMORY 1e7, 1e16 /* bytes a second */
#define WIRE   1e3, 1e16
#define STORE  1e4, 1e14
#define TAKEN  0, 1e16

#define RATE(type, field, dflt, range, help)                                   \
    DSFLOW_OPTION_FLOAT(type, field, dflt, range, help)

#define MAIN struct dsf_machine_main
static const char *const kinds[] = { "cpu", "gpu", NULL };
static const struct dsflow_option main_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRING, MAIN, name, "\"machine\"", "for people"),
    DSFLOW_OPTION_CHOICE(MAIN, kind, "\"cpu\"", kinds,
                         "cpu: ranks share cores and memory; gpu: a device "
                         "each"),
    DSFLOW_OPTION_INT(MAIN, nodes, "1", 1, 65536, "computers"),
    DSFLOW_OPTION_INT(MAIN, devices, "1", 1, 1024, "GPUs of a node"),
    DSFLOW_OPTION_INT(MAIN, workers, "1", 1, 4096,
                      "cores of a node, those beside its GPUs too"),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MAIN, memory, "\"auto\"",
                     "of a GPU, or of a node; auto: no limit"),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MAIN, host, "\"auto\"",
                     "main memory of a node of GPUs; auto: no limit"),
    RATE(MAIN, host_bandwidth, "1e11", MEMORY,
         "bytes a second of that memory: its cores update what "
         "is offloaded at this rate, for all GPUs of the node"),
    RATE(MAIN, host_link, "2.5e10", WIRE,
         "bytes a second between that memory and one GPU, while "
         "all are at it"),
    RATE(MAIN, fp32, NULL, FLOPS,
         "operations a second of a large product of matrices: "
         "of a GPU, or of a core while all work"),
    RATE(MAIN, bf16, "0.0", NARROW, "the same in bf16; 0: as in fp32"),
    RATE(MAIN, fp16, "0.0", NARROW, "the same in fp16; 0: as in fp32"),
    RATE(MAIN, bandwidth, NULL, MEMORY,
         "bytes a second of memory, of the same"),
    DSFLOW_OPTION_OF(DSFLOW_TIME, MAIN, overhead, "\"5us\"",
                     "of a task, beside its kernel"),
    { 0 },
};

#define LINK struct dsf_machine_link
static const struct dsflow_option link_options[] = {
    RATE(LINK, bandwidth, "1e10", WIRE,
         "bytes a second into one device, process or node, while all receive"),
    DSFLOW_OPTION_OF(DSFLOW_TIME, LINK, latency, "\"10us\"",
                     "until the first byte"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, LINK, duplex, "true",
                     "what comes and what goes do not slow each other down"),
    RATE(LINK, core, "0.0", TAKEN,
         "bytes a second, sent and received as messages between processes, "
         "that take all of a core; 0: they take none"),
    { 0 },
};

#define DISK struct dsf_machine_disk
static const struct dsflow_option disk_options[] = {
    RATE(DISK, read, NULL, STORE, "bytes a second, one after the other"),
    RATE(DISK, write, NULL, STORE, "bytes a second, one after the other"),
    DSFLOW_OPTION_OF(DSFLOW_TIME, DISK, latency, "\"100us\"", "of one request"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, DISK, duplex, "false",
                     "reads and writes do not slow each other down"),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, DISK, size, "\"auto\"",
                     "bytes there is room for; auto: no limit"),
    { 0 },
};

#define SCATTER struct dsf_machine_scatter
#define SCATTER_OF(field, help)                                                \
    DSFLOW_OPTION_FLOAT(SCATTER, field, "0.0", 0, 1e9, help)
static const struct dsflow_option scatter_options[] = {
    SCATTER_OF(fp32, "of products of matrices"),
    SCATTER_OF(bandwidth, "of memory"),
    SCATTER_OF(link, "of copies between ranks, or messages in a node"),
    SCATTER_OF(network, "of messages between nodes"),
    SCATTER_OF(tasks, "of the times of tasks that are alike"),
    SCATTER_OF(overhead, "of the times of a step"),
    SCATTER_OF(read, "of reading from the disk"),
    SCATTER_OF(write, "of writing to the disk"),
    { 0 },
};

const struct dsf_machine_table dsf_machine_tables[] = {
    { "machine", main_options, offsetof(struct dsf_machine_model, main) },
    { "link", link_options, offsetof(struct dsf_machine_model, link) },
    { "network", link_options, offsetof(struct dsf_machine_model, network) },
    { "disk", disk_options, offsetof(struct dsf_machine_model, disk) },
    { "scatter", scatter_options, offsetof(struct dsf_machine_model, scatter) },
};
_Static_assert(sizeof(dsf_machine_tables) / sizeof(*dsf_machine_tables) ==
                   DSF_NMACHINE_TABLES,
               "a table is missing");

void dsf_machine_model_init(struct dsf_machine_model *m)
{
    memset(m, 0, sizeof(*m));
    for (unsigned i = 0; i < DSF_NMACHINE_TABLES; i++)
        dsf_options_default(dsf_machine_tables[i].options,
                            (char *)m + dsf_machine_tables[i].offset);
    m->main.fp32 = 1e11;
    m->main.bandwidth = 1e10;
}

void dsf_machine_model_fini(struct dsf_machine_model *m)
{
    for (unsigned i = 0; i < DSF_NMACHINE_TABLES; i++)
        dsf_options_fini(dsf_machine_tables[i].options,
                         (char *)m + dsf_machine_tables[i].offset);
    for (unsigned k = 0; k < m->nkinds; k++)
        free(m->kinds[k].kind);
    free(m->kinds);
    free(m->path);
    memset(m, 0, sizeof(*m));
}

/* "; did you mean X?", or nothing. */
static const char *hint(char *buf, size_t size, const char *nearest)
{
    if (nearest == NULL)
        return "";
    snprintf(buf, size, "; did you mean %s?", nearest);
    return buf;
}

static int unknown_table(const struct dsf_toml_entry *e, const char *path,
                         struct dsflow_err *err)
{
    const char *names[DSF_NMACHINE_TABLES + 1];
    char buf[128];

    /* Of all tables that are not found, "machine" alone is in both. */
    if (dsf_job_find_table(e->table) != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s:%d: [%.60s]: is a table of a job: expected a "
                           "machine file, as dsflow bench writes one",
                           path, e->line, e->table);
    for (unsigned i = 0; i < DSF_NMACHINE_TABLES; i++)
        names[i] = dsf_machine_tables[i].name;
    names[DSF_NMACHINE_TABLES] = "kinds";
    return dsflow_fail(
        err, DSFLOW_EINVAL, "%s:%d: [%.60s]: unknown table%s", path, e->line,
        e->table,
        hint(buf, sizeof(buf),
             dsf_nearest(e->table, names, DSF_NMACHINE_TABLES + 1)));
}

static int unknown_key(const struct dsf_toml_entry *e, const char *path,
                       const struct dsf_machine_table *table,
                       struct dsflow_err *err)
{
    const char *names[16];
    unsigned n = 0;
    char buf[128];

    for (const struct dsflow_option *o = table->options; o->key != NULL; o++)
        names[n++] = o->key;
    return dsflow_fail(err, DSFLOW_EINVAL, "%s:%d: %s: %.60s: unknown key%s",
                       path, e->line, e->table, e->key,
                       hint(buf, sizeof(buf), dsf_nearest(e->key, names, n)));
}

/* Times have no range of their own. */
static int check_time(const struct dsflow_option *o, const void *base,
                      const char *text, struct dsflow_err *err)
{
    double seconds = *(const double *)((const char *)base + o->offset);

    if (seconds >= 0 && seconds <= DSF_MACHINE_LONGEST)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%.100s: expected a time such as \"5us\", %gs at most",
                       text, DSF_MACHINE_LONGEST);
}

static int set_key(struct dsf_machine_model *m, const struct dsf_toml_entry *e,
                   const char *path, struct dsflow_err *err)
{
    const struct dsflow_option *option;
    unsigned i = 0;
    char *place;
    int status;

    if (e->table[0] == '\0')
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s:%d: %.60s: expected in a table such as "
                           "[machine]",
                           path, e->line, e->key);
    if (dsf_is_kinds_table(e->table))
        return e->key[0] == '\0' ? DSFLOW_OK
                                 : dsf_machine_set_kind(m, e, path, err);
    while (i < DSF_NMACHINE_TABLES &&
           strcmp(dsf_machine_tables[i].name, e->table) != 0)
        i++;
    if (i == DSF_NMACHINE_TABLES)
        return unknown_table(e, path, err);
    if (e->key[0] == '\0')
        return DSFLOW_OK;
    option = dsf_option_find(dsf_machine_tables[i].options, e->key);
    if (option == NULL)
        return unknown_key(e, path, &dsf_machine_tables[i], err);
    status = dsf_option_set(option, (char *)m + dsf_machine_tables[i].offset,
                            &e->value, err);
    if (status == DSFLOW_OK && option->type == DSFLOW_TIME)
        status = check_time(option, (char *)m + dsf_machine_tables[i].offset,
                            e->value.text, err);
    if (status == DSFLOW_OK)
        return DSFLOW_OK;
    place = dsf_xasprintf("%s:%d: %s: %s", path, e->line, e->table, e->key);
    dsflow_fail_in(err, status, place);
    free(place);
    return status;
}

/* The first entry of a table, or of its key; NULL: there is none. */
static const struct dsf_toml_entry *
find_entry(const struct dsf_toml *toml, const char *table, const char *key)
{
    for (size_t i = 0; i < toml->n; i++)
        if (strcmp(toml->v[i].table, table) == 0 &&
            (key == NULL || strcmp(toml->v[i].key, key) == 0))
            return &toml->v[i];
    return NULL;
}

/* Keys without a default, of [machine] and of the tables that are there. */
static int check_required(const struct dsf_toml *toml, const char *path,
                          struct dsflow_err *err)
{
    for (unsigned i = 0; i < DSF_NMACHINE_TABLES; i++) {
        const char *table = dsf_machine_tables[i].name;

        if (i > 0 && find_entry(toml, table, NULL) == NULL)
            continue;
        for (const struct dsflow_option *o = dsf_machine_tables[i].options;
             o->key != NULL; o++)
            if (o->fallback == NULL && find_entry(toml, table, o->key) == NULL)
                return dsflow_fail(err, DSFLOW_EINVAL,
                                   "%s: %s: %s: is missing: expected %s", path,
                                   table, o->key, dsf_option_expected(o).s);
    }
    return DSFLOW_OK;
}

/* Only what has devices has cores beside them. */
static int check_host(const struct dsf_toml *toml,
                      const struct dsf_machine_model *m, const char *path,
                      struct dsflow_err *err)
{
    for (size_t i = 0; i < toml->n && m->main.kind == DSF_MACHINE_CPU; i++)
        if (strncmp(toml->v[i].table, "kinds.host", 10) == 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s:%d: [%s]: is of the cores beside GPUs: "
                               "expected kind = \"gpu\" in [machine]",
                               path, toml->v[i].line, toml->v[i].table);
    return DSFLOW_OK;
}

int dsf_machine_model_parse(const char *text, size_t bytes, const char *path,
                            struct dsf_machine_model *m, struct dsflow_err *err)
{
    struct dsf_toml toml = { 0 };
    int status;

    dsf_machine_model_init(m);
    m->path = dsf_xstrdup(path);
    status = dsf_toml_parse(text, bytes, path, &toml, err);
    for (size_t i = 0; i < toml.n && status == DSFLOW_OK; i++)
        status = set_key(m, &toml.v[i], path, err);
    if (status == DSFLOW_OK)
        status = check_required(&toml, path, err);
    if (status == DSFLOW_OK)
        status = check_host(&toml, m, path, err);
    dsf_toml_fini(&toml);
    if (status < 0)
        dsf_machine_model_fini(m);
    return status;
}

int dsf_machine_model_read(const char *path, struct dsf_machine_model *m,
                           struct dsflow_err *err)
{
    enum { MOST = 1 << 20 }; /* nobody writes a longer one */
    FILE *f = fopen(path, "rb");
    char *text;
    size_t n;
    int status;

    if (f == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    text = dsf_xcalloc(MOST + 1, 1);
    n = fread(text, 1, MOST + 1, f);
    if (ferror(f))
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    else if (n > MOST)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: is larger than 1 MiB: no machine file", path);
    else
        status = dsf_machine_model_parse(text, n, path, m, err);
    if (status == DSFLOW_OK)
        dsf_utf8_clean(m->main.name);
    free(text);
    fclose(f);
    return status;
}

void dsf_machine_of_model(const struct dsf_machine_model *m,
                          struct dsf_machine *machine)
{
    memset(machine, 0, sizeof(*machine));
    machine->cores = (unsigned)(m->main.kind == DSF_MACHINE_GPU
                                    ? m->main.nodes * m->main.devices
                                    : m->main.nodes * m->main.workers);
    machine->memory = machine->available =
        m->main.memory < 0 ? INT64_MAX
        : m->main.kind == DSF_MACHINE_GPU
            ? m->main.memory
            : m->main.memory * m->main.nodes;
    machine->numa = 1;
    if (m->main.kind == DSF_MACHINE_GPU) {
        machine->devices = machine->cores;
        machine->node_devices = (unsigned)m->main.devices;
    } else {
        machine->nodes = machine->processes = (unsigned)m->main.nodes;
        machine->node_cores = (unsigned)m->main.workers;
    }
    snprintf(machine->cpu, sizeof(machine->cpu), "%s", m->main.name);
}

void dsf_machine_disk_write(const struct dsf_machine_disk *d, FILE *out)
{
    if (d->read == 0 && d->write == 0)
        return;
    fprintf(out, "\n[disk]\nread = %.6e\nwrite = %.6e\n", d->read, d->write);
    fprintf(out, "latency = \"%.4fus\"\nduplex = %s\n", d->latency * 1e6,
            d->duplex ? "true" : "false");
    if (d->size >= 0)
        fprintf(out, "size = %lld\n", (long long)d->size);
}

static void write_link(const struct dsf_machine_link *l, const char *table,
                       FILE *out)
{
    fprintf(out, "\n[%s]\nbandwidth = %.6e\nlatency = \"%.4fus\"\n", table,
            l->bandwidth, l->latency * 1e6);
    fprintf(out, "duplex = %s\n", l->duplex ? "true" : "false");
    if (l->core > 0)
        fprintf(out, "core = %.6e\n", l->core);
}

int dsf_machine_model_write(const struct dsf_machine_model *m, FILE *out)
{
    const struct dsf_machine_main *x = &m->main;
    char *name = dsf_toml_quote(x->name);

    fprintf(out, "[machine]\nname = %s\nkind = \"%s\"\nnodes = %lld\n", name,
            kinds[x->kind], (long long)x->nodes);
    free(name);
    if (x->kind == DSF_MACHINE_GPU)
        fprintf(out, "devices = %lld\n", (long long)x->devices);
    if (x->kind == DSF_MACHINE_CPU || x->workers > 1)
        fprintf(out, "workers = %lld\n", (long long)x->workers);
    if (x->memory >= 0)
        fprintf(out, "memory = %lld\n", (long long)x->memory);
    if (x->kind == DSF_MACHINE_GPU && x->host >= 0)
        fprintf(out, "host = %lld\n", (long long)x->host);
    if (x->kind == DSF_MACHINE_GPU)
        fprintf(out, "host_bandwidth = %.6e\nhost_link = %.6e\n",
                x->host_bandwidth, x->host_link);
    fprintf(out, "fp32 = %.6e\n", x->fp32);
    if (x->bf16 > 0)
        fprintf(out, "bf16 = %.6e\n", x->bf16);
    if (x->fp16 > 0)
        fprintf(out, "fp16 = %.6e\n", x->fp16);
    fprintf(out, "bandwidth = %.6e\noverhead = \"%.4fus\"\n", x->bandwidth,
            x->overhead * 1e6);
    write_link(&m->link, "link", out);
    write_link(&m->network, "network", out);
    dsf_machine_disk_write(&m->disk, out);
    dsf_machine_scatter_write(m, out);
    dsf_machine_kinds_write(m, out);
    return ferror(out) ? DSFLOW_EIO : DSFLOW_OK;
}
