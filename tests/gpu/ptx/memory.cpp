/* memory.cpp - what is read and written: each address is a multiple of what is
 * there, and in shared memory within the launch's. */
#include "operations.h"

using namespace emulated;

namespace ptx {

namespace {

[[noreturn]] void bad_access(const instruction &i, uint64_t at, size_t bytes,
                             const char *what)
{
    stop(i.file, i.line, "%zu bytes at %llx, which %s", bytes,
         (unsigned long long)at, what);
}
struct global {
    static char *at(uint64_t a, size_t bytes, const instruction &i)
    {
        if (a % bytes != 0)
            bad_access(i, a, bytes, "is no multiple of that");
        return (char *)(uintptr_t)a;
    }
};
struct shared {
    static char *at(uint64_t a, size_t bytes, const instruction &i)
    {
        char *p = (char *)shared_memory() + (uint32_t)a;

        if (!in_shared(p, bytes))
            bad_access(i, (uint32_t)a, bytes, "is past its shared memory");
        return global::at((uint64_t)(uintptr_t)p, bytes, i);
    }
};

template <class T, class SPACE, int N> void load(frame &f, const instruction &i)
{
    const uint64_t a = f.r[i.at[N]] + (uint64_t)i.plus[0];
    T v[N];

    memcpy(v, SPACE::at(a, sizeof(v), i), sizeof(v));
    for (unsigned k = 0; k < N; k++)
        put<T>(f, i, k, v[k]);
}
template <class T, class SPACE, int N>
void store(frame &f, const instruction &i)
{
    const uint64_t a = f.r[i.at[0]] + (uint64_t)i.plus[0];
    T v[N];

    for (unsigned k = 0; k < N; k++)
        v[k] = get<T>(f, i, 1 + k);
    memcpy(SPACE::at(a, sizeof(v), i), v, sizeof(v));
}

template <class T, class SPACE>
void accesses(table &t, const std::string &space, const std::string &type)
{
    t["ld." + space + type] = load<T, SPACE, 1>;
    t["ld." + space + "v2." + type] = load<T, SPACE, 2>;
    t["ld." + space + "v4." + type] = load<T, SPACE, 4>;
    t["st." + space + type] = store<T, SPACE, 1>;
    t["st." + space + "v2." + type] = store<T, SPACE, 2>;
    t["st." + space + "v4." + type] = store<T, SPACE, 4>;
}
template <class T> void spaces(table &t, const std::string &type)
{
    for (const char *space : { "", "global.", "param." })
        accesses<T, global>(t, space, type);
    accesses<T, shared>(t, "shared.", type);
}
template <class U, class S> void words_of(table &t, const std::string &n)
{
    spaces<U>(t, "b" + n);
    spaces<U>(t, "u" + n);
    spaces<S>(t, "s" + n);
}

} // namespace

void add_memory(table &t)
{
    words_of<uint8_t, int8_t>(t, "8");
    words_of<uint16_t, int16_t>(t, "16");
    words_of<uint32_t, int32_t>(t, "32");
    words_of<uint64_t, int64_t>(t, "64");
    spaces<float>(t, "f32");
    spaces<double>(t, "f64");
}

} // namespace ptx
