#include "cli/tagged.h"

#include "lib/test.h"

#include <stdio.h>
#include <string.h>

/* What was taken: "0:text|-:text|…", a piece for each change of the process. */
struct taken {
    char text[512];
    int process;
};

static void take(void *user, int process, const char *bytes, size_t n)
{
    struct taken *t = user;
    size_t at = strlen(t->text);

    if (process != t->process || at == 0)
        at += (size_t)snprintf(t->text + at, sizeof(t->text) - at,
                               "%s%d:", at > 0 ? "|" : "", process);
    snprintf(t->text + at, sizeof(t->text) - at, "%.*s", (int)n, bytes);
    t->process = process;
}

/* In pieces of every length: a tag may be cut anywhere. */
static void sorts(const char *text, const char *as)
{
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        struct taken t = { .process = DSF_OF_MPIRUN };
        struct dsf_tagged tagged;

        dsf_tagged_init(&tagged, take, &t);
        for (size_t at = 0; at < strlen(text); at += piece)
            dsf_tagged_add(&tagged, text + at,
                           strlen(text) - at < piece ? strlen(text) - at
                                                     : piece);
        dsf_tagged_end(&tagged);
        assert_string_equal(t.text, as);
    }
}

static void each_byte_is_of_the_process_of_its_tag(void **state)
{
    sorts("[1,0]<stderr>:a\n[1,12]<stdout>:b\n[1,0]<stddiag>:c\n",
          "0:a\n|12:b\n|0:c\n");
    sorts("[1,0]<stderr>:\n[1,0]<stderr>:\n", "0:\n\n");
}

static void a_piece_of_a_line_has_a_tag_of_its_own(void **state)
{
    sorts("[1,0]<stderr>:\r 1/9[1,0]<stderr>:\r 2/9[1,1]<stderr>:x\n",
          "0:\r 1/9\r 2/9|1:x\n");
}

static void what_has_no_tag_is_of_mpirun(void **state)
{
    sorts("ssh: no\n[1,1]<stderr>:a\n-----\nended\n",
          "-1:ssh: no\n|1:a\n|-1:-----\nended\n");
    sorts("[host:12] *** Signal\n", "-1:[host:12] *** Signal\n");
}

static void brackets_of_processes_stay(void **state)
{
    sorts("[1,0]<stderr>:a [1] [1,2] [1,2]< [[1,x]<stdout>: [\n",
          "0:a [1] [1,2] [1,2]< [[1,x]<stdout>: [\n");
    sorts("[1,0]<stderr>:[1,[1,1]<stderr>:b[", "0:[1,|1:b[");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_byte_is_of_the_process_of_its_tag),
        cmocka_unit_test(a_piece_of_a_line_has_a_tag_of_its_own),
        cmocka_unit_test(what_has_no_tag_is_of_mpirun),
        cmocka_unit_test(brackets_of_processes_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
