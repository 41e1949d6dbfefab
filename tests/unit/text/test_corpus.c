/* test_corpus.c - the text of a job: split, shuffled, cached. */
#include "text/text.h"

#include "machine/memory.h"

#include "unit/text/folder.h"

#include <dirent.h>

enum { SEQUENCE = 16, VOCAB = 256 };

static int open_for(const char *data, int32_t vocab, struct dsf_corpus **c,
                    struct dsflow_err *err)
{
    char *cache = dsf_xasprintf("%s/run/cache", folder);
    struct dsf_tokenizer *tok;
    struct dsf_job job;
    int status;

    make_job(&job, data);
    assert_int_equal(dsf_tokenizer_open("bytes", &tok, err), DSFLOW_OK);
    status = dsf_corpus_open(&job, tok, SEQUENCE, vocab, cache, c, err);
    dsf_tokenizer_free(tok);
    dsf_job_fini(&job);
    free(cache);
    return status;
}

static struct dsf_corpus *corpus_of(const char *data)
{
    struct dsf_corpus *c = NULL;
    struct dsflow_err err;

    if (open_for(data, VOCAB, &c, &err) < 0)
        fail_msg("%s", err.msg);
    return c;
}

/* `lines` lines of ten bytes that count up from `first`. */
static void write_lines(const char *name, unsigned first, unsigned lines)
{
    char *text = dsf_xcalloc(lines, 11);

    for (unsigned i = 0; i < lines; i++)
        snprintf(text + (size_t)i * 10, 11, "%09u\n", first + i);
    write_text(name, text);
    free(text);
}

static void every_file_gives_its_last_lines_to_validation(void **state)
{
    int32_t tokens[SEQUENCE], targets[SEQUENCE];
    struct dsf_corpus_info info;
    struct dsf_corpus *c;

    write_lines("a", 0, 1000);
    write_lines("b", 5000, 100);
    c = corpus_of("train = [\"@/*\"]\nvalidation = 0.1");
    dsf_corpus_info(c, &info);
    assert_int_equal(info.bytes, 11000);
    assert_int_equal(info.train_tokens, 9900);
    assert_int_equal(info.validation_tokens, 1100);
    assert_int_equal(info.train_sequences, 9899 / SEQUENCE);
    assert_int_equal(info.validation_sequences, 1099 / SEQUENCE);
    assert_true(info.bytes_per_token == 1.0);
    dsf_corpus_validation(c, 0, 0, SEQUENCE, tokens, targets);
    for (unsigned i = 0; i < SEQUENCE; i++)
        assert_int_equal(tokens[i], "000000900\n000000901\n"[i]);
    for (unsigned i = 0; i < SEQUENCE; i++)
        assert_int_equal(targets[i], "000000900\n000000901\n"[i + 1]);
    /* Its token 1000 is the first of the second file. */
    dsf_corpus_validation(c, 1000 / SEQUENCE, 1000 % SEQUENCE, 8, tokens,
                          targets);
    assert_int_equal(tokens[5], '5');
    assert_int_equal(targets[6], '9');
    dsf_corpus_close(c);
}

static void files_for_validation_leave_the_training_text_whole(void **state)
{
    struct dsf_corpus_info info;
    struct dsf_corpus *c;

    write_lines("a", 0, 100);
    write_lines("v", 500, 50);
    c = corpus_of("train = [\"@/a\"]\nvalidation_files = [\"@/v\"]");
    dsf_corpus_info(c, &info);
    assert_int_equal(info.train_tokens, 1000);
    assert_int_equal(info.validation_tokens, 500);
    dsf_corpus_close(c);
    c = corpus_of("train = [\"@/a\"]\nvalidation = 0.0");
    dsf_corpus_info(c, &info);
    assert_int_equal(info.train_tokens, 1000);
    assert_int_equal(info.validation_tokens, 0);
    assert_int_equal(info.validation_sequences, 0);
    assert_true(info.bytes_per_token == 1.0);
    dsf_corpus_close(c);
}

/* A number that tells the `index`-th sequence from all others of the text. */
static unsigned sequence_at(struct dsf_corpus *c, int64_t index)
{
    int32_t tokens[SEQUENCE], targets[SEQUENCE], again[4], next[4];
    unsigned number = 0;

    dsf_corpus_train(c, index, 0, SEQUENCE, tokens, targets);
    dsf_corpus_train(c, index, 7, 4, again, next);
    assert_memory_equal(again, tokens + 7, sizeof(again));
    assert_memory_equal(next, targets + 7, sizeof(next));
    assert_memory_equal(targets, tokens + 1, (SEQUENCE - 1) * sizeof(*tokens));
    for (unsigned i = 0; i < SEQUENCE; i++)
        number = number * 31u + (unsigned)tokens[i];
    return number;
}

static int by_value(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return x < y ? -1 : x > y;
}

static void
an_epoch_has_every_sequence_once_in_an_order_of_its_own(void **state)
{
    struct dsf_corpus *mixed, *plain;
    struct dsf_corpus_info info;
    unsigned *of[3], moved[2] = { 0 };
    size_t n;

    write_lines("a", 0, 700);
    plain = corpus_of("train = [\"@/a\"]\nvalidation = 0.0\nshuffle = false");
    mixed = corpus_of("train = [\"@/a\"]\nvalidation = 0.0");
    dsf_corpus_info(mixed, &info);
    n = (size_t)info.train_sequences;
    for (unsigned k = 0; k < 3; k++)
        of[k] = dsf_xcalloc(n, sizeof(unsigned));
    for (size_t i = 0; i < n; i++) {
        of[0][i] = sequence_at(plain, (int64_t)i);
        of[1][i] = sequence_at(mixed, (int64_t)i);
        of[2][i] = sequence_at(mixed, (int64_t)(n + i));
        assert_int_equal(of[0][i], sequence_at(plain, (int64_t)(2 * n + i)));
        assert_int_equal(of[1][i], sequence_at(mixed, (int64_t)i));
        moved[0] += of[0][i] != of[1][i];
        moved[1] += of[1][i] != of[2][i];
    }
    assert_true(moved[0] > n * 9 / 10 && moved[1] > n * 9 / 10);
    for (unsigned k = 0; k < 3; k++)
        qsort(of[k], n, sizeof(unsigned), by_value);
    for (size_t i = 1; i < n; i++)
        assert_true(of[0][i] != of[0][i - 1]);
    assert_memory_equal(of[1], of[0], n * sizeof(unsigned));
    assert_memory_equal(of[2], of[0], n * sizeof(unsigned));
    for (unsigned k = 0; k < 3; k++)
        free(of[k]);
    dsf_corpus_close(plain);
    dsf_corpus_close(mixed);
}

static char *path_of_cache(void)
{
    char *dir = dsf_xasprintf("%s/run/cache", folder), *path = NULL;
    DIR *d = opendir(dir);
    struct dirent *entry;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL)
        if (entry->d_name[0] != '.') {
            assert_null(path); /* one file, and nothing left beside it */
            path = dsf_xasprintf("%s/%s", dir, entry->d_name);
        }
    closedir(d);
    free(dir);
    assert_non_null(path);
    return path;
}

static int is_cached(const char *data)
{
    struct dsf_corpus *c = corpus_of(data);
    struct dsf_corpus_info info;
    int32_t tokens[SEQUENCE], targets[SEQUENCE];

    dsf_corpus_info(c, &info);
    assert_int_equal(info.train_tokens, 1800);
    dsf_corpus_validation(c, 0, 0, SEQUENCE, tokens, targets);
    assert_int_equal(tokens[6], '1');
    dsf_corpus_close(c);
    return info.cached;
}

static void tokens_are_cached_until_the_text_changes(void **state)
{
    static const char data[] = "train = [\"@/a\"]\nvalidation = 0.1";

    write_lines("a", 0, 200);
    assert_false(is_cached(data));
    assert_true(is_cached(data));
    write_lines("a", 3, 200);
    assert_false(is_cached(data));
}

static void a_damaged_cache_is_made_again(void **state)
{
    static const char data[] = "train = [\"@/a\"]\nvalidation = 0.1";
    char *path;
    FILE *f;
    int c;

    write_lines("a", 0, 200);
    assert_false(is_cached(data));
    path = path_of_cache();
    for (long at = 0; at < 2000; at += 97) { /* one byte of it is wrong */
        f = fopen(path, "r+b");
        assert_non_null(f);
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        c = fgetc(f);
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        assert_int_equal(fputc(c ^ 0x40, f), c ^ 0x40);
        fclose(f);
        assert_false(is_cached(data));
        assert_true(is_cached(data));
    }
    for (off_t size = 0; size < 4000; size += 401) { /* it was cut */
        assert_int_equal(truncate(path, size), 0);
        assert_false(is_cached(data));
    }
    free(path);
}

static void write_much(const char *name, unsigned lines)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    for (unsigned i = 0; i < lines; i++)
        fprintf(f, "%09u\n", i);
    assert_int_equal(fclose(f), 0);
    free(path);
}

/* 120 MB, and twice as much of tokens: little of it is there at a time. */
static void a_text_is_read_in_little_memory(void **state)
{
    static const char data[] = "train = [\"@/a\"]\nvalidation = 0.0";
    int32_t tokens[SEQUENCE], targets[SEQUENCE];
    struct dsf_corpus_info info;
    int64_t before;

    write_much("a", 12000000);
    before = dsf_memory_most();
    for (int cached = 0; cached < 2; cached++) {
        struct dsf_corpus *c = corpus_of(data);

        dsf_corpus_info(c, &info);
        assert_int_equal(info.cached, cached);
        for (int64_t i = 0; i < 20000; i++)
            dsf_corpus_train(c, i * 311, 0, SEQUENCE, tokens, targets);
        dsf_corpus_close(c);
    }
    assert_true(dsf_memory_most() - before < (int64_t)90 << 20);
}

/* `lines` lines that have the texts of write_lines, but for the last byte. */
static void write_json_lines(const char *name, unsigned lines, const char *last)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    for (unsigned i = 0; i < lines; i++)
        fprintf(f, "{\"id\": %4u, \"said\": \"%09u\"}\n", i, i);
    fprintf(f, "%s", last);
    assert_int_equal(fclose(f), 0);
    free(path);
}

/* Where no token ends a text, a newline does: so they are as those of a file of
 * such lines. */
static void texts_of_json_lines_are_trained_on(void **state)
{
    static const char data[] =
        "train = [\"@/a.jsonl\"]\ntext_field = \"said\"\nvalidation = 0.1";
    int32_t tokens[SEQUENCE], targets[SEQUENCE], plain[SEQUENCE];
    struct dsf_corpus_info info;
    struct dsf_corpus *lines;

    write_json_lines("a.jsonl", 1000, "");
    write_lines("a", 0, 1000);
    for (int cached = 0; cached < 2; cached++) {
        struct dsf_corpus *c = corpus_of(data);

        lines = corpus_of("train = [\"@/a\"]\nvalidation = 0.1");
        dsf_corpus_info(c, &info);
        assert_int_equal(info.cached, cached);
        assert_int_equal(info.bytes, 10000);
        assert_int_equal(info.train_tokens, 9000);
        assert_int_equal(info.validation_tokens, 1000);
        assert_true(info.bytes_per_token == 1.0);
        for (int64_t i = 0; i < 2 * info.train_sequences; i++) {
            dsf_corpus_train(c, i, 0, SEQUENCE, tokens, targets);
            dsf_corpus_train(lines, i, 0, SEQUENCE, plain, targets);
            assert_memory_equal(tokens, plain, sizeof(tokens));
        }
        dsf_corpus_validation(c, 3, 0, SEQUENCE, tokens, targets);
        dsf_corpus_validation(lines, 3, 0, SEQUENCE, plain, targets);
        assert_memory_equal(tokens, plain, sizeof(tokens));
        dsf_corpus_close(c);
        dsf_corpus_close(lines);
    }
    lines = corpus_of("train = [\"@/a.jsonl\"]\nvalidation = 0.1");
    dsf_corpus_info(lines, &info);
    assert_false(info.cached);
    assert_true(info.bytes > 30000);
    dsf_corpus_close(lines);
}

/* Nothing of a line is on both sides, however long it is. */
static void a_line_of_json_is_not_cut(void **state)
{
    static const char data[] =
        "train = [\"@/a.jsonl\"]\ntext_field = \"t\"\nvalidation = 0.3";
    char *text = dsf_xcalloc(1, 40001);
    struct dsf_corpus_info info;
    struct dsf_corpus *c;

    memset(text, 'x', 40000);
    for (unsigned i = 0; i < 2; i++)
        memcpy(text + i * 20000, "{\"t\": \"", 7);
    for (unsigned i = 0; i < 2; i++)
        memcpy(text + i * 20000 + 19997, "\"}\n", 3);
    write_text("a.jsonl", text);
    free(text);
    c = corpus_of(data);
    dsf_corpus_info(c, &info);
    assert_int_equal(info.train_tokens, 19991); /* with a newline */
    assert_int_equal(info.validation_tokens, 19991);
    dsf_corpus_close(c);
}

static void a_line_that_has_no_text_is_an_error(void **state)
{
    struct dsf_corpus *c;
    struct dsflow_err err;

    write_json_lines("a.jsonl", 1000, "{\"said\": [5]}\n");
    for (int kept = 0; kept < 2; kept++) {
        assert_int_equal(
            open_for(kept ? "validation = 0.1\ntext_field = \"said\"\ntrain = "
                            "[\"@/a.jsonl\"]"
                          : "validation = 0.0\ntext_field = \"said\"\ntrain = "
                            "[\"@/a.jsonl\"]",
                     VOCAB, &c, &err),
            DSFLOW_EINVAL);
        check_message(&err,
                      "job.toml:7: data: train: /a.jsonl: line 1001: has no "
                      "string there: expected an object with a string "
                      "\"said\"");
    }
}

static void a_cache_that_cannot_be_written_is_done_without(void **state)
{
    static const char data[] = "train = [\"@/a\"]\nvalidation = 0.1";

    write_lines("a", 0, 200);
    write_text("run", "a file where the folder would be");
    assert_false(is_cached(data));
    assert_false(is_cached(data));
}

static void too_little_text_is_told_in_figures(void **state)
{
    struct dsf_corpus *c;
    struct dsflow_err err;

    write_text("a", "0123456789\n");
    write_lines("b", 0, 3);
    assert_int_equal(
        open_for("train = [\"@/a\"]\nvalidation = 0.0", VOCAB, &c, &err),
        DSFLOW_EINVAL);
    check_message(&err, "job.toml:5: data: train: 11 tokens in 1 file: "
                        "expected at least 17, for one sequence");
    assert_int_equal(
        open_for("train = [\"@/b\"]\nvalidation = 0.3", VOCAB, &c, &err),
        DSFLOW_EINVAL);
    check_message(&err, "job.toml:6: data: validation: 0.3: 10 of 30 tokens: "
                        "expected at least 17, for one sequence, or 0 for "
                        "none");
    assert_int_equal(open_for("train = [\"@/b\"]\nvalidation_files = "
                              "[\"@/a\"]",
                              VOCAB, &c, &err),
                     DSFLOW_EINVAL);
    check_message(&err, "job.toml:6: data: validation_files: 11 tokens in 1 "
                        "file: expected at least 17, for one sequence");
}

static int check_for(const char *data, int64_t sequence, struct dsflow_err *err)
{
    struct dsf_tokenizer *tok;
    struct dsf_job job;
    int status;

    make_job(&job, data);
    assert_int_equal(dsf_tokenizer_open("bytes", &tok, err), DSFLOW_OK);
    status = dsf_corpus_check(&job, tok, sequence, err);
    dsf_tokenizer_free(tok);
    dsf_job_fini(&job);
    return status;
}

static void too_little_text_is_known_without_reading_it(void **state)
{
    struct dsflow_err err;

    write_file("nul", "a\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k\0l\0", 24);
    assert_int_equal(
        check_for("train = [\"@/nul\"]\nvalidation = 0.0", 23, &err),
        DSFLOW_OK);
    assert_int_equal(
        check_for("train = [\"@/nul\"]\nvalidation = 0.0", 24, &err),
        DSFLOW_EFIT);
    check_message(&err, "job.toml:5: data: train: 24 tokens in 1 file: "
                        "expected at least 25, for one sequence");
    write_lines("a", 0, 100);
    assert_int_equal(
        check_for("train = [\"@/a\"]\nvalidation = 0.1", 100, &err),
        DSFLOW_EFIT);
    check_message(&err, "job.toml:6: data: validation: 0.1: 100 of 1000 "
                        "tokens: expected at least 101, for one sequence, or "
                        "0 for none");
    assert_int_equal(check_for("train = [\"@/a\"]\n"
                               "validation_files = [\"@/nul\"]",
                               24, &err),
                     DSFLOW_EFIT);
    check_message(&err, "job.toml:6: data: validation_files: 24 tokens in 1 "
                        "file: expected at least 25, for one sequence");
    assert_int_equal(check_for("train = [\"@/none\"]", 10, &err),
                     DSFLOW_EINVAL);
    check_message(&err, "job.toml:5: data: train: /none: No such file or "
                        "directory");
}

static void a_token_beyond_the_model_is_an_error(void **state)
{
    struct dsf_corpus *c;
    struct dsflow_err err;

    write_lines("a", 0, 100);
    assert_int_equal(open_for("train = [\"@/a\"]", '9', &c, &err),
                     DSFLOW_EINVAL);
    check_message(&err, "job.toml: model: vocab: 57: the text has token 57 of "
                        "tokenizer bytes; expected at least 58");
    assert_int_equal(open_for("train = [\"@/a\"]", '9' + 1, &c, &err),
                     DSFLOW_OK);
    dsf_corpus_close(c);
}

#define WITH_FOLDER(test)                                                      \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(every_file_gives_its_last_lines_to_validation),
        WITH_FOLDER(files_for_validation_leave_the_training_text_whole),
        WITH_FOLDER(an_epoch_has_every_sequence_once_in_an_order_of_its_own),
        WITH_FOLDER(tokens_are_cached_until_the_text_changes),
        WITH_FOLDER(a_damaged_cache_is_made_again),
        WITH_FOLDER(a_text_is_read_in_little_memory),
        WITH_FOLDER(texts_of_json_lines_are_trained_on),
        WITH_FOLDER(a_line_of_json_is_not_cut),
        WITH_FOLDER(a_line_that_has_no_text_is_an_error),
        WITH_FOLDER(a_cache_that_cannot_be_written_is_done_without),
        WITH_FOLDER(too_little_text_is_told_in_figures),
        WITH_FOLDER(too_little_text_is_known_without_reading_it),
        WITH_FOLDER(a_token_beyond_the_model_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
