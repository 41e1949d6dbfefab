/* about.c - the parts of the executor that this build has. */
#include "exec/about.h"

#include <stdio.h>
#include <starpu.h>

const char *dsf_exec_starpu_version(void)
{
    static char text[64];
    int major, minor, release;

    starpu_get_version(&major, &minor, &release);
    snprintf(text, sizeof(text), "%d.%d.%d", major, minor, release);
    return text;
}
