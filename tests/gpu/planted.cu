/* planted.cu - faults of kernels, so that whoever looks for some can be seen to
 * find them:
 *
 *     planted race     threads read what others write to shared memory, and
 *                      nothing is between
 *     planted init     threads read device memory that nothing has written
 */
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

namespace {

enum { THREADS = 128 }; /* several warps */

__global__ void race(const int *in, int *out)
{
    __shared__ int shared[THREADS];

    shared[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = shared[THREADS - 1 - threadIdx.x];
}

__global__ void twice(const int *in, int *out)
{
    out[threadIdx.x] = 2 * in[threadIdx.x];
}

const struct {
    const char *name;
    void (*kernel)(const int *in, int *out);
    bool written; /* what the kernel reads */
} faults[] = { { "race", race, true }, { "init", twice, false } };

cudaError_t run(void (*kernel)(const int *in, int *out), bool written)
{
    const size_t bytes = THREADS * sizeof(int);
    int *in = nullptr, *out = nullptr;
    void *args[] = { &in, &out };
    cudaError_t why = cudaMalloc(reinterpret_cast<void **>(&in), bytes);

    if (why == cudaSuccess)
        why = cudaMalloc(reinterpret_cast<void **>(&out), bytes);
    if (why == cudaSuccess && written)
        why = cudaMemset(in, 1, bytes);
    if (why == cudaSuccess)
        why = cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(1),
                               dim3(THREADS), args, 0, nullptr);
    if (why == cudaSuccess)
        why = cudaDeviceSynchronize();
    cudaFree(out);
    cudaFree(in);
    return why;
}

} // namespace

int main(int argc, char **argv)
{
    for (const auto &fault : faults)
        if (argc == 2 && strcmp(argv[1], fault.name) == 0) {
            cudaError_t why = run(fault.kernel, fault.written);

            printf("planted %s: %s\n", fault.name, cudaGetErrorString(why));
            return why != cudaSuccess;
        }
    fprintf(stderr, "usage: planted race|init\n");
    return 2;
}
