/* levels.c - blocks of members that share by levels. */
#include "policies/levels.h"

/* So many blocks are a block of the next level, where that divides. */
enum { WIDEST = 8 };

/* How many blocks become one, of `left` that are to become one in the end. */
static int32_t radix(int32_t left)
{
    int32_t r = left > WIDEST ? WIDEST : left;

    while (r > 1 && left % r != 0)
        r /= 2;
    return r > 1 ? r : left;
}

static void add_levels(struct dsf_levels *l, int32_t up_to)
{
    while (l->size[l->n] < up_to) {
        int32_t size = l->size[l->n];

        l->size[++l->n] = size * radix(up_to / size);
    }
}

struct dsf_levels dsf_levels_one(int32_t members)
{
    return (struct dsf_levels){ 1, { 1, members } };
}

struct dsf_levels dsf_levels_find(int32_t members, int32_t through)
{
    struct dsf_levels l = { 0, { 1 } };

    if (members == 1)
        return dsf_levels_one(members);
    add_levels(&l, through);
    add_levels(&l, members);
    return l;
}

int32_t dsf_levels_radix(const struct dsf_levels *l, unsigned level)
{
    return l->size[level] / l->size[level - 1];
}

int32_t dsf_levels_keeper(const struct dsf_levels *l, unsigned level, int32_t j)
{
    int32_t n;

    if (level == 0)
        return 0;
    n = dsf_levels_radix(l, level);
    return j % n * l->size[level - 1] + dsf_levels_keeper(l, level - 1, j / n);
}
