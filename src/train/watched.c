/* watched.c - what a process of several tells the watch of its executor. */
#include "train/watched.h"

#include "base/units.h"
#include "codelets/messages.h"
#include "exec/exec_waiting.h"
#include "net/watch.h"

#include <stdio.h>

/* "mlp.forward layer 3, micro-batch 2"; of a message, what it is part of:
 * "forward layer 3, micro-batch 2" */
static void put_name(char *name, size_t bytes, const struct dsflow_task_spec *t)
{
    static const char *const passes[] = { "forward", "backward", "update" };
    int n = snprintf(name, bytes, "%.48s",
                     dsf_is_message(t->op) ? passes[t->pass] : t->op->name);

    if (t->layer >= 0)
        n += snprintf(name + n, bytes - (size_t)n, " layer %d", t->layer);
    if (t->microbatch >= 0)
        snprintf(name + n, bytes - (size_t)n, "%s micro-batch %d",
                 t->layer >= 0 ? "," : "", t->microbatch);
}

static void look(void *user, struct dsf_watch_state *state)
{
    struct dsf_exec_now now = dsf_exec_look(user);

    state->ended = now.ended;
    if (now.runs != NULL)
        put_name(state->task, sizeof(state->task), now.runs);
    if (now.awaits != NULL) {
        put_name(state->awaits, sizeof(state->awaits), now.awaits);
        state->from = now.from;
        state->waited = dsf_now() - now.since;
    }
}

void dsf_watched_begin(struct dsf_session *s)
{
    dsf_watch_look(look, s->exec);
}

void dsf_watched_end(void)
{
    dsf_watch_look(NULL, NULL);
}
