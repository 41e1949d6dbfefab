/* counted.h - what a process counted is written when it ends by _exit, too, as
 * those do that measure or try a codelet. coverage.sh puts it in front of each
 * file. */
#ifndef DSF_SCRIPTS_COUNTED_H
#define DSF_SCRIPTS_COUNTED_H

#include <unistd.h>

extern void __gcov_dump(void);

static inline _Noreturn void counted_exit(int status)
{
    __gcov_dump();
    _exit(status);
}
#define _exit(status) counted_exit(status)

#endif
