/* palette.c - kinds of span, and the colour of each. */
#include "trace/palette.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { TRANSFER, SWAP };

/* Forward is light and backward dark, on paper without colours too. The shades
 * of what works on layers reach from `light` to `dark`, per cent of white or of
 * black: so far that they stay away from those of other families, for
 * colour-blind eyes too. */
static const struct {
    const char *name;
    uint32_t colour;
    int light, dark;
} families[DSF_NFAMILIES] = {
    [DSF_FORWARD] = { "forward", 0x56b4e9, 80, 0 },
    [DSF_BACKWARD_INPUT] = { "backward", 0x0072b2, 16, -64 },
    [DSF_BACKWARD_WEIGHT] = { "weight gradients", 0x009e73, 56, -44 },
    [DSF_RECOMPUTED] = { "forward again", 0xf0e442, 60, -60 },
    [DSF_UPDATES] = { "update", 0xe69f00, 66, -14 },
    [DSF_MOVES] = { "communication", 0xcc79a7, 64, -22 },
    [DSF_SWAPS] = { "disk", 0xd55e00, 36, -44 },
    [DSF_OTHER] = { "other", 0x999999, 0, -52 },
    [DSF_IDLE] = { "idle", 0xf0f0f0, 0, 0 },
};

const char *dsf_family_name(enum dsf_kind_family family)
{
    return families[family].name;
}

uint32_t dsf_family_colour(enum dsf_kind_family family)
{
    return families[family].colour;
}

/* What a kind says of itself; what says nothing goes by its pass. */
enum dsf_kind_family dsf_family_of(const struct dsflow_task_spec *t)
{
    const struct dsflow_op *op = t->op;

    if (op->direction == DSFLOW_DIR_HOST)
        return DSF_OTHER;
    if (op->swaps)
        return DSF_SWAPS;
    if (op->comm)
        return DSF_MOVES;
    if (t->pass == DSFLOW_UPDATE)
        return DSF_UPDATES;
    /* What works on a model is of a segment or in a layer. */
    if (op->segment == NULL && t->layer < 0)
        return DSF_OTHER;
    if (t->pass == DSFLOW_FORWARD)
        return DSF_FORWARD;
    if (op->direction == DSFLOW_DIR_BACKWARD_WEIGHT)
        return DSF_BACKWARD_WEIGHT;
    if (op->direction == DSFLOW_DIR_FORWARD ||
        op->direction == DSFLOW_DIR_HIDDEN)
        return DSF_RECOMPUTED;
    return DSF_BACKWARD_INPUT;
}

struct look {
    const char *name;
    int8_t at; /* place among the shades of layers, or the shade itself */
    uint8_t texture;
};

/* Work on layers, from light to dark; what follows each other in a layer is
 * not next to each other here. */
static const struct look segments[] = {
    { "qkv", 0, DSF_UPWARD },      { "norm", 1, DSF_UPRIGHT },
    { "out", 2, DSF_DOWNWARD },    { "residual", 3, DSF_LEVEL },
    { "attention", 4, DSF_PLAIN }, { "embed", 5, DSF_DOTTED },
    { "mlp", 6, DSF_LEVEL },       { "hidden", 7, DSF_UPRIGHT },
    { "loss", 7, DSF_UPRIGHT },    { "head", 8, DSF_CROSSED },
};
enum { DARKEST = 8 };

/* All else. */
static const struct look others[] = {
    { "add", 66, DSF_CROSSED },
    { "sum", 55, DSF_LEVEL },
    { "square", 44, DSF_DOTTED },
    { "clip", 33, DSF_UPWARD },
    { "begin", 22, DSF_UPRIGHT },
    { "finish", -11, DSF_LEVEL },
    { "cast", 11, DSF_UPWARD },
    { "adam", 0, DSF_PLAIN },
    { "sgd", 0, DSF_PLAIN },
    { "lion", 0, DSF_PLAIN },
    { "adagrad", 0, DSF_PLAIN },
    { "lamb", 0, DSF_PLAIN },
    { "muon", 0, DSF_PLAIN },
    { "lamb_moments", -22, DSF_DOTTED },
    { "lamb_ratio", 44, DSF_UPWARD },
    { "copy", 55, DSF_DOTTED },
    { "all_to_all_heads", 45, DSF_CROSSED },
    { "gather", 34, DSF_DOWNWARD },
    { "transfer", 16, DSF_UPRIGHT },
    { "send", 0, DSF_PLAIN },
    { "reduce", -22, DSF_UPWARD },
    { "swap", 36, DSF_LEVEL },
    { "swap_in", 0, DSF_PLAIN },
    { "swap_out", -44, DSF_DOWNWARD },
    { "load_batch", 0, DSF_PLAIN },
    { "advance", -15, DSF_UPRIGHT },
    { "report", -28, DSF_LEVEL },
    { "report_loss", -40, DSF_UPWARD },
    { "wait", -52, DSF_DOTTED },
};

static const struct look *find_look(const struct look *v, size_t n,
                                    const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(v[i].name, name) == 0)
            return &v[i];
    return NULL;
}

#define LOOK(table, name)                                                      \
    find_look(table, sizeof(table) / sizeof(*(table)), name)

/* Of one that nobody knows, as a plug-in brings it: a look that stays. */
static struct look look_of(enum dsf_kind_family family, const char *segment,
                           enum dsflow_direction direction, const char *name)
{
    const struct look *known = NULL;
    struct look look = { name, 0, DSF_PLAIN };
    unsigned hash = 0;
    int light = families[family].light, dark = families[family].dark;

    if (segment != NULL)
        known = LOOK(segments,
                     direction == DSFLOW_DIR_HIDDEN ? "hidden" : segment);
    if (known != NULL) {
        look = *known;
        look.at = (int8_t)(light + (dark - light) * known->at / DARKEST);
        return look;
    }
    known = LOOK(others, name);
    if (known != NULL)
        return *known;
    for (const char *c = segment != NULL ? segment : name; *c != '\0'; c++)
        hash = hash * 31 + (unsigned char)*c;
    look.at = (int8_t)((int)(hash % 8) * 8 - 20);
    look.texture = (uint8_t)(hash / 8 % DSF_NTEXTURES);
    return look;
}

uint32_t dsf_shade(uint32_t colour, int shade)
{
    uint32_t mixed = 0;
    int to = shade > 0 ? 255 : 0;

    for (int shift = 16; shift >= 0; shift -= 8) {
        int c = (int)(colour >> shift & 0xff);

        mixed |= (uint32_t)(c + (to - c) * abs(shade) / 100) << shift;
    }
    return mixed;
}

bool dsf_is_dark(uint32_t colour)
{
    /* Luma of ITU-R BT.601. */
    return 299 * (colour >> 16 & 255) + 587 * (colour >> 8 & 255) +
               114 * (colour & 255) <
           115000;
}

struct dsf_kind dsf_kind_make(const struct dsflow_op *op, const char *name,
                              enum dsf_kind_family family)
{
    struct look look =
        look_of(family, op != NULL ? op->segment : NULL,
                op != NULL ? (enum dsflow_direction)op->direction
                           : DSFLOW_DIR_NONE,
                name);

    return (struct dsf_kind){ name, op, family,
                              dsf_shade(families[family].colour, look.at),
                              (enum dsf_texture)look.texture };
}

static unsigned find(struct dsf_kinds *kinds, size_t *cap,
                     const struct dsflow_op *op, const char *name,
                     enum dsf_kind_family family)
{
    unsigned k = 0;

    while (k < kinds->n &&
           (kinds->v[k].op != op || kinds->v[k].family != family))
        k++;
    if (k == kinds->n) {
        dsf_grow(&kinds->v, cap, ++kinds->n, sizeof(*kinds->v));
        kinds->v[k] = dsf_kind_make(op, name, family);
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
