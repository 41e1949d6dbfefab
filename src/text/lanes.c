/* lanes.c - text becomes tokens on all cores, and they leave in its order.
 *
 * A text that is longer than what a lane gets is cut where a word is likely to
 * begin, and the next lane begins there before it is known. Each lane goes on
 * to the end of its last word. If that is not where the next one began, what
 * that one did is done once more, from there. */
#include "text/lanes.h"

#include "base/alloc.h"
#include "base/parallel.h"
#include "text/bpe.h"
#include "text/split.h"
#include "text/tokenizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* For less text, a cache of words costs more than it saves. */
#define ENOUGH 2048u

/* What a lane has to do. */
struct item {
    enum { TEXT, WORD, TOKEN } kind;
    const char *name;           /* of its text, or NULL */
    int32_t id;                 /* TOKEN */
    bool leads;                 /* a space is in front of its first word */
    struct dsf_split_part part; /* of TEXT; of WORD text and n */
};

struct lane {
    const struct dsf_tokenizer *tok;
    struct dsf_splitter *splitter; /* of bytes: NULL */
    struct dsf_bpe_cache *cache;   /* or NULL */
    struct item *items;
    size_t n, cap, bytes;
    bool leads; /* the next word */
    char *led;  /* it, with its space */
    size_t led_cap;
    struct dsf_tokens out;
    int status;
    struct dsflow_err err;
};

struct dsf_lanes {
    struct dsf_lanes_size size;
    const struct dsf_encoding *to;
    struct dsflow_err *err;
    const char *name; /* of the texts that come now */
    struct lane *lanes;
    int at;      /* the lane that is being filled */
    bool leads;  /* what comes next */
    size_t read; /* bytes, since they were let go */
    struct dsf_normal *kept; /* texts that are to go */
    size_t nkept, kept_cap;
};

struct dsf_lanes *dsf_lanes_new(const struct dsf_tokenizer *tok,
                                struct dsf_lanes_size size,
                                const struct dsf_encoding *to,
                                struct dsflow_err *err)
{
    struct dsf_lanes *l = dsf_xcalloc(1, sizeof(*l));

    l->size = size;
    l->to = to;
    l->err = err;
    l->lanes = dsf_xcalloc((size_t)size.lanes, sizeof(*l->lanes));
    for (int i = 0; i < size.lanes; i++) {
        l->lanes[i].tok = tok;
        if (tok->split != NULL) /* bytes are not split */
            l->lanes[i].splitter = dsf_splitter_new(tok->split);
    }
    return l;
}

struct dsf_lanes_size dsf_lanes_of_cores(void)
{
    return (struct dsf_lanes_size){ dsf_parallel_threads(), (size_t)1 << 20 };
}

void dsf_lanes_name(struct dsf_lanes *l, const char *name)
{
    l->name = name;
}

static void free_kept(struct dsf_lanes *l)
{
    while (l->nkept > 0)
        dsf_normal_fini(&l->kept[--l->nkept]);
}

void dsf_lanes_free(struct dsf_lanes *l)
{
    for (int i = 0; i < l->size.lanes; i++) {
        dsf_splitter_free(l->lanes[i].splitter);
        dsf_bpe_cache_free(l->lanes[i].cache);
        dsf_tokens_fini(&l->lanes[i].out);
        free(l->lanes[i].items);
        free(l->lanes[i].led);
    }
    free_kept(l);
    free(l->kept);
    free(l->lanes);
    free(l);
}

static const char *put_space(struct lane *lane, const char *word, size_t *n)
{
    dsf_grow(&lane->led, &lane->led_cap, *n + 1, 1);
    lane->led[0] = ' ';
    memcpy(lane->led + 1, word, *n);
    (*n)++;
    lane->leads = false;
    return lane->led;
}

static void put_word(void *user, const char *word, size_t n)
{
    struct lane *lane = user;
    struct dsf_tokens *out = &lane->out;

    if (lane->leads)
        word = put_space(lane, word, &n);
    if (lane->tok->bpe != NULL) {
        dsf_bpe_encode(lane->tok->bpe, lane->cache, word, n, out);
        return;
    }
    dsf_grow(&out->v, &out->cap, out->n + n, sizeof(*out->v));
    for (size_t i = 0; i < n; i++)
        out->v[out->n++] = (unsigned char)word[i];
}

static void put_token(struct lane *lane, int32_t id)
{
    struct dsf_tokens *out = &lane->out;

    dsf_grow(&out->v, &out->cap, out->n + 1, sizeof(*out->v));
    out->v[out->n++] = id;
}

static void run(struct lane *lane)
{
    if (lane->cache == NULL && lane->tok->bpe != NULL && lane->bytes >= ENOUGH)
        lane->cache = dsf_bpe_cache_new();
    lane->out.n = 0;
    lane->status = DSFLOW_OK;
    for (size_t i = 0; i < lane->n && lane->status == DSFLOW_OK; i++) {
        struct item *it = &lane->items[i];

        lane->leads = it->leads;
        if (it->kind == TOKEN)
            put_token(lane, it->id);
        else if (it->kind == WORD)
            put_word(lane, it->part.text, it->part.n);
        else
            lane->status = dsf_split_text(lane->splitter, &it->part, put_word,
                                          lane, &lane->err);
        if (lane->status < 0 && it->name != NULL)
            dsflow_fail_in(&lane->err, lane->status, it->name);
    }
}

static void run_range(void *user, int64_t from, int64_t end)
{
    struct dsf_lanes *l = user;

    for (int64_t i = from; i < end; i++)
        run(&l->lanes[i]);
}

/* The next lane knows where the one before it ended: did it begin there? */
static void mend(struct lane *lane, size_t end)
{
    struct dsf_split_part *first = &lane->items[0].part;

    if (first->from == 0 || first->from == end)
        return;
    first->from = end;
    run(lane);
}

/* Have the lanes do what they were given, and pass it on. `*end`: where the
 * last word of the last text ends. */
static int run_all(struct dsf_lanes *l, size_t *end)
{
    int status = DSFLOW_OK, n = l->at + 1;

    dsf_parallel(n, 1, run_range, l);
    for (int i = 0; i < n; i++) {
        struct lane *lane = &l->lanes[i];

        if (lane->n > 0 && status == DSFLOW_OK) {
            if (i > 0)
                mend(lane, *end);
            *end = lane->items[lane->n - 1].part.end;
            status = lane->status;
            if (status < 0 && l->err != NULL)
                *l->err = lane->err;
            if (lane->out.n > 0 && status == DSFLOW_OK)
                l->to->take(l->to->user, lane->out.v, lane->out.n);
        }
        dsf_lanes_has_read(l, lane->bytes);
        lane->n = lane->bytes = 0;
    }
    l->at = 0;
    free_kept(l);
    return status;
}

void dsf_lanes_has_read(struct dsf_lanes *l, size_t n)
{
    static const size_t much = (size_t)64 << 20;

    l->read += n;
    if (l->read < much)
        return;
    l->to->let_go(l->to->user);
    l->read = 0;
}

/* `*end`: where what follows begins, if it is of the same text. */
static int put(struct dsf_lanes *l, struct item item, size_t bytes, size_t *end)
{
    struct lane *lane = &l->lanes[l->at];

    item.name = l->name;
    item.leads = l->leads;
    l->leads = false;
    dsf_grow(&lane->items, &lane->cap, lane->n + 1, sizeof(*lane->items));
    lane->items[lane->n++] = item;
    lane->bytes += bytes;
    *end = item.part.limit;
    if (lane->bytes < l->size.bytes)
        return DSFLOW_OK;
    if (l->at + 1 == l->size.lanes)
        return run_all(l, end);
    l->at++;
    return DSFLOW_OK;
}

int dsf_lanes_text(struct dsf_lanes *l, const char *text, size_t n)
{
    int status = DSFLOW_OK;
    size_t room, at = 0;

    while (at < n && status == DSFLOW_OK) {
        struct lane *lane = &l->lanes[l->at];
        struct item item = {
            .kind = TEXT,
            .part = { .text = text, .n = n, .from = at, .limit = n },
        };

        room = l->size.bytes - lane->bytes;
        /* Behind the last lane nobody begins before it has ended. */
        if (n - at > room)
            item.part.limit =
                l->at + 1 == l->size.lanes
                    ? at + room
                    : dsf_split_guess(lane->splitter, text, n, at + room);
        status = put(l, item, item.part.limit - at, &at);
    }
    return status;
}

int dsf_lanes_word(struct dsf_lanes *l, const char *word, size_t n)
{
    size_t end;

    return put(l, (struct item){ .kind = WORD, .part = { word, n } }, n, &end);
}

int dsf_lanes_token(struct dsf_lanes *l, int32_t id)
{
    size_t end;

    return put(l, (struct item){ .kind = TOKEN, .id = id }, 1, &end);
}

void dsf_lanes_lead(struct dsf_lanes *l)
{
    l->leads = true;
}

void dsf_lanes_keep(struct dsf_lanes *l, struct dsf_normal text)
{
    dsf_grow(&l->kept, &l->kept_cap, l->nkept + 1, sizeof(*l->kept));
    l->kept[l->nkept++] = text;
}

int dsf_lanes_end(struct dsf_lanes *l)
{
    size_t end;

    return run_all(l, &end);
}
