/* arithmetic.cpp - numbers of one, two and three others, and what they are
 * beside each other, as the PTX manual has it. */
#include "operations.h"

#include <cfenv>
#include <cmath>

namespace ptx {

namespace {

template <class T>
using wrapping = std::conditional_t<std::is_integral_v<T>,
                                    std::make_unsigned<T>, std::common_type<T>>;
/* As T is, but that sums wrap. */
template <class T> using plain = typename wrapping<T>::type;

struct add {
    template <class T> static T of(T a, T b)
    {
        return (T)((plain<T>)a + (plain<T>)b);
    }
};
struct sub {
    template <class T> static T of(T a, T b)
    {
        return (T)((plain<T>)a - (plain<T>)b);
    }
};
struct mul {
    template <class T> static T of(T a, T b)
    {
        if constexpr (std::is_integral_v<T>)
            return (T)((uint64_t)a * (uint64_t)b);
        else
            return a * b;
    }
};
struct divide {
    template <class T> static T of(T a, T b)
    {
        if constexpr (std::is_integral_v<T>)
            return b == 0       ? (T) ~(T)0
                   : b == (T)-1 ? (T)(0 - (plain<T>)a)
                                : a / b;
        else
            return a / b;
    }
};
struct rest {
    template <class T> static T of(T a, T b)
    {
        return b == 0 ? a : b == (T)-1 && std::is_signed_v<T> ? 0 : a % b;
    }
};
/* NaN only of two; +0 is more than -0. */
template <bool LARGER> struct extreme {
    template <class T> static T of(T a, T b)
    {
        if (a != a || b != b)
            return a != a ? b : a;
        if constexpr (std::is_floating_point_v<T>)
            if (a == b)
                return std::signbit(a) == LARGER ? b : a;
        return (a > b) == LARGER ? a : b;
    }
};
typedef extreme<true> max;
typedef extreme<false> min;

template <class T, class OP> void two(frame &f, const instruction &i)
{
    put<T>(f, i, 0, one_nan(OP::of(get<T>(f, i, 1), get<T>(f, i, 2))));
}

template <class T, class W> void mul_wide(frame &f, const instruction &i)
{
    put<W>(f, i, 0, (W)((W)get<T>(f, i, 1) * (W)get<T>(f, i, 2)));
}
template <class T, class W> void mad_wide(frame &f, const instruction &i)
{
    put<W>(
        f, i, 0,
        add::of((W)((W)get<T>(f, i, 1) * (W)get<T>(f, i, 2)), get<W>(f, i, 3)));
}
template <class T, class W> void mul_hi(frame &f, const instruction &i)
{
    put<T>(f, i, 0,
           (T)((W)get<T>(f, i, 1) * (W)get<T>(f, i, 2) >> 8 * sizeof(T)));
}
template <class T> void mad_lo(frame &f, const instruction &i)
{
    put<T>(f, i, 0,
           add::of(mul::of(get<T>(f, i, 1), get<T>(f, i, 2)), get<T>(f, i, 3)));
}

template <class T> void fma_rn(frame &f, const instruction &i)
{
    put<T>(
        f, i, 0,
        one_nan(std::fma(get<T>(f, i, 1), get<T>(f, i, 2), get<T>(f, i, 3))));
}
/* Towards minus infinity. */
void fma_rm(frame &f, const instruction &i)
{
    const volatile float a = get<float>(f, i, 1), b = get<float>(f, i, 2),
                         c = get<float>(f, i, 3);
    const int was = fegetround();
    volatile float d;

    fesetround(FE_DOWNWARD);
    d = fmaf(a, b, c);
    fesetround(was);
    put<float>(f, i, 0, one_nan((float)d));
}

void mul_kept(frame &f, const instruction &i)
{
    const float a = get<float>(f, i, 1), b = get<float>(f, i, 2);

    put<float>(f, i, 3, a);
    put<float>(f, i, 4, b);
    put<float>(f, i, 0, one_nan(a * b));
}
template <int A, int C> void joined(frame &f, const instruction &i)
{
    put<float>(f, i, 0,
               one_nan(fmaf(A * get<float>(f, i, 1), get<float>(f, i, 2),
                            C * get<float>(f, i, 3))));
}

template <class T> void neg(frame &f, const instruction &i)
{
    if constexpr (std::is_integral_v<T>)
        put<T>(f, i, 0, (T)(0 - (plain<T>)get<T>(f, i, 1)));
    else
        put<T>(f, i, 0, -get<T>(f, i, 1));
}
template <class T> void absolute(frame &f, const instruction &i)
{
    put<T>(f, i, 0, std::abs(get<T>(f, i, 1)));
}

template <class T> void root(frame &f, const instruction &i)
{
    put<T>(f, i, 0, one_nan(std::sqrt(get<T>(f, i, 1))));
}
template <class T> void reciprocal(frame &f, const instruction &i)
{
    put<T>(f, i, 0, one_nan(1 / get<T>(f, i, 1)));
}

/* What a GPU only comes near to is as wrong here as it may be there, by what it
 * is of. */
float near(float exact, float of, uint32_t ulps)
{
    const uint32_t wrong =
        (__float_as_uint(of) * 2654435761u >> 16) % (2 * ulps + 1);
    const float v = __uint_as_float(__float_as_uint(exact) + wrong - ulps);

    return exact != 0 && std::isfinite(exact) && std::isnormal(v) ? v : exact;
}
float flushed(float v)
{
    return std::fpclassify(v) == FP_SUBNORMAL ? copysignf(0, v) : v;
}
template <bool FLUSHES> void ex2_approx(frame &f, const instruction &i)
{
    float a = get<float>(f, i, 1), v;

    if (FLUSHES)
        a = flushed(a);
    v = near(exp2f(a), a, a == 0 ? 0 : 2);
    put<float>(f, i, 0, one_nan(FLUSHES ? flushed(v) : v));
}
void lg2_approx(frame &f, const instruction &i)
{
    const float a = get<float>(f, i, 1);

    put<float>(f, i, 0, one_nan(near(log2f(a), a, 1)));
}
void rcp_approx(frame &f, const instruction &i)
{
    const float a = flushed(get<float>(f, i, 1));

    put<float>(f, i, 0, one_nan(flushed(near(1 / a, a, 1))));
}
void rsqrt_approx(frame &f, const instruction &i)
{
    const float a = get<float>(f, i, 1);

    put<float>(f, i, 0, one_nan(near(1 / sqrtf(a), a, 2)));
}
/* Of doubles, 20 bits of the result and no more. */
void rcp_approx_double(frame &f, const instruction &i)
{
    const double a = 1 / get<double>(f, i, 1);
    uint64_t bits;

    memcpy(&bits, &a, sizeof(bits));
    f.r[i.at[0]] = bits & ~0xffffffffull;
}

template <class T, class OP> void setp(frame &f, const instruction &i)
{
    put<bool>(f, i, 0, OP::of(get<T>(f, i, 1), get<T>(f, i, 2)));
}
#define COMPARE(name, expression)                                              \
    struct name {                                                              \
        template <class T> static bool of(T a, T b)                            \
        {                                                                      \
            return expression;                                                 \
        }                                                                      \
    };
COMPARE(eq, a == b)
COMPARE(ne, a<b || a> b)
COMPARE(lt, a < b)
COMPARE(le, a <= b)
COMPARE(gt, a > b)
COMPARE(ge, a >= b)
COMPARE(equ, !(a < b || a > b))
COMPARE(neu, a != b)
COMPARE(ltu, !(a >= b))
COMPARE(leu, !(a > b))
COMPARE(gtu, !(a <= b))
COMPARE(geu, !(a < b))
COMPARE(num, a == a && b == b)
COMPARE(nan_, a != a || b != b)
#undef COMPARE

template <class T> void numbers(table &t, const std::string &type)
{
    t["add." + type] = two<T, add>;
    t["sub." + type] = two<T, sub>;
    t["max." + type] = two<T, max>;
    t["min." + type] = two<T, min>;
    t["neg." + type] = neg<T>;
    t["setp.eq." + type] = setp<T, eq>;
    t["setp.ne." + type] = setp<T, ne>;
    t["setp.lt." + type] = setp<T, lt>;
    t["setp.le." + type] = setp<T, le>;
    t["setp.gt." + type] = setp<T, gt>;
    t["setp.ge." + type] = setp<T, ge>;
}
template <class T> void whole(table &t, const std::string &type)
{
    numbers<T>(t, type);
    t["mul.lo." + type] = two<T, mul>;
    t["mad.lo." + type] = mad_lo<T>;
    t["div." + type] = two<T, divide>;
    t["rem." + type] = two<T, rest>;
}
/* Those that a word of n bits may be. */
template <class U, class S> void whole_of(table &t, const std::string &n)
{
    whole<U>(t, "u" + n);
    whole<S>(t, "s" + n);
    t["setp.eq.b" + n] = setp<U, eq>;
    t["setp.ne.b" + n] = setp<U, ne>;
}
template <class T> void real(table &t, const std::string &type)
{
    numbers<T>(t, type);
    t["mul." + type] = two<T, mul>;
    t["add.rn." + type] = two<T, add>;
    t["sub.rn." + type] = two<T, sub>;
    t["mul.rn." + type] = two<T, mul>;
    t["div.rn." + type] = two<T, divide>;
    t["fma.rn." + type] = fma_rn<T>;
    t["abs." + type] = absolute<T>;
    t["sqrt.rn." + type] = root<T>;
    t["rcp.rn." + type] = reciprocal<T>;
    t["setp.equ." + type] = setp<T, equ>;
    t["setp.neu." + type] = setp<T, neu>;
    t["setp.ltu." + type] = setp<T, ltu>;
    t["setp.leu." + type] = setp<T, leu>;
    t["setp.gtu." + type] = setp<T, gtu>;
    t["setp.geu." + type] = setp<T, geu>;
    t["setp.num." + type] = setp<T, num>;
    t["setp.nan." + type] = setp<T, nan_>;
}

} // namespace

void add_arithmetic(table &t)
{
    whole_of<uint16_t, int16_t>(t, "16");
    whole_of<uint32_t, int32_t>(t, "32");
    whole_of<uint64_t, int64_t>(t, "64");
    real<float>(t, "f32");
    real<double>(t, "f64");
    t.insert({
        { "mul.wide.u16", mul_wide<uint16_t, uint32_t> },
        { "mul.wide.s16", mul_wide<int16_t, int32_t> },
        { "mul.wide.u32", mul_wide<uint32_t, uint64_t> },
        { "mul.wide.s32", mul_wide<int32_t, int64_t> },
        { "mad.wide.u32", mad_wide<uint32_t, uint64_t> },
        { "mad.wide.s32", mad_wide<int32_t, int64_t> },
        { "mul.hi.u32", mul_hi<uint32_t, uint64_t> },
        { "mul.hi.u64", mul_hi<uint64_t, unsigned __int128> },
        { "mul.f32.kept", mul_kept },
        { "fma.rm.f32", fma_rm },
        { "ex2.approx.ftz.f32", ex2_approx<true> },
        { "ex2.approx.f32", ex2_approx<false> },
        { "lg2.approx.f32", lg2_approx },
        { "rcp.approx.ftz.f32", rcp_approx },
        { "rcp.approx.ftz.f64", rcp_approx_double },
        { "rsqrt.approx.f32", rsqrt_approx },
    });
}

action *joined_action(const std::string &sum, int which)
{
    return sum == "add.f32" ? joined<1, 1>
           : which == 1     ? joined<1, -1>
                            : joined<-1, 1>;
}

} // namespace ptx
