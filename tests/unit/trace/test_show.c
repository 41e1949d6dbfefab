/* test_show.c - a small trace in each format, read back. */
#include "lib/test.h"

#include "shown.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

static void assert_has(const char *text, const char *what)
{
    if (strstr(text, what) == NULL)
        fail_msg("no \"%s\" in:\n%s", what, text);
}

static void paje_has_every_span_and_idle_between(void **state)
{
    struct shown shown;
    char *text;

    shown_make(&shown);
    text = shown_text(&shown, dsf_write_paje);
    /* Kinds: transfer, swap, mlp.forward, send, backward, adam, again. */
    assert_has(text, "\n6 0 P0 CP 0 \"by 'hand' <&>\"\n");
    assert_has(text, "\n6 0 W2 CL R1 \"link 1\"\n");
    assert_has(text, "\n9 0.000000000 SW W0 SW2 3 0 -1 7 0 0 0 -\n");
    assert_has(text, "\n8 0.000000000 SL W2 SLi\n");
    assert_has(text, "\n9 1.000000000 SL W2 SL3 3 0 -1 7 1 0 0 -\n");
    assert_has(text,
               "\n10 2.500000000 EW W1 \"mlp.forward\" 3 0 -1 7 1 0 0 -\n");
    assert_int_equal(count(text, "\n9 "), 6);
    assert_int_equal(count(text, "\n10 "), 1);
    assert_int_equal(count(text, "\n11 "), count(text, "\n12 "));
    free(text);
    shown_free(&shown);
}

/* Sum of `key` over events of one kind. */
static double sum(json_t *events, const char *ph, const char *key, unsigned *n)
{
    double all = 0;
    json_t *event;
    size_t i;

    *n = 0;
    json_array_foreach(events, i, event)
    {
        if (strcmp(json_string_value(json_object_get(event, "ph")), ph) != 0)
            continue;
        all += json_number_value(json_object_get(event, key));
        (*n)++;
    }
    return all;
}

static void chrome_is_json_with_every_span(void **state)
{
    struct shown shown;
    json_t *root, *events;
    char *text;
    unsigned n;

    shown_make(&shown);
    text = shown_text(&shown, dsf_write_chrome);
    root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(root, "otherData"),
                                          "job")),
        "by \"hand\" <&>");
    events = json_object_get(root, "traceEvents");
    assert_near(sum(events, "X", "dur", &n), 6e6);
    assert_int_equal(n, 6);
    sum(events, "s", "ts", &n);
    assert_int_equal(n, 2);
    sum(events, "f", "ts", &n);
    assert_int_equal(n, 2);
    sum(events, "C", "ts", &n);
    assert_true(n > 5);
    json_decref(root);
    free(text);
    shown_free(&shown);
}

/* What ends as the window opens is not shown, nor are its arrows. */
static void chrome_has_no_time_before_the_window(void **state)
{
    struct shown shown;
    json_t *root;
    char *text;
    unsigned n;

    shown_make(&shown);
    shown.view.window.begin = 1;
    text = shown_text(&shown, dsf_write_chrome);
    root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    sum(json_object_get(root, "traceEvents"), "s", "ts", &n);
    assert_int_equal(n, 1);
    sum(json_object_get(root, "traceEvents"), "f", "ts", &n);
    assert_int_equal(n, 1);
    json_decref(root);
    free(text);
    shown_free(&shown);
}

static void svg_escapes_and_shows_every_kind(void **state)
{
    struct shown shown;
    char *text;

    shown_make(&shown);
    text = shown_text(&shown, dsf_write_svg);
    assert_has(text, "by \"hand\" &lt;&amp;&gt;");
    assert_has(text, ">core 0<");
    assert_has(text, ">link 1<");
    assert_has(text, ">memory<");
    assert_has(text, "step 7, 5 s: efficiency 100.0 %, workers idle 50.0 %");
    /* 868 pixels are 5 seconds: send is from 1 to 2. */
    assert_has(text, "M281.6 ");
    assert_has(text, ">communication<");
    assert_null(strstr(text, ">disk<"));
    assert_null(strstr(text, "nan"));
    assert_int_equal(count(text, "marker-end"), 1);
    free(text);
    shown_free(&shown);
}

static void dot_has_times_and_the_longest_way(void **state)
{
    struct shown shown;
    char *text;

    shown_make(&shown);
    text = shown_text(&shown, dsf_write_times_dot);
    assert_has(text, "t0 [label=\"mlp.forward\\nlayer 3\\n");
    assert_int_equal(count(text, "penwidth=5"), 5);
    assert_int_equal(count(text, "penwidth=4"), 4);
    free(text);
    shown_free(&shown);
}

static void a_trace_of_nothing_is_shown_too(void **state)
{
    void (*const writers[])(const struct dsf_view *, FILE *) = {
        dsf_write_paje, dsf_write_chrome, dsf_write_svg, dsf_write_times_dot
    };
    struct shown shown;

    shown_make(&shown);
    shown.trace.timeline.n = 0;
    dsf_laps_fini(&shown.view.steps);
    dsf_laps_init(&shown.view.steps, &shown.trace);
    shown.view.window = dsf_window_whole(&shown.trace);
    for (unsigned i = 0; i < 4; i++) {
        char *text = shown_text(&shown, writers[i]);

        assert_true(strlen(text) > 20);
        assert_null(strstr(text, "nan"));
        assert_null(strstr(text, "inf"));
        free(text);
    }
    shown_free(&shown);
}

static void every_swap_is_in_the_row_of_its_disk(void **state)
{
    struct shown shown;
    char *text;

    shown_make_tiers(&shown);
    /* Kinds: transfer, swap, mlp.forward, swap_in, adam, swap_out. */
    text = shown_text(&shown, dsf_write_paje);
    assert_has(text, "\n6 0 W1 CD R1 \"disk read\"\n");
    assert_has(text, "\n6 0 W2 CD R1 \"disk write\"\n");
    assert_has(text, "\n8 0.000000000 SD W1 SDi\n");
    assert_has(text, "\n9 1.000000000 SD W1 SD3 3 -1 -1 7 0 0 0 -\n");
    assert_has(text, "\n9 4.000000000 SD W2 SD5 3 -1 -1 7 0 0 0 -\n");
    assert_has(text, "VN R0 9.5367");
    assert_has(text, "VH R0 0.000114");
    free(text);

    text = shown_text(&shown, dsf_write_chrome);
    assert_has(text, "\"cat\":\"disk\"");
    assert_has(text, "\"name\":\"swap_in\"");
    assert_has(text, "\"name\":\"cpu memory\",\"pid\":1");
    assert_has(text, "\"name\":\"nvme\",\"pid\":1");
    free(text);

    text = shown_text(&shown, dsf_write_svg);
    assert_has(text, ">disk read<");
    assert_has(text, ">disks<");
    assert_has(text, ">cpu<");
    assert_has(text, ">nvme<");
    assert_int_equal(count(text, ">links<"), 0);
    free(text);
    shown_free(&shown);

    /* Without tiers there is one picture of memory. */
    shown_make(&shown);
    text = shown_text(&shown, dsf_write_svg);
    assert_int_equal(count(text, ">cpu<"), 0);
    free(text);
    shown_free(&shown);
}

static void ranks_that_share_a_core_have_a_row_each(void **state)
{
    struct shown shown;
    char *text;

    shown_make_shared(&shown);
    /* Rows: rank 0 and 1 on core 0, rank 2 on core 0, strays of core 1. */
    text = shown_text(&shown, dsf_write_paje);
    assert_has(text, " CW R0 \"rank 0 on core 0\"\n");
    assert_has(text, " CW R1 \"rank 1 on core 0\"\n");
    assert_has(text, " CW R2 \"rank 2 on core 0\"\n");
    assert_has(text, " CW R3 \"core 1\"\n");
    assert_int_equal(count(text, "\"rank 1 on"), 1);
    assert_int_equal(count(text, " SW W0 SW"), 4);
    assert_int_equal(count(text, " SW W1 SW"), 4);
    /* Each is idle while its core is at another rank, or at none. */
    assert_has(text, "\n8 2.000000000 SW W0 SWi\n");
    assert_has(text, "\n8 0.000000000 SW W1 SWi\n");
    assert_has(text, "\n8 4.000000000 SW W1 SWi\n");
    free(text);

    text = shown_text(&shown, dsf_write_chrome);
    for (unsigned r = 0; r < 3; r++) {
        char name[100];

        snprintf(name, sizeof(name),
                 "\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,"
                 "\"args\":{\"name\":\"core 0\"}",
                 r + 1, r + 1);
        assert_has(text, name);
    }
    free(text);

    text = shown_text(&shown, dsf_write_svg);
    for (unsigned r = 0; r < 3; r++) {
        char name[100];

        snprintf(name, sizeof(name), ">rank %u<", r);
        assert_has(text, name);
    }
    assert_int_equal(count(text, ">core 0<"), 3);
    assert_int_equal(count(text, ">core 1<"), 1);
    assert_has(text, "its core runs another rank");
    assert_int_equal(count(text, "stroke=\"#c4c4c4\" stroke-width=\"5.1\""), 3);
    free(text);
    shown_free(&shown);

    shown_make(&shown);
    text = shown_text(&shown, dsf_write_svg);
    assert_null(strstr(text, "another rank"));
    assert_null(shown.rows.worker);
    free(text);
    shown_free(&shown);
}

static void a_box_says_what_it_is(void **state)
{
    struct shown shown;
    char *text;

    shown_make(&shown);
    text = shown_text(&shown, dsf_write_svg);
    assert_has(text, "<title>mlp.forward\nrank 0, micro-batch 1, layer 3, "
                     "core 0\nstart 1 s, duration 1 s</title>");
    assert_has(text, "<title>send\nrank 1, micro-batch 0, layer 3, link 1\n"
                     "start 1 s, duration 1 s</title>");
    assert_has(text, "<title>adam\nrank 0, layer 3, core 0\n"
                     "start 4 s, duration 1 s</title>");
    assert_int_equal(count(text, "<title>"), 6);
    free(text);
    shown_free(&shown);
}

static void swaps_of_both_directions_look_different(void **state)
{
    struct shown shown;
    char *text;

    shown_make_tiers(&shown);
    text = shown_text(&shown, dsf_write_svg);
    assert_has(text, ">swap_in<");
    assert_has(text, ">swap_out<");
    assert_has(text, "<g fill=\"#d55e00\">");
    assert_has(text, "<path fill=\"#783500\" d=\"M0 0h6v6h-6z\"/>");
    free(text);
    text = shown_text(&shown, dsf_write_paje);
    assert_has(text, " SD \"swap_in\" \"0.8353 0.3686 0.0000\"");
    free(text);
    text = shown_text(&shown, dsf_write_chrome);
    assert_has(text, "\"name\":\"swap_in\",\"cat\":\"disk\","
                     "\"cname\":\"rail_animation\"");
    assert_has(text, "\"name\":\"swap_out\",\"cat\":\"disk\","
                     "\"cname\":\"terrible\"");
    free(text);
    text = shown_text(&shown, dsf_write_times_dot);
    assert_has(text, "fillcolor=\"#d55e00\"");
    assert_has(text, "fillcolor=\"#783500\"");
    free(text);
    shown_free(&shown);
}

static void the_loss_scale_is_a_value_over_time(void **state)
{
    struct shown shown;
    char *text;

    shown_make(&shown);
    text = shown_text(&shown, dsf_write_paje);
    assert_has(text, "\n4 VE CP \"efficiency (%)\"");
    assert_null(strstr(text, "loss scale"));
    assert_null(strstr(text, "skipped"));
    free(text);
    text = shown_text(&shown, dsf_write_chrome);
    assert_null(strstr(text, "loss scale"));
    free(text);

    shown.view.steps.v[0].loss_scale = 512;
    text = shown_text(&shown, dsf_write_paje);
    assert_has(text, "\n4 VL CP \"loss scale (factor)\"");
    assert_has(text, "\n13 0.000000000 VL P0 512.0000\n");
    assert_null(strstr(text, "skipped"));
    free(text);

    shown.view.steps.v[0].skipped = true;
    text = shown_text(&shown, dsf_write_paje);
    assert_has(text, "\n13 0.000000000 VS P0 1.0000\n");
    free(text);
    text = shown_text(&shown, dsf_write_chrome);
    assert_has(text, "\"name\":\"loss scale\",\"pid\":0,\"ts\":0.000,"
                     "\"args\":{\"factor\":512}}");
    assert_has(text, "\"name\":\"skipped\",\"pid\":0,\"ts\":0.000,"
                     "\"args\":{\"steps\":1}}");
    free(text);
    shown_free(&shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paje_has_every_span_and_idle_between),
        cmocka_unit_test(chrome_is_json_with_every_span),
        cmocka_unit_test(chrome_has_no_time_before_the_window),
        cmocka_unit_test(svg_escapes_and_shows_every_kind),
        cmocka_unit_test(dot_has_times_and_the_longest_way),
        cmocka_unit_test(a_trace_of_nothing_is_shown_too),
        cmocka_unit_test(ranks_that_share_a_core_have_a_row_each),
        cmocka_unit_test(a_box_says_what_it_is),
        cmocka_unit_test(the_loss_scale_is_a_value_over_time),
        cmocka_unit_test(swaps_of_both_directions_look_different),
        cmocka_unit_test(every_swap_is_in_the_row_of_its_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
