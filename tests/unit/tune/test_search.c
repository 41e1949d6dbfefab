/* test_search.c - choices are visited in an order: what costs least varies
 * first. */
#include "tune/search.h"

#include "same/trial.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

struct visits {
    char text[2000];
    unsigned n, last; /* visits; the one that stops the search, 0: none */
};

static bool visit(struct dsf_search *h)
{
    struct visits *v = h->user;
    char *text = dsf_choice_text(&h->now);
    size_t n = strlen(v->text);

    snprintf(v->text + n, sizeof(v->text) - n, "%s\n", text);
    free(text);
    return ++v->n == v->last;
}

static bool search(struct visits *v, const char *job, enum dsf_search_kind kind,
                   unsigned last)
{
    struct trial t;
    struct dsf_search h;
    bool stopped;

    plan_trial_until(&t, job, kind == DSF_SEARCH_OPEN ? "reference" : NULL);
    *v = (struct visits){ .last = last };
    h = (struct dsf_search){
        .kind = kind,
        .visit = visit,
        .user = v,
        .e = { .job = &t.job, .model = &t.model, .machine = t.plan->machine }
    };
    if (kind == DSF_SEARCH_LESS)
        h.e.plan = t.plan;
    stopped = dsf_search_run(&h);
    dsf_search_end(&h);
    end_trial(&t);
    return stopped;
}

static void every_value_of_what_is_open_is_visited(void **state)
{
    static const char whats[] =
        "recompute.what=none\nrecompute.what=attention\nrecompute.what=block\n";
    struct visits v;

    assert_false(search(&v,
                        "gpt2 batch.sequences=2 batch.micro=auto "
                        "recompute.what=auto zero.stage=auto",
                        DSF_SEARCH_OPEN, 0));
    assert_string_equal(
        v.text, "batch.micro=1 recompute.what=none zero.stage=0\n"
                "batch.micro=1 batch.in_flight=1 recompute.what=none "
                "zero.stage=0\n"
                "batch.micro=2 recompute.what=none zero.stage=0\n"
                "batch.micro=2 batch.in_flight=1 recompute.what=none "
                "zero.stage=0\n"
                "batch.micro=1 recompute.what=attention zero.stage=0\n"
                "batch.micro=1 batch.in_flight=1 recompute.what=attention "
                "zero.stage=0\n"
                "batch.micro=2 recompute.what=attention zero.stage=0\n"
                "batch.micro=2 batch.in_flight=1 recompute.what=attention "
                "zero.stage=0\n"
                "batch.micro=1 recompute.what=block zero.stage=0\n"
                "batch.micro=1 batch.in_flight=1 recompute.what=block "
                "zero.stage=0\n"
                "batch.micro=2 recompute.what=block zero.stage=0\n"
                "batch.micro=2 batch.in_flight=1 recompute.what=block "
                "zero.stage=0\n");
    search(&v, "gpt2 batch.sequences=2 batch.in_flight=2 recompute.what=auto",
           DSF_SEARCH_OPEN, 0);
    assert_string_equal(v.text, whats);
    /* Where all are in flight in any case. */
    search(&v, "gpt2 batch.order=layer_major recompute.what=auto",
           DSF_SEARCH_OPEN, 0);
    assert_string_equal(v.text, whats);
    assert_true(search(&v, "gpt2 batch.micro=auto", DSF_SEARCH_OPEN, 3));
    assert_int_equal(v.n, 3);
}

/* Of a share, the largest that there is room for: one, with its orders. */
static void a_share_is_the_largest_that_fits(void **state)
{
    struct visits v;

    search(&v, "gpt2 offload.optimizer=cpu offload.share=auto", DSF_SEARCH_OPEN,
           0);
    assert_string_equal(v.text, "offload.share=1\n");
    search(&v,
           "gpt2 offload.optimizer=cpu offload.share=auto memory.device=1KiB",
           DSF_SEARCH_OPEN, 0);
    assert_string_equal(v.text, "offload.share=0\n");
}

static void what_needs_less_begins_with_what_the_job_has(void **state)
{
    static const char first[] =
        "\nbatch.micro=2\nbatch.micro=1\n"
        "recompute.what=block\nbatch.micro=2 recompute.what=block\n"
        "batch.micro=1 recompute.what=block\n"
        "batch.in_flight=1\nbatch.micro=2 batch.in_flight=1\n";
    /* Nobody waits for the next micro-batch. */
    static const char alone[] =
        "\nbatch.in_flight=1\n"
        "batch.micro=2\nbatch.micro=2 batch.in_flight=1\n"
        "batch.micro=1\nbatch.micro=1 batch.in_flight=1\n"
        "recompute.what=block\n";
    struct visits v;

    search(&v, "gpt2 batch.micro=4 batch.in_flight=2 recompute.what=attention",
           DSF_SEARCH_LESS, 0);
    assert_memory_equal(v.text, first, strlen(first));
    /* With other memories the ends are enough. */
    assert_non_null(
        strstr(v.text, "\nbatch.micro=1 offload.optimizer=\"cpu\"\n"));
    assert_null(strstr(v.text, "\nbatch.micro=2 offload.optimizer=\"cpu\"\n"));
    search(&v, "gpt2 batch.micro=4 recompute.what=attention machine.workers=1",
           DSF_SEARCH_LESS, 0);
    assert_memory_equal(v.text, alone, strlen(alone));
    search(&v,
           "gpt2 batch.micro=4 recompute.what=attention machine.workers=2 "
           "mesh.pipeline=2",
           DSF_SEARCH_LESS, 2);
    assert_string_equal(v.text, "\nbatch.micro=2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_of_what_is_open_is_visited),
        cmocka_unit_test(a_share_is_the_largest_that_fits),
        cmocka_unit_test(what_needs_less_begins_with_what_the_job_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
