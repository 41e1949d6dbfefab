/* by_all.h - the weights and checkpoints of a session in several processes:
 * each reads, draws and writes what it has, when the first one asks it to. */
#ifndef DSF_TRAIN_BY_ALL_H
#define DSF_TRAIN_BY_ALL_H

#include "train/session.h"
#include "train/writes.h"

/* In the first: let the others begin with what it does itself then. Nothing
 * where the session has no others. `absent`: by place in the list of what is
 * kept, whether the checkpoint has none. */
int dsf_by_all_start(struct dsf_session *s, int64_t step,
                     struct dsflow_err *err);
int dsf_by_all_round(struct dsf_session *s, int64_t updates,
                     struct dsflow_err *err);
int dsf_by_all_load(struct dsf_session *s, const char *folder,
                    const bool *absent, struct dsflow_err *err);

/* Until they are through, where they have begun (status, of what was done here,
 * is DSFLOW_OK); what went wrong in the first one where it did. */
int dsf_by_all_end(struct dsf_session *s, int status, struct dsflow_err *err);

/* Those who write checkpoints with this process; its own part of it, filled in
 * when it begins. */
struct dsf_by_all_save {
    struct dsf_session *s;
    struct dsf_writes writes;
    struct dsf_ckpt_others others;
};
void dsf_by_all_save_init(struct dsf_by_all_save *save, struct dsf_session *s);
void dsf_by_all_save_fini(struct dsf_by_all_save *save);

/* In each of the others: what it is asked once. What goes wrong with it is said
 * in the first one; an error is of messages. */
int dsf_by_all_serve(struct dsf_session *s, struct dsf_wire *wire,
                     struct dsflow_err *err);

#endif
