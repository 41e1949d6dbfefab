#include "cli/words.h"

#include "lib/test.h"

#include <limits.h>
#include <string.h>

static const struct dsf_flag flags[] = {
    { "set", "KEY=VALUE", "set a key" },
    { "steps", "N", "so many" },
    { "step", "N", "this one" },
    { "kind", "fast|good", "which" },
    { "resume", "[=old|new]", "go on" },
    { "dry", NULL, "do nothing" },
    { "count", "N", "so many", 'n' },
    { 0 },
};
static const struct dsf_cmd cmd = {
    .name = "run",
    .args = "FILE",
    .help = "Runs.",
    .flags = flags,
    .least = 1,
    .most = 2,
};
/* What help.c prints of dsflow itself. */
const struct dsf_cmd dsf_program = {
    .name = "dsflow",
    .args = "COMMAND …",
    .most = UINT_MAX,
    .outer = true,
};
const struct dsf_cmd *const dsf_cmds[] = { &cmd, NULL };

/* The words as they were read: "a b --set=x --dry", or the message. */
static char said[600];

static const char *read_of(const struct dsf_cmd *c, const char *line)
{
    char text[200], *argv[20], *save = NULL;
    struct dsf_cli_args args;
    struct dsflow_err err = { 0 };
    int argc = 0;

    snprintf(text, sizeof(text), "%s %s", c->name, line);
    for (char *w = strtok_r(text, " ", &save); w != NULL;
         w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    argv[argc] = NULL;
    said[0] = '\0';
    if (dsf_cli_args_read(c, argc, argv, &args, &err) < 0) {
        snprintf(said, sizeof(said), "%s", err.msg);
    } else {
        for (unsigned i = 0; i < args.nwords; i++)
            sprintf(said + strlen(said), "%s ", args.words[i]);
        for (unsigned i = 0; i < args.nopts; i++)
            sprintf(said + strlen(said), "--%s=%s ", args.opts[i].flag->name,
                    args.opts[i].value);
        sprintf(said + strlen(said), "%s%c", args.help ? "help" : "",
                args.loudness);
    }
    dsf_cli_args_fini(&args);
    return said;
}

static void reads(const char *line, const char *as)
{
    assert_string_equal(read_of(&cmd, line), as);
}

static void flags_stand_anywhere(void **state)
{
    reads("a --dry b", "a b --dry= ");
    reads("--set k=1 a --set=k=2", "a --set=k=1 --set=k=2 ");
    reads("- a", "- a ");
    reads("a -q", "a q");
    reads("-vq a", "a q");
}

static void what_is_behind_two_dashes_is_no_flag(void **state)
{
    reads("--dry -- --set a", "--set a --dry= ");
    reads("a -- --", "a -- ");
}

static void flags_may_be_cut_short(void **state)
{
    reads("a --dr --res", "a --dry= --resume= ");
    reads("a --step 3 --se=x=1", "a --step=3 --set=x=1 ");
    reads("a --s 3", "run: --s: expected one of --set, --steps or --step");
    reads("a --st=3", "run: --st: expected one of --steps or --step");
}

static void values_are_where_they_belong(void **state)
{
    reads("a --set --dry", "a --set=--dry ");
    reads("a --set", "run: --set: expected KEY=VALUE");
    reads("a --dry=1", "run: --dry: takes no value");
    reads("a --resume old", "a old --resume= ");
    reads("a --resume=old", "a --resume=old ");
}

static void a_letter_may_have_a_value(void **state)
{
    reads("a -n 4", "a --count=4 ");
    reads("-n4 a --count=5 -q", "a --count=4 --count=5 q");
    reads("a -n", "run: --count: expected N");
}

static void listed_values_are_checked(void **state)
{
    reads("a --kind good", "a --kind=good ");
    reads("a --kind goo", "--kind: goo: expected fast or good");
    reads("a --kind", "run: --kind: expected fast or good");
    reads("a --resume=no", "--resume: no: expected old or new, or nothing");
}

static void what_is_unknown_has_a_neighbour(void **state)
{
    reads("a --sett x", "run: --sett: unknown option; did you mean --set");
    reads("a -sett x", "run: -sett: unknown option; did you mean --set");
    reads("a --zzzzzz", "run: --zzzzzz: unknown option (dsflow help run)");
    reads("a -x", "run: -x: unknown option (dsflow help run)");
}

static void words_are_counted(void **state)
{
    static const char expected[] =
        "run: expected: dsflow run [OPTION]… FILE (dsflow help run)";

    reads("--dry", expected);
    reads("a b c", expected);
    reads("a b c --he", "a b c help");
    reads("-h", "help");
}

static void dsflow_itself_ends_at_its_first_word(void **state)
{
    assert_string_equal(read_of(&dsf_program, "-q run a -v --set x"),
                        "run a -v --set x q");
    assert_string_equal(read_of(&dsf_program, "--bad"),
                        "--bad: unknown option (dsflow --help)");
    assert_string_equal(read_of(&dsf_program, ""), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_stand_anywhere),
        cmocka_unit_test(what_is_behind_two_dashes_is_no_flag),
        cmocka_unit_test(flags_may_be_cut_short),
        cmocka_unit_test(values_are_where_they_belong),
        cmocka_unit_test(a_letter_may_have_a_value),
        cmocka_unit_test(listed_values_are_checked),
        cmocka_unit_test(what_is_unknown_has_a_neighbour),
        cmocka_unit_test(words_are_counted),
        cmocka_unit_test(dsflow_itself_ends_at_its_first_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
