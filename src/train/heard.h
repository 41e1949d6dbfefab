/* heard.h - what the process that has the run of several hears of the others,
 * where it has not the graph of all ranks (dsf_session.alone): what their ranks
 * do and have, and the hashes of the messages between all. */
#ifndef DSF_TRAIN_HEARD_H
#define DSF_TRAIN_HEARD_H

#include "train/session.h"

/* In each of the others, which has its graph and its part: say it. The graph is
 * not needed afterwards. */
int dsf_heard_say(struct dsf_session *s, struct dsf_wire *wire,
                  struct dsflow_err *err);

/* In the first one: hear it of process `p`. Its weights are those of the
 * session then, and what it keeps between steps is in the graph, at home there.
 */
int dsf_heard_take(struct dsf_session *s, int32_t p, struct dsflow_err *err);

/* Do all have the messages that the others expect of them? After all were
 * heard. Errors: DSFLOW_EINVAL, with two processes that do not. */
int dsf_heard_check(const struct dsf_session *s, struct dsflow_err *err);

void dsf_heard_fini(struct dsf_heard *h);

#endif
