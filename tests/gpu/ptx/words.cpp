/* words.cpp - bits, moves and conversions, as the PTX manual has them. */
#include "operations.h"

#include <cmath>
#include <limits>

using namespace emulated;

namespace ptx {

namespace {

struct both {
    template <class T> static T of(T a, T b)
    {
        return a & b;
    }
};
struct either {
    template <class T> static T of(T a, T b)
    {
        return a | b;
    }
};
struct one_alone {
    template <class T> static T of(T a, T b)
    {
        return a ^ b;
    }
};

template <class T, class OP> void logic(frame &f, const instruction &i)
{
    put<T>(f, i, 0, OP::of(get<T>(f, i, 1), get<T>(f, i, 2)));
}

template <class T> void shl(frame &f, const instruction &i)
{
    const uint32_t by = get<uint32_t>(f, i, 2);

    put<T>(f, i, 0,
           by < 8 * sizeof(T) ? (T)((uint64_t)get<T>(f, i, 1) << by) : (T)0);
}
template <class T> void shr(frame &f, const instruction &i)
{
    const uint32_t by = get<uint32_t>(f, i, 2), most = 8 * sizeof(T) - 1;
    const T a = get<T>(f, i, 1);

    if (by > most)
        put<T>(f, i, 0, std::is_signed_v<T> ? (T)(a >> most) : (T)0);
    else
        put<T>(f, i, 0, (T)(a >> by));
}

/* to = a b (+ c), of twice the bits. */

template <class T> void invert(frame &f, const instruction &i)
{
    put<T>(f, i, 0, (T)~get<T>(f, i, 1));
}
template <> void invert<bool>(frame &f, const instruction &i)
{
    put<bool>(f, i, 0, !get<bool>(f, i, 1));
}

void prmt(frame &f, const instruction &i)
{
    const uint64_t ab =
        get<uint32_t>(f, i, 1) | (uint64_t)get<uint32_t>(f, i, 2) << 32;
    const uint32_t how = get<uint32_t>(f, i, 3);
    uint32_t d = 0;

    for (unsigned k = 0; k < 4; k++) {
        const unsigned which = how >> 4 * k & 15;
        uint32_t byte = (uint32_t)(ab >> which % 8 * 8) & 255;

        if (which >= 8)
            byte = byte >> 7 ? 255 : 0;
        d |= byte << 8 * k;
    }
    put<uint32_t>(f, i, 0, d);
}
/* d = b with `n` bits of a from `from` on. */
void bfi(frame &f, const instruction &i)
{
    const uint32_t a = get<uint32_t>(f, i, 1), b = get<uint32_t>(f, i, 2);
    const unsigned from = get<uint32_t>(f, i, 3) & 255;
    const unsigned n = get<uint32_t>(f, i, 4) & 255;
    const uint64_t mask =
        n == 0 || from > 31 ? 0 : ((n >= 32 ? 0 : 1ull << n) - 1) << from;

    put<uint32_t>(f, i, 0,
                  (uint32_t)((b & ~mask) | ((uint64_t)a << from % 32 & mask)));
}
void brev(frame &f, const instruction &i)
{
    uint32_t a = get<uint32_t>(f, i, 1), d = 0;

    for (int k = 0; k < 32; k++, a >>= 1)
        d = d << 1 | (a & 1);
    put<uint32_t>(f, i, 0, d);
}
void bfind_shift(frame &f, const instruction &i)
{
    const uint32_t a = get<uint32_t>(f, i, 1);

    put<uint32_t>(f, i, 0, a == 0 ? ~0u : (uint32_t)__builtin_clz(a));
}
void clz(frame &f, const instruction &i)
{
    const uint32_t a = get<uint32_t>(f, i, 1);

    put<uint32_t>(f, i, 0, a == 0 ? 32 : (uint32_t)__builtin_clz(a));
}
template <class T> void popc(frame &f, const instruction &i)
{
    put<uint32_t>(f, i, 0, (uint32_t)__builtin_popcountll(get<T>(f, i, 1)));
}

/* --- what is chosen ------------------------------------------------------- */

template <class T> void selp(frame &f, const instruction &i)
{
    put<T>(f, i, 0, get<T>(f, i, get<bool>(f, i, 3) ? 1 : 2));
}

/* --- moves ---------------------------------------------------------------- */

template <class T> void move(frame &f, const instruction &i)
{
    put<T>(f, i, 0, get<T>(f, i, 1));
}
/* A word of two or four numbers in braces. */
template <class T> struct parts {
    unsigned each; /* bits */
    uint64_t mask;

    explicit parts(const instruction &i)
        : each(8 * sizeof(T) / (i.n - 1)), mask((1ull << each) - 1)
    {
    }
};
template <class T> void pack(frame &f, const instruction &i)
{
    const parts<T> part(i);
    uint64_t v = 0;

    for (unsigned k = 1; k < i.n; k++)
        v |= (f.r[i.at[k]] & part.mask) << part.each * (k - 1);
    f.r[i.at[0]] = v;
}
template <class T> void unpack(frame &f, const instruction &i)
{
    const parts<T> part(i);
    const uint64_t v = get<T>(f, i, i.n - 1);

    for (unsigned k = 0; k + 1 < i.n; k++)
        f.r[i.at[k]] = v >> part.each * k & part.mask;
}
void move_pred(frame &f, const instruction &i)
{
    put<bool>(f, i, 0, get<bool>(f, i, 1));
}
/* The address of an argument. */
void lea(frame &f, const instruction &i)
{
    f.r[i.at[0]] = f.r[i.at[1]] + (uint64_t)i.plus[0];
}
void to_shared(frame &f, const instruction &i)
{
    f.r[i.at[0]] = f.r[i.at[1]] - (uint64_t)(uintptr_t)shared_memory();
}
void of_shared(frame &f, const instruction &i)
{
    f.r[i.at[0]] = f.r[i.at[1]] + (uint64_t)(uintptr_t)shared_memory();
}

/* --- conversions ---------------------------------------------------------- */

template <class D, class S> void convert(frame &f, const instruction &i)
{
    put<D>(f, i, 0, one_nan((D)get<S>(f, i, 1)));
}
/* To whole numbers: what is beyond them is the last; NaN is 0. */
template <class D, class S, bool NEAREST>
void convert_whole(frame &f, const instruction &i)
{
    S v = get<S>(f, i, 1);

    v = NEAREST ? std::nearbyint(v) : std::trunc(v);
    if (v != v)
        put<D>(f, i, 0, sizeof(D) == 8 ? std::numeric_limits<D>::min() : 0);
    else if (v >= (S)std::numeric_limits<D>::max())
        put<D>(f, i, 0, std::numeric_limits<D>::max());
    else if (v <= (S)std::numeric_limits<D>::min())
        put<D>(f, i, 0, std::numeric_limits<D>::min());
    else
        put<D>(f, i, 0, (D)v);
}
void saturate(frame &f, const instruction &i)
{
    const float v = get<float>(f, i, 1);

    put<float>(f, i, 0, v > 0 ? v < 1 ? v : 1 : 0);
}
template <class H> void widen(frame &f, const instruction &i)
{
    put<float>(f, i, 0, one_nan(dev_wide(H{ get<uint16_t>(f, i, 1) })));
}
template <class H> void narrow(frame &f, const instruction &i)
{
    put<uint16_t>(f, i, 0, dev_narrow<H>(get<float>(f, i, 1)).bits);
}
/* The first one above the second. */
/* To the nearest whole number, ties to even. */
template <class T> void round_whole(frame &f, const instruction &i)
{
    put<T>(f, i, 0, one_nan(std::nearbyint(get<T>(f, i, 1))));
}
template <class H> void narrow_two(frame &f, const instruction &i)
{
    put<uint32_t>(f, i, 0,
                  dev_pair<H>(get<float>(f, i, 2), get<float>(f, i, 1)));
}

template <class T> void bits(table &t, const std::string &type)
{
    t["and." + type] = logic<T, both>;
    t["or." + type] = logic<T, either>;
    t["xor." + type] = logic<T, one_alone>;
    t["not." + type] = invert<T>;
}
template <class D> void whole_from(table &t, const std::string &to)
{
    t["cvt." + to + ".u8"] = convert<D, uint8_t>;
    t["cvt." + to + ".s8"] = convert<D, int8_t>;
    t["cvt." + to + ".u16"] = convert<D, uint16_t>;
    t["cvt." + to + ".s16"] = convert<D, int16_t>;
    t["cvt." + to + ".u32"] = convert<D, uint32_t>;
    t["cvt." + to + ".s32"] = convert<D, int32_t>;
    t["cvt." + to + ".u64"] = convert<D, uint64_t>;
    t["cvt." + to + ".s64"] = convert<D, int64_t>;
}
template <class U, class S> void words_of(table &t, const std::string &n)
{
    bits<U>(t, "b" + n);
    t["shl.b" + n] = shl<U>;
    t["shr.u" + n] = shr<U>;
    t["shr.s" + n] = shr<S>;
    whole_from<U>(t, "u" + n);
    whole_from<S>(t, "s" + n);
    for (const char *kind : { "b", "u", "s" }) {
        t["selp." + (kind + n)] = selp<U>;
        t["mov." + (kind + n)] = move<U>;
        t["mov." + (kind + n) + ".pack"] = pack<U>;
        t["mov." + (kind + n) + ".unpack"] = unpack<U>;
    }
}
template <class T, class U> void reals_of(table &t, const std::string &type)
{
    t["selp." + type] = selp<U>;
    t["mov." + type] = move<U>;
    t["cvt.rzi.s32." + type] = convert_whole<int32_t, T, false>;
    t["cvt.rzi.s64." + type] = convert_whole<int64_t, T, false>;
    t["cvt.rni." + type + "." + type] = round_whole<T>;
    t["cvt.rni.s32." + type] = convert_whole<int32_t, T, true>;
    t["cvt.rn." + type + ".s32"] = convert<T, int32_t>;
    t["cvt.rn." + type + ".u32"] = convert<T, uint32_t>;
    t["cvt.rn." + type + ".s64"] = convert<T, int64_t>;
    t["cvt.rn." + type + ".u64"] = convert<T, uint64_t>;
}

} // namespace

void add_words(table &t)
{
    words_of<uint16_t, int16_t>(t, "16");
    words_of<uint32_t, int32_t>(t, "32");
    words_of<uint64_t, int64_t>(t, "64");
    bits<bool>(t, "pred");
    reals_of<float, uint32_t>(t, "f32");
    reals_of<double, uint64_t>(t, "f64");
    t.insert({
        { "cvt.f64.f32", convert<double, float> },
        { "cvt.rn.f32.f64", convert<float, double> },
        { "cvt.sat.f32.f32", saturate },
        { "cvt.f32.bf16", widen<bf16> },
        { "cvt.f32.f16", widen<fp16> },
        { "cvt.rn.bf16.f32", narrow<bf16> },
        { "cvt.rn.f16.f32", narrow<fp16> },
        { "cvt.rn.bf16x2.f32", narrow_two<bf16> },
        { "cvt.rn.f16x2.f32", narrow_two<fp16> },
        { "mov.pred", move_pred },
        { "lea", lea },
        { "cvta.to.global.u64", move<uint64_t> },
        { "cvta.global.u64", move<uint64_t> },
        { "cvta.to.shared.u64", to_shared },
        { "cvta.shared.u64", of_shared },
        { "prmt.b32", prmt },
        { "bfi.b32", bfi },
        { "brev.b32", brev },
        { "bfind.shiftamt.u32", bfind_shift },
        { "clz.b32", clz },
        { "popc.b32", popc<uint32_t> },
        { "popc.b64", popc<uint64_t> },
    });
}

} // namespace ptx
