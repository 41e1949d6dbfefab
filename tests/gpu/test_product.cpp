/* test_product.cpp - products beside a sum in double, of random shapes, types,
 * places and epilogues, those that the library does not take included. */
#include "gpu/product.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "lib/test.h"

#include "base/half.h"
#include "base/random.h"
}

namespace {

size_t bytes_of(enum dsflow_dtype type)
{
    return type == DSFLOW_FP32 ? 4 : 2;
}

/* What rounding a number to the type may change, relatively. */
double unit_of(enum dsflow_dtype type)
{
    return type == DSFLOW_BF16   ? 0x1p-8
           : type == DSFLOW_FP16 ? 0x1p-11
                                 : 0x1p-22;
}

size_t any(uint64_t *state, size_t least, size_t most)
{
    return least + dsf_random(state) % (most - least + 1);
}

/* Rows of numbers of a type, at some bytes behind a multiple of 256. */
struct numbers {
    enum dsflow_dtype type;
    size_t rows, cols, ld;
    std::vector<unsigned char> held;
    unsigned char *at;

    numbers(enum dsflow_dtype t, size_t r, size_t c, size_t l, size_t off)
        : type(t), rows(r), cols(c), ld(l),
          held(r * l * bytes_of(t) + 512, 0x7f)
    {
        auto begin = reinterpret_cast<uintptr_t>(held.data());

        at = held.data() + (256 - begin % 256) % 256 + off * bytes_of(t);
    }
    double get(size_t i, size_t j) const
    {
        const size_t e = i * ld + j;
        uint16_t half;

        if (type == DSFLOW_FP32)
            return (double)reinterpret_cast<const float *>(at)[e];
        memcpy(&half, at + 2 * e, 2);
        return (double)(type == DSFLOW_BF16 ? dsf_from_bf16(half)
                                            : dsf_from_fp16(half));
    }
    void set(size_t i, size_t j, float v)
    {
        uint16_t half = type == DSFLOW_BF16 ? dsf_to_bf16(v) : dsf_to_fp16(v);
        const size_t e = i * ld + j;

        if (type == DSFLOW_FP32)
            reinterpret_cast<float *>(at)[e] = v;
        else
            memcpy(at + 2 * e, &half, 2);
    }
    void fill(uint64_t *state)
    {
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++)
                set(i, j, (float)dsf_random_normal(state));
    }
};

struct workspace {
    void *at = aligned_alloc(256, DSF_GPU_WORKSPACE);
    ~workspace()
    {
        free(at);
    }
};

/* A product, the memory of it, and how it is asked for. */
struct trial {
    enum dsflow_dtype type, out;
    size_t m, n, k;
    int ta, tb;
    numbers a, b, c, add, bias, aux;
    std::vector<float> wide;
    struct dsf_gpu_product p = {};

    trial(uint64_t *s, enum dsflow_dtype t, enum dsflow_dtype o, size_t step,
          size_t most, int turned_a, int turned_b, size_t off)
        : trial(s, t, o, step, step * any(s, 1, most), step * any(s, 1, most),
                step * any(s, 1, most), turned_a, turned_b, off)
    {
    }
    trial(uint64_t *s, enum dsflow_dtype t, enum dsflow_dtype o, size_t step,
          size_t rows, size_t cols, size_t sum, int turned_a, int turned_b,
          size_t off)
        : type(t), out(o), m(rows), n(cols), k(sum), ta(turned_a), tb(turned_b),
          a(t, ta ? k : m, ta ? m : k, (ta ? m : k) + step * any(s, 0, 1), off),
          b(t, tb ? n : k, tb ? k : n, (tb ? k : n) + step * any(s, 0, 1), off),
          c(o, m, n, n + step * any(s, 0, 1), off), add(o, m, n, c.ld, off),
          bias(t, 1, n, n, off), aux(t, m, n, n, off), wide(m * n)
    {
        a.fill(s);
        b.fill(s);
        add.fill(s);
        bias.fill(s);
        aux.fill(s);
        p.type = type;
        p.out = out;
        p.ta = ta;
        p.tb = tb;
        p.m = m;
        p.n = n;
        p.k = k;
        p.a = a.at;
        p.lda = a.ld;
        p.b = b.at;
        p.ldb = b.ld;
        p.c = c.at;
        p.ldc = c.ld;
        p.wide = wide.data();
    }
    double sum(size_t i, size_t j, double *size) const
    {
        double sum = 0;

        *size = 0;
        for (size_t l = 0; l < k; l++) {
            double v = (ta ? a.get(l, i) : a.get(i, l)) *
                       (tb ? b.get(j, l) : b.get(l, j));

            sum += v;
            *size += std::fabs(v);
        }
        return sum;
    }
};

double gelu(double x, double *slope)
{
    const double root = std::sqrt(2 / std::acos(-1.0));
    const double t = std::tanh(root * (x + 0.044715 * x * x * x));

    *slope = 0.5 * (1 + t) +
             0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

void near(double got, double want, double allowed, const char *what, size_t i,
          size_t j)
{
    if (!(std::fabs(got - want) <= allowed))
        fail_msg("%s[%zu][%zu]: %.9g, expected %.9g within %.2g", what, i, j,
                 got, want, allowed);
}

/* What is right, computed before the product changes `aux`. */
struct right {
    std::vector<double> c, aux, size;

    explicit right(const trial &t) : c(t.m * t.n), aux(c), size(c)
    {
        for (size_t i = 0; i < t.m; i++)
            for (size_t j = 0; j < t.n; j++)
                at(t, i, j);
    }
    void at(const trial &t, size_t i, size_t j)
    {
        const size_t e = i * t.n + j;
        double slope, v = t.sum(i, j, &size[e]);

        v += t.p.add ? t.add.get(i, j) : 0;
        v += t.p.bias ? t.bias.get(0, j) : 0;
        size[e] += std::fabs(v) + 2;
        c[e] = v;
        aux[e] = v;
        if (t.p.epilogue == DSF_GPU_GELU)
            c[e] = gelu(v, &slope);
        if (t.p.epilogue != DSF_GPU_DGELU)
            return;
        aux[e] = gelu(t.aux.get(i, j), &slope);
        c[e] = v * slope;
    }
};

void check(const trial &t, const right &want)
{
    /* Rounded where it is stored; with what follows, up to three times. */
    const double unit = 3 * unit_of(t.out) +
                        unit_of(t.type == DSFLOW_FP32 ? DSFLOW_FP32 : t.out);

    for (size_t i = 0; i < t.m; i++)
        for (size_t j = 0; j < t.n; j++) {
            const size_t e = i * t.n + j;
            const double near_by =
                unit * (std::fabs(want.c[e]) + std::fabs(want.aux[e])) +
                2e-6 * want.size[e];

            near(t.c.get(i, j), want.c[e], near_by, "C", i, j);
            if (t.p.epilogue != DSF_GPU_AS_IT_IS)
                near(t.aux.get(i, j), want.aux[e], near_by, "aux", i, j);
        }
}

void multiply(trial &t, void *workspace)
{
    const right want(t);

    t.p.workspace = workspace;
    dsf_gpu_multiply(&t.p, nullptr);
    const char *why = dsf_gpu_multiply_failed();
    if (why)
        fail_msg("%s", why);
    check(t, want);
}

const struct {
    enum dsflow_dtype type, out;
} types[] = { { DSFLOW_FP32, DSFLOW_FP32 },
              { DSFLOW_BF16, DSFLOW_BF16 },
              { DSFLOW_FP16, DSFLOW_FP16 },
              { DSFLOW_BF16, DSFLOW_FP32 },
              { DSFLOW_FP16, DSFLOW_FP32 } };

/* What of the product is asked for, by number. */
void ask(trial &t, unsigned what)
{
    const bool narrow = t.out == t.type;

    t.p.bias = what % 2 && narrow ? t.bias.at : nullptr;
    if (what / 2 % 4 == 1)
        t.p.add = t.add.at;
    if (t.p.add && t.p.bias) { /* rows are packed then */
        uint64_t seed = 9;

        t.p.ldc = t.c.ld = t.add.ld = t.n;
        t.add.fill(&seed);
    }
    if (what / 2 % 4 < 2 || !narrow)
        return;
    t.p.aux = t.aux.at;
    t.p.epilogue = what / 2 % 4 == 2 ? DSF_GPU_GELU : DSF_GPU_DGELU;
    if (t.p.epilogue == DSF_GPU_DGELU)
        t.p.bias = nullptr;
    t.p.ldc = t.c.ld = t.n;
}

void run_all(size_t step, size_t most, size_t off, uint64_t seed)
{
    workspace w;

    for (unsigned i = 0; i < 160; i++) {
        uint64_t s = seed * 1000 + i;
        const auto &kind = types[i % 5];
        trial t(&s, kind.type, kind.out, step, most, i / 5 % 2, i / 10 % 2,
                off);

        ask(t, i / 20);
        multiply(t, w.at);
    }
}

void aligned_products_are_right(void **)
{
    run_all(8, 6, 0, 1);
}

void products_of_odd_shapes_are_right(void **)
{
    run_all(1, 37, 0, 2);
}

/* An epilogue that the library has no algorithm for, of more rows than stand in
 * fp32 at a time, too. */
void what_the_library_does_not_fuse_is_done_in_two_passes(void **)
{
    workspace w;
    uint64_t s = 11;

    setenv("DSFLOW_EMULATED_EPILOGUES", "no", 1);
    run_all(8, 5, 0, 6);
    /* Bias and residual; bias and GELU; its slope. */
    for (unsigned what : { 3u, 5u, 6u }) {
        trial t(&s, DSFLOW_BF16, DSFLOW_BF16, 8, 19, 1 << 17, 8, 0, 1, 0);

        assert_true(dsf_gpu_product_few(t.m, t.n) < t.m * t.n);
        t.wide.resize(dsf_gpu_product_few(t.m, t.n));
        t.p.wide = t.wide.data();
        ask(t, what);
        multiply(t, w.at);
    }
    unsetenv("DSFLOW_EMULATED_EPILOGUES");
}

/* Gradients of another narrow type than what they are made of, also of more
 * rows than stand in fp32 at a time. */
void results_of_another_narrow_type_are_rounded(void **)
{
    workspace w;
    uint64_t s = 12;

    for (unsigned turned = 0; turned < 8; turned++) {
        const bool many = turned >= 4;
        trial t(&s, DSFLOW_FP16, DSFLOW_BF16, 8, 24, many ? 1 << 16 : 40, 8,
                turned % 2, turned / 2 % 2, 0);

        assert_true((dsf_gpu_product_few(t.m, t.n) < t.m * t.n) == many);
        t.wide.resize(dsf_gpu_product_few(t.m, t.n));
        t.p.wide = t.wide.data();
        if (turned % 2) { /* rows are packed then */
            t.p.add = t.add.at;
            t.p.ldc = t.c.ld = t.add.ld = t.n;
            t.add.fill(&s);
        }
        multiply(t, w.at);
    }
}

/* Products that differ in one thing, each twice: what is chosen for one is for
 * no other. */
void each_product_has_a_choice_of_its_own(void **)
{
    enum { N = 24, KINDS = 15 };
    workspace w;

    for (unsigned i = 0; i < 2 * KINDS; i++) {
        const unsigned what = i % KINDS;
        uint64_t s = what < 12 ? 40 : 29 + what; /* other lengths of rows */
        const auto size = [&](unsigned of) -> size_t {
            return what == of ? N + 8 : N;
        };
        trial t(&s, what == 1 ? DSFLOW_FP16 : DSFLOW_BF16,
                what == 1   ? DSFLOW_FP16
                : what == 2 ? DSFLOW_FP32
                            : DSFLOW_BF16,
                8, size(3), size(4), size(5), what == 6, what == 7, what == 8);

        ask(t, what == 9 ? 1 : what == 10 ? 2 : what == 11 ? 4 : 0);
        multiply(t, w.at);
    }
}

/* A tensor that begins anywhere in a unit. */
void products_at_odd_places_are_right(void **)
{
    run_all(8, 4, 3, 3);
}

/* Products that add to what is there, as those of gradients do. */
void a_product_adds_to_its_own_result(void **)
{
    workspace w;
    uint64_t s = 5;

    for (enum dsflow_dtype type : { DSFLOW_FP32, DSFLOW_BF16, DSFLOW_FP16 }) {
        trial t(&s, type, DSFLOW_FP32, 8, 5, 1, 0, 0);

        for (size_t i = 0; i < t.m; i++)
            for (size_t j = 0; j < t.n; j++)
                t.c.set(i, j, (float)t.add.get(i, j));
        t.p.add = t.c.at;
        const right want = [&] {
            t.p.add = t.add.at; /* the same numbers */
            right r(t);
            t.p.add = t.c.at;
            return r;
        }();
        t.p.workspace = w.at;
        dsf_gpu_multiply(&t.p, nullptr);
        assert_null(dsf_gpu_multiply_failed());
        check(t, want);
    }
}

/* Many threads at once, with the same shapes: each chooses once, and all have
 * the same bits. */
void threads_choose_alike(void **)
{
    std::vector<std::vector<unsigned char>> left(4);
    std::vector<std::string> faults(4);
    std::vector<std::thread> threads;

    for (size_t i = 0; i < left.size(); i++)
        threads.emplace_back([i, &left, &faults] {
            workspace w;

            for (uint64_t seed = 0; seed < 20; seed++) {
                uint64_t s = 77 + seed;
                trial t(&s, DSFLOW_BF16, DSFLOW_BF16, 8, 5, 0, 1, 0);

                t.p.bias = t.bias.at;
                t.p.workspace = w.at;
                dsf_gpu_multiply(&t.p, nullptr);
                if (const char *why = dsf_gpu_multiply_failed())
                    faults[i] = why;
                for (size_t r = 0; r < t.m; r++)
                    left[i].insert(left[i].end(), t.c.at + 2 * r * t.c.ld,
                                   t.c.at + 2 * (r * t.c.ld + t.n));
            }
        });
    for (auto &t : threads)
        t.join();
    for (size_t i = 0; i < left.size(); i++) {
        assert_string_equal(faults[i].c_str(), "");
        assert_true(left[i] == left[0]);
    }
}

/* A product that does not fit what is stated of it; each is asked for as it is,
 * and must be refused in words. */
void refused(const struct dsf_gpu_product &p, size_t alignment)
{
    const char *why = dsf_gpu_matmul(&p, alignment, nullptr);

    assert_non_null(why);
    assert_non_null(strstr(why, "product"));
}

void what_is_not_as_stated_is_refused(void **)
{
    workspace w;
    uint64_t s = 3;
    trial t(&s, DSFLOW_BF16, DSFLOW_BF16, 8, 4, 0, 1, 0);
    struct dsf_gpu_product p;

    t.p.workspace = w.at;
    assert_null(dsf_gpu_matmul(&t.p, 16, nullptr));
    (p = t.p).a = t.a.at + 2;
    refused(p, 16);
    (p = t.p).c = t.c.at + 8;
    refused(p, 16);
    (p = t.p).lda += 1;
    refused(p, 16);
    (p = t.p).ldb = t.k - 8;
    refused(p, 16);
    (p = t.p).ldc = t.n - 8;
    refused(p, 16);
    (p = t.p).workspace = static_cast<char *>(w.at) + 64;
    refused(p, 16);
    (p = t.p).bias = t.bias.at + 2;
    refused(p, 16);
}

/* Rounded to 10 bits behind the point, both operands. */
void round_to_tf32(numbers *x)
{
    for (size_t i = 0; i < x->rows; i++)
        for (size_t j = 0; j < x->cols; j++) {
            const double v = x->get(i, j);
            const double unit = std::ldexp(1.0, std::ilogb(v) - 10);

            x->set(i, j, (float)(std::round(v / unit) * unit));
        }
}

void operands_are_rounded_to_tf32_where_asked(void **)
{
    workspace w;
    uint64_t s = 5;
    trial t(&s, DSFLOW_FP32, DSFLOW_FP32, 4, 5, 0, 1, 0);

    t.p.workspace = w.at;
    dsf_gpu_multiply(&t.p, nullptr);
    const auto full = t.c.held;
    dsf_gpu_products_round(1);
    dsf_gpu_multiply(&t.p, nullptr);
    const auto rounded = t.c.held;
    dsf_gpu_products_round(0);
    round_to_tf32(&t.a);
    round_to_tf32(&t.b);
    dsf_gpu_multiply(&t.p, nullptr);
    assert_null(dsf_gpu_multiply_failed());
    assert_true(rounded != full);
    assert_true(rounded == t.c.held);
}

void a_failed_product_is_told_once(void **)
{
    workspace w;
    uint64_t s = 4;
    trial t(&s, DSFLOW_FP16, DSFLOW_FP16, 8, 4, 0, 0, 0);

    t.p.workspace = static_cast<char *>(w.at) + 4;
    assert_null(dsf_gpu_multiply_failed());
    dsf_gpu_multiply(&t.p, nullptr);
    assert_non_null(dsf_gpu_multiply_failed());
    assert_null(dsf_gpu_multiply_failed());
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_products_are_right),
        cmocka_unit_test(products_of_odd_shapes_are_right),
        cmocka_unit_test(what_the_library_does_not_fuse_is_done_in_two_passes),
        cmocka_unit_test(results_of_another_narrow_type_are_rounded),
        cmocka_unit_test(each_product_has_a_choice_of_its_own),
        cmocka_unit_test(products_at_odd_places_are_right),
        cmocka_unit_test(a_product_adds_to_its_own_result),
        cmocka_unit_test(threads_choose_alike),
        cmocka_unit_test(what_is_not_as_stated_is_refused),
        cmocka_unit_test(operands_are_rounded_to_tf32_where_asked),
        cmocka_unit_test(a_failed_product_is_told_once),
    };

    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
