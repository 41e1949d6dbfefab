/* by_value.h - the order of numbers, the smallest first, for qsort. */
#ifndef DSF_BASE_BY_VALUE_H
#define DSF_BASE_BY_VALUE_H

static inline int dsf_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#endif
