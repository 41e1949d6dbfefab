/* machine_model.h - a machine as the simulator sees it: devices, how fast they
 * are, and the links between them. It is read from a file, or measured. */
#ifndef DSF_MACHINE_MACHINE_MODEL_H
#define DSF_MACHINE_MACHINE_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <dsflow/dtype.h>
#include <dsflow/error.h>

#include "machine/machine.h"

enum dsf_machine_kind {
    DSF_MACHINE_CPU, /* the ranks share the cores and the memory of a node */
    DSF_MACHINE_GPU  /* each rank has a device, and a link beside it */
};

struct dsf_machine_main { /* [machine] */
    char *name;
    int kind;          /* enum dsf_machine_kind */
    int64_t nodes;
    int64_t devices;   /* GPUs of a node */
    int64_t workers;   /* cores of a node, of a CPU machine */
    int64_t memory;    /* bytes: of a GPU, or of a node; -1: no limit */
    int64_t host;      /* bytes of main memory of a node of GPUs; -1: no limit */
    double host_bandwidth; /* bytes/s of it: what the cores of the node have for
                              the updates of all its ranks */
    double host_link;  /* bytes/s between it and one GPU, while all are at it */
    double fp32;       /* operations/s of a large product of matrices: of a GPU,
                          or of a core while all work */
    double bf16, fp16; /* the same of products in these types; 0: as in fp32 */
    double bandwidth;  /* bytes/s of memory, of the same */
    double overhead;   /* seconds of a task beside its kernel */
};

/* [link] in a node, between devices or processes; [network] between nodes */
struct dsf_machine_link {
    double bandwidth; /* bytes/s into one device, process or node, while all
                         receive */
    double latency;   /* seconds until the first byte */
    bool duplex;      /* what comes and what goes do not slow each other down */
    double core;      /* bytes/s, sent and received, that take all of a core; 0:
                         messages take none */
};

/* [disk]: what all ranks of a node share. */
struct dsf_machine_disk {
    double read, write; /* bytes/s, sequential; both 0: there is none */
    double latency;     /* seconds of one request */
    bool duplex;        /* reads and writes at once take the time of the longer,
                           and not of both */
    int64_t size;       /* bytes; -1: no limit */
};

/* [scatter]: of what was measured several times, the largest and the smallest
 * figure apart, as a share of the middle one. 0: not known. */
struct dsf_machine_scatter {
    double fp32, bandwidth, link, network, tasks, overhead, read, write;
};
#define DSF_SCATTERED 0.25 /* more says that the machine was disturbed */

/* What was measured of a kind of task, on one core while all work or on a GPU:
 * seconds = fixed + flops * per_flop + bytes * per_byte + scores * per_score.
 */
enum { DSF_NTERMS = 4 };
struct dsf_kind_rate {
    char *kind;
    bool host;               /* on the cores beside a GPU: [kinds.host] */
    enum dsflow_dtype dtype; /* in this type: [kinds.bf16]; DSFLOW_BYTES: in any
                                that has no rate of its own */
    double fixed, per_flop, per_byte;
    double per_score; /* of attention: an exponential */
};

struct dsf_machine_model {
    char *path; /* of the file that it was read from, or NULL */
    bool here;  /* this machine, of whose disks only those are known that a job
                   uses */
    struct dsf_machine_main main;
    struct dsf_machine_link link, network;
    struct dsf_machine_disk disk;
    struct dsf_machine_scatter scatter;
    struct dsf_kind_rate *kinds; /* [kinds] */
    unsigned nkinds;
    size_t cap_kinds;
};

/* Everything at its default: one core. */
void dsf_machine_model_init(struct dsf_machine_model *m);
void dsf_machine_model_fini(struct dsf_machine_model *m);

/* Messages are "file:line: table: key: value: expected …". On error `m` needs
 * no fini. */
int dsf_machine_model_read(const char *path, struct dsf_machine_model *m,
                           struct dsflow_err *err);
/* The same from memory; `path` is for messages. */
int dsf_machine_model_parse(const char *text, size_t bytes, const char *path,
                            struct dsf_machine_model *m,
                            struct dsflow_err *err);
/* Is every rate one that a machine can have? What was measured may be 0, not a
 * number, or absurd. DSFLOW_EINVAL: the first that is not. */
int dsf_machine_model_check(const struct dsf_machine_model *m,
                            struct dsflow_err *err);
/* Give the first that is not its default, which goes to `text`. */
void dsf_machine_model_mend(struct dsf_machine_model *m, char *text,
                            size_t size);
/* Which figures were apart by more than DSF_SCATTERED when they were measured,
 * as "bandwidth by 41 %". Returns whether any was. */
bool dsf_machine_model_scattered(const struct dsf_machine_model *m, char *text,
                                 size_t size);
/* TOML that reads back to the same numbers. */
int dsf_machine_model_write(const struct dsf_machine_model *m, FILE *out);
/* Its table [disk], behind an empty line; nothing where there is none. */
void dsf_machine_disk_write(const struct dsf_machine_disk *d, FILE *out);

/* Was any kind of task measured in this very type? */
bool dsf_machine_model_knows(const struct dsf_machine_model *m,
                             enum dsflow_dtype dtype);
/* NULL where nothing was measured of it, in this type or in any. */
const struct dsf_kind_rate *
dsf_machine_model_kind(const struct dsf_machine_model *m, const char *kind,
                       bool host, enum dsflow_dtype dtype);
/* The rate of a kind, to be filled in; added where there was none. Valid until
 * the next is added. */
struct dsf_kind_rate *dsf_machine_model_add_kind(struct dsf_machine_model *m,
                                                 const char *kind, bool host,
                                                 enum dsflow_dtype dtype);

static inline bool dsf_machine_has_disk(const struct dsf_machine_model *m)
{
    return m->disk.read != 0 || m->disk.write != 0;
}

/* May data be on a disk of the machine? NULL: this one. */
static inline bool dsf_machine_may_use_disk(const struct dsf_machine_model *m)
{
    return m == NULL || m->here || m->disk.read > 0;
}

/* What a plan asks of a machine, for one that is described: the cores of a
 * node; the memory of a device, or of all nodes. */
void dsf_machine_of_model(const struct dsf_machine_model *m,
                          struct dsf_machine *machine);

/* Ranks of a node, out of `nranks`. */
static inline unsigned
dsf_machine_model_node_ranks(const struct dsf_machine_model *m, unsigned nranks)
{
    int64_t each = m->main.kind == DSF_MACHINE_GPU
                       ? m->main.devices
                       : (nranks + m->main.nodes - 1) / m->main.nodes;

    return each > 0 ? (unsigned)each : 1;
}

/* Node of a rank out of `nranks`. */
static inline int dsf_machine_model_node(const struct dsf_machine_model *m,
                                         unsigned nranks, int rank)
{
    return rank / (int)dsf_machine_model_node_ranks(m, nranks);
}

#endif
