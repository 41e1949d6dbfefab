/* test_emulation.cpp - what is wrong with a kernel is seen on a GPU that is not
 * there: said with its line, or in the numbers of some order. */
#include "gpu/dev_sum.h"

#include "emulated.h"

#include <initializer_list>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
extern "C" {
#include <cmocka.h>
}

namespace {

/* What was wrong, which says all of `words`. */
void assert_fault(std::initializer_list<const char *> words)
{
    const char *fault = emulated_fault();

    assert_non_null(fault);
    for (const char *word : words)
        if (strstr(fault, word) == nullptr)
            fail_msg("\"%s\" is not in: %s", word, fault);
    assert_null(emulated_fault());
}

/* A line of this file that a fault names. */
struct at_line {
    char text[64];
    at_line(int line)
    {
        snprintf(text, sizeof(text), "test_emulation.cpp:%d: ", line);
    }
};

const int BARRIER_LINE = __LINE__ + 4;
__global__ void half_a_barrier(float *x)
{
    if (threadIdx.x < 32)
        __syncthreads();
    x[threadIdx.x] = 1;
}

void a_barrier_that_not_all_reach_is_said(void **state)
{
    float x[64];

    dev_launch(half_a_barrier, 1, 64, 0, nullptr, x);
    assert_fault({ at_line(BARRIER_LINE).text, "half_a_barrier", "32 of 64",
                   "block (0, 0, 0)" });
    dev_launch(half_a_barrier, 1, 32, 0, nullptr, x);
    assert_null(emulated_fault());
}

__global__ void two_barriers(float *x)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    x[threadIdx.x] = 1;
}

void barriers_of_two_lines_are_two(void **state)
{
    float x[64];

    dev_launch(two_barriers, 1, 64, 0, nullptr, x);
    assert_fault({ "two_barriers", "32 of 64" });
}

__global__ void lanes_missing(float *x, unsigned there)
{
    if (threadIdx.x < there)
        x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}

__global__ void from_outside(float *x)
{
    if (threadIdx.x < 16)
        x[threadIdx.x] = __shfl_sync(0xffffu, 1.0f, 20);
}

__global__ void not_in_its_mask()
{
    __syncwarp(1);
}

void lanes_that_never_come_are_said(void **state)
{
    float x[64];

    dev_launch(lanes_missing, 1, 64, 0, nullptr, x, 40);
    assert_fault({ "lanes_missing", "waits for lanes (ffffffff)" });
    dev_launch(lanes_missing, 1, 48, 0, nullptr, x, 48);
    assert_fault({ "waits for lanes (ffffffff)" });
    dev_launch(from_outside, 1, 32, 0, nullptr, x);
    assert_fault({ "a lane that takes no part" });
    dev_launch(not_in_its_mask, 1, 2, 0, nullptr);
    assert_fault({ "not in its own mask" });
    dev_launch(lanes_missing, 1, 64, 0, nullptr, x, 64);
    assert_null(emulated_fault());
}

/* A part of the lanes does something more: what all do then is not mixed up. */
__global__ void parts_of_warps(float *x)
{
    const unsigned lane = threadIdx.x;
    float v = (float)lane;

    if (lane < 8)
        v = __shfl_xor_sync(0xffu, v, 1);
    v += __shfl_xor_sync(0xffffffffu, v, 16);
    x[lane] = __ballot_sync(0xffffffffu, lane % 3 == 0) == 0x49249249u ? v : 0;
    if (!__any_sync(0xffffffffu, lane == 5) ||
        __all_sync(0xffffffffu, lane == 5))
        x[lane] = -1;
    v = __shfl_up_sync(0xffffffffu, (float)lane, 2);
    if (v != (float)(lane < 2 ? lane : lane - 2))
        x[lane] = -2;
    v = __shfl_down_sync(0xffffffffu, (float)lane, 2);
    if (v != (float)(lane < 30 ? lane + 2 : lane))
        x[lane] = -3;
}

void parts_of_a_warp_may_do_more(void **state)
{
    for (uint64_t order = 1; order < 20; order++) {
        float x[32];

        emulated_order(order);
        dev_launch(parts_of_warps, 1, 32, 0, nullptr, x);
        assert_null(emulated_fault());
        for (unsigned i = 0; i < 32; i++) {
            const unsigned own = i < 8 ? i ^ 1 : i;
            const unsigned other = (i ^ 16) < 8 ? (i ^ 16) ^ 1 : i ^ 16;

            assert_true(x[i] == (float)(own + other));
        }
    }
}

/* Each thread reads what its neighbour, in another warp, has written. */
template <bool BARRIER> __global__ void neighbours(float *x)
{
    float *s = dev_shared<float>();

    s[threadIdx.x] = (float)threadIdx.x;
    if (BARRIER)
        __syncthreads();
    x[threadIdx.x] = s[(threadIdx.x + 32) % blockDim.x];
}

/* In how many of 16 orders some number is not what it should be. */
template <bool BARRIER> unsigned wrong_neighbours()
{
    unsigned wrong = 0;

    for (uint64_t order = 1; order <= 16; order++) {
        float x[64];
        bool right = true;

        emulated_order(order);
        dev_launch(neighbours<BARRIER>, 1, 64, sizeof(x), nullptr, x);
        for (unsigned i = 0; i < 64; i++)
            right = right && x[i] == (float)((i + 32) % 64);
        wrong += !right;
    }
    return wrong;
}

void a_missing_barrier_shows(void **state)
{
    assert_int_equal(wrong_neighbours<true>(), 0);
    assert_int_equal(wrong_neighbours<false>(), 16);
}

template <bool WAIT> __global__ void copied(const float *in, float *out)
{
    float *s = dev_shared<float>() + threadIdx.x * 4;

    dev_copy16(s, in + threadIdx.x * 4);
    dev_copy_commit();
    dev_copy16(s + 128, in, threadIdx.x > 0);
    dev_copy_commit();
    if (WAIT)
        dev_copy_wait<1>();
    out[threadIdx.x] = s[0];
    dev_copy_wait<0>();
    out[32 + threadIdx.x] = s[128];
}

void copies_land_when_they_are_waited_for_or_at_once(void **state)
{
    unsigned late = 0, early = 0;

    for (uint64_t order = 1; order <= 8; order++) {
        alignas(16) float in[128];
        float out[64];

        for (unsigned i = 0; i < 128; i++)
            in[i] = (float)(i + 1);
        emulated_order(order);
        dev_launch((copied<true>), 1, 32, 1024, nullptr, in, out);
        assert_null(emulated_fault());
        for (unsigned i = 0; i < 32; i++) {
            assert_true(out[i] == (float)(4 * i + 1));
            assert_true(out[32 + i] == (i > 0 ? 1.0f : 0.0f));
        }
        dev_launch((copied<false>), 1, 32, 1024, nullptr, in, out);
        for (unsigned i = 0; i < 32; i++) {
            late += std::isnan(out[i]);
            early += out[i] == (float)(4 * i + 1);
        }
    }
    assert_true(late > 50 && early > 50);
    assert_int_equal(late + early, 8 * 32);
}

__global__ void past_the_end(float *x, unsigned n)
{
    x[0] = dev_shared<float>()[n];
}

/* Does a launch end this process? */
template <class F> bool ends(F f)
{
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka has taken it */
        fclose(stderr);           /* a sanitizer says much */
        f();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status != 0;
}

void shared_memory_is_guarded_and_not_a_number(void **state)
{
    float x = 0;

    dev_launch(past_the_end, 1, 1, 64, nullptr, &x, 15);
    assert_true(std::isnan(x));
    assert_false(ends([&] {
        dev_launch(past_the_end, 1, 1, 64, nullptr, &x, 15);
    }));
    assert_true(ends([&] {
        dev_launch(past_the_end, 1, 1, 64, nullptr, &x, 16);
    }));
}

__global__ void unaligned(const float *x, float *y)
{
    float v[8];

    dev_load_all(x + 1, v);
    dev_store_all(y, v);
}

__global__ void matrix_outside(const float *x, uint32_t *y)
{
    uint32_t r[4];

    dev_ldmatrix4(r, x);
    y[threadIdx.x] = r[0];
}

void addresses_of_16_bytes_are_checked(void **state)
{
    alignas(16) float x[64] = {}, y[64];
    uint32_t r[32];

    dev_launch(unaligned, 1, 1, 0, nullptr, x, y);
    assert_fault({ "dev.h", "unaligned", "multiple of 16" });
    dev_launch(matrix_outside, 1, 32, 512, nullptr, x, r);
    assert_fault({ "matrix_outside", "16 bytes of shared memory" });
}

__global__ void nothing()
{
}

template <size_t N> struct words {
    uint64_t v[N];
};
template <size_t N> __global__ void takes(words<N>, char)
{
}

void launches_that_no_gpu_takes_are_said(void **state)
{
    dev_launch(nothing, 0, 32, 0, nullptr);
    assert_fault({ "nothing", "a grid of 0 x 1 x 1" });
    dev_launch(nothing, 1, 1025, 0, nullptr);
    assert_fault({ "blocks of 1025" });
    dev_launch(nothing, dim3(1, 65536), 1, 0, nullptr);
    assert_fault({ "1 x 65536 x 1" });
    dev_launch(nothing, 1, 1, 100 << 10, nullptr);
    assert_fault({ "102400 bytes of shared memory" });
    dev_launch(takes<512>, 1, 1, 0, nullptr, words<512>(), 'x');
    assert_fault({ "takes<512>", "4097 of arguments" });
    dev_launch(takes<511>, 1, 1, 0, nullptr, words<511>(), 'x');
    assert_null(emulated_fault());
    dev_launch(nothing, dim3(3, 2, 2), dim3(8, 8, 2), 99 << 10, nullptr);
    assert_null(emulated_fault());
}

/* Each block says when it came. */
__global__ void come(unsigned *order, unsigned *n)
{
    if (threadIdx.x == 0)
        order[blockIdx.x + gridDim.x * blockIdx.y] = (*n)++;
    __syncthreads();
}

void blocks_come_once_each_in_any_order(void **state)
{
    std::vector<unsigned> first;

    for (uint64_t order = 1; order <= 4; order++) {
        std::vector<unsigned> came(35, ~0u), seen(35);
        unsigned n = 0;
        unsigned *at = came.data(), *count = &n;

        emulated_order(order);
        dev_launch(come, dim3(7, 5), 33, 0, nullptr, at, count);
        assert_null(emulated_fault());
        for (unsigned i : came)
            seen.at(i)++;
        for (unsigned i : seen)
            assert_int_equal(i, 1);
        if (first.empty())
            first = came;
        else
            assert_true(first != came);
    }
}

/* C[16][8] = A[16][16] B[8][16]^T, from shared memory. */
template <class T>
__global__ void multiply(const T *a, const T *b, float *c, int transposed)
{
    T *sa = dev_shared<T>(), *sb = sa + 256;
    const unsigned lane = threadIdx.x;
    uint32_t fa[4], fb[4];
    float sum[4] = {};

    dev_copy16(sa + lane * 8, a + lane * 8);
    dev_copy16(sb + lane * 8, b + lane * 8);
    dev_copy_commit();
    dev_copy_wait<0>();
    __syncwarp();
    dev_ldmatrix4(fa, sa + lane % 16 * 16 + lane / 16 * 8);
    if (transposed) /* b is [16][16], of which 8 columns count */
        dev_ldmatrix4t(fb, sb + lane % 16 * 16 + lane / 16 * 8);
    else
        dev_ldmatrix4(fb, sb + lane % 8 * 16 + lane / 8 % 2 * 8);
    dev_mma<T>(sum, fa, fb, sum);
    for (unsigned i = 0; i < 4; i++)
        c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
}

template <class T> void multiplies()
{
    alignas(16) T a[256], b[256];

    for (unsigned i = 0; i < 256; i++) {
        a[i] = dev_narrow<T>((float)(i * 37 % 19) - 9);
        b[i] = dev_narrow<T>((float)(i * 29 % 23) - 11);
    }
    for (int transposed = 0; transposed < 2; transposed++) {
        const T *pa = a, *pb = b;
        float c[128], *pc = c;

        dev_launch(multiply<T>, 1, 32, 1024, nullptr, pa, pb, pc, transposed);
        assert_null(emulated_fault());
        for (unsigned i = 0; i < 16; i++)
            for (unsigned j = 0; j < 8; j++) {
                float sum = 0;

                for (unsigned k = 0; k < 16; k++)
                    sum += dev_wide(a[i * 16 + k]) *
                           dev_wide(transposed ? b[k * 16 + j]
                                               : b[j * 16 + k]);
                assert_true(c[i * 8 + j] == sum);
            }
    }
}

void tensor_cores_multiply(void **state)
{
    multiplies<bf16>();
    multiplies<fp16>();
}

/* Every number of 16 bits, and its neighbours in fp32. */
template <class T> __global__ void there_and_back(uint16_t *bits)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    T v;

    memcpy(&v, bits + i, sizeof(v));
    dev_store(&v, dev_load(&v));
    memcpy(bits + i, &v, sizeof(v));
}

template <class T> void come_back()
{
    std::vector<uint16_t> bits(1 << 16);
    uint16_t *at = bits.data();

    for (unsigned i = 0; i < bits.size(); i++)
        bits[i] = (uint16_t)i;
    dev_launch(there_and_back<T>, 256, 256, 0, nullptr, at);
    for (unsigned i = 0; i < bits.size(); i++)
        if (std::isnan(dev_wide(T{ (uint16_t)i })))
            assert_int_equal(bits[i], 0x7fff);
        else
            assert_int_equal(bits[i], i);
}

void numbers_of_16_bits_come_back(void **state)
{
    come_back<bf16>();
    come_back<fp16>();
    assert_int_equal(dev_narrow<bf16>(1 + 0x1p-8f).bits, 0x3f80);
    assert_int_equal(dev_narrow<bf16>(1 + 0x3p-8f).bits, 0x3f82);
    assert_int_equal(dev_narrow<fp16>(1 + 0x1p-11f).bits, 0x3c00);
    assert_int_equal(dev_narrow<fp16>(1 + 0x3p-11f).bits, 0x3c02);
    assert_int_equal(dev_narrow<fp16>(65520).bits, 0x7c00);
    assert_int_equal(dev_pair<bf16>(1, 2), 0x40003f80);
}

std::vector<emulated_launch> queued;

void put(void *stream, emulated_launch launch)
{
    queued.push_back(launch);
}

__global__ void set(float *x, float to)
{
    x[threadIdx.x] = to;
}

void launches_on_a_stream_are_queued(void **state)
{
    float x[2] = {}, *at = x;
    float to = 3;

    emulated_enqueue = put;
    dev_launch(set, 1, 2, 0, &queued, at, to);
    to = 5; /* as it was when it was launched */
    dev_launch(set, 1, 1, 0, nullptr, at, 1.0f);
    assert_true(x[0] == 1 && x[1] == 0);
    assert_int_equal(queued.size(), 1);
    queued[0].run();
    assert_true(x[0] == 3 && x[1] == 3);
    assert_string_equal(queued[0].name, "set");
    assert_int_equal(queued[0].given.size(), 1);
    assert_ptr_equal(queued[0].given[0], at);
    emulated_enqueue = nullptr;
}

/* Sums of a row of threads, of any number of warps. */
__global__ void sums(float *out)
{
    float *s = dev_shared<float>();
    const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
    const float sum = dev_row_sum((float)at, s);

    out[at] = sum + 1000 * dev_row_max((float)(at % 50), s + 32);
}

void sums_are_of_a_row_of_threads(void **state)
{
    for (unsigned x = 32; x <= 512; x *= 2)
        for (unsigned y = 1; x * y <= 1024; y *= 2) {
            std::vector<float> out(x * y);
            float *at = out.data();

            dev_launch(sums, 1, dim3(x, y), 256, nullptr, at);
            assert_null(emulated_fault());
            for (unsigned i = 0; i < x * y; i++) {
                float sum = 0, most = 0;

                for (unsigned j = i / x * x; j < i / x * x + x; j++) {
                    sum += (float)j;
                    most = std::fmax(most, (float)(j % 50));
                }
                assert_true(out[i] == sum + 1000 * most);
            }
        }
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_that_not_all_reach_is_said),
        cmocka_unit_test(barriers_of_two_lines_are_two),
        cmocka_unit_test(lanes_that_never_come_are_said),
        cmocka_unit_test(parts_of_a_warp_may_do_more),
        cmocka_unit_test(a_missing_barrier_shows),
        cmocka_unit_test(copies_land_when_they_are_waited_for_or_at_once),
        cmocka_unit_test(addresses_of_16_bytes_are_checked),
        cmocka_unit_test(launches_that_no_gpu_takes_are_said),
        cmocka_unit_test(blocks_come_once_each_in_any_order),
        cmocka_unit_test(tensor_cores_multiply),
        cmocka_unit_test(numbers_of_16_bits_come_back),
        cmocka_unit_test(launches_on_a_stream_are_queued),
        cmocka_unit_test(sums_are_of_a_row_of_threads),
        cmocka_unit_test(shared_memory_is_guarded_and_not_a_number),
    };

    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
