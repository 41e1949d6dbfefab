/* nccl.cpp - NCCL between GPUs that are not there, of processes of one machine:
 * sockets. What makes programs hang on real ones is as it is there: an
 * operation stays in its stream until the other end has come; those of a
 * communicator follow each other at a GPU in any streams, and those of all of
 * them where NCCL_LAUNCH_ORDER_IMPLICIT asks for it (as with drivers before
 * CUDA 12.3); a communicator has streams of its own at a GPU, one of which
 * waits for each of its operations; two members that meet the first time keep
 * the threads that call; nobody hears of a death; one that is left waits for
 * the others of its GPU. What waits for longer than DSFLOW_EMULATED_HANG
 * seconds (20) is named, and ends the process. */
#include "runtime.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nccl.h>
#include <poll.h>
#include <random>
#include <set>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

using namespace emulated;

namespace {

typedef std::chrono::steady_clock clock_type;

/* What waits, until it has waited too long. */
struct patience {
    const char *what;
    int gpu, other;
    clock_type::time_point since = clock_type::now();

    void look() const
    {
        const auto most = std::chrono::seconds(setting("HANG", 20));

        if (clock_type::now() - since < most)
            return;
        fprintf(stderr,
                "emulated NCCL: GPU %d waits too long: %s member %d\n", gpu,
                what, other);
        _exit(70);
    }
};

/* What waits for its turn, in the order in which it was put into streams. */
struct order {
    std::mutex lock; /* of these: */
    std::condition_variable changed;
    uint64_t given = 0, turn = 0;
};

/* Of a communicator; of all of a GPU where they are asked to have one. */
std::shared_ptr<order> order_of(int gpu)
{
    static std::map<int, std::shared_ptr<order>> all;
    static std::mutex lock;
    const char *one = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");

    if (one == nullptr || strcmp(one, "1") != 0)
        return std::make_shared<order>();

    std::lock_guard<std::mutex> guard(lock);

    if (all[gpu] == nullptr)
        all[gpu] = std::make_shared<order>();
    return all[gpu];
}

struct state {
    const std::string name;
    const int n, me, gpu;
    int listener = -1;
    std::map<int, int> to, from; /* by member: sockets */
    std::set<int> answered;
    std::atomic<bool> left{ false }, broken{ false };
    const std::shared_ptr<order> line;
    /* For the ends of messages, and for what the host would do. */
    stream device, host;

    state(const char *id, int members, int member, int on)
        : name(id), n(members), me(member), gpu(on), line(order_of(on)),
          device(on), host(on)
    {
    }
    ~state()
    {
        give_for_ways(gpu, from.size());
        for (const auto *v : { &to, &from })
            for (const auto &fd : *v)
                close(fd.second);
        if (listener >= 0)
            close(listener);
    }
};
typedef std::shared_ptr<state> comm_ptr;

/* An end of a message. */
struct op {
    comm_ptr comm;
    bool out;
    char *at;
    uint64_t bytes;
    int peer;
    stream *in;
};

/* Between ncclGroupStart and ncclGroupEnd. */
struct group {
    int depth = 0;
    std::vector<comm_ptr> joining;
    std::vector<op> ops;
};
thread_local group current;

/* --- sockets -------------------------------------------------------------- */

socklen_t address(const state &s, int member, sockaddr_un *a)
{
    const std::string text =
        "dsflow-nccl-" + s.name + "-" + std::to_string(member);

    *a = {};
    a->sun_family = AF_UNIX;
    text.copy(a->sun_path + 1, sizeof(a->sun_path) - 1);
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                  text.size());
}

void listen_at(state &s)
{
    sockaddr_un a;
    const socklen_t length = address(s, s.me, &a);

    s.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(s.listener, reinterpret_cast<sockaddr *>(&a), length) != 0 ||
        listen(s.listener, 128) != 0)
        perror("emulated NCCL");
}

/* All bytes of it, as long as nobody leaves. False: somebody did. */
bool move(const state &s, int fd, bool out, void *at, size_t bytes,
          const char *what, int other)
{
    const patience p = { what, s.gpu, other };

    for (char *now = static_cast<char *>(at); bytes > 0;) {
        const ssize_t did =
            out ? send(fd, now, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                : recv(fd, now, bytes, MSG_DONTWAIT);

        if (did > 0) {
            now += did;
            bytes -= static_cast<size_t>(did);
            continue;
        }
        if (s.left)
            return false;
        p.look();
        /* Who has died is waited for, too. */
        pollfd one = { fd, static_cast<short>(out ? POLLOUT : POLLIN), 0 };
        if (did == 0 || errno != EAGAIN)
            usleep(1000);
        else
            poll(&one, 1, 20);
    }
    return true;
}

struct hello {
    int member, gpu;
};

/* To a member, which may not listen yet. */
int meet(const state &s, int member)
{
    const patience p = { "to meet", s.gpu, member };
    hello h = { s.me, s.gpu };
    sockaddr_un a;
    const socklen_t length = address(s, member, &a);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    while (connect(fd, reinterpret_cast<sockaddr *>(&a), length) != 0) {
        p.look();
        usleep(1000);
    }
    move(s, fd, true, &h, sizeof(h), "to greet", member);
    return fd;
}

int let_in(const state &s, hello *h)
{
    const patience p = { "to be met by", s.gpu, -1 };
    pollfd one = { s.listener, POLLIN, 0 };

    while (poll(&one, 1, 20) <= 0)
        p.look();

    const int fd = accept4(s.listener, nullptr, nullptr, SOCK_CLOEXEC);

    move(s, fd, false, h, sizeof(*h), "a greeting of", -1);
    return fd;
}

/* --- members -------------------------------------------------------------- */

/* False: two members have one GPU. */
bool welcome(state &s)
{
    std::map<int, int> gpus = { { s.gpu, s.me } };
    std::vector<int> fds;
    char yes = 1;

    for (int i = 1; i < s.n; i++) {
        hello h;

        fds.push_back(let_in(s, &h));
        if (!gpus.insert({ h.gpu, h.member }).second)
            yes = 0;
    }
    for (const int fd : fds) {
        move(s, fd, true, &yes, 1, "to welcome", -1);
        close(fd);
    }
    return yes != 0;
}

ncclResult_t join_all(const std::vector<comm_ptr> &all)
{
    std::map<const state *, int> asked;
    ncclResult_t r = ncclSuccess;

    for (const auto &s : all)
        listen_at(*s);
    for (const auto &s : all)
        if (s->me != 0)
            asked[s.get()] = meet(*s, 0);
    for (const auto &s : all)
        if (s->me == 0 && !welcome(*s))
            r = ncclInvalidUsage;
    for (const auto &a : asked) {
        char yes = 0;

        move(*a.first, a.second, false, &yes, 1, "to be welcomed by", 0);
        close(a.second);
        r = yes != 0 ? r : ncclInvalidUsage;
    }
    return r;
}

/* What went wrong last, in words. */
const char *warning = "";

/* Who meets another for the first time waits for it. False: there is no memory
 * for what comes. */
bool connect_all(const std::vector<op> &ops)
{
    std::vector<const op *> asked;
    char yes = 1;

    for (const op &o : ops)
        if (o.out && o.comm->to.count(o.peer) == 0) {
            o.comm->to[o.peer] = meet(*o.comm, o.peer);
            asked.push_back(&o);
        }
    for (const op &o : ops)
        while (!o.out && o.comm->from.count(o.peer) == 0) {
            hello h;
            const int fd = let_in(*o.comm, &h);

            if (!take_for_way(o.comm->gpu)) {
                warning = "Cuda failure 'out of memory'";
                return false;
            }
            o.comm->from[h.member] = fd;
        }
    for (const op &o : ops)
        if (!o.out && o.comm->answered.insert(o.peer).second)
            move(*o.comm, o.comm->from[o.peer], true, &yes, 1, "to answer",
                 o.peer);
    for (const op *o : asked)
        move(*o->comm, o->comm->to[o->peer], false, &yes, 1,
             "to be answered by", o->peer);
    return true;
}

/* --- operations ----------------------------------------------------------- */

/* The network fails: no byte comes any more, and no call says so. */
bool breaks(const op &o)
{
    static std::atomic<long long> begun;
    const patience p = { "on a broken way to", o.comm->gpu, o.peer };

    if (++begun != setting("BREAK", 0))
        return false;
    for (o.comm->broken = true; !o.comm->left; usleep(1000))
        p.look();
    return true;
}

void run(const op &o)
{
    const int fd = o.out ? o.comm->to[o.peer] : o.comm->from[o.peer];
    const char *what = o.out ? "to send to" : "to receive from";
    uint64_t bytes = o.bytes;
    char over = 1;

    if (breaks(o) ||
        !move(*o.comm, fd, o.out, &bytes, sizeof(bytes), what, o.peer))
        return;
    if (bytes != o.bytes) {
        fprintf(stderr, "emulated NCCL: GPU %d: %s member %d: %llu bytes, "
                        "which are %llu there\n",
                o.comm->gpu, what, o.peer,
                static_cast<unsigned long long>(o.bytes),
                static_cast<unsigned long long>(bytes));
        _exit(70);
    }
    if (move(*o.comm, fd, o.out, o.at, o.bytes, what, o.peer))
        move(*o.comm, fd, !o.out, &over, 1, what, o.peer);
}

/* In the order in which they were put into any streams of the GPU. */
void run_in_turn(const std::vector<op> &ops, uint64_t ticket)
{
    const state &s = *ops[0].comm;
    const patience p = { "behind another message, for", s.gpu, ops[0].peer };
    order &line = *s.line;

    {
        std::unique_lock<std::mutex> guard(line.lock);

        while (line.turn != ticket && !s.left) {
            line.changed.wait_for(guard, std::chrono::milliseconds(20));
            p.look();
        }
    }
    for (const op &o : ops)
        run(o);

    std::lock_guard<std::mutex> guard(line.lock);

    line.turn++;
    line.changed.notify_all();
}

/* What waits for it takes a queue of its GPU, as NCCL's own streams do. */
struct ending {
    std::mutex lock;
    std::condition_variable changed;
    bool over = false;

    void end()
    {
        std::lock_guard<std::mutex> guard(lock);

        over = true;
        changed.notify_all();
    }
    void wait(int gpu)
    {
        std::unique_lock<std::mutex> guard(lock);

        while (!over && failure_of(gpu) == cudaSuccess)
            changed.wait_for(guard, std::chrono::milliseconds(20));
    }
};

/* Those of one communicator are one thing in its stream. */
ncclResult_t put(const std::vector<op> &ops)
{
    std::map<comm_ptr, std::vector<op>> by_comm;

    if (!connect_all(ops))
        return ncclUnhandledCudaError;
    for (const op &o : ops)
        by_comm[o.comm].push_back(o);
    for (const auto &one : by_comm) {
        const std::vector<op> v = one.second;
        const uint64_t ticket = one.first->line->given++;
        const int gpu = one.first->gpu;
        const auto end = std::make_shared<ending>();

        messages(gpu, 1);
        v[0].in->add(
            [v, ticket, gpu, end] {
                run_in_turn(v, ticket);
                messages(gpu, -1);
                end->end();
            },
            true);
        one.first->device.add([end, gpu] { end->wait(gpu); }, true);
        if (begin().waits)
            v[0].in->wait();
    }
    return ncclSuccess;
}

/* The calling thread, for good. */
void keep(const char *what, const state &s)
{
    const patience p = { what, s.gpu, s.me };

    for (;; usleep(1000))
        p.look();
}

ncclResult_t end_group()
{
    const group g = current;
    ncclResult_t r;

    current = {};
    r = join_all(g.joining);
    return r == ncclSuccess ? put(g.ops) : r;
}

ncclResult_t add_op(bool out, void *at, size_t bytes, int peer,
                    const comm_ptr &comm, cudaStream_t stream)
{
    static std::atomic<long long> asked;
    class stream *in = reinterpret_cast<class stream *>(stream);
    int gpu = -1;

    if (++asked == setting("PUT", 0))
        return ncclSystemError;
    if (asked == setting("STUCK", 0))
        keep("to put something as", *comm);
    cudaGetDevice(&gpu);
    if (gpu != comm->gpu || in->gpu != gpu || owner_of(at, bytes) != gpu ||
        peer < 0 || peer >= comm->n || peer == comm->me)
        return ncclInvalidArgument;
    current.ops.push_back(
        { comm, out, static_cast<char *>(at), bytes, peer, in });
    return current.depth > 0 ? ncclSuccess : end_group();
}

} // namespace

struct ncclComm {
    comm_ptr s;
};

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
    *version = static_cast<int>(setting("NCCL", 22809));
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r)
{
    return r == ncclSuccess              ? "no error"
           : r == ncclUnhandledCudaError ? "unhandled cuda error"
           : r == ncclSystemError        ? "unhandled system error"
           : r == ncclInvalidArgument    ? "invalid argument"
           : r == ncclInProgress         ? "NCCL operation in progress"
                                         : "invalid usage";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return warning;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    std::random_device dice;

    *id = {};
    snprintf(id->internal, sizeof(id->internal), "%08x%08x", dice(), dice());
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id,
                              int rank)
{
    static std::atomic<long long> asked;
    int gpu = -1;

    if (++asked == setting("JOIN", 0))
        return ncclSystemError;
    cudaGetDevice(&gpu);
    *comm = new ncclComm{ std::make_shared<state>(id.internal, n, rank, gpu) };
    if (const char *wait = getenv("NCCL_COMM_BLOCKING"))
        if (atoi(wait) == 0)
            return ncclInProgress;
    if (asked == setting("ALONE", 0))
        keep("to join as", *(*comm)->s);
    current.joining.push_back((*comm)->s);
    return current.depth > 0 ? ncclSuccess : end_group();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *found)
{
    *found = comm->s->broken ? ncclSystemError : ncclSuccess;
    return ncclSuccess;
}

/* It frees memory of the GPU, and CUDA then waits for all that is under way
 * there, in other communicators, too. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    const int gpu = comm->s->gpu;
    const patience p = { "to leave as", gpu, comm->s->me };

    comm->s->left = true;
    while (messages(gpu, 0) > 0 && failure_of(gpu) == cudaSuccess) {
        p.look();
        usleep(1000);
    }
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart()
{
    current.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    return current.depth > 1 ? (current.depth--, ncclSuccess) : end_group();
}

ncclResult_t ncclSend(const void *at, size_t n, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return add_op(true, const_cast<void *>(at), n, peer, comm->s, stream);
}

ncclResult_t ncclRecv(void *at, size_t n, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return add_op(false, at, n, peer, comm->s, stream);
}

} // extern "C"
