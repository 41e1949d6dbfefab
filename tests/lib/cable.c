/* cable.c - a long cable between two network namespaces, for kernels that have
 * no netem: what goes in at an end comes out at the other after a delay, or is
 * lost, by chance from a seed.
 *
 *     cable ONE TWO DELAY LOST [SEED]
 *
 * ONE and TWO are files of namespaces (/run/netns/NAME), each of which gets a
 * device `cable`; DELAY is in microseconds, one way; of a million frames LOST
 * do not arrive. It says "ready" when the devices are there, and lives until it
 * is killed; they go with it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 2048, FRAMES = 16384 }; /* longest; under way one way */

struct frame {
    int64_t due; /* nanoseconds */
    ssize_t bytes;
    char data[FRAME];
};

/* Frames leave in the order in which they came. */
struct way {
    int from, to;
    struct frame *frames;
    unsigned first, n;
};

static uint64_t state;
static int64_t delay;
static unsigned lost;

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static unsigned roll(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % n);
}

static int fail(const char *what)
{
    fprintf(stderr, "cable: %s: %s\n", what, strerror(errno));
    return -1;
}

/* An end in a namespace, which this process then is in. */
static int open_end(const char *space)
{
    struct ifreq r = { .ifr_name = "cable",
                       .ifr_flags = IFF_TAP | IFF_NO_PI };
    int fd = open(space, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
        return fail(space);
    close(fd);
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fail("/dev/net/tun");
    return ioctl(fd, TUNSETIFF, &r) < 0 ? fail("TUNSETIFF") : fd;
}

static void take(struct way *w)
{
    while (w->n < FRAMES) {
        struct frame *f = &w->frames[(w->first + w->n) % FRAMES];

        f->bytes = read(w->from, f->data, sizeof(f->data));
        if (f->bytes <= 0)
            break;
        f->due = now() + delay;
        w->n += roll(1000000) >= lost;
    }
}

static void give(struct way *w)
{
    while (w->n > 0 && w->frames[w->first].due <= now()) {
        const struct frame *f = &w->frames[w->first];

        /* A full end loses it, as networks do. */
        if (write(w->to, f->data, (size_t)f->bytes) < 0 && errno == EINTR)
            continue;
        w->first = (w->first + 1) % FRAMES;
        w->n--;
    }
}

int main(int argc, char **argv)
{
    struct way ways[2];
    int ends[2];

    if (argc < 5) {
        fprintf(stderr, "cable ONE TWO DELAY LOST [SEED]\n");
        return 2;
    }
    delay = atoll(argv[3]) * 1000;
    lost = (unsigned)atoi(argv[4]);
    state = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;
    for (int i = 0; i < 2; i++)
        if ((ends[i] = open_end(argv[1 + i])) < 0)
            return 1;
    for (int i = 0; i < 2; i++) {
        ways[i] = (struct way){ .from = ends[i], .to = ends[1 - i] };
        ways[i].frames = calloc(FRAMES, sizeof(struct frame));
        if (ways[i].frames == NULL)
            return 1;
    }
    prctl(PR_SET_TIMERSLACK, 1000);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd fds[2];
        int64_t due = INT64_MAX, left;
        struct timespec until;

        for (int i = 0; i < 2; i++) {
            fds[i] =
                (struct pollfd){ .fd = ends[i],
                                 .events = ways[i].n < FRAMES ? POLLIN : 0 };
            if (ways[i].n > 0 && ways[i].frames[ways[i].first].due < due)
                due = ways[i].frames[ways[i].first].due;
        }
        left = due - now();
        left = left > 0 ? left : 0;
        until = (struct timespec){ left / 1000000000, left % 1000000000 };
        ppoll(fds, 2, due == INT64_MAX ? NULL : &until, NULL);
        for (int i = 0; i < 2; i++) {
            take(&ways[i]);
            give(&ways[i]);
        }
    }
}
