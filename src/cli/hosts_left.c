/* hosts_left.c - which hosts of a run are still there. */
#include "cli/hosts_left.h"

#include "base/alloc.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 15000, PAUSE = 50 }; /* milliseconds */

struct host {
    char *name;
    int64_t slots;
    pid_t asking; /* 0: nobody is */
    bool there;
};

/* Those of a list that was checked; returns how many. */
static size_t read_hosts(const char *list, struct host **hosts)
{
    size_t n = 0, cap = 0;

    *hosts = NULL;
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        size_t name = strcspn(at, ":,");
        char *end = (char *)at + name;
        int64_t slots = *end == ':' ? strtol(end + 1, &end, 10) : 1;

        dsf_grow(hosts, &cap, n + 1, sizeof(**hosts));
        (*hosts)[n++] =
            (struct host){ dsf_xstrndup(at, name), slots, 0, false };
        at = end;
    }
    return n;
}

static bool is_this(const char *name)
{
    char own[256] = "";

    gethostname(own, sizeof(own) - 1);
    return strcmp(name, own) == 0 || strcmp(name, "localhost") == 0;
}

/* In the child. mpirun's setting is words, and may have others behind a colon.
 */
_Noreturn static void ask(const char *name)
{
    const char *set = getenv("OMPI_MCA_plm_rsh_agent");
    char *words = dsf_xstrdup(set != NULL && *set != '\0' ? set : "ssh");
    const char *argv[64];
    int null = open("/dev/null", O_RDWR);
    size_t n = 0;

    words[strcspn(words, ":")] = '\0';
    for (char *w = strtok(words, " "); w != NULL && n < 60;
         w = strtok(NULL, " "))
        argv[n++] = w;
    argv[n++] = name;
    argv[n++] = "true";
    argv[n] = NULL;
    setpgid(0, 0);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    execvp(argv[0], (char **)argv);
    _exit(127);
}

/* Returns how many have not answered yet. */
static size_t hear(struct host *hosts, size_t n)
{
    size_t left = 0;
    int status;

    for (size_t i = 0; i < n; i++) {
        if (hosts[i].asking == 0)
            continue;
        if (waitpid(hosts[i].asking, &status, WNOHANG) == 0) {
            left++;
            continue;
        }
        hosts[i].there = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        hosts[i].asking = 0;
    }
    return left;
}

static void ask_all(struct host *hosts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hosts[i].there = is_this(hosts[i].name);
        if (hosts[i].there)
            continue;
        hosts[i].asking = fork();
        if (hosts[i].asking == 0)
            ask(hosts[i].name);
        hosts[i].there = hosts[i].asking < 0; /* not known */
        if (hosts[i].asking < 0)
            hosts[i].asking = 0;
    }
    for (int t = 0; t < LONGEST && hear(hosts, n) > 0; t += PAUSE)
        usleep(1000 * PAUSE);
    for (size_t i = 0; i < n; i++)
        if (hosts[i].asking != 0) {
            kill(-hosts[i].asking, SIGKILL);
            kill(hosts[i].asking, SIGKILL);
            waitpid(hosts[i].asking, NULL, 0);
        }
}

/* "LIST", then "LIST, MORE". */
static char *more(char *list, const char *between, char *item)
{
    char *all = list == NULL ? dsf_xstrdup(item)
                             : dsf_xasprintf("%s%s%s", list, between, item);

    free(list);
    free(item);
    return all;
}

void dsf_hosts_left_find(const char *hosts, struct dsf_hosts_left *left)
{
    struct host *all;
    size_t n = read_hosts(hosts, &all);

    *left = (struct dsf_hosts_left){ .room = 0 };
    ask_all(all, n);
    for (size_t i = 0; i < n; i++) {
        const struct host *h = &all[i];

        if (h->there) {
            left->hosts =
                more(left->hosts, ",",
                     dsf_xasprintf("%s:%lld", h->name, (long long)h->slots));
            left->room += h->slots;
        } else {
            left->away = more(left->away, ", ", dsf_xstrdup(h->name));
        }
        free(h->name);
    }
    free(all);
}

void dsf_hosts_left_free(struct dsf_hosts_left *left)
{
    free(left->hosts);
    free(left->away);
    *left = (struct dsf_hosts_left){ .room = 0 };
}
