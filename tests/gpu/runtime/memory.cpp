/* memory.cpp - memory of GPUs that are not there. No core can touch it: by
 * protection keys, which are each thread's own; where the processor has none,
 * while no stream works. */
#include "runtime.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>

namespace emulated {

namespace {

enum { PAGE = 4096 };

struct range {
    size_t bytes;
    int owner;
};

struct memory {
    std::mutex lock;
    std::map<uintptr_t, range> device, pinned;
    int key = pkey_alloc(0, PKEY_DISABLE_ACCESS); /* -1: there are none */
    /* In their place; takes its time. */
    bool guards = key < 0 && setting("GUARD", 1) != 0;
    unsigned inside = 0; /* streams that work */
};

/* Streams outlive what would be destroyed at exit. */
memory &all()
{
    static memory &m = *new memory;

    return m;
}

void protect(const memory &m, int how)
{
    for (const auto &r : m.device)
        mprotect(reinterpret_cast<void *>(r.first), r.second.bytes, how);
}

/* The last range that begins at `at` or before; its end, or 0. */
uintptr_t end_of(const std::map<uintptr_t, range> &ranges, uintptr_t at,
                 int *owner)
{
    auto i = ranges.upper_bound(at);

    if (i == ranges.begin())
        return 0;
    --i;
    *owner = i->second.owner;
    return i->first + i->second.bytes;
}

bool overlaps(const std::map<uintptr_t, range> &ranges, uintptr_t at,
              size_t bytes)
{
    int owner;

    return end_of(ranges, at + bytes - 1, &owner) > at;
}

size_t in_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Is a byte of these pages in one of the ranges, or in a page that one has part
 * of? */
bool shares_pages(const std::map<uintptr_t, range> &ranges, uintptr_t at,
                  size_t bytes)
{
    const uintptr_t first = at / PAGE * PAGE, end = in_pages(at + bytes);
    int owner;

    return in_pages(end_of(ranges, end - 1, &owner)) > first;
}

void note_used(int gpu, size_t bytes, bool more)
{
    counting &c = all_counts();
    std::lock_guard<std::mutex> guard(c.lock);

    c.counts.used[gpu] += more ? bytes : 0 - bytes;
    if (c.counts.used[gpu] > c.counts.peak[gpu])
        c.counts.peak[gpu] = c.counts.used[gpu];
}

} // namespace

size_t memory_of(int gpu)
{
    return static_cast<size_t>(setting("MEMORY", 4LL << 30));
}

size_t free_of(int gpu)
{
    counting &c = all_counts();
    std::lock_guard<std::mutex> guard(c.lock);

    if (gpu == setting("FULL", -1))
        return 0;
    return memory_of(gpu) - static_cast<size_t>(c.counts.used[gpu]) -
           c.kernels[gpu] - c.nccl[gpu];
}

/* Of a GPU's memory, as a setting says. */
static size_t part_of(int gpu, const char *name)
{
    const auto part = static_cast<size_t>(setting(name, 64));

    return part > 0 ? memory_of(gpu) / part : 0;
}

bool take_for_way(int gpu)
{
    const size_t bytes = part_of(gpu, "BUFFERS");
    const bool fits = bytes <= free_of(gpu);
    counting &c = all_counts();
    std::lock_guard<std::mutex> guard(c.lock);

    if (fits)
        c.nccl[gpu] += bytes;
    return fits;
}

void give_for_ways(int gpu, size_t n)
{
    counting &c = all_counts();
    std::lock_guard<std::mutex> guard(c.lock);

    c.nccl[gpu] -= n * part_of(gpu, "BUFFERS");
}

bool load_kernels(int gpu)
{
    const size_t bytes = part_of(gpu, "KERNELS");
    const size_t left = free_of(gpu);
    counting &c = all_counts();
    std::lock_guard<std::mutex> guard(c.lock);

    if (c.kernels[gpu] > 0)
        return true;
    if (bytes > left)
        return false;
    c.kernels[gpu] = bytes;
    return true;
}

/* With a page behind it that nobody can touch. */
static char *map_with_guard(size_t bytes)
{
    void *at = mmap(nullptr, bytes + PAGE, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED || mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0)
        return nullptr;
    return static_cast<char *>(at);
}

void *take(int gpu, size_t bytes)
{
    memory &m = all();
    std::lock_guard<std::mutex> guard(m.lock);
    char *at;

    bytes = in_pages(bytes);
    if (bytes > free_of(gpu) ||
        bytes > static_cast<size_t>(setting("LARGEST", INT64_MAX)) ||
        (at = map_with_guard(bytes)) == nullptr)
        return nullptr;
    memset(at, 0xff, bytes);
    m.device[reinterpret_cast<uintptr_t>(at)] = { bytes, gpu };
    if (m.key >= 0)
        pkey_mprotect(at, bytes, PROT_READ | PROT_WRITE, m.key);
    else if (m.inside == 0 && m.guards)
        mprotect(at, bytes, PROT_NONE);
    note_used(gpu, bytes, true);
    return at;
}

bool give_back(void *at)
{
    memory &m = all();
    std::lock_guard<std::mutex> guard(m.lock);
    auto i = m.device.find(reinterpret_cast<uintptr_t>(at));

    if (i == m.device.end())
        return false;
    note_used(i->second.owner, i->second.bytes, false);
    munmap(at, i->second.bytes + PAGE);
    m.device.erase(i);
    return true;
}

static void note_pinned(size_t bytes, bool more)
{
    counting &c = all_counts();
    std::lock_guard<std::mutex> guard(c.lock);

    c.counts.pinned += more ? bytes : 0 - bytes;
    if (c.counts.pinned > c.counts.most_pinned)
        c.counts.most_pinned = c.counts.pinned;
}

/* What is pinned is there: pages that nobody touched before take memory now. */
bool pin(void *at, size_t bytes)
{
    memory &m = all();
    std::lock_guard<std::mutex> guard(m.lock);
    uintptr_t first = reinterpret_cast<uintptr_t>(at);

    if (shares_pages(m.pinned, first, bytes) ||
        overlaps(m.device, first, bytes))
        return false;
    m.pinned[first] = { bytes, PINNED };
    for (size_t i = 0; i < bytes; i += PAGE) {
        volatile char *page = static_cast<char *>(at) + i;

        *page = *page;
    }
    note_pinned(bytes, true);
    return true;
}

bool unpin(void *at)
{
    memory &m = all();
    std::lock_guard<std::mutex> guard(m.lock);

    auto i = m.pinned.find(reinterpret_cast<uintptr_t>(at));

    if (i == m.pinned.end())
        return false;
    note_pinned(i->second.bytes, false);
    m.pinned.erase(i);
    return true;
}

int owner_of(const void *at, size_t bytes)
{
    memory &m = all();
    std::lock_guard<std::mutex> guard(m.lock);
    uintptr_t first = reinterpret_cast<uintptr_t>(at);
    int owner = NOBODYS;

    if (bytes == 0)
        return PINNED;
    if (overlaps(m.device, first, bytes))
        return end_of(m.device, first, &owner) >= first + bytes ? owner
                                                                : NOBODYS;
    if (overlaps(m.pinned, first, bytes))
        return end_of(m.pinned, first, &owner) >= first + bytes ? PINNED
                                                                : NOBODYS;
    return PAGEABLE;
}

static bool is_mapped(const void *at)
{
    const uintptr_t page = reinterpret_cast<uintptr_t>(at) / PAGE * PAGE;
    unsigned char there;

    return mincore(reinterpret_cast<void *>(page), 1, &there) == 0;
}

/* What programs have is above 32 TiB; what a sanitizer has for itself, which is
 * mapped wherever a small number says, is below. Half a word may be a number of
 * 32 bits, and the other half anything. */
bool is_address(const void *at)
{
    const uintptr_t address = reinterpret_cast<uintptr_t>(at);

    return address >> 45 != 0 && address >> 47 == 0 &&
           static_cast<uint32_t>(address) >> 20 != 0;
}

bool is_pageable(const void *at)
{
    return owner_of(at, 1) == PAGEABLE &&
           owner_of(static_cast<const char *>(at) - 1, 1) == PAGEABLE &&
           is_mapped(at);
}

void become_stream()
{
    if (all().key >= 0)
        pkey_set(all().key, 0);
}

access::access()
{
    memory &m = all();
    std::lock_guard<std::mutex> guard(m.lock);

    if (m.inside++ == 0 && m.guards)
        protect(m, PROT_READ | PROT_WRITE);
}

access::~access()
{
    memory &m = all();
    std::lock_guard<std::mutex> guard(m.lock);

    if (--m.inside == 0 && m.guards)
        protect(m, PROT_NONE);
}

} // namespace emulated
