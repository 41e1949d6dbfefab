/* bench_net.h - what messages between two processes take, over the wire that
 * runs use: while all is idle, and while cores compute. */
#ifndef DSF_MEASURE_BENCH_NET_H
#define DSF_MEASURE_BENCH_NET_H

#include "measure/measured.h"
#include "net/wire.h"

/* Between process 0 and another one. */
struct dsf_net_path {
    int32_t to;
    bool apart;          /* they are on two hosts */
    bool computing;      /* all cores of all processes meanwhile */
    double latency;      /* seconds of a message of 8 bytes, one way */
    struct dsf_measured out, in; /* bytes a second: from 0, and back */
    struct dsf_measured both;    /* each way, while both are at it */
    double core; /* bytes/s each way then that would take all of a core; 0: no
                    core was seen to lose any, or none computed */
};

struct dsf_net_bench {
    struct dsf_wire *wire;
    unsigned cores; /* of this process, which compute */
    double seconds; /* of each figure */
    void *user;
    void (*on_path)(void *user, const struct dsf_net_path *path); /* or NULL */
};

/* In process 0: messages between it and each of the others, one after the
 * other; the slowest of one host go to [link] of `m`, those between hosts to
 * [network], as they are while cores compute. `m` is NULL where nothing is to
 * be measured, for the others to hear of it. DSFLOW_EIO: a message did not get
 * there; DSFLOW_EFAIL: figures that no network has. */
int dsf_net_bench(const struct dsf_net_bench *how, struct dsf_machine_model *m,
                  struct dsflow_err *err);

/* In the others, until that has ended. */
int dsf_net_bench_serve(const struct dsf_net_bench *how,
                        struct dsflow_err *err);

#endif
