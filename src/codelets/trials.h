/* trials.h - random cases of the built-in kinds of task. */
#ifndef DSF_CODELETS_TRIALS_H
#define DSF_CODELETS_TRIALS_H

#include "codelets/codelets.h"

/* Some of the list have none, which trials.c then does not define. */
#define XX(name) extern const struct dsflow_trials dsf_trials_##name;
DSF_CODELETS(XX)
#undef XX

#endif
