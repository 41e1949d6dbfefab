/* exec_direct_words.c - what the processes whose GPUs send to each other say of
 * how it went: a word each, when it fails or ends. */
#include "exec/exec_direct_private.h"

#include "net/watch.h"

#include <stdio.h>

static void word_is_over(struct dsf_message *m)
{
    struct dsf_direct *d = ((struct dsf_direct_other *)m->user)->direct;

    pthread_mutex_lock(&d->lock);
    d->left--;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* To each of the others, once. */
static void say(struct dsf_direct *d, const struct dsf_direct_word *word)
{
    bool said;

    pthread_mutex_lock(&d->lock);
    said = d->said || !d->joined;
    d->said = true;
    pthread_mutex_unlock(&d->lock);
    for (size_t i = 0; i < d->nothers && !said; i++) {
        struct dsf_direct_other *o = &d->others[i];

        o->ours = *word;
        d->exec->wire->post(d->exec->wire, &o->out);
    }
}

void dsf_direct_say_lost(struct dsf_direct *d, const struct dsflow_err *err)
{
    struct dsf_direct_word word = { .status = err->status,
                                    .process = d->exec->wire->process };

    /* First: what is left under way ends as if it were well. */
    dsf_exec_fail(d->exec, err);
    snprintf(word.msg, sizeof(word.msg), "%.247s", err->msg);
    say(d, &word);
    dsf_direct_leave(d, err->msg);
}

static void hear(struct dsf_message *m)
{
    struct dsf_direct_other *o = m->user;
    struct dsf_direct *d = o->direct;
    struct dsflow_err err;

    if (o->theirs.status < 0) {
        dsflow_fail(&err, (enum dsflow_status)o->theirs.status, "%s: %s",
                    dsf_watch_name(o->theirs.process).s, o->theirs.msg);
        dsf_exec_fail(d->exec, &err);
        say(d, &o->theirs);
        dsf_direct_leave(d, err.msg);
    }
    word_is_over(m);
}

void dsf_direct_listen(struct dsf_direct *d)
{
    d->joined = true;
    d->left = 2 * d->nothers;
    for (size_t i = 0; i < d->nothers; i++) {
        struct dsf_direct_other *o = &d->others[i];

        o->in = (struct dsf_message){ .memory = &o->theirs,
                                      .bytes = sizeof(o->theirs),
                                      .process = o->process,
                                      .tag = DSF_DIRECT_WORD,
                                      .done = hear,
                                      .user = o };
        o->out = o->in;
        o->out.memory = &o->ours;
        o->out.out = true;
        o->out.done = word_is_over;
        d->exec->wire->post(d->exec->wire, &o->in);
    }
}

void dsf_direct_part(struct dsf_direct *d)
{
    say(d, &(struct dsf_direct_word){ .status = DSFLOW_OK });
    pthread_mutex_lock(&d->lock);
    while (d->left > 0)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
}
