/* stream.cpp - streams of GPUs that are not there: a thread for each, that does
 * one thing after the other, and is late now and then. */
#include "runtime.h"

#include "emulated.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace emulated {

namespace {

struct gpu_state {
    std::mutex lock;
    cudaError_t failed = cudaSuccess;
};

gpu_state &state_of(int gpu)
{
    static gpu_state *all = new gpu_state[MOST_GPUS];

    return all[gpu];
}

/* Of the first GPU that failed. */
struct first_failure {
    std::mutex lock;
    std::string text;
};

first_failure &the_failure()
{
    static first_failure &f = *new first_failure;

    return f;
}

} // namespace

void fail(int gpu, cudaError_t error, const char *text)
{
    gpu_state &s = state_of(gpu);
    first_failure &f = the_failure();

    {
        std::lock_guard<std::mutex> guard(f.lock);
        if (f.text.empty())
            f.text = text;
    }
    std::lock_guard<std::mutex> guard(s.lock);
    s.failed = s.failed == cudaSuccess ? error : s.failed;
}

cudaError_t failure_of(int gpu)
{
    gpu_state &s = state_of(gpu);
    std::lock_guard<std::mutex> guard(s.lock);

    return s.failed;
}

const char *failure_text()
{
    first_failure &f = the_failure();
    std::lock_guard<std::mutex> guard(f.lock);

    return f.text.c_str(); /* which stays: it is set once */
}

int messages(int gpu, int more)
{
    static std::atomic<int> all[MOST_GPUS];

    return all[gpu] += more;
}

void await_messages(int gpu, const char *what)
{
    for (long long ms = 0; messages(gpu, 0) > 0; ms++) {
        if (failure_of(gpu) != cudaSuccess)
            return;
        if (ms > 1000 * setting("HANG", 20)) {
            fprintf(stderr,
                    "emulated CUDA: %s waits too long: for a message "
                    "of GPU %d\n",
                    what, gpu);
            _exit(70);
        }
        usleep(1000);
    }
}

static uint64_t first_dice()
{
    static std::atomic<uint64_t> streams;

    return static_cast<uint64_t>(setting("SEED", 1)) * 1000003 +
           ++streams * 0x9e3779b97f4a7c15;
}

/* For numbers that have nothing to do with each other (splitmix64). */
static uint64_t mix(uint64_t dice)
{
    dice = (dice ^ dice >> 30) * 0xbf58476d1ce4e5b9;
    dice = (dice ^ dice >> 27) * 0x94d049bb133111eb;
    return dice ^ dice >> 31;
}

/* Of a GPU: what is in one follows each other. */
struct queues {
    std::mutex lock; /* of what is used: */
    unsigned used[MOST_QUEUES] = {};
    std::mutex turns[MOST_QUEUES];
};

static queues &queues_of(int gpu)
{
    static queues *all = new queues[MOST_GPUS];

    return all[gpu];
}

/* Each stream has one; where there are more streams, nobody knows which of them
 * share one. */
static unsigned take_queue(int gpu)
{
    queues &q = queues_of(gpu);
    std::lock_guard<std::mutex> guard(q.lock);
    unsigned i = 0;

    while (i < begin().queues && q.used[i] > 0)
        i++;
    if (i == begin().queues)
        i = static_cast<unsigned>(mix(first_dice()) % i);
    q.used[i]++;
    return i;
}

static void give_queue(int gpu, unsigned i)
{
    queues &q = queues_of(gpu);
    std::lock_guard<std::mutex> guard(q.lock);

    q.used[i]--;
}

stream::stream(int of)
    : gpu(of), dice(first_dice()), queue(take_queue(of)),
      thread([this] { run(); })
{
}

stream::~stream()
{
    {
        std::lock_guard<std::mutex> guard(lock);
        over = true;
    }
    changed.notify_all();
    thread.join();
    give_queue(gpu, queue);
}

void stream::add(std::function<void()> what, bool works)
{
    {
        std::lock_guard<std::mutex> guard(lock);
        todo.push_back({ std::move(what), works });
    }
    changed.notify_all();
}

void stream::wait()
{
    std::unique_lock<std::mutex> guard(lock);

    changed.wait(guard, [this] { return todo.empty() && !busy; });
}

/* One time out of four. */
void stream::be_late()
{
    const long long most = setting("LATE", 100);

    dice = dice * 6364136223846793005 + 1442695040888963407;
    if (most > 0 && dice >> 62 == 0)
        usleep(static_cast<useconds_t>((dice >> 32) % 1000 *
                                       static_cast<uint64_t>(most) / 1000));
}

/* The n-th kernel or copy of all streams. */
static bool meets_bad_address()
{
    static std::atomic<long long> done;

    return ++done == setting("FAIL", 0);
}

void stream::work(item &next)
{
    if (failure_of(gpu) != cudaSuccess)
        return;
    if (meets_bad_address()) {
        fail(gpu, cudaErrorIllegalAddress,
             "an illegal memory access was encountered");
        return;
    }
    {
        std::lock_guard<std::mutex> turn(queues_of(gpu).turns[queue]);
        access to_memory;

        next.what();
    }
    if (const char *fault = emulated_fault())
        fail(gpu, cudaErrorLaunchFailure, fault);
}

void stream::run()
{
    std::unique_lock<std::mutex> guard(lock);

    become_stream();
    for (;;) {
        changed.wait(guard, [this] { return over || !todo.empty(); });
        if (todo.empty())
            return;
        item next = std::move(todo.front());

        todo.pop_front();
        busy = true;
        guard.unlock();
        be_late();
        if (next.works)
            work(next);
        else
            next.what();
        next.what = nullptr;
        guard.lock();
        busy = false;
        changed.notify_all();
    }
}

stream *default_stream(int gpu)
{
    static std::mutex lock;
    static stream *all[MOST_GPUS];
    std::lock_guard<std::mutex> guard(lock);

    if (all[gpu] == nullptr)
        all[gpu] = new stream(gpu);
    return all[gpu];
}

} // namespace emulated
