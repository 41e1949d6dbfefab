/* operations.h - operations by their names in PTX, and the numbers in the slots
 * of a thread. A slot has 64 bits; what is narrower is at its lower end. */
#ifndef DSF_GPU_PTX_OPERATIONS_H
#define DSF_GPU_PTX_OPERATIONS_H

#include "launch.h"
#include "program.h"

#include <cstring>
#include <type_traits>
#include <unordered_map>

namespace ptx {

typedef std::unordered_map<std::string, action *> table;

/* What each file has. */
void add_arithmetic(table &t);
void add_words(table &t);
void add_memory(table &t);
void add_together(table &t);

template <class T> T get(const frame &f, const instruction &i, unsigned k)
{
    T v;

    memcpy(&v, &f.r[i.at[k]], sizeof(v));
    return v;
}
template <>
inline bool get<bool>(const frame &f, const instruction &i, unsigned k)
{
    return f.r[i.at[k]] != 0;
}

/* Whole numbers fill a wider register by their sign. */
template <class T> void put(frame &f, const instruction &i, unsigned k, T v)
{
    uint64_t bits = 0;

    if constexpr (std::is_floating_point_v<T>) {
        memcpy(&bits, &v, sizeof(v));
    } else {
        bits = (uint64_t)(int64_t)v;
        if constexpr (std::is_unsigned_v<T>)
            bits = v;
    }
    f.r[i.at[k]] = bits;
}

/* A result of a GPU's arithmetic is no other NaN than this. */
inline float one_nan(float v)
{
    return v != v ? __uint_as_float(0x7fffffff) : v;
}
inline double one_nan(double v)
{
    return v;
}
template <class T> T one_nan(T v)
{
    return v;
}

} // namespace ptx

#endif
