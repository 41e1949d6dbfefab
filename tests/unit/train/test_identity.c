/* test_identity.c - which keys of a job decide the bits of a run, and how. */
#include "small.h"

#include "train/identity.h"

/* The keys of two lists that have other values, with both. */
static char *differences(const struct dsf_identity *a,
                         const struct dsf_identity *b)
{
    char *text = dsf_xstrdup("");

    for (size_t i = 0; i < a->n; i++) {
        const struct dsf_identity_key *x = &a->v[i];
        const struct dsf_identity_key *y = dsf_identity_find(b, x->key);
        char *more;

        if (y != NULL && x->value != NULL && y->value != NULL &&
            strcmp(x->value, y->value) == 0)
            continue;
        if (y != NULL && x->value == NULL && y->value == NULL)
            continue;
        more = dsf_xasprintf("%s%s %s %s; ", text, x->key,
                             x->value != NULL ? x->value : "-",
                             y == NULL ? "-" : y->value);
        free(text);
        text = more;
    }
    return text;
}

/* What counts of the small job with these keys. */
static void list(const char *keys, struct dsf_identity *of)
{
    struct dsf_session s;

    open_small(&s, TO_TEXT, keys);
    dsf_identity_list(&s, of);
    dsf_session_close(&s);
}

static void each_key_that_counts_is_known_with_its_value(void **state)
{
    static const struct {
        const char *keys, *differs;
    } cases[] = {
        { "model.layers=2", "model.layers 1 2; " },
        { "model.heads=4", "model.heads 2 4; model.kv_heads 2 4; "
                           "model.head_dim 8 4; " },
        { "model.ffn_width=32", "model.ffn_width 64 32; " },
        { "model.vocab=300", "model.vocab 256 300; " },
        { "model.norm_eps=1e-6", "model.norm_eps 1e-05 1e-06; " },
        { "model.context=32 batch.sequence=16", "model.context 16 32; " },
        { "optimizer.kind=lion", "optimizer.kind adamw lion; " },
        { "job.seed=7", "job.seed 1 7; " },
        { "data.shuffle=false", "data.shuffle true false; " },
        { "batch.sequences=8", "batch.sequences 4 8; " },
        { "batch.sequence=8", "batch.sequence 16 8; " },
        { "batch.micro=2", "batch.micro 1 2; " },
        { "batch.groups=2", "batch.groups 1 2; " },
        { "mesh.data=2", "batch.groups 1 2; " },
        { "mesh.tensor=2", "mesh.tensor 1 2; " },
        { "zero.reduce=micro", "zero.reduce step micro; " },
        { "precision.states=bf16", "precision.states fp32 bf16; " },
        { "precision.compute=bf16", "precision.compute fp32 bf16; "
                                    "precision.head fp32 bf16; " },
        { "precision.compute=bf16 precision.head=fp32",
          "precision.compute fp32 bf16; " },
        { "precision.compute=bf16 precision.head=fp32 precision.gradients=bf16",
          "precision.compute fp32 bf16; precision.gradients fp32 bf16; " },
        { "model.context=32 batch.sequence=32 batch.tile=16",
          "model.context 16 32; batch.sequence 16 32; "
          "batch.tile 1 to a micro-batch 2 to a micro-batch; " },
    };
    struct dsf_identity base, other;

    list("batch.micro=1", &base);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *keys = dsf_xasprintf("batch.micro=1 %s", cases[i].keys), *differs;

        list(keys, &other);
        differs = differences(&base, &other);
        if (strcmp(differs, cases[i].differs) != 0)
            fail_msg("%s: %s: expected %s", keys, differs, cases[i].differs);
        if (dsf_identity_hash(&base) == dsf_identity_hash(&other))
            fail_msg("%s: has the hash of another run", keys);
        free(differs);
        free(keys);
        dsf_identity_fini(&other);
    }
    dsf_identity_fini(&base);
}

static void where_work_is_done_does_not_count(void **state)
{
    static const char *const cases[] = {
        "job.steps=20 job.name=other job.output=@/other",
        "optimizer.lr=0.1 schedule.warmup=3",
        "mesh.data=2 zero.stage=3",
        "mesh.data=2",
        "offload.optimizer=cpu offload.params=cpu",
        "recompute.what=block",
        "machine.workers=3",
        "checkpoint.every=2 checkpoint.keep=1",
        "batch.order=layer_major",
        "precision.gradients=bf16", /* has no effect in fp32 */
        "precision.tf32=true",      /* nor this one on cores */
    };
    struct dsf_identity base, other;

    list("batch.micro=1 batch.groups=2", &base);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *keys = dsf_xasprintf("batch.micro=1 batch.groups=2 %s", cases[i]);
        char *differs;

        list(keys, &other);
        differs = differences(&base, &other);
        if (differs[0] != '\0')
            fail_msg("%s: %s", keys, differs);
        assert_true(dsf_identity_hash(&base) == dsf_identity_hash(&other));
        free(differs);
        free(keys);
        dsf_identity_fini(&other);
    }
    dsf_identity_fini(&base);
}

/* Other contents are another text, wherever it is; a copy is the same one. */
static void the_text_counts_by_what_is_in_it(void **state)
{
    struct dsf_identity base, copy, other;
    char *text = read_text("@/text.txt");

    write_text("copy.txt", text);
    text[5] ^= 1;
    write_text("other.txt", text);
    free(text);
    list("", &base);
    list("data.train=@/copy.txt", &copy);
    list("data.train=@/other.txt", &other);
    assert_true(dsf_identity_hash(&base) == dsf_identity_hash(&copy));
    assert_true(dsf_identity_hash(&base) != dsf_identity_hash(&other));
    dsf_identity_fini(&base);
    dsf_identity_fini(&copy);
    dsf_identity_fini(&other);
}

/* Before the plan and the text a key is there, and its value is not. */
static void what_is_not_known_yet_is_left_out(void **state)
{
    static const char *const later[] = { "batch.sequence", "batch.micro",
                                         "batch.groups",   "batch.tile",
                                         "zero.reduce",    "mesh.tensor",
                                         "data.train" };
    struct dsf_ckpt_fields fields = { 0 };
    struct dsf_identity of;
    struct dsf_session s;

    open_small(&s, TO_MODEL, "");
    dsf_identity_list(&s, &of);
    dsf_identity_fields(&of, &fields);
    for (size_t i = 0; i < sizeof(later) / sizeof(*later); i++) {
        assert_non_null(dsf_identity_find(&of, later[i]));
        assert_null(dsf_ckpt_fields_find(&fields, later[i]));
    }
    assert_string_equal(dsf_ckpt_fields_find(&fields, "model.width"), "16");
    assert_null(dsf_identity_find(&of, "optimizer.lr"));
    dsf_ckpt_fields_fini(&fields);
    dsf_identity_fini(&of);
    dsf_session_close(&s);
}

/* What old checkpoints have: these numbers stay as they are. */
static void the_hash_of_before_never_changes(void **state)
{
    static const struct {
        const char *keys;
        uint64_t hash;
    } cases[] = {
        { "", 0xdce6274b959b9054 },
        { "model.family=llama model.kv_heads=1", 0x7465b4a1bbe7e6bc },
        { "optimizer.kind=lion batch.groups=2", 0xa09951214f6cf781 },
        { "optimizer.kind=sgd optimizer.momentum=0.9", 0x8bb39d4975a139c8 },
        { "precision.states=bf16 offload.optimizer=cpu", 0x7da353195ba5b09a },
        { "mesh.tensor=2 job.seed=5", 0x6915f779cf6eb6ec },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *keys = dsf_xasprintf("batch.micro=1 %s", cases[i].keys);
        struct dsf_session s;

        open_small(&s, TO_PLAN, keys);
        s.text.content = 0x0123456789abcdef;
        if (dsf_identity_before(&s) != cases[i].hash)
            fail_msg("%s: 0x%016llx: expected 0x%016llx", keys,
                     (unsigned long long)dsf_identity_before(&s),
                     (unsigned long long)cases[i].hash);
        s.text.content++;
        assert_true(dsf_identity_before(&s) != cases[i].hash);
        dsf_session_close(&s);
        free(keys);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_that_counts_is_known_with_its_value),
        cmocka_unit_test(where_work_is_done_does_not_count),
        cmocka_unit_test(the_text_counts_by_what_is_in_it),
        cmocka_unit_test(what_is_not_known_yet_is_left_out),
        cmocka_unit_test(the_hash_of_before_never_changes),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
