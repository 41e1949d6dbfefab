/* runtime.h - GPUs that are not there: their memory, and streams that are
 * threads and late on purpose. cudart.cpp makes CUDA's runtime of them.
 *
 * Environment: DSFLOW_EMULATED_GPUS (2), _MEMORY (bytes of each, 4 GiB), _LATE
 * (microseconds that a stream sleeps at most, now and then, 100), _SEED (1),
 * _FAIL (the how-manieth kernel or copy meets a bad address; 0: none), _DRIVER
 * (version of CUDA; 0: no driver), _GUARD (0: a core may touch device memory,
 * where the processor has no protection keys: faster), _PEERS (0: no GPU
 * reaches the memory of another), _KERNELS (the first launch takes one part in
 * so many of a GPU's memory, as CUDA does that loads kernels late: 64; 0:
 * nothing), _FULL (the GPU that has nothing free; -1: none), _LARGEST (bytes in
 * one piece of what is free), _QUEUES (of a GPU, 32), _LAZY (1: kernels are
 * loaded when they are first launched, as some libraries do whatever CUDA is
 * told), _BUFFERS (NCCL takes one part in so many of a GPU's memory for each
 * GPU from which something comes: 64; 0: nothing), _HANG (nccl.cpp), _JOIN (the
 * how-manieth communicator of NCCL that cannot be joined; 0: none), _PUT (the
 * how-manieth message that cannot be put into a stream; 0: none), _BREAK (the
 * how-manieth message of it that the network loses; 0: none). */
#ifndef DSF_TESTS_GPU_RUNTIME_H
#define DSF_TESTS_GPU_RUNTIME_H

#include "counts.h"

#include <condition_variable>
#include <cuda_runtime_api.h>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace emulated {

enum { MOST_GPUS = EMULATED_MOST_GPUS, MOST_QUEUES = 32 };

long long setting(const char *name, long long otherwise);
int gpus();

/* What CUDA is told by the environment it reads when it begins, with the first
 * call that needs a GPU, whoever calls. */
struct beginning {
    bool lazy;       /* kernels are loaded when they are first launched */
    bool waits;      /* what launches a kernel waits for its end */
    unsigned queues; /* of a GPU */
};
const beginning &begin();

/* The one place for all counts. */
struct counting {
    std::mutex lock;
    emulated_runtime_counts counts;
    size_t kernels[MOST_GPUS]; /* bytes that are theirs, */
    size_t nccl[MOST_GPUS];    /* and NCCL's */
};
counting &all_counts();
void count(uint64_t emulated_runtime_counts::*what, uint64_t more = 1);

/* --- memory.cpp ----------------------------------------------------------- */

/* Device memory, which only streams may touch; filled with NaNs. NULL: there is
 * no more. */
void *take(int gpu, size_t bytes);
/* False: it is none that was taken. */
bool give_back(void *at);
size_t memory_of(int gpu);
/* False: there is no room for them. */
bool load_kernels(int gpu);
/* The same of NCCL, where a GPU is to receive of another; and back. */
bool take_for_way(int gpu);
void give_for_ways(int gpu, size_t n);
size_t free_of(int gpu);

/* Of main memory; false: some of its pages are pinned already, or it does not
 * begin what was pinned. */
bool pin(void *at, size_t bytes);
bool unpin(void *at);

/* Whose a range is, all of it: a GPU's number, or one of these. Nobody's is
 * what goes beyond the memory of a GPU, or is pinned in part. */
enum { PAGEABLE = -1, PINNED = -2, NOBODYS = -3 };
int owner_of(const void *at, size_t bytes);
/* Is a word an address, as far as one can tell? */
bool is_address(const void *at);
/* Is it in memory of this program that is no GPU's and not pinned, nor right
 * behind such? */
bool is_pageable(const void *at);

/* The calling thread is a stream's; it may touch device memory while one of
 * these exists. */
void become_stream();
struct access {
    access();
    ~access();
    access(const access &) = delete;
    access &operator=(const access &) = delete;
};

/* --- stream.cpp ----------------------------------------------------------- */

class stream {
  public:
    const int gpu;

    explicit stream(int of);
    ~stream();
    /* `works` is for kernels and copies, which a GPU that has failed no longer
     * does. */
    void add(std::function<void()> what, bool works);
    void wait(); /* until it is idle */

  private:
    struct item {
        std::function<void()> what;
        bool works;
    };
    void run();
    void be_late();
    void work(item &next);

    std::deque<item> todo;
    std::mutex lock;
    std::condition_variable changed;
    bool busy = false, over = false;
    uint64_t dice;
    const unsigned queue; /* of the GPU */
    std::thread thread;
};

/* The stream that NULL stands for. */
stream *default_stream(int gpu);

/* How many messages of NCCL are in the streams of a GPU: from now on so many
 * more, or fewer. */
int messages(int gpu, int more);

/* What CUDA calls wait for that take or give memory: all that a GPU has begun,
 * messages too, which may wait for this process. One that waits for longer than
 * DSFLOW_EMULATED_HANG seconds is named, and ends the process. */
void await_messages(int gpu, const char *what);

/* From the first bad kernel on, a GPU does nothing but say so. */
void fail(int gpu, cudaError_t error, const char *text);
cudaError_t failure_of(int gpu);
const char *failure_text();

/* A moment of a stream. */
struct moment {
    std::mutex lock;
    std::condition_variable changed;
    bool over = false;
    double when = 0;
};
struct event {
    const int gpu;
    std::mutex lock;
    std::shared_ptr<moment> last; /* recorded */
};

} // namespace emulated

#endif
