/* parts.c - what each tensor rank has of a unit. */
#include "model/parts.h"

#include "base/multiple.h"

#include <stdio.h>
#include <string.h>

/* What it has of the unit. */
static void fill_part(struct dsf_part *p, const struct dsf_dims *dims,
                      const struct dsf_unit *u)
{
    const struct dsf_segment_hooks *hooks = u->segment->hooks;

    if (hooks == NULL)
        dsf_part_list(p, u);
    else if (p->part < p->parts && hooks->own != NULL)
        hooks->own(p, dims, u);
    else if (p->part == p->parts && hooks->share != NULL)
        hooks->share(p, dims, u);
}

void dsf_part_init(struct dsf_part *p, const struct dsf_model *m, int32_t parts,
                   unsigned unit, int32_t index)
{
    const struct dsf_unit *u = &m->units[unit];
    const struct dsf_dims *dims = &dsf_model_layer(m, u->layer)->dims;

    *p = (struct dsf_part){ .unit = unit,
                            .part = index,
                            .parts = parts,
                            .w = -1,
                            .w2 = -1,
                            .b = -1,
                            .norm_w = -1,
                            .norm_b = -1 };
    for (unsigned i = 0; i < DSFLOW_SEGMENT_TENSORS; i++)
        p->at[i] = -1;
    if (parts > 1 && index < parts) {
        snprintf(p->name, sizeof(p->name), "%s.p%d", u->name, (int)index);
        fill_part(p, dims, u);
    } else if (parts > 1) {
        snprintf(p->name, sizeof(p->name), "%s.shared", u->name);
        fill_part(p, dims, u);
    } else if (index == 0) { /* all, where it stands in the unit */
        snprintf(p->name, sizeof(p->name), "%s", u->name);
        dsf_part_take(p, 0, 1, u->elems, u->elems);
        p->decay = u->decay;
    }
    if (p->elems == 0)
        return;
    p->block = dsf_unit_block(p->elems);
    p->elems = dsf_round_up(p->elems, p->block);
}

void dsf_part_split(const struct dsf_part *p, const float *whole, float *own)
{
    memset(own, 0, (size_t)p->elems * sizeof(float));
    for (unsigned i = 0; i < p->nblocks; i++) {
        const struct dsf_block *b = &p->blocks[i];

        for (int64_t r = 0; r < b->rows; r++)
            memcpy(own + b->at_part + r * b->ld_part,
                   whole + b->at_whole + r * b->ld_whole,
                   (size_t)b->cols * sizeof(float));
    }
}

void dsf_part_merge(const struct dsf_part *p, const float *own, float *whole)
{
    for (unsigned i = 0; i < p->nblocks; i++) {
        const struct dsf_block *b = &p->blocks[i];

        for (int64_t r = 0; r < b->rows; r++)
            memcpy(whole + b->at_whole + r * b->ld_whole,
                   own + b->at_part + r * b->ld_part,
                   (size_t)b->cols * sizeof(float));
    }
}
