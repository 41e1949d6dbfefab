/* reach.h - connections between processes on any hosts, by TCP. */
#ifndef DSF_NET_REACH_H
#define DSF_NET_REACH_H

#include "net/watch.h"

/* A socket that listens on all addresses of this host, and these; -1: none,
 * errno. */
int dsf_reach_listen(struct dsf_watch_address *own);

/* A connection to one of the addresses, each of which is tried for so long;
 * `greet` says whether it is the right one. -1: there is none. */
int dsf_reach(const struct dsf_watch_address *to, int milliseconds,
              bool (*greet)(int fd, void *user), void *user);

/* All bytes within the time? */
bool dsf_reach_get(int fd, void *at, size_t bytes, int milliseconds);

/* It sends small things at once, and never blocks. */
void dsf_reach_prepare(int fd);

#endif
