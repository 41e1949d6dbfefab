/* launch.cpp - the blocks of a launch, and who of a block runs when. Which warp
 * comes first is new after each barrier. In half of all blocks one warp goes as
 * far as it can before the next one may start: the further warps drift apart,
 * the more a missing barrier shows. In the others warps take turns where their
 * lanes meet, so that what two of them do with the same memory shows that meet
 * at no barrier. */
#include "launch.h"
#include "emulated.h"
#include "ptx/program.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sys/mman.h>

emulated_queue emulated_enqueue;

namespace emulated {

enum { PAGE = 4096, STACK = 64 << 10 };

/* What every GPU from sm_80 on takes: some of them have more shared memory. */
enum {
    MAX_THREADS = 1024,
    MAX_SHARED = 99 << 10,
    MAX_YZ = 65535,
    MAX_ARGUMENTS = 4096 /* bytes; more only since CUDA 12.1 */
};

__thread const place *now;
__thread launcher *here;
__thread thread *running;

/* The calling thread's. */
static launcher *own()
{
    static thread_local launcher own;

    return &own;
}

launcher::~launcher()
{
    for (char *stack : stacks)
        stack_free(stack, STACK);
    if (map != nullptr)
        munmap(map, mapped);
}

static uint64_t seeded(uint64_t seed)
{
    return seed * 0x9e3779b97f4a7c15u | 1;
}

uint64_t any(uint64_t n)
{
    uint64_t &s = here->random;

    if (s == 0) {
        const char *seed = getenv("DSFLOW_EMULATED_SEED");

        s = seeded(seed ? strtoull(seed, nullptr, 10) : 1);
    }
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return (s >> 11) % n;
}

static void shuffle(std::vector<unsigned> &v)
{
    for (size_t i = v.size(); i-- > 1;)
        std::swap(v[i], v[any(i + 1)]);
}

void note(const thread &t, const char *file, int line, const char *text)
{
    const dim3 &b = t.at.block, &i = t.at.thread;

    if (here->bad)
        return;
    here->bad = true;
    if (!here->asked)
        return;
    here->asked = false;
    snprintf(here->fault, sizeof(here->fault),
             "%s:%d: %s: block (%u, %u, %u), thread (%u, %u, %u): %s", file,
             line, here->kernel, b.x, b.y, b.z, i.x, i.y, i.z, text);
}

void wait(state for_what, const char *file, int line)
{
    thread *t = running;

    t->now = for_what;
    t->file = file;
    t->line = line;
    here->counts.switches++;
    fiber_switch(&t->self, &here->self);
}

void stop(const char *file, int line, const char *format, ...)
{
    char text[256];
    va_list rest;

    va_start(rest, format);
    vsnprintf(text, sizeof(text), format, rest);
    va_end(rest);
    if (running == nullptr) { /* not in a kernel */
        fprintf(stderr, "%s:%d: %s\n", file, line, text);
        abort();
    }
    note(*running, file, line, text);
    fiber_leave(&running->self, &here->self);
}

void barrier(const char *file, int line)
{
    wait(AT_BARRIER, file, line);
}

void *shared_memory()
{
    return here->shared;
}

bool in_shared(const void *p, size_t bytes)
{
    const char *at = (const char *)p;

    return at >= here->shared && at + bytes <= here->shared_end;
}

static void enter()
{
    fiber_enter(&here->self);
    (*here->body)();
    running->now = DONE;
    fiber_leave(&running->self, &here->self);
}

static void resume(thread &t)
{
    running = &t;
    now = &t.at;
    fiber_switch(&here->self, &t.self);
    running = nullptr;
    now = nullptr;
}

/* Do the lanes that `first` waits for wait with it? Then they do it. */
static bool meet(thread *lanes, unsigned n, const thread &first)
{
    void *args[LANES] = {};
    unsigned there = 0;
    const char *wrong;

    for (unsigned i = 0; i < n; i++) {
        const thread &t = lanes[i];

        if (is_with(t, first) && t.what == first.what &&
            t.mask == first.mask) {
            there |= 1u << i;
            args[i] = t.args;
        }
    }
    if (there != first.mask)
        return false;
    wrong = first.what(args);
    if (wrong != nullptr)
        note(first, first.file, first.line, wrong);
    for (unsigned i = 0; i < n; i++)
        if (there >> i & 1)
            lanes[i].now = READY;
    return true;
}

static bool release_warp(thread *lanes, unsigned n)
{
    bool any_met = false;

    for (unsigned i = 0; i < n && !here->bad; i++)
        if (lanes[i].now == AT_WARP)
            any_met |= meet(lanes, n, lanes[i]);
    return any_met;
}

/* Until its lanes wait for others, or, where warps take turns, for a while: has
 * it more to do? */
static bool run_warp(unsigned warp, bool in_turns)
{
    thread *lanes = &here->threads[warp * LANES];
    const size_t left = here->threads.size() - warp * LANES;
    std::vector<unsigned> order(std::min(left, (size_t)LANES));

    std::iota(order.begin(), order.end(), 0u);
    do {
        shuffle(order);
        for (unsigned i : order)
            if (lanes[i].now == READY && !here->bad)
                resume(lanes[i]);
        if (here->bad || !release_warp(lanes, (unsigned)order.size()))
            return false;
    } while (!in_turns || any(4) > 0);
    return true;
}

/* Until all wait at a barrier, or have ended. */
static void run_warps(std::vector<unsigned> &warps, bool in_turns)
{
    bool more;

    do {
        more = false;
        shuffle(warps);
        for (unsigned w : warps)
            if (!here->bad)
                more |= run_warp(w, in_turns);
    } while (more && !here->bad);
}

/* Are all threads at one barrier? Then they go on. */
static bool release_barrier()
{
    const thread &first = here->threads[0];

    for (const thread &t : here->threads)
        if (t.now != AT_BARRIER || !is_with(t, first))
            return false;
    for (thread &t : here->threads)
        t.now = READY;
    here->counts.barriers++;
    return true;
}

/* Says of a thread that waits what it waits for. */
static void note_stuck()
{
    for (const thread &t : here->threads) {
        char text[128];
        unsigned with = 0;

        if (t.now == DONE)
            continue;
        for (const thread &o : here->threads)
            with += is_with(o, t);
        if (t.now == AT_BARRIER)
            snprintf(text, sizeof(text),
                     "waits at a barrier that %u of %zu threads reach", with,
                     here->threads.size());
        else
            snprintf(text, sizeof(text),
                     "waits for lanes (%08x) that do not come", t.mask);
        note(t, t.file, t.line, text);
        return;
    }
}

/* What is before shared memory in its first page is nobody's. */
static void check_front(const thread &t)
{
    for (const char *p = here->map; p < here->shared; p++)
        if ((unsigned char)*p != 0xff) {
            note(t, "?", 0, "writes before its shared memory");
            return;
        }
}

static void run_block()
{
    std::vector<unsigned> warps((here->threads.size() + LANES - 1) / LANES);
    const bool in_turns = any(2) == 0;

    here->counts.blocks++;
    memset(here->map, 0xff, (size_t)(here->shared_end - here->map));
    for (size_t i = 0; i < here->threads.size(); i++) {
        thread &t = here->threads[i];

        t.now = READY;
        t.copies.clear();
        t.groups = 0;
        fiber_init(&t.self, here->stacks[i], STACK, enter);
    }
    std::iota(warps.begin(), warps.end(), 0u);
    do
        run_warps(warps, in_turns);
    while (!here->bad && release_barrier());
    if (!here->bad)
        note_stuck();
    if (!here->bad)
        check_front(here->threads[0]);
}

/* Memory for blocks of this size. */
static void prepare(dim3 block, size_t shared)
{
    const size_t pages = (shared + PAGE - 1) / PAGE * PAGE;

    here->threads.resize(block.count());
    while (here->stacks.size() < here->threads.size())
        here->stacks.push_back(stack_new(STACK));
    if (here->map == nullptr || here->mapped != pages + PAGE) {
        if (here->map != nullptr)
            munmap(here->map, here->mapped);
        here->mapped = pages + PAGE;
        here->map = (char *)mmap(nullptr, here->mapped, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (here->map == MAP_FAILED ||
            mprotect(here->map + pages, PAGE, PROT_NONE) != 0)
            abort();
    }
    here->shared_end = here->map + pages;
    here->shared = here->shared_end - (shared + 15) / 16 * 16;
}

/* Is it one that a GPU takes? */
static bool is_possible(dim3 grid, dim3 block, size_t shared, size_t given)
{
    return grid.count() > 0 && block.count() > 0 && grid.x < 1u << 31 &&
           grid.y <= MAX_YZ && grid.z <= MAX_YZ &&
           block.count() <= MAX_THREADS && block.z <= 64 &&
           shared <= MAX_SHARED && given <= MAX_ARGUMENTS;
}

/* Blocks in any order: from one of them, in steps that have no divisor in common
 * with their number. */
static void run_blocks(dim3 grid, dim3 block)
{
    const uint64_t n = grid.count(), first = any(n);
    uint64_t step = 1 + any(n);

    while (std::gcd(step, n) != 1)
        step = 1 + any(n);
    for (uint64_t k = 0, b = first; k < n && !here->bad; k++) {
        const dim3 index((unsigned)(b % grid.x),
                         (unsigned)(b / grid.x % grid.y),
                         (unsigned)(b / grid.x / grid.y));

        for (unsigned i = 0; i < here->threads.size(); i++)
            here->threads[i].at = { dim3(i % block.x, i / block.x % block.y,
                                        i / block.x / block.y),
                                   index, block, grid, i % LANES };
        run_block();
        b = (b + step) % n;
    }
}

static void note_launch(const char *text)
{
    const thread none = {};

    note(none, "launch", 0, text);
}

/* What each thread does: what was compiled here, or, where DSFLOW_EMULATED_PTX is
 * a folder of .ptx files, what is there for a GPU. */
static std::function<void()> body_of(const work &w, dim3 block)
{
    const char *folder = getenv("DSFLOW_EMULATED_PTX");

    if (folder == nullptr)
        return w.body;
    const ptx::program &p = ptx::program_of(w.kernel, folder);

    p.check_arguments(w.at, w.bytes.size());
    p.check_block(block.count());
    return [&] { ptx::run(p, w.bytes.data()); };
}

static void run(const char *kernel, dim3 grid, dim3 block, size_t shared,
                const work &w)
{
    std::function<void()> body;

    if (running != nullptr)
        stop("?", 0, "a kernel launches %s", kernel);
    here = own();
    here->kernel = kernel;
    here->body = &body;
    here->counts.launches++;
    here->bad = false;
    if (!is_possible(grid, block, shared, w.bytes.size())) {
        char text[200];

        snprintf(text, sizeof(text),
                 "no GPU takes a grid of %u x %u x %u, blocks of %u x %u x %u, "
                 "%zu bytes of shared memory and %zu of arguments",
                 grid.x, grid.y, grid.z, block.x, block.y, block.z, shared,
                 w.bytes.size());
        note_launch(text);
        return;
    }
    try {
        body = body_of(w, block);
    } catch (const std::exception &e) {
        note_launch(e.what());
        return;
    }
    prepare(block, shared);
    run_blocks(grid, block);
    for (size_t i = 0; here->bad && i < here->threads.size(); i++)
        stack_clear(here->stacks[i], STACK);
}

void launch(const char *kernel, dim3 grid, dim3 block, size_t shared,
            void *stream, const work &w)
{
    if (stream != nullptr && emulated_enqueue != nullptr)
        emulated_enqueue(stream, { kernel,
                                   [=] { run(kernel, grid, block, shared, w); },
                                   w.given });
    else
        run(kernel, grid, block, shared, w);
}

} // namespace emulated

using emulated::own;

extern "C" void emulated_order(uint64_t seed)
{
    own()->random = emulated::seeded(seed);
}

extern "C" const char *emulated_fault(void)
{
    if (own()->asked)
        return nullptr;
    own()->asked = true;
    return own()->fault;
}

extern "C" struct emulated_work emulated_work_done(void)
{
    const auto &counts = own()->counts;

    return { counts.launches, counts.blocks, counts.switches, counts.barriers };
}
