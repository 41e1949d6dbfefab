/* hostfile.c - hosts of a run, in a file: "node1 slots=8" in a line. */
#include "cli/hostfile.h"

#include "base/alloc.h"
#include "base/file.h"
#include "cli/mpirun.h"

#include <stdlib.h>
#include <string.h>

static const char BETWEEN[] = " \t\r\n";

bool dsf_is_host(const char *name, size_t n)
{
    static const char may[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

    return n > 0 && name[0] != '-' && strspn(name, may) >= n;
}

/* Behind the host; false: there is something else. */
static bool read_slots(const char *words, long *slots)
{
    static const char key[] = "slots";
    char *end;

    *slots = 1;
    words += strspn(words, BETWEEN);
    if (*words == '\0')
        return true;
    if (strncmp(words, key, strlen(key)) != 0)
        return false;
    words += strlen(key);
    words += strspn(words, BETWEEN);
    if (*words++ != '=')
        return false;
    *slots = strtol(words, &end, 10);
    return end > words && *slots >= 1 && *slots <= DSF_MOST_PROCESSES &&
           end[strspn(end, BETWEEN)] == '\0';
}

/* Does "a:8,b:8" have it? */
static bool has(const char *hosts, const char *name, size_t n)
{
    for (const char *at = hosts; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, n) == 0 && at[n] == ':')
            return true;
    }
    return false;
}

/* One line, without its end, into the list. */
static int take(char **hosts, const char *line, const char *path, int number,
                struct dsflow_err *err)
{
    const char *name = line + strspn(line, BETWEEN);
    size_t n = strcspn(name, BETWEEN);
    char *more;
    long slots;

    if (n == 0)
        return DSFLOW_OK;
    if (!dsf_is_host(name, n) || !read_slots(name + n, &slots))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s:%d: %.100s: expected HOST slots=N, as in node1 "
                           "slots=8",
                           path, number, name);
    if (has(*hosts, name, n))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s:%d: %.*s: expected each host once", path, number,
                           (int)n, name);
    more = dsf_xasprintf("%s%s%.*s:%ld", *hosts != NULL ? *hosts : "",
                         *hosts != NULL ? "," : "", (int)n, name, slots);
    free(*hosts);
    *hosts = more;
    return DSFLOW_OK;
}

int dsf_hostfile_read(const char *path, char **hosts, struct dsflow_err *err)
{
    enum { MOST = 16 << 20 };
    static const char mark[] = "\xef\xbb\xbf"; /* of byte order */
    char *text, *line, *next;
    size_t n;
    int number = 1, status;

    *hosts = NULL;
    status = dsf_file_load(path, MOST, &text, &n, err);
    if (status < 0)
        return status;
    if (strlen(text) != n)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: has a byte 0: expected text", path);
    line = text + (strncmp(text, mark, strlen(mark)) == 0 ? strlen(mark) : 0);
    for (; line != NULL && status == DSFLOW_OK; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        line[strcspn(line, "#\r")] = '\0';
        status = take(hosts, line, path, number++, err);
    }
    free(text);
    if (status == DSFLOW_OK && *hosts == NULL)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: no host: expected lines such as node1 "
                             "slots=8",
                             path);
    if (status < 0) {
        free(*hosts);
        *hosts = NULL;
    }
    return status;
}
