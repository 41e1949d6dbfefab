/* bound.h - which process of a machine binds its workers to cores. */
#ifndef DSF_EXEC_BOUND_H
#define DSF_EXEC_BOUND_H

#include <stdbool.h>

/* May this process bind its workers? No other one may then, where the same
 * cores are its own, until this one gives the right back or ends. */
bool dsf_bound_claim(void);
void dsf_bound_release(void);

#endif
