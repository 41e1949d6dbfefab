/* warp.cpp - what the lanes of a warp do together, and copies that land when they
 * like. */
#include "launch.h"

namespace emulated {

void warp(unsigned mask, together f, void *args, const char *file, int line)
{
    thread *t = running;

    if ((mask >> t->at.lane & 1) == 0)
        stop(file, line, "lane %u is not in its own mask %08x", t->at.lane,
             mask);
    t->mask = mask;
    t->what = f;
    t->args = args;
    wait(AT_WARP, file, line);
}

struct vote {
    bool mine;
    uint32_t all;
};

static const char *vote_all(void *const args[LANES])
{
    uint32_t all = 0;

    for (unsigned i = 0; i < LANES; i++)
        if (args[i] != nullptr && ((vote *)args[i])->mine)
            all |= 1u << i;
    for (unsigned i = 0; i < LANES; i++)
        if (args[i] != nullptr)
            ((vote *)args[i])->all = all;
    return nullptr;
}

uint32_t ballot(unsigned mask, bool v, const char *file, int line)
{
    vote mine = { v, 0 };

    warp(mask, vote_all, &mine, file, line);
    return mine.all;
}

template <class T> static float number(uint32_t pair, unsigned i)
{
    return dev_wide(T{ (uint16_t)(pair >> 16 * i) });
}

/* The layout of mma.m16n8k16 in the PTX manual: lane 4 g + t has rows g and
 * g + 8 and columns 2 t, 2 t + 1 (and 8 further) of A, those rows of B, and
 * column g of B. */
template <class T> const char *mma_all(void *const args[LANES])
{
    float a[16][16], b[16][8];

    for (unsigned lane = 0; lane < LANES; lane++) {
        const auto *m = (const mma_args *)args[lane];
        const unsigned g = lane / 4, t = lane % 4 * 2;

        for (unsigned i = 0; i < 8; i++)
            a[g + i / 2 % 2 * 8][t + i / 4 * 8 + i % 2] =
                number<T>(m->a[i / 2], i % 2);
        for (unsigned i = 0; i < 4; i++)
            b[t + i / 2 * 8 + i % 2][g] = number<T>(m->b[i / 2], i % 2);
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        const auto *m = (const mma_args *)args[lane];

        for (unsigned i = 0; i < 4; i++) {
            const unsigned row = lane / 4 + i / 2 * 8;
            const unsigned col = lane % 4 * 2 + i % 2;
            float sum = m->c[i];

            for (unsigned k = 0; k < 16; k++)
                sum += a[row][k] * b[k][col];
            m->d[i] = sum;
        }
    }
    return nullptr;
}
template const char *mma_all<bf16>(void *const args[LANES]);
template const char *mma_all<fp16>(void *const args[LANES]);

struct matrix_args {
    uint32_t *r;
    const uint16_t *row; /* row lane % 8 of matrix lane / 8 */
    bool transposed;
};

static const char *ldmatrix_all(void *const args[LANES])
{
    const auto *const *m = (const matrix_args *const *)args;

    for (unsigned lane = 0; lane < LANES; lane++)
        if ((uintptr_t)m[lane]->row % 16 != 0 || !in_shared(m[lane]->row, 16))
            return "a row of a matrix that is not 16 bytes of shared memory";
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < 4; i++) {
            const unsigned g = lane / 4, t = lane % 4 * 2;
            const auto *const *rows = m + 8 * i;

            m[lane]->r[i] =
                m[lane]->transposed
                    ? rows[t]->row[g] | (uint32_t)rows[t + 1]->row[g] << 16
                    : rows[g]->row[t] | (uint32_t)rows[g]->row[t + 1] << 16;
        }
    return nullptr;
}

void ldmatrix4(uint32_t r[4], const void *row, bool transposed,
               const char *file, int line)
{
    matrix_args args = { r, (const uint16_t *)row, transposed };

    warp(~0u, ldmatrix_all, &args, file, line);
}

static void land(const copy &c)
{
    if (c.from != nullptr)
        memcpy(c.to, c.from, 16);
    else
        memset(c.to, 0, 16);
}

void copy16(void *shared, const void *global, bool there, const char *file,
            int line)
{
    const copy c = { shared, there ? global : nullptr, running->groups };

    check_aligned(global, 16, file, line);
    check_aligned(shared, 16, file, line);
    if (!in_shared(shared, 16))
        stop(file, line, "a copy to what is not its shared memory");
    if (any(2) == 0)
        land(c);
    else
        running->copies.push_back(c);
}

void copy_commit()
{
    running->groups++;
}

/* All but the last `groups` that were committed. */
void copy_wait(unsigned groups)
{
    thread *t = running;
    size_t kept = 0;

    for (const copy &c : t->copies)
        if (c.group + groups < t->groups)
            land(c);
        else
            t->copies[kept++] = c;
    t->copies.resize(kept);
}

} // namespace emulated
