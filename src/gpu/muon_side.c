/* muon_side.c - Muon on a GPU (codelets/muon.c): matrices of layers become
 * orthogonal by products, one after the other; all else is as in AdamW. */
#include "gpu/gpu.h"
#include "gpu/muon_kernels.h"
#include "gpu/product.h"
#include "tasks/muon.h"

/* Where parts of the scratch begin. */
enum { PART = 256 };

/* Those of a matrix, and the workspace of products. */
struct room {
    size_t matrix, square, sums; /* bytes: of the first two there are two */
};

static size_t whole_parts(size_t bytes)
{
    return (bytes + PART - 1) / PART * PART;
}

static size_t side_of(const struct dsflow_tensor *t)
{
    return (size_t)(t->rows < t->cols ? t->rows : t->cols);
}

static struct room room_of(const struct dsflow_tensor *t)
{
    const size_t n = side_of(t), numbers = (size_t)(t->rows * t->cols);

    return (struct room){ whole_parts(numbers * sizeof(float)),
                          whole_parts(n * n * sizeof(float)),
                          whole_parts(dsf_gpu_muon_sums(numbers)) };
}

/* 0, where there are no matrices. */
static size_t scratch(const struct dsflow_case *c)
{
    const struct dsf_update_args *a = c->args;
    size_t most = 0;

    for (int32_t i = 0; i < a->at.ntensors; i++)
        if (dsf_muon_turns(&a->at.tensors[i])) {
            const struct room r = room_of(&a->at.tensors[i]);
            const size_t bytes =
                PART + DSF_GPU_WORKSPACE + 2 * r.matrix + 2 * r.square + r.sums;

            most = bytes > most ? bytes : most;
        }
    return most;
}

/* C[m][n] = op(A) op(B) in fp32, with rows as long as they are. */
struct factor {
    const float *at;
    int turned; /* stored the other way round */
};

static void multiply(float *c, struct factor a, struct factor b, size_t m,
                     size_t n, size_t k, void *workspace, void *stream)
{
    dsf_gpu_multiply(
        &(struct dsf_gpu_product){
            .type = DSFLOW_FP32,
            .out = DSFLOW_FP32,
            .ta = a.turned,
            .tb = b.turned,
            .m = m,
            .n = n,
            .k = k,
            .a = a.at,
            .lda = a.turned ? m : k,
            .b = b.at,
            .ldb = b.turned ? k : n,
            .c = c,
            .ldc = n,
            .workspace = workspace,
        },
        stream);
}

/* As on cores. Ends in x or y, which it returns. */
static const float *orthogonalize(const struct dsflow_tensor *t, int32_t steps,
                                  float *x, float *y, float *square,
                                  float *poly, void *workspace, void *stream)
{
    const size_t rows = (size_t)t->rows, cols = (size_t)t->cols;
    const size_t n = side_of(t), k = rows * cols / n;
    const int tall = rows > cols;

    for (int32_t s = 0; s < steps; s++) {
        const struct factor of = { x, 0 }, by = { poly, 0 };
        float *next = y;

        multiply(square, (struct factor){ x, tall },
                 (struct factor){ x, !tall }, n, n, k, workspace, stream);
        multiply(poly, (struct factor){ square, 0 },
                 (struct factor){ square, 0 }, n, n, n, workspace, stream);
        dsf_gpu_muon_polynomial(poly, square, n, DSF_MUON_A, DSF_MUON_B,
                                DSF_MUON_C, stream);
        multiply(y, tall ? of : by, tall ? by : of, rows, cols, n, workspace,
                 stream);
        y = x;
        x = next;
    }
    return x;
}

static void turn(const struct dsflow_call *call, const struct dsflow_tensor *t,
                 void *stream)
{
    const struct dsf_update_args *a = call->args;
    const struct room r = room_of(t);
    const struct dsf_gpu_matrix of = { call, t->at, (size_t)(t->rows * t->cols),
                                       t->decays, dsf_muon_length(a, t) };
    char *workspace = call->scratch, *x, *y, *square, *poly;
    const float *end;

    workspace += (PART - (uintptr_t)workspace % PART) % PART;
    x = workspace + DSF_GPU_WORKSPACE;
    y = x + r.matrix;
    square = y + r.matrix;
    poly = square + r.square;
    dsf_gpu_muon_mix(&of, (float *)(void *)x, stream);
    dsf_gpu_muon_normalize((float *)(void *)x, of.numbers, poly + r.square,
                           stream);
    end = orthogonalize(t, a->steps, (float *)(void *)x, (float *)(void *)y,
                        (float *)(void *)square, (float *)(void *)poly,
                        workspace, stream);
    dsf_gpu_muon_move(&of, end, stream);
}

/* A tensor of which the task may have some. */
static void update(const struct dsflow_call *call,
                   const struct dsflow_tensor *t, void *stream)
{
    const struct dsf_update_args *a = call->args;
    const int64_t end = t->at + t->rows * t->cols;
    const int64_t to = end < a->at.elems ? end : a->at.elems;
    const int64_t at = t->at > 0 ? t->at : 0;

    if (to > at)
        dsf_gpu_muon_others(call, at, to - at, t->decays, stream);
}

static void run(const struct dsflow_call *call, void *stream)
{
    const struct dsf_update_args *a = call->args;

    for (int32_t i = 0; i < a->at.ntensors; i++)
        (dsf_muon_turns(&a->at.tensors[i]) ? turn : update)(
            call, &a->at.tensors[i], stream);
}

const struct dsf_gpu_side dsf_gpu_side_muon = {
    .op = "muon",
    .run = run,
    .scratch = scratch,
};
