/* bench_encode.c - how fast a text becomes tokens:
 *
 *   bench_encode TOKENIZER FILE [TURNS]
 *
 * TOKENIZER is as in [data] tokenizer. On one lane, and on one for each core,
 * in turns; medians, and the ratio of each turn. tokenizers_encode.py has
 * Hugging Face's tokenizers do the same. */
#include "text/encode.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TURNS = 99 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(const char *what)
{
    fprintf(stderr, "bench_encode: %s\n", what);
    return 1;
}

/* Tokens, and a sum that tells others from these. */
struct given {
    uint64_t n, sum;
};

static void take(void *user, const int32_t *ids, size_t n)
{
    struct given *given = user;

    for (size_t i = 0; i < n; i++)
        given->sum = given->sum * 31 + (uint64_t)ids[i];
    given->n += n;
}

static void let_go(void *user)
{
}

struct text {
    const struct dsf_tokenizer *tok;
    const char *text;
    size_t bytes;
};

/* Seconds on lanes of this size. */
static double encode(const struct text *t, struct dsf_lanes_size size,
                     struct given *given)
{
    const struct dsf_encoding to = { .take = take,
                                     .let_go = let_go,
                                     .user = given };
    double from = now();
    struct dsflow_err err;
    struct dsf_encoder *e = dsf_encoder_new(t->tok, size, &to, &err);

    *given = (struct given){ 0 };
    if (dsf_encoder_text(e, NULL, t->text, t->bytes, 1) < 0 ||
        dsf_encoder_end(e) < 0)
        exit(fail(err.msg));
    dsf_encoder_free(e);
    return now() - from;
}

static int up(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return a < b ? -1 : a > b;
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), up);
    return v[n / 2];
}

int main(int argc, char **argv)
{
    double one[MOST_TURNS], all[MOST_TURNS], ratio[MOST_TURNS];
    const struct dsf_lanes_size cores = dsf_lanes_of_cores();
    const struct dsf_lanes_size single = { 1, cores.bytes };
    int turns = argc > 3 ? atoi(argv[3]) : 5;
    struct dsf_tokenizer *tok;
    struct given a, b;
    struct dsflow_err err;
    struct text text;
    struct stat st;
    int fd;

    if (argc < 3 || turns < 1 || turns > MOST_TURNS)
        return fail("TOKENIZER FILE [TURNS, 1 to 99]");
    if (dsf_tokenizer_open(argv[1], &tok, &err) < 0)
        return fail(err.msg);
    fd = open(argv[2], O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
        return fail("FILE: expected a text");
    text = (struct text){
        tok,
        mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0),
        (size_t)st.st_size,
    };
    if (text.text == MAP_FAILED)
        return fail("FILE: cannot be mapped");
    for (int i = 0; i < turns; i++) {
        one[i] = encode(&text, single, &a);
        all[i] = encode(&text, cores, &b);
        ratio[i] = one[i] / all[i];
        if (a.n != b.n || a.sum != b.sum)
            return fail("the tokens are not the same");
    }
    printf("%zu bytes, %" PRIu64 " tokens: %.1f MB/s on one core, %.1f on %d, "
           "%.2f times as fast\n",
           text.bytes, a.n, 1e-6 * (double)text.bytes / median(one, turns),
           1e-6 * (double)text.bytes / median(all, turns), cores.lanes,
           median(ratio, turns));
    munmap((void *)text.text, text.bytes);
    dsf_tokenizer_free(tok);
    close(fd);
    return 0;
}
