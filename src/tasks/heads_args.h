/* heads_args.h - the arguments of what brings heads of attention from ranks
 * that have tokens to those that have heads, and back (Jacobs et al. 2023,
 * "DeepSpeed Ulysses").
 */
#ifndef DSF_TASKS_HEADS_ARGS_H
#define DSF_TASKS_HEADS_ARGS_H

#include <stdint.h>

/* all_to_all_heads         { out RW, in R, ... }
 *   Numbers of `heads` heads of each of `rows` tokens: `size` of each head, in
 *   `runs` runs of all heads, one behind the other (keys, then values). Member
 *   i of n has consecutive heads, of which the first is i heads / n, rounded
 *   down. take >= 0: `in` has all heads, and out gets those of member `take`.
 *   take < 0: in[i] has those of member i, and out gets all. */
struct dsf_heads_args {
    int32_t rows, runs, heads, size;
    int32_t members, take;
};

/* Of n members that share `heads` heads, the first head of member i; i = n: the
 * number of heads. */
static inline int32_t dsf_heads_first(int32_t heads, int32_t n, int32_t i)
{
    return (int32_t)((int64_t)heads * i / n);
}

/* What one run of port `port` is: `rows` times `n` numbers, which are to_apart
 * and from_apart from each other. */
struct dsf_heads_move {
    int64_t rows, n, to, to_apart, from, from_apart;
};
struct dsf_heads_move dsf_heads_run(const struct dsf_heads_args *a,
                                    unsigned port, int32_t run);

/* Numbers that the task takes of port `port`. */
int64_t dsf_heads_elems(const struct dsf_heads_args *a, unsigned port);

#endif
