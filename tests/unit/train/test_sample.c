/* test_sample.c - does what [sample] asks for fit in the model? */
#include "small.h"

#include "train/sample.h"

static void a_prompt_must_fit_in_the_context(void **state)
{
    static const struct {
        const char *keys, *message, *said;
    } cases[] = {
        { "sample.tokens=16", "", "" },
        { "sample.tokens=0 sample.prompt=twenty-letters-of-it", "", "" },
        { "sample.tokens=1 sample.prompt=sixteen-letters!", "", "" },
        { "sample.tokens=1 sample.prompt=seventeen-letters",
          "--set: sample: prompt: 17 tokens: expected at most the model's "
          "context, 16",
          "" },
        { "sample.tokens=9 sample.prompt=8letters", "", "" },
        { "sample.tokens=10 sample.prompt=8letters", "",
          "sample.tokens: 10: after a prompt of 8 the model's context of 16 "
          "has room for 9\n" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsflow_err err = { .msg = "" };
        struct dsf_session s;
        int status;

        open_small(&s, TO_MODEL, cases[i].keys);
        hush();
        status = dsf_sample_check(s.job, &s.model, s.tok, &err);
        assert_string_equal(err.msg, cases[i].message);
        assert_string_equal(said, cases[i].said);
        assert_int_equal(status,
                         err.msg[0] == '\0' ? DSFLOW_OK : DSFLOW_EINVAL);
        dsf_session_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_must_fit_in_the_context),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
