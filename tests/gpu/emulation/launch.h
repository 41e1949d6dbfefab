/* launch.h - one launch, as the files of the emulation see it. */
#ifndef DSF_GPU_LAUNCH_H
#define DSF_GPU_LAUNCH_H

#include "emulation.h"
#include "fiber.h"

#include <vector>

namespace emulated {

enum state { READY, AT_BARRIER, AT_WARP, DONE };

struct copy {
    void *to;
    const void *from; /* NULL: zeroes */
    unsigned group;
};

struct thread {
    place at;
    fiber self;
    state now;
    const char *file; /* where it waits */
    int line;
    unsigned mask; /* at what lanes do together */
    together what;
    void *args;
    std::vector<copy> copies; /* that have not landed */
    unsigned groups;          /* of copies, committed so far */
};

/* What a thread of the program keeps for its launches. */
struct launcher {
    fiber self;
    std::vector<thread> threads; /* of the block */
    std::vector<char *> stacks;
    const std::function<void()> *body;
    const char *kernel;
    char *map, *shared, *shared_end; /* the end is at a page that faults */
    size_t mapped;
    uint64_t random;
    bool bad; /* the launch: `fault` says why, but for one that was not asked
                 for yet */
    char fault[512];
    bool asked = true;
    struct counts {
        uint64_t launches, blocks, switches, barriers;
    } counts;
    ~launcher();
};
extern __thread launcher *here; /* while it has one */
extern __thread thread *running;

/* Do two threads wait at the same line? */
inline bool is_with(const thread &a, const thread &b)
{
    return a.now == b.now && a.line == b.line &&
           (a.file == b.file || strcmp(a.file, b.file) == 0);
}

/* A number below n. */
uint64_t any(uint64_t n);

/* The thread that runs stops until what it waits for is there. */
void wait(state for_what, const char *file, int line);

/* Note what is wrong, if it is the first. */
void note(const thread &t, const char *file, int line, const char *text);

} // namespace emulated

#endif
