/* partition.h - n things in order, cut in parts of consecutive ones: the layers
 * of a model over the stages of a pipeline. */
#ifndef DSF_PLAN_PARTITION_H
#define DSF_PLAN_PARTITION_H

/* Fills first[parts + 1]: part p is [first[p], first[p + 1]), of at least one
 * of the n >= parts things. Parts of nearly the same weight, by DeepSpeed's
 * "parameters" method (its bounds are kept, so that a job has the same stages
 * in both): the smallest difference of the heaviest and the lightest part that
 * extends the best cut of what is before the last part. Of equal ones, the
 * latest cut. Weights are not negative. */
void dsf_partition_balanced(const double *weights, int n, int parts,
                            int *first);

#endif
