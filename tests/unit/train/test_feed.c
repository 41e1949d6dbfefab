/* test_feed.c - the text that a program asks for, by name and from any thread,
 * and the reports it makes. */
#include "train/feed.h"

#include "lib/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 16, NSEQ = 2, THREADS = 4, TIMES = 200 };

static char folder[64];

static void open_text(struct dsf_session *s)
{
    char path[100], sets[3][120];
    const char *list[] = { sets[0], sets[1], sets[2] };
    struct dsflow_err err;
    FILE *f;

    snprintf(path, sizeof(path), "%s/job.toml", folder);
    f = fopen(path, "w");
    fprintf(f, "[job]\nsteps = 3\n"
               "[model]\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 32\n"
               "[data]\nvalidation = 0.3\n"
               "[batch]\nsequences = 4\nmicro = 2\nsequence = 16\n"
               "[machine]\nworkers = 1\n");
    fclose(f);
    snprintf(sets[0], sizeof(sets[0]), "data.train=%s/text.txt", folder);
    snprintf(sets[1], sizeof(sets[1]), "job.output=%s/run", folder);
    snprintf(sets[2], sizeof(sets[2]), "trace.tensorboard=false");
    snprintf(path, sizeof(path), "%s/text.txt", folder);
    f = fopen(path, "w");
    for (int i = 0; i < 100; i++)
        fprintf(f, "%d: a line of text\n", i * i);
    fclose(f);
    snprintf(path, sizeof(path), "%s/job.toml", folder);
    if (dsf_session_model(s, path, list, 3, &err) < 0 ||
        dsf_session_fit(s, &(struct dsf_machine_model){ 0 }, NULL, &err) < 0 ||
        dsf_session_text(s, &err) < 0)
        fail_msg("%s", err.msg);
}

struct rows {
    int32_t tokens[ROWS], targets[ROWS];
};

/* What `program` gets for two sequences, from the seq-th of a step on. */
static struct rows ask(const struct dsf_feed *feed, const char *program,
                       int64_t step, int64_t seq, int32_t pos)
{
    struct rows rows;

    feed->host.load_batch(feed->host.user,
                          &(struct dsflow_batch){
                              .size = sizeof(struct dsflow_batch),
                              .program = program,
                              .step = step,
                              .seq = seq,
                              .nseq = NSEQ,
                              .pos = pos,
                              .rows = ROWS,
                              .tokens = rows.tokens,
                              .targets = rows.targets,
                          });
    return rows;
}

/* The same from the corpus, from sequence `first` on. */
static struct rows text(const struct dsf_session *s,
                        void (*read)(struct dsf_corpus *, int64_t, int64_t,
                                     int64_t, int32_t *, int32_t *),
                        int64_t first, int32_t pos)
{
    struct rows rows;
    int32_t n = ROWS / NSEQ;

    for (int i = 0; i < NSEQ; i++)
        read(s->corpus, first + i, pos, n, rows.tokens + i * n,
             rows.targets + i * n);
    return rows;
}

static void a_program_gets_its_text(void **state)
{
    struct dsf_session *s = *state;
    struct dsf_feed feed;
    struct rows a, b;

    dsf_feed_init(&feed, s);
    feed.nvalidation = 3;
    a = ask(&feed, "step", 5, 2, 8);
    b = text(s, dsf_corpus_train, 5 * 4 + 2, 8);
    assert_memory_equal(&a, &b, sizeof(a));
    a = ask(&feed, "average", 5, 2, 8); /* of a policy: it trains */
    assert_memory_equal(&a, &b, sizeof(a));
    a = ask(&feed, "eval", 0, 0, 8); /* a step of it is a micro-batch */
    b = text(s, dsf_corpus_validation, 0, 8);
    assert_memory_equal(&a, &b, sizeof(a));
    /* The fourth sequence is none of the three. */
    a = ask(&feed, "eval", 1, 0, 0);
    b = text(s, dsf_corpus_validation, 2, 0);
    assert_memory_equal(a.tokens, b.tokens, sizeof(a.tokens) / 2);
    for (int i = ROWS / 2; i < ROWS; i++)
        assert_true(a.tokens[i] == 0 && a.targets[i] == -1);
    dsf_feed_fini(&feed);
}

struct asker {
    const struct dsf_feed *feed;
    const char *program;
    bool same;
};

static void *ask_often(void *user)
{
    struct asker *a = user;
    struct rows first = ask(a->feed, a->program, 0, 0, 0), again;

    a->same = true;
    for (int i = 0; i < TIMES; i++) {
        ask(a->feed, a->program, i, i % 2, i % 8);
        again = ask(a->feed, a->program, 0, 0, 0);
        a->same &= memcmp(&first, &again, sizeof(first)) == 0;
    }
    return NULL;
}

static void programs_ask_at_once(void **state)
{
    struct dsf_feed feed;
    struct asker askers[THREADS];
    pthread_t threads[THREADS];

    dsf_feed_init(&feed, *state);
    feed.nvalidation = 4;
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){ &feed, i % 2 ? "eval" : "step", false };
        assert_int_equal(
            pthread_create(&threads[i], NULL, ask_often, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(askers[i].same);
    }
    dsf_feed_fini(&feed);
}

static void reports_come_in_their_order(void **state)
{
    struct dsf_feed feed;

    dsf_feed_init(&feed, *state);
    for (int i = 1; i <= 3; i++)
        feed.host.report(feed.host.user,
                         &(struct dsflow_step_report){
                             .size = sizeof(struct dsflow_step_report),
                             .program = "step",
                             .step = i,
                             .loss = 2.5 * i,
                             .skipped = i == 2 });
    for (int i = 1; i <= 3; i++) {
        struct dsf_report r = dsf_feed_next(&feed);

        assert_int_equal(r.of.step, i);
        assert_true(r.of.loss == 2.5 * i && r.at > 0);
        assert_int_equal(r.of.skipped, i == 2);
    }
    dsf_feed_fini(&feed);
}

int main(void)
{
    struct dsf_session s;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_program_gets_its_text, &s),
        cmocka_unit_test_prestate(programs_ask_at_once, &s),
        cmocka_unit_test_prestate(reports_come_in_their_order, &s),
    };
    const char *tmp = getenv("TMPDIR");
    char command[100];
    int failed;

    snprintf(folder, sizeof(folder), "%s/dsflow-feed.XXXXXX",
             tmp != NULL && strlen(tmp) < 40 ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL)
        return 99;
    open_text(&s);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    dsf_session_close(&s);
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command) != 0 || failed;
}
