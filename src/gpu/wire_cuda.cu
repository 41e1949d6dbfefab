/* wire_cuda.cu - numbers of a unit coded for the wire, and back: `compress`,
 * `decompress`, and `recode`, which is both at once. */
#include "gpu/dev_wire.h"
#include "gpu/gpu.h"
#include "gpu/wire.h"

#include "tasks/compress_args.h"

namespace {

/* --- recode --------------------------------------------------------------- */

template <class F> struct recode : wire_op {
    const float *in;
    wire_out out;

    DEV void block(wire_team &team, int64_t at) const
    {
        const wire_place of(c);
        const int64_t i = at - range.at;
        float v[WIRE_OWN];

        wire_load(in + i, of, v);
        wire_send<F>(team, c, nullptr, at, of, v);
        out.store(i, of, v);
    }
};

template <class F>
void launch_recode(const struct dsflow_call *call, void *stream)
{
    const dsf_recode_args *a = (const dsf_recode_args *)call->args;
    const struct dsflow_buf *out = &call->bufs[1];
    const size_t width = out->dtype == DSFLOW_FP32 ? 4 : 2;
    const recode<F> op = { { a->coding, { a->at, a->elems } },
                           (const float *)call->bufs[0].ptr + a->in_at,
                           { (char *)out->ptr + (size_t)a->out_at * width,
                             out->dtype } };

    wire_launch<F>(op, a->elems, 1, 0, stream);
}

void recode_run(const struct dsflow_call *call, void *stream)
{
    const dsf_recode_args *a = (const dsf_recode_args *)call->args;

    WIRE_BY_FORMAT(a->coding, F, launch_recode<F>(call, stream));
}

/* --- compress ------------------------------------------------------------- */

/* `out` begins with number out_at. */
template <class F> struct compress : wire_op {
    const float *in, *scales;
    uint8_t *out;
    int64_t out_at;

    DEV void block(wire_team &team, int64_t at) const
    {
        const wire_place of(c);
        float v[WIRE_OWN];

        wire_load(in + (at - range.at), of, v);
        wire_encode<F>(team, c, scales, at, of, v,
                       out + wire_bytes<F>(c, out_at, at));
    }
};

const float *compressed_unit(const struct dsflow_call *call, unsigned)
{
    const dsf_compress_args *a = (const dsf_compress_args *)call->args;

    return (const float *)call->bufs[0].ptr + a->from;
}

template <class F>
void launch_compress(const struct dsflow_call *call, void *stream)
{
    const dsf_compress_args *a = (const dsf_compress_args *)call->args;
    const float *scales =
        a->by_block ? nullptr
                    : dsf_gpu_wire_scales(&a->coding, call, compressed_unit, 1,
                                          call->scratch, stream);
    const compress<F> op = { { a->coding, { a->at, a->elems } },
                             compressed_unit(call, 0),
                             scales,
                             (uint8_t *)call->bufs[1].ptr,
                             a->out_at };

    wire_launch<F>(op, a->elems, 1, 0, stream);
}

void compress_run(const struct dsflow_call *call, void *stream)
{
    const dsf_compress_args *a = (const dsf_compress_args *)call->args;

    WIRE_BY_FORMAT(a->coding, F, launch_compress<F>(call, stream));
}

size_t compress_scratch(const struct dsflow_case *c)
{
    const dsf_compress_args *a = (const dsf_compress_args *)c->args;

    return a->by_block ? 0 : dsf_gpu_wire_scratch(&a->coding, 1);
}

/* --- decompress ----------------------------------------------------------- */

/* Some of what is decoded, which a row of blocks has each. */
enum { PARTS = 100 };
struct part {
    const uint8_t *in;
    wire_range range;
};

template <class F> struct decompress : wire_op {
    enum { FRONT = 16 };
    const struct dsflow_control *control; /* NULL: no step is skipped */
    wire_out out;
    part parts[PARTS];

    DEV void begin() const
    {
        if (control != nullptr)
            skips(control);
    }

    DEV wire_range of() const
    {
        return parts[blockIdx.y].range;
    }
    DEV void block(wire_team &, int64_t at) const
    {
        const part &p = parts[blockIdx.y];
        const wire_place of(c);
        float v[WIRE_OWN];

        if (control != nullptr && *dev_shared<int>())
            return;
        wire_decode<F>(c, at, of, p.in + wire_bytes<F>(c, p.range.at, at), v);
        out.store(at, of, v);
    }
};

/* The numbers on a port (compress_args.h: dsf_decompress_move). */
wire_range range_of(const dsf_decompress_args *a, unsigned port)
{
    const int32_t run = a->first + (int32_t)port - 1 - a->guarded;
    const int64_t at = dsf_pieces_run_at(&a->pieces, a->runs, run);

    return { at, dsf_pieces_run_at(&a->pieces, a->runs, run + 1) - at };
}

template <class F>
void launch_decompress(const struct dsflow_call *call, void *stream)
{
    const dsf_decompress_args *a = (const dsf_decompress_args *)call->args;

    const auto *control = (const struct dsflow_control *)call->bufs[1].ptr;

    for (unsigned from = 1 + (unsigned)a->guarded; from < call->nbufs;
         from += PARTS) {
        const unsigned rest = call->nbufs - from;
        const unsigned n = rest < PARTS ? rest : (unsigned)PARTS;
        int64_t most = 0;
        decompress<F> op = { { a->coding, { 0, 0 } },
                             a->guarded ? control : nullptr,
                             { call->bufs[0].ptr, call->bufs[0].dtype },
                             {} };

        for (unsigned i = 0; i < n; i++) {
            op.parts[i] = { (const uint8_t *)call->bufs[from + i].ptr,
                            range_of(a, from + i) };
            if (op.parts[i].range.elems > most)
                most = op.parts[i].range.elems;
        }
        wire_launch<F>(op, most, n, 0, stream);
    }
}

void decompress_run(const struct dsflow_call *call, void *stream)
{
    const dsf_decompress_args *a = (const dsf_decompress_args *)call->args;

    WIRE_BY_FORMAT(a->coding, F, launch_decompress<F>(call, stream));
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_recode = { "recode", recode_run, nullptr,
                                                  1, wire_lacks };
const struct dsf_gpu_side dsf_gpu_side_compress = { "compress", compress_run,
                                                    compress_scratch, 1,
                                                    wire_lacks };
const struct dsf_gpu_side dsf_gpu_side_decompress = { "decompress",
                                                      decompress_run, nullptr,
                                                      1, wire_lacks };
