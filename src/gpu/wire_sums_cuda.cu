/* wire_sums_cuda.cu - sums of what is sent coded, in the tree of pairs:
 * `add_compressed` of bytes, `add_recoded` of numbers that are coded and
 * decoded first, once for each term and once more for each node. Each term is
 * read once, and what is added up waits in shared memory. */
#include "gpu/dev_wire.h"
#include "gpu/gpu.h"
#include "gpu/wire.h"

#include "tasks/compress_args.h"

namespace {

enum {
    MOST_TERMS = 128, /* whose addresses are arguments of a kernel */
    LEVEL = WIRE_OWN * sizeof(float) /* bytes of a level of a tree, a thread */
};
/* Where levels need more, they are in scratch: in little where they are
 * emulated, so that some trees are there, too. */
#ifdef __CUDACC__
enum { MOST_SHARED = 80 << 10 };
static_assert(MOST_SHARED + 2 * wire_team::ROOM +
                      DSFLOW_WIRE_FORMAT_MOST * sizeof(float) <=
                  99 << 10,
              "with a block whose squares are added up");
#else
enum { MOST_SHARED = 24 << 10 };
#endif

/* Where terms are: those past the first ones, in the memory of the GPU. */
struct terms {
    const void *of[MOST_TERMS];
    const void *const *more;

    DEV const void *at(unsigned i) const
    {
        return i < MOST_TERMS ? of[i] : more[i - MOST_TERMS];
    }
};

__global__ void keep(const terms t, const void **to, unsigned n)
{
    if (threadIdx.x < n)
        to[threadIdx.x] = t.of[threadIdx.x];
}

/* The numbers of this thread of a sum that grows: level b has that of 2^b terms
 * which follow each other, where bit b of the number of terms so far is set. */
struct tree {
    float *levels;

    DEV float &number(unsigned level, int k) const
    {
        return levels[((size_t)level * WIRE_OWN + (size_t)k) * blockDim.x +
                      threadIdx.x];
    }
    /* v, behind n terms. */
    DEV void add(unsigned n, float (&v)[WIRE_OWN]) const
    {
        unsigned b = 0;

        for (; n >> b & 1; b++) {
            DEV_UNROLL
            for (int k = 0; k < WIRE_OWN; k++)
                v[k] = __fadd_rn(number(b, k), v[k]);
        }
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++)
            number(b, k) = v[k];
    }
    /* v = the sum of all n. */
    DEV void whole(unsigned n, float (&v)[WIRE_OWN]) const
    {
        bool begun = false;

        for (unsigned b = 0; n >> b; b++) {
            if (!(n >> b & 1))
                continue;
            DEV_UNROLL
            for (int k = 0; k < WIRE_OWN; k++)
                v[k] = begun ? __fadd_rn(number(b, k), v[k]) : number(b, k);
            begun = true;
        }
    }
};

unsigned levels_of(unsigned terms)
{
    unsigned levels = 0;

    while (terms >> levels)
        levels++;
    return levels;
}

/* What sums have: terms, and trees of them in `levels` levels. */
template <class F> struct sum_op : wire_op {
    terms from;
    float *into;
    float *room; /* of trees that are not in shared memory */
    unsigned n, levels;

    /* Those of this team, from some level on. */
    DEV tree tree_at(const wire_team &team, unsigned level) const
    {
        const size_t floats = (size_t)WIRE_OWN * blockDim.x;
        const size_t b = (size_t)blockIdx.x * blockDim.y + threadIdx.y;
        float *shared =
            (float *)(team.room + wire_team::ROOM + F::room((size_t)c.block));

        return { (room == nullptr ? shared : room + b * levels * floats) +
                 level * floats };
    }
};

/* Bytes of scratch for levels, the addresses behind the first ones. */
size_t levels_bytes(const dsf_coding &c, int64_t elems, unsigned levels)
{
    const wire_shape s = wire_shape_of(c, elems);
    const size_t bytes = (size_t)levels * LEVEL * s.block.x * s.block.y;

    return bytes <= MOST_SHARED ? 0 : bytes * s.grid;
}
size_t more_bytes(unsigned n)
{
    return n <= MOST_TERMS ? 0 : (n - MOST_TERMS) * sizeof(void *);
}
size_t sum_bytes(const dsf_coding &c, int64_t elems, unsigned n,
                 unsigned levels)
{
    return levels_bytes(c, elems, levels) + more_bytes(n) + 32;
}

/* Fills op.from by of(0), of(1), …, and launches it. */
template <class F, class OP, class Of>
void launch_sum(OP *op, Of of, char *scratch, void *stream)
{
    const size_t bytes = levels_bytes(op->c, op->range.elems, op->levels);
    const void **more =
        (const void **)dsf_gpu_take(&scratch, more_bytes(op->n));

    op->room = bytes > 0 ? (float *)scratch : nullptr;
    op->from.more = more;
    for (unsigned i = MOST_TERMS; i < op->n; i += MOST_TERMS) {
        const unsigned here =
            op->n - i < MOST_TERMS ? op->n - i : (unsigned)MOST_TERMS;
        terms t = {};

        for (unsigned k = 0; k < here; k++)
            t.of[k] = of(i + k);
        dev_launch(keep, 1, MOST_TERMS, 0, stream, t, more + i - MOST_TERMS,
                   here);
    }
    for (unsigned i = 0; i < op->n && i < MOST_TERMS; i++)
        op->from.of[i] = of(i);
    wire_launch<F>(*op, op->range.elems, 1, bytes > 0 ? 0 : op->levels * LEVEL,
                   stream);
}

/* --- add_compressed ------------------------------------------------------- */

template <class F> struct add_compressed : sum_op<F> {
    DEV void block(wire_team &team, int64_t at) const
    {
        const wire_place of(this->c);
        const tree sums = this->tree_at(team, 0);
        const int64_t skip = wire_bytes<F>(this->c, this->range.at, at);
        float v[WIRE_OWN] = {};

        for (unsigned k = 0; k < this->n; k++) {
            wire_decode<F>(this->c, at, of,
                           (const uint8_t *)this->from.at(k) + skip, v);
            sums.add(k, v);
        }
        sums.whole(this->n, v);
        wire_store(this->into + (at - this->range.at), of, v);
    }
};

template <class F>
void launch_compressed(const struct dsflow_call *call, void *stream)
{
    const dsf_compressed_args *a = (const dsf_compressed_args *)call->args;
    const int64_t bytes = wire_bytes<F>(a->coding, a->at, a->at + a->elems);
    const int64_t before = wire_bytes<F>(a->coding, a->in_at, a->at);
    add_compressed<F> op = {};

    op.c = a->coding;
    op.range = { a->at, a->elems };
    op.n = call->nbufs - 1;
    op.levels = levels_of(op.n);
    op.into = (float *)call->bufs[0].ptr + a->into_at;
    launch_sum<F>(
        &op,
        [&](unsigned k) { /* dsf_compressed_move */
                          const struct dsflow_buf *in = &call->bufs[k + 1];

                          return (const uint8_t *)in->ptr +
                                 (in->elems == bytes ? 0 : before);
        },
        (char *)call->scratch, stream);
}

void compressed_run(const struct dsflow_call *call, void *stream)
{
    const dsf_compressed_args *a = (const dsf_compressed_args *)call->args;

    WIRE_BY_FORMAT(a->coding, F, launch_compressed<F>(call, stream));
}

size_t compressed_scratch(const struct dsflow_case *c)
{
    const dsf_compressed_args *a = (const dsf_compressed_args *)c->args;

    return sum_bytes(a->coding, a->elems, c->n - 1, levels_of(c->n - 1));
}

/* --- add_recoded ---------------------------------------------------------- */

template <class F> struct add_recoded : sum_op<F> {
    unsigned node;  /* 0: terms are not added in nodes first */
    unsigned inner; /* levels of the tree of a node */
    const float *scales;

    DEV void block(wire_team &team, int64_t at) const
    {
        const wire_place of(this->c);
        const unsigned each = node > 0 ? node : 1, nodes = this->n / each;
        const tree in_node = this->tree_at(team, 0);
        const tree sums = this->tree_at(team, inner);
        const int64_t i = at - this->range.at;
        float v[WIRE_OWN];

        for (unsigned k = 0; k < this->n; k++) {
            wire_load((const float *)this->from.at(k) + i, of, v);
            wire_send<F>(team, this->c,
                         scales == nullptr ? nullptr
                                           : scales + k * DSF_CODED_TENSORS,
                         at, of, v);
            if (node > 0) {
                in_node.add(k % each, v);
                if (k % each < each - 1)
                    continue;
                in_node.whole(each, v);
                wire_send<F>(team, this->c, nullptr, at, of, v);
            }
            sums.add(k / each, v);
        }
        sums.whole(nodes, v);
        wire_store(this->into + i, of, v);
    }
};

unsigned inner_levels_of(const dsf_add_recoded_args *a)
{
    return a->node > 0 ? levels_of((unsigned)a->node) : 0;
}
unsigned recoded_levels_of(const dsf_add_recoded_args *a, unsigned n)
{
    return inner_levels_of(a) +
           levels_of(a->node > 0 ? n / (unsigned)a->node : n);
}

/* Term k: `into` is number `self` of them. */
const float *recoded_term(const struct dsflow_call *call, unsigned k)
{
    const dsf_add_recoded_args *a = (const dsf_add_recoded_args *)call->args;
    const unsigned port =
        (int64_t)k == a->self ? 0 : k + ((int64_t)k < a->self);

    return (const float *)call->bufs[port].ptr +
           (port == 0 ? a->into_at : a->from_at);
}

template <class F>
void launch_recoded(const struct dsflow_call *call, void *stream)
{
    const dsf_add_recoded_args *a = (const dsf_add_recoded_args *)call->args;
    char *scratch = (char *)call->scratch;
    char *scales =
        dsf_gpu_take(&scratch, dsf_gpu_wire_scratch(&a->coding, call->nbufs));
    add_recoded<F> op = {};

    op.c = a->coding;
    op.range = { a->at, a->elems };
    op.n = call->nbufs;
    op.node = (unsigned)a->node;
    op.inner = inner_levels_of(a);
    op.levels = recoded_levels_of(a, op.n);
    op.into = (float *)call->bufs[0].ptr + a->into_at;
    op.scales = dsf_gpu_wire_scales(&a->coding, call, recoded_term, op.n,
                                    scales, stream);
    launch_sum<F>(
        &op, [&](unsigned k) { return recoded_term(call, k); }, scratch,
        stream);
}

void recoded_run(const struct dsflow_call *call, void *stream)
{
    const dsf_add_recoded_args *a = (const dsf_add_recoded_args *)call->args;

    WIRE_BY_FORMAT(a->coding, F, launch_recoded<F>(call, stream));
}

size_t recoded_scratch(const struct dsflow_case *c)
{
    const dsf_add_recoded_args *a = (const dsf_add_recoded_args *)c->args;

    return dsf_gpu_wire_scratch(&a->coding, c->n) + 16 +
           sum_bytes(a->coding, a->elems, c->n, recoded_levels_of(a, c->n));
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_add_compressed = {
    "add_compressed", compressed_run, compressed_scratch, 1, wire_lacks
};
const struct dsf_gpu_side dsf_gpu_side_add_recoded = {
    "add_recoded", recoded_run, recoded_scratch, 1, wire_lacks
};
