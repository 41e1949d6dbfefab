/* gpu_products.cpp - the products of the jobs of gpu-bundle, by the algorithm
 * that dsflow takes and by each other that cuBLASLt lists for the shape, on GPU
 * 0.
 *
 *     gpu_products
 *
 * Prints a line of JSON for each: seconds by ours, and by the best of all, or
 * why cuBLASLt has none: then dsflow does it in two passes, where something
 * follows the product in its pass. */
#include "gpu/cublaslt.cpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

enum { MOST_ALGORITHMS = 64, TURNS = 5 };

/* What the forward product does in its pass. DOWN and its gradient of the
 * input, which is that of gelu, are those of an MLP. */
enum follows { NOTHING, BIAS, RESIDUAL, BIAS_RESIDUAL, GELU, DOWN };

struct shaped {
    const char *name;
    size_t rows, in, out;
    enum follows follows;
};

/* Rows of a micro-batch (of the head: of a slice), and widths. */
const shaped layers[] = {
    { "124M qkv", 65536, 768, 2304, BIAS },
    { "124M out", 65536, 768, 768, BIAS_RESIDUAL },
    { "124M up", 65536, 768, 3072, GELU },
    { "124M down", 65536, 3072, 768, DOWN },
    { "124M head", 8192, 768, 50304, NOTHING },
    { "1.5B qkv", 16384, 1600, 4800, BIAS },
    { "1.5B out", 16384, 1600, 1600, BIAS_RESIDUAL },
    { "1.5B up", 16384, 1600, 6400, GELU },
    { "1.5B down", 16384, 6400, 1600, DOWN },
    { "1.5B head", 8192, 1600, 50304, NOTHING },
    { "7B qkv", 8192, 4096, 12288, NOTHING },
    { "7B out", 8192, 4096, 4096, RESIDUAL },
    { "7B up", 8192, 4096, 22016, NOTHING },
    { "7B down", 8192, 11008, 4096, RESIDUAL },
    { "7B head", 8192, 4096, 32000, NOTHING },
};

void must(const char *what, cudaError_t e)
{
    if (e == cudaSuccess)
        return;
    fprintf(stderr, "gpu_products: %s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

void must(const char *why)
{
    if (why == nullptr)
        return;
    fprintf(stderr, "gpu_products: %s\n", why);
    exit(1);
}

/* Between 0.5 and 1, and opposites: a GPU is faster with zeroes. */
void *numbers(size_t bytes)
{
    static std::vector<uint16_t> some;
    uint32_t random = 1;
    void *at = nullptr;

    for (size_t i = 0; some.size() < 1 << 20; i++) {
        random = random * 1664525u + 1013904223u;
        some.push_back(static_cast<uint16_t>(0x3f00 | (random >> 24 & 0x7f) |
                                             (random >> 16 & 0x8000)));
    }
    must("memory", cudaMalloc(&at, bytes));
    for (size_t done = 0; done < bytes; done += 2 * some.size())
        must("memory", cudaMemcpy(static_cast<char *>(at) + done, some.data(),
                                  std::min(bytes - done, 2 * some.size()),
                                  cudaMemcpyHostToDevice));
    return at;
}

/* What is measured, of one product; enqueues it. */
template <class F> double seconds_of(F enqueue, unsigned times)
{
    static cudaEvent_t begun, ended;
    float ms = 0;

    if (begun == nullptr) {
        must("events", cudaEventCreate(&begun));
        must("events", cudaEventCreate(&ended));
    }
    must("time", cudaEventRecord(begun, nullptr));
    for (unsigned i = 0; i < times; i++)
        must(enqueue());
    must("time", cudaEventRecord(ended, nullptr));
    must("product", cudaEventSynchronize(ended));
    must("time", cudaEventElapsedTime(&ms, begun, ended));
    return 1e-3 * static_cast<double>(ms) / times;
}

template <class F> double median_of(F enqueue)
{
    double v[TURNS];

    seconds_of(enqueue, 2);
    for (double &seconds : v)
        seconds = seconds_of(enqueue, 3);
    std::sort(v, v + TURNS);
    return v[TURNS / 2];
}

/* Of two, in turns: neither has the GPU cooler than the other, nor is one of
 * them the luckiest of many. */
template <class F, class G>
void medians_of(F f, G g, double *of_f, double *of_g)
{
    double v[TURNS], w[TURNS];

    for (int i = 0; i < TURNS; i++) {
        v[i] = seconds_of(f, 3);
        w[i] = seconds_of(g, 3);
    }
    std::sort(v, v + TURNS);
    std::sort(w, w + TURNS);
    *of_f = v[TURNS / 2];
    *of_g = w[TURNS / 2];
}

/* How much longer than the best one may take once to be worth more turns. */
const double NEAR = 1.5;

/* Once, after once that warms up. */
template <class F> bool is_near(F enqueue, double best)
{
    seconds_of(enqueue, 1);
    return seconds_of(enqueue, 1) <= NEAR * best;
}

/* By one of those that are listed. */
const char *multiply_by(const struct dsf_gpu_product *p,
                        cublasLtHandle_t handle,
                        const cublasLtMatmulAlgo_t *algo)
{
    const float alpha = 1, beta = p->add ? 1 : 0;
    description d(p);

    d.pointers(p->bias, p->aux);
    d.keep(cublasLtMatmul(handle, &d.operation, &alpha, p->b, &d.b, p->a, &d.a,
                          &beta, p->add ? p->add : p->c, &d.c, p->c,
                          is_apart(p) ? &d.d : &d.c, algo, p->workspace,
                          DSF_GPU_WORKSPACE, nullptr));
    return words(p, d.status);
}

std::vector<cublasLtMatmulHeuristicResult_t>
listed(const struct dsf_gpu_product *p, cublasLtHandle_t handle)
{
    std::vector<cublasLtMatmulHeuristicResult_t> all(MOST_ALGORITHMS);
    preference wish(p, DSF_GPU_ALIGNMENT);
    description d(p);
    int found = 0;

    d.pointers(p->bias, p->aux);
    d.keep(wish.status);
    d.keep(cublasLtMatmulAlgoGetHeuristic(
        handle, &d.operation, &d.b, &d.a, &d.c, is_apart(p) ? &d.d : &d.c,
        &wish.it, MOST_ALGORITHMS, all.data(), &found));
    all.resize(d.status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(found)
                                                 : 0);
    return all;
}

void try_product(const char *name, const char *way,
                 const struct dsf_gpu_product *p)
{
    static cublasLtHandle_t handle;
    const cublasLtMatmulAlgo_t *fastest = nullptr;
    double best, ours;

    if (handle == nullptr && cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS)
        must("cuBLASLt does not begin");
    if (const char *why = dsf_gpu_matmul(p, DSF_GPU_ALIGNMENT, nullptr)) {
        printf("{\"name\": \"%s %s\", \"failed\": \"%s\"}\n", name, way, why);
        fflush(stdout);
        return;
    }
    const auto by_ours = [&] {
        return dsf_gpu_matmul(p, DSF_GPU_ALIGNMENT, nullptr);
    };
    const auto all = listed(p, handle);
    best = ours = median_of(by_ours);
    for (const auto &one : all) {
        const auto by_one = [&] {
            return multiply_by(p, handle, &one.algo);
        };

        if (by_one() != nullptr || !is_near(by_one, best))
            continue;
        const double seconds = median_of(by_one);
        if (seconds < best) {
            best = seconds;
            fastest = &one.algo;
        }
    }
    if (fastest != nullptr)
        medians_of(
            by_ours, [&] { return multiply_by(p, handle, fastest); }, &ours,
            &best);
    printf("{\"name\": \"%s %s\", \"m\": %zu, \"n\": %zu, \"k\": %zu, "
           "\"ours\": %.9g, \"best\": %.9g, \"listed\": %zu, "
           "\"flops\": %.9g}\n",
           name, way, p->m, p->n, p->k, ours, best, all.size(),
           2.0 * static_cast<double>(p->m) * static_cast<double>(p->n) *
               static_cast<double>(p->k));
    fflush(stdout);
}

/* y = x W^T, dx = dy W, dW += dy^T x. */
void try_layer(const shaped &s)
{
    const size_t x_bytes = 2 * s.rows * s.in, y_bytes = 2 * s.rows * s.out;
    void *x = numbers(x_bytes), *y = numbers(y_bytes), *aux = numbers(y_bytes);
    void *w = numbers(2 * s.in * s.out), *dw = numbers(4 * s.in * s.out);
    void *dx = numbers(2 * x_bytes), *h = numbers(x_bytes);
    void *residual = numbers(y_bytes), *bias = numbers(2 * s.out);
    void *workspace = numbers(DSF_GPU_WORKSPACE);
    struct dsf_gpu_product p = {};

    p.type = p.out = DSFLOW_BF16;
    p.workspace = workspace;
    p.tb = 1;
    p.m = s.rows, p.n = s.out, p.k = s.in;
    p.a = x, p.lda = s.in, p.b = w, p.ldb = s.in, p.c = y, p.ldc = s.out;
    if (s.follows != NOTHING && s.follows != RESIDUAL)
        p.bias = bias;
    if (s.follows >= RESIDUAL && s.follows != GELU)
        p.add = residual;
    if (s.follows == GELU) {
        p.epilogue = DSF_GPU_GELU;
        p.aux = aux;
    }
    try_product(s.name, "forward", &p);

    p = {};
    p.type = DSFLOW_BF16, p.out = DSFLOW_FP32;
    p.workspace = workspace;
    p.m = s.rows, p.n = s.in, p.k = s.out;
    p.a = y, p.lda = s.out, p.b = w, p.ldb = s.in, p.c = dx, p.ldc = s.in;
    if (s.follows == DOWN) {
        p.out = p.type;
        p.epilogue = DSF_GPU_DGELU;
        p.aux = h;
    }
    try_product(s.name, "input", &p);

    p.out = DSFLOW_FP32;
    p.epilogue = DSF_GPU_AS_IT_IS;
    p.aux = nullptr;
    p.ta = 1;
    p.m = s.out, p.n = s.in, p.k = s.rows;
    p.a = y, p.lda = s.out, p.b = x, p.ldb = s.in, p.c = dw, p.ldc = s.in;
    p.add = dw;
    try_product(s.name, "weight", &p);
    for (void *at : { x, y, aux, w, dw, dx, h, residual, bias, workspace })
        must("memory", cudaFree(at));
}

} // namespace

int main()
{
    must("GPU 0", cudaSetDevice(0));
    for (const shaped &s : layers)
        try_layer(s);
    return 0;
}
