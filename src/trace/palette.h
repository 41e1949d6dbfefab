/* palette.h - kinds of span, and the colour of each: the same in every picture.
 * A family has a hue of Okabe and Ito's (2008), which colour-blind eyes tell
 * apart too. Its kinds have shades of it from light to dark, which everybody
 * tells apart, and on paper and screens a texture each. */
#ifndef DSF_TRACE_PALETTE_H
#define DSF_TRACE_PALETTE_H

#include "trace/trace.h"

enum dsf_kind_family {
    DSF_FORWARD,
    DSF_BACKWARD_INPUT,
    DSF_BACKWARD_WEIGHT,
    DSF_RECOMPUTED, /* forward once more */
    DSF_UPDATES,    /* the optimizer, and what leads to it */
    DSF_MOVES,      /* between ranks or memories */
    DSF_SWAPS,      /* to and from a disk */
    DSF_OTHER,
    DSF_IDLE,
    DSF_NFAMILIES
};

/* Lines that a kind has on its colour, where the picture is large enough. */
enum dsf_texture {
    DSF_PLAIN,
    DSF_UPWARD,   /* "/" */
    DSF_DOWNWARD, /* "\" */
    DSF_LEVEL,    /* "-" */
    DSF_UPRIGHT,  /* "|" */
    DSF_CROSSED,  /* "+" */
    DSF_DOTTED,
    DSF_NTEXTURES
};

const char *dsf_family_name(enum dsf_kind_family family);
uint32_t dsf_family_colour(enum dsf_kind_family family); /* 0xRRGGBB */

/* From what the op says of itself and the pass of the task. */
enum dsf_kind_family dsf_family_of(const struct dsflow_task_spec *t);

/* Mixed with so many per cent of white, or, below 0, of black. */
uint32_t dsf_shade(uint32_t colour, int shade);

/* Is white what can be read on it? */
bool dsf_is_dark(uint32_t colour);

/* Tasks of one op and family are of a kind; transfers and swaps are two. */
struct dsf_kind {
    const char *name; /* of the op, or "transfer", "swap" */
    const struct dsflow_op *op;
    enum dsf_kind_family family;
    uint32_t colour;
    enum dsf_texture texture;
};

/* `op` may be NULL: a transfer or a swap. */
struct dsf_kind dsf_kind_make(const struct dsflow_op *op, const char *name,
                              enum dsf_kind_family family);

struct dsf_kinds {
    struct dsf_kind *v;
    unsigned n;
    uint16_t *of_task; /* by task of the graph */
};

/* Of all tasks of the graph; names are borrowed from it. */
void dsf_kinds_init(struct dsf_kinds *kinds, const struct dsf_trace *trace);
void dsf_kinds_fini(struct dsf_kinds *kinds);

unsigned dsf_kind_of(const struct dsf_kinds *kinds,
                     const struct dsf_trace *trace,
                     const struct dsf_span *span);

#endif
