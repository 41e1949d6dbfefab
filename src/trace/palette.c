/* palette.c - kinds of span, and the colour of each. */
#include "trace/palette.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { TRANSFER, SWAP, NBUILTIN };

/* Forward is light and backward dark, on paper without colours too. */
static const struct {
    const char *name;
    uint32_t colour;
} families[DSF_NFAMILIES] = {
    [DSF_FORWARD] = { "forward", 0x56b4e9 },
    [DSF_BACKWARD_INPUT] = { "backward", 0x0072b2 },
    [DSF_BACKWARD_WEIGHT] = { "weight gradients", 0x009e73 },
    [DSF_RECOMPUTED] = { "forward again", 0xf0e442 },
    [DSF_UPDATES] = { "update", 0xe69f00 },
    [DSF_MOVES] = { "communication", 0xcc79a7 },
    [DSF_SWAPS] = { "disk", 0xd55e00 },
    [DSF_OTHER] = { "other", 0x999999 },
    [DSF_IDLE] = { "idle", 0xf0f0f0 },
};

const char *dsf_family_name(enum dsf_family family)
{
    return families[family].name;
}

uint32_t dsf_family_colour(enum dsf_family family)
{
    return families[family].colour;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

enum dsf_family dsf_family_of(const struct dsflow_task_spec *t)
{
    static const char *const others[] = { "load_batch", "advance", "report",
                                          "report_loss", "wait" };
    const char *name = t->op->name;

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strcmp(name, others[i]) == 0)
            return DSF_OTHER;
    if (strncmp(name, "swap", 4) == 0)
        return DSF_SWAPS;
    if (t->op->comm)
        return DSF_MOVES;
    if (t->pass == DSFLOW_UPDATE)
        return DSF_UPDATES;
    /* Work on a layer is of a segment: "mlp.forward". */
    if (strchr(name, '.') == NULL && t->layer < 0)
        return DSF_OTHER;
    if (t->pass == DSFLOW_FORWARD)
        return DSF_FORWARD;
    if (ends_with(name, ".backward_weight"))
        return DSF_BACKWARD_WEIGHT;
    if (ends_with(name, ".forward") || ends_with(name, ".hidden"))
        return DSF_RECOMPUTED;
    return DSF_BACKWARD_INPUT;
}

/* Per cent of white, or of black where it is negative, mixed into the family's
 * colour: neighbours in a layer differ. */
static int shade_of(const char *name)
{
    static const struct {
        const char *segment;
        int shade;
    } known[] = {
        { "embed", 45 },  { "norm", 35 },      { "qkv", 22 },
        { "attention", 0 }, { "out", 30 },     { "mlp", -12 },
        { "residual", 35 }, { "head", -28 },   { "send", 0 },
        { "gather", 20 }, { "reduce_scatter", -18 }, { "split", 35 },
        { "add", 35 },    { "sum", 25 },       { "square", 25 },
        { "clip", 15 },   { "adam", 0 },       { "transfer", 10 },
    };
    size_t n = strcspn(name, ".");
    unsigned hash = 0;

    if (n > 5 && strncmp(name + n - 5, "_part", 5) == 0)
        n -= 5;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strlen(known[i].segment) == n &&
            strncmp(known[i].segment, name, n) == 0)
            return known[i].shade;
    for (size_t i = 0; i < n; i++)
        hash = hash * 31 + (unsigned char)name[i];
    return (int)(hash % 8) * 8 - 20;
}

uint32_t dsf_kind_colour(enum dsf_family family, const char *name)
{
    uint32_t base = families[family].colour, colour = 0;
    int shade = shade_of(name), to = shade > 0 ? 255 : 0;

    if (family == DSF_IDLE)
        return base;
    for (int shift = 16; shift >= 0; shift -= 8) {
        int c = (int)(base >> shift & 0xff);

        colour |= (uint32_t)(c + (to - c) * abs(shade) / 100) << shift;
    }
    return colour;
}

bool dsf_is_dark(uint32_t colour)
{
    /* Luma of ITU-R BT.601. */
    return 299 * (colour >> 16 & 255) + 587 * (colour >> 8 & 255) +
               114 * (colour & 255) <
           115000;
}

static unsigned find(struct dsf_kinds *kinds, size_t *cap,
                     const struct dsflow_op *op, const char *name,
                     enum dsf_family family)
{
    unsigned k = 0;

    while (k < kinds->n &&
           (kinds->v[k].op != op || kinds->v[k].family != family))
        k++;
    if (k == kinds->n) {
        dsf_grow(&kinds->v, cap, ++kinds->n, sizeof(*kinds->v));
        kinds->v[k] = (struct dsf_kind){ name, op, family,
                                         dsf_kind_colour(family, name) };
    }
    return k;
}

void dsf_kinds_init(struct dsf_kinds *kinds, const struct dsf_trace *trace)
{
    uint32_t n = dsflow_graph_ntasks(trace->graph);
    size_t cap = 0;

    memset(kinds, 0, sizeof(*kinds));
    kinds->of_task = dsf_xcalloc((size_t)n + 1, sizeof(*kinds->of_task));
    find(kinds, &cap, NULL, "transfer", DSF_MOVES);
    find(kinds, &cap, NULL, "swap", DSF_SWAPS);
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(trace->graph, (dsflow_task_id){ i });

        kinds->of_task[i] = (uint16_t)find(kinds, &cap, t->op, t->op->name,
                                           dsf_family_of(t));
    }
}

void dsf_kinds_fini(struct dsf_kinds *kinds)
{
    free(kinds->v);
    free(kinds->of_task);
    memset(kinds, 0, sizeof(*kinds));
}

unsigned dsf_kind_of(const struct dsf_kinds *kinds,
                     const struct dsf_trace *trace,
                     const struct dsf_span *span)
{
    if (span->kind == DSF_SPAN_TASK)
        return kinds->of_task[span->what];
    return trace->timeline.lanes[span->lane].kind == DSF_LANE_DISK ? SWAP
                                                                   : TRANSFER;
}
