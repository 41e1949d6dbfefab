/* hosts_left.h - which hosts of a run are still there, before it begins again.
 */
#ifndef DSF_CLI_HOSTS_LEFT_H
#define DSF_CLI_HOSTS_LEFT_H

#include <stdint.h>

struct dsf_hosts_left {
    char *hosts;  /* "a:8,b": those that are there; NULL: no other one is */
    int64_t room; /* processes that they have room for */
    char *away;   /* "c, d": the others; NULL: there are none */
};

/* Of `hosts`, which are as --hosts has them, those that this host is, or on
 * which the program that mpirun reaches hosts by (ssh) runs true(1). It asks
 * all of them at once, and takes no more than some 15 seconds. */
void dsf_hosts_left_find(const char *hosts, struct dsf_hosts_left *left);
void dsf_hosts_left_free(struct dsf_hosts_left *left);

#endif
