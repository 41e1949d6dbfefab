/* wire_format.h - how numbers are coded that ranks send each other: [compress]
 * of job.toml names one. */
#ifndef DSFLOW_WIRE_FORMAT_H
#define DSFLOW_WIRE_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_WIRE_FORMAT_ABI  1
#define DSFLOW_WIRE_FORMAT_NAME 24 /* bytes, with the 0 at its end */
#define DSFLOW_WIRE_FORMAT_STEP                                                \
    16 /* a block is a multiple of so many numbers */
#define DSFLOW_WIRE_FORMAT_MOST 4096 /* and at most so many */

/* Numbers are coded in blocks, each by itself, so that how a tensor is cut at
 * the ends of blocks changes no bit. A format is a function of the numbers and
 * nothing else: it has no state, and draws nothing at random. */
struct dsflow_wire_format {
    unsigned abi;        /* DSFLOW_WIRE_FORMAT_ABI */
    const char *name;    /* "int8": a value of compress.gradients */
    const char *summary; /* one line, for `dsflow list formats` */

    int64_t block; /* numbers of a block where the job does not say */
    double error;  /* |what x becomes - x| is at most so much of the largest
                      number of its block, where that is a normal number, and
                      but for the rounding of fp32 */

    /* The bytes of a block of `block` numbers. */
    size_t (*bytes)(size_t block);

    /* `n` blocks, one behind the other, at any address. A NaN or an infinity
     * must not become a finite number. */
    void (*encode)(size_t block, const float *in, uint8_t *out, size_t n);
    void (*decode)(size_t block, const uint8_t *in, float *out, size_t n);

    /* Of a format that makes plus or minus the scale of each number, which is
     * the root of the mean square of a block: gradients have one scale for each
     * tensor of a group, with which its blocks are encoded, and params cannot
     * be sent so. `encode` takes the scale of each block. NULL: it is another
     * format. A block begins with the scale, as a float. */
    void (*encode_by)(size_t block, float scale, const float *in, uint8_t *out,
                      size_t n);
};

/* Make it known by its name. It is borrowed for good: make it static. A format
 * that writes or reads more than `bytes` says is refused. */
DSFLOW_API int dsflow_wire_format_register(const struct dsflow_wire_format *f,
                                           struct dsflow_err *err);
DSFLOW_API const struct dsflow_wire_format *
dsflow_wire_format_find(const char *name);

/* The i-th known, in order of registration; NULL past the last. */
DSFLOW_API const struct dsflow_wire_format *dsflow_wire_format_at(unsigned i);

DSFLOW_END_DECLS

#endif
