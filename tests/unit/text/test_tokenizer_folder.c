/* test_tokenizer_folder.c - which files of a folder are its tokenizer. */
#include "text/tokenizer.h"

#include "unit/text/encoded.h"
#include "unit/text/folder.h"

#include <jansson.h>

/* GPT-2's two files, of the 256 bytes, "ab" and "abc". */
static void write_pair(const char *vocab, const char *merges, const char *end)
{
    json_t *all = json_object();
    int other = 0x100;
    char *text;

    for (int byte = 0; byte < 256; byte++) {
        bool itself =
            (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
        int code = itself ? byte : other++;
        char name[3] = { (char)code };

        if (code >= 0x80) {
            name[0] = (char)(0xc0 | code >> 6);
            name[1] = (char)(0x80 | (code & 0x3f));
        }
        json_object_set_new(all, name, json_integer(byte));
    }
    json_object_set_new(all, "ab", json_integer(256));
    json_object_set_new(all, "abc", json_integer(257));
    text = json_dumps(all, 0);
    write_text(vocab, text);
    free(text);
    json_decref(all);
    text = dsf_xasprintf("#version: 0.2%sa b%sab c%s", end, end, end);
    write_text(merges, text);
    free(text);
}

static void remove_file(const char *name)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);

    remove(path);
    free(path);
}

static void check_pair(void)
{
    struct dsf_tokenizer *tok;
    struct dsflow_err err;

    assert_true(dsf_tokenizer_is_in(folder));
    if (dsf_tokenizer_open(folder, &tok, &err) < 0)
        fail_msg("%s", err.msg);
    GIVES(tok, "abc ab", 257, 32, 256);
    dsf_tokenizer_free(tok);
}

static void refused(const char *message)
{
    struct dsf_tokenizer *tok;
    struct dsflow_err err;

    assert_int_equal(dsf_tokenizer_open(folder, &tok, &err), DSFLOW_EINVAL);
    check_message(&err, message);
}

static void both_names_of_gpt2s_files_are_read(void **state)
{
    assert_false(dsf_tokenizer_is_in(folder));
    write_pair("encoder.json", "vocab.bpe", "\n");
    check_pair();
    remove_file("encoder.json");
    assert_false(dsf_tokenizer_is_in(folder));
    write_pair("vocab.json", "merges.txt", "\n");
    check_pair();
    write_pair("vocab.json", "merges.txt", "\r\n");
    check_pair();
    write_text("config.json", "{\"model_type\": \"gpt2\"}");
    check_pair();
    write_text("config.json", "{\"model_type\": \"llama\"}");
    write_text("tokenizer_config.json",
               "{\"tokenizer_class\": \"GPT2TokenizerFast\"}");
    check_pair();
    remove_file("tokenizer_config.json");
}

static void ends_at(int32_t one, int32_t other)
{
    struct dsf_tokenizer *tok;
    struct dsflow_err err;

    if (dsf_tokenizer_open(folder, &tok, &err) < 0)
        fail_msg("%s", err.msg);
    for (int32_t id = 0; id < 258; id++)
        assert_int_equal(dsf_tokenizer_is_end(tok, id),
                         id == one || id == other ||
                             id == dsf_tokenizer_eot(tok));
    dsf_tokenizer_free(tok);
}

static void texts_end_where_the_first_file_says(void **state)
{
    remove_file("config.json"); /* of other tests */
    write_pair("vocab.json", "merges.txt", "\n");
    ends_at(-1, -1);
    write_text("config.json", "{\"eos_token_id\": 99}");
    ends_at(99, 99);
    write_text("generation_config.json",
               "{\"eos_token_id\": [97, \"b\", 1000000, -3, 98]}");
    ends_at(97, 98);
    write_text("generation_config.json", "{\"eos_token_id\": null}");
    ends_at(99, 99);
    remove_file("generation_config.json");
    remove_file("config.json");
}

static void pairs_of_other_models_are_refused(void **state)
{
    write_pair("vocab.json", "merges.txt", "\n");
    write_text("config.json", "{\"model_type\": \"qwen2\"}");
    refused(": vocab.json and merges.txt are read for GPT-2 only, and these "
            "are of qwen2: expected tokenizer.json");
    write_text("tokenizer_config.json",
               "{\"tokenizer_class\": \"Qwen2Tokenizer\"}");
    refused(": vocab.json and merges.txt are read for GPT-2 only, and these "
            "are of Qwen2Tokenizer: expected tokenizer.json");
    remove_file("tokenizer_config.json");
    remove_file("config.json");
    write_text("added_tokens.json", "{}");
    refused(": vocab.json and merges.txt with added_tokens.json are not "
            "supported: expected tokenizer.json");
    remove_file("added_tokens.json");
}

static void what_is_wrong_with_a_file_names_it(void **state)
{
    char *path = dsf_xasprintf("%s/tokenizer.json", folder);

    write_pair("vocab.json", "merges.txt", "\n");
    write_text("merges.txt", "#version: 0.2\na b\n\nab d\n");
    refused("/merges.txt:4: merge 2: \"abd\" is not in the vocabulary");
    write_text("merges.txt", "a b\nab\n");
    refused("/merges.txt:2: \"ab\": expected two tokens with a space between");
    write_text("vocab.json", "{\"a\": 97, \"a\": 98}");
    refused("/vocab.json:1: duplicate object key near '\"a\"'");
    write_text("vocab.json", "{\"a\": 97, \"b\": 97}");
    refused("/vocab.json: token \"b\": id 97 is also that of another");
    write_text("vocab.json", "{\"a\": -1}");
    refused("/vocab.json: token \"a\": id -1; expected 0 to 4194303");
    write_text("vocab.json", "{\"a\": 0}");
    write_text("merges.txt", "");
    refused("/vocab.json: the vocabulary has no token for byte 0x00; expected "
            "all 256");
    mkdir(path, 0700);
    refused("/tokenizer.json: is a folder: expected a file");
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_names_of_gpt2s_files_are_read),
        cmocka_unit_test(texts_end_where_the_first_file_says),
        cmocka_unit_test(pairs_of_other_models_are_refused),
        cmocka_unit_test(what_is_wrong_with_a_file_names_it),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
