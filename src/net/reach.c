/* reach.c - connections between processes on any hosts, by TCP. */
#include "net/reach.h"

#include "base/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = sizeof(((struct dsf_watch_address *)0)->ips) / sizeof(uint32_t) };

/* An address that others may reach: containers that do not run leave networks
 * without a carrier. */
static bool is_for_others(const struct ifaddrs *i)
{
    const unsigned runs = IFF_UP | IFF_RUNNING;

    return i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET &&
           (i->ifa_flags & runs) == runs && (i->ifa_flags & IFF_LOOPBACK) == 0;
}

/* Those, then the one that only this host reaches. */
static void find_ips(struct dsf_watch_address *own)
{
    struct ifaddrs *list = NULL;
    unsigned n = 0;

    if (getifaddrs(&list) < 0)
        list = NULL;
    for (struct ifaddrs *i = list; i != NULL && n + 1 < MOST; i = i->ifa_next)
        if (is_for_others(i))
            own->ips[n++] =
                ((const struct sockaddr_in *)(const void *)i->ifa_addr)
                    ->sin_addr.s_addr;
    freeifaddrs(list);
    own->ips[n] = htonl(INADDR_LOOPBACK);
}

int dsf_reach_listen(struct dsf_watch_address *own)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
        listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) < 0) {
        close(fd);
        return -1;
    }
    own->port = ntohs(at.sin_port);
    find_ips(own);
    return fd;
}

void dsf_reach_prepare(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static bool is_ready(int fd, short events, int milliseconds)
{
    struct pollfd p = { .fd = fd, .events = events };
    int n;

    do
        n = poll(&p, 1, milliseconds);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

static int left_until(double end)
{
    double left = end - dsf_now();

    return left > 0 ? 1 + (int)(1e3 * left) : 0;
}

bool dsf_reach_get(int fd, void *at, size_t bytes, int milliseconds)
{
    const double end = dsf_now() + 1e-3 * milliseconds;
    size_t got = 0;

    while (got < bytes && is_ready(fd, POLLIN, left_until(end))) {
        ssize_t n = read(fd, (char *)at + got, bytes - got);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            break;
        got += n > 0 ? (size_t)n : 0;
    }
    return got == bytes;
}

static int connect_to(uint32_t ip, uint32_t port, int milliseconds)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr = { ip } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0;
    socklen_t bytes = sizeof(error);

    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 &&
        (errno != EINPROGRESS || !is_ready(fd, POLLOUT, milliseconds) ||
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0 ||
         error != 0)) {
        close(fd);
        return -1;
    }
    dsf_reach_prepare(fd);
    return fd;
}

int dsf_reach(const struct dsf_watch_address *to, int milliseconds,
              bool (*greet)(int fd, void *user), void *user)
{
    for (unsigned i = 0; i < MOST && to->ips[i] != 0; i++) {
        int fd = connect_to(to->ips[i], to->port, milliseconds);

        if (fd >= 0 && (greet == NULL || greet(fd, user)))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}
