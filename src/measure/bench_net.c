/* bench_net.c - messages between two processes, timed. */
#include "measure/bench_net.h"

#include "base/units.h"
#include "measure/bench_measure.h"
#include "net/pass.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Beside those of a run, of which there is none. */
enum tag { ASK = DSF_OWN_TAGS + 64, READY, GO, GOT, PING, PONG, BLOCK };

enum { BLOCKS = 4, MOST = 4 << 20 }; /* under way each way, of so many bytes */

/* What process 0 asks all others to do next. */
struct ask {
    enum { PINGS, OUT, IN, BOTH, END } what; /* as process 0 sees it */
    int32_t partner;                         /* of it */
    int32_t computing;
    uint32_t rounds;
    uint64_t bytes; /* of a block */
};

struct bench {
    const struct dsf_net_bench *how;
    char *out, *in; /* BLOCKS of MOST bytes each */
    pthread_t load;
    bool loaded;
    atomic_bool unload;
    pthread_mutex_t lock;
    double work, wall; /* of the cores that compute: operations of each, and
                          seconds, since speed() was asked */
    double calm;       /* speed() without messages; 0: not known yet */

    /* In process 0. */
    struct ask ask;
    double latency, guess; /* of the rate */
};

/* --- cores that compute --------------------------------------------------- */

static void *compute(void *user)
{
    static const struct dsf_bench_product product = { 0,   1,   256,
                                                      768, 768, DSFLOW_FP32 };
    struct bench *b = user;
    double rate, seconds = fmin(0.05, b->how->seconds / 4);

    while (!atomic_load(&b->unload)) {
        double from = dsf_now();

        if (dsf_bench_gemm(&product, b->how->cores, seconds, &rate, NULL) < 0)
            break;
        pthread_mutex_lock(&b->lock);
        b->work += rate * seconds;
        b->wall += dsf_now() - from;
        pthread_mutex_unlock(&b->lock);
    }
    return NULL;
}

/* Operations a second of a core since it was asked the last time; 0: none. */
static double speed(struct bench *b)
{
    double is;

    pthread_mutex_lock(&b->lock);
    is = b->wall > 0 ? b->work / b->wall : 0;
    b->work = b->wall = 0;
    pthread_mutex_unlock(&b->lock);
    return is;
}

/* What cores that compute reach while there are no messages. */
static void find_calm(struct bench *b)
{
    const struct timespec most = { 0, 500000000 };
    const double until = dsf_now() + 2 * b->how->seconds;

    speed(b);
    do
        nanosleep(&most, NULL);
    while (dsf_now() < until);
    b->calm = speed(b);
}

static void load(struct bench *b, bool computing)
{
    if (b->loaded == computing)
        return;
    atomic_store(&b->unload, !computing);
    if (computing)
        b->loaded = pthread_create(&b->load, NULL, compute, b) == 0;
    else
        pthread_join(b->load, NULL);
    b->loaded = b->loaded && computing;
}

/* --- messages ------------------------------------------------------------- */

struct flight {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned left;
    struct dsf_message messages[2 * BLOCKS];
};

static void landed(struct dsf_message *m)
{
    struct flight *f = m->user;

    pthread_mutex_lock(&f->lock);
    if (--f->left == 0)
        pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static int fly(struct bench *b, int32_t peer, bool out, bool in, uint64_t bytes,
               struct dsflow_err *err)
{
    struct dsf_wire *wire = b->how->wire;
    struct flight f = { .left = BLOCKS * ((unsigned)out + (unsigned)in) };
    unsigned n = 0;
    int status = DSFLOW_OK;

    pthread_mutex_init(&f.lock, NULL);
    pthread_cond_init(&f.changed, NULL);
    for (unsigned i = 0; i < 2 * BLOCKS; i++) {
        bool way = i % 2 == 0;

        if (way ? in : out)
            f.messages[n++] = (struct dsf_message){
                .memory = (way ? b->in : b->out) + (size_t)(i / 2) * MOST,
                .bytes = bytes,
                .process = peer,
                .tag = BLOCK,
                .out = !way,
                .done = landed,
                .user = &f
            };
    }
    for (unsigned i = 0; i < n; i++)
        wire->post(wire, &f.messages[i]);
    pthread_mutex_lock(&f.lock);
    while (f.left > 0)
        pthread_cond_wait(&f.changed, &f.lock);
    pthread_mutex_unlock(&f.lock);
    for (unsigned i = 0; i < n && status == DSFLOW_OK; i++)
        if (f.messages[i].status < 0)
            status = dsflow_fail(err, f.messages[i].status, "%s",
                                 f.messages[i].err.msg);
    pthread_cond_destroy(&f.changed);
    pthread_mutex_destroy(&f.lock);
    return status;
}

static int note(struct bench *b, bool out, int32_t peer, enum tag tag,
                struct dsflow_err *err)
{
    uint64_t nothing = 0;

    return dsf_pass(b->how->wire, out, peer, tag, &nothing, sizeof(nothing),
                    err);
}

/* --- in the others -------------------------------------------------------- */

static int answer(struct bench *b, const struct ask *ask,
                  struct dsflow_err *err)
{
    int status = note(b, true, 0, READY, err);

    for (uint32_t i = 0; i < ask->rounds && status == DSFLOW_OK; i++) {
        if (ask->what == PINGS) {
            status = note(b, false, 0, PING, err);
            if (status == DSFLOW_OK)
                status = note(b, true, 0, PONG, err);
            continue;
        }
        if (i == 0)
            status = note(b, false, 0, GO, err);
        if (status == DSFLOW_OK)
            status = fly(b, 0, ask->what != OUT, ask->what != IN, ask->bytes,
                         err);
    }
    return status == DSFLOW_OK && ask->what != PINGS
               ? note(b, true, 0, GOT, err)
               : status;
}

static int begin(struct bench *b, const struct dsf_net_bench *how,
                 struct dsflow_err *err)
{
    const size_t bytes = (size_t)BLOCKS * MOST;

    *b = (struct bench){ .how = how, .out = malloc(bytes),
                         .in = malloc(bytes) };
    pthread_mutex_init(&b->lock, NULL);
    if (b->out == NULL || b->in == NULL)
        return dsflow_fail(err, DSFLOW_ENOMEM,
                           "messages: %zu bytes each way: there is no memory",
                           bytes);
    memset(b->out, 1, bytes);
    memset(b->in, 1, bytes);
    return DSFLOW_OK;
}

static void end(struct bench *b)
{
    load(b, false);
    pthread_mutex_destroy(&b->lock);
    free(b->out);
    free(b->in);
}

int dsf_net_bench_serve(const struct dsf_net_bench *how, struct dsflow_err *err)
{
    struct ask ask = { .what = PINGS };
    struct bench b;
    int status = begin(&b, how, err);

    while (status == DSFLOW_OK && ask.what != END) {
        status = dsf_pass(how->wire, false, 0, ASK, &ask, sizeof(ask), err);
        if (status < 0 || ask.what == END)
            break;
        load(&b, ask.computing);
        if (ask.partner == how->wire->process)
            status = answer(&b, &ask, err);
    }
    end(&b);
    return status;
}

/* --- in process 0 --------------------------------------------------------- */

static int tell(struct bench *b, struct dsflow_err *err)
{
    struct dsf_wire *wire = b->how->wire;
    int status = DSFLOW_OK;

    for (int32_t p = 1; p < wire->nprocesses && status == DSFLOW_OK; p++)
        status = dsf_pass(wire, true, p, ASK, &b->ask, sizeof(b->ask), err);
    load(b, b->ask.computing);
    return status == DSFLOW_OK && b->ask.what != END
               ? note(b, false, b->ask.partner, READY, err)
               : status;
}

enum { LEAST_PINGS = 16, MOST_PINGS = 256 };

static int ping_often(struct bench *b, uint32_t n, struct dsflow_err *err)
{
    double times[MOST_PINGS];
    int status;

    b->ask.what = PINGS;
    b->ask.rounds = n;
    status = tell(b, err);
    for (uint32_t i = 0; i < n && status == DSFLOW_OK; i++) {
        double from = dsf_now();

        status = note(b, true, b->ask.partner, PING, err);
        if (status == DSFLOW_OK)
            status = note(b, false, b->ask.partner, PONG, err);
        times[i] = (dsf_now() - from) / 2;
    }
    if (status == DSFLOW_OK)
        dsf_scatter(times, n, &b->latency);
    return status;
}

/* Some, and then as many as there is time for. */
static int ping(struct bench *b, struct dsflow_err *err)
{
    int status = ping_often(b, LEAST_PINGS, err);
    double n = b->how->seconds / 2 / fmax(b->latency, 1e-9);

    if (status < 0 || n < LEAST_PINGS)
        return status;
    return ping_often(b, (uint32_t)fmin(n, MOST_PINGS), err);
}

/* Bytes a second, one way or each way, in about so many seconds by what is
 * known of the rate. */
static int stream(void *user, double seconds, double *rate,
                  struct dsflow_err *err)
{
    struct bench *b = user;
    struct ask *ask = &b->ask;
    double bytes = fmax(b->guess * seconds, 4096.0 * BLOCKS), from, took;
    int status;

    ask->bytes = (uint64_t)fmin(bytes / BLOCKS, MOST);
    ask->rounds =
        (uint32_t)fmin(ceil(bytes / BLOCKS / (double)ask->bytes), 1e6);
    status = tell(b, err);
    from = dsf_now();
    if (status == DSFLOW_OK)
        status = note(b, true, ask->partner, GO, err);
    for (uint32_t i = 0; i < ask->rounds && status == DSFLOW_OK; i++)
        status = fly(b, ask->partner, ask->what != IN, ask->what != OUT,
                     ask->bytes, err);
    if (status == DSFLOW_OK)
        status = note(b, false, ask->partner, GOT, err);
    took = dsf_now() - from;
    /* That it may begin, and that it has come, took a message each; where they
     * were faster than it was thought, not all of it. */
    *rate = (double)ask->bytes * BLOCKS * ask->rounds /
            fmax(took - 2 * b->latency, took / 4);
    b->guess = *rate;
    return status;
}

static int measure(struct bench *b, int what, struct dsf_measured *out,
                   struct dsflow_err *err)
{
    double first;
    int status;

    b->ask.what = what;
    /* So that it is known how much there is time for. */
    b->guess = 0;
    status = stream(b, 0, &first, err);
    for (double t = 0.01; t < b->how->seconds / 3 && status == DSFLOW_OK;
         t *= 10)
        status = stream(b, t, &first, err);
    return status == DSFLOW_OK ? dsf_measure("messages", stream, b,
                                             b->how->seconds, out, err)
                               : status;
}

#define LEAST_LOST 0.01

static int measure_path(struct bench *b, struct dsf_net_path *path,
                        struct dsflow_err *err)
{
    double lost;
    int status;

    b->ask.partner = path->to;
    b->ask.computing = path->computing;
    status = ping(b, err);
    if (status == DSFLOW_OK && path->computing && b->calm == 0)
        find_calm(b);
    path->latency = b->latency;
    if (status == DSFLOW_OK)
        status = measure(b, OUT, &path->out, err);
    if (status == DSFLOW_OK)
        status = measure(b, IN, &path->in, err);
    speed(b);
    if (status == DSFLOW_OK)
        status = measure(b, BOTH, &path->both, err);
    lost = b->calm > 0 ? 1 - speed(b) / b->calm : 0;
    /* Less is not to be told from what cores vary by. */
    path->core = lost > LEAST_LOST
                     ? path->both.value / (lost * (double)b->how->cores)
                     : 0;
    return status;
}

/* The slowest path of its kind is what is planned with. */
static void take(const struct dsf_net_path *path, bool first,
                 struct dsf_machine_model *m)
{
    struct dsf_machine_link *link = path->apart ? &m->network : &m->link;
    double *scatter = path->apart ? &m->scatter.network : &m->scatter.link;
    double one = fmin(path->out.value, path->in.value);
    /* Half of it each way is one way at a time. */
    bool duplex = path->both.value > 0.7 * one;

    /* Jobs send both ways. */
    if (duplex)
        one = fmin(one, path->both.value);
    if (!first && one > link->bandwidth)
        return;
    link->bandwidth = one;
    link->latency = path->latency;
    link->duplex = duplex;
    link->core = path->core;
    *scatter = fmax(path->out.scatter, path->in.scatter);
}

static int measure_all(struct bench *b, struct dsf_machine_model *m,
                       struct dsflow_err *err)
{
    const struct dsf_wire *wire = b->how->wire;
    bool known[2] = { false };
    int status = DSFLOW_OK;

    for (int32_t p = 1; p < wire->nprocesses; p++)
        for (int computing = 0; computing < 2; computing++) {
            struct dsf_net_path path = { .to = p,
                                         .apart = !dsf_wire_is_near(wire, 0, p),
                                         .computing = computing };

            status = measure_path(b, &path, err);
            if (status < 0)
                return status;
            if (b->how->on_path != NULL)
                b->how->on_path(b->how->user, &path);
            if (!computing)
                continue;
            take(&path, !known[path.apart], m);
            known[path.apart] = true;
        }
    return status;
}

int dsf_net_bench(const struct dsf_net_bench *how, struct dsf_machine_model *m,
                  struct dsflow_err *err)
{
    struct bench b;
    int status = begin(&b, how, err);

    if (status == DSFLOW_OK && m != NULL)
        status = measure_all(&b, m, err);
    b.ask.what = END;
    b.ask.computing = false;
    tell(&b, status == DSFLOW_OK ? err : NULL);
    end(&b);
    return status;
}
