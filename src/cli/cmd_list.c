/* cmd_list.c - what this build has, from the tables it is built on. */
#include "base/alloc.h"
#include "cli/cmd.h"
#include "codelets/codelets.h"
#include "config/job.h"
#include "config/option.h"
#include "policies/policies.h"
#include "tasks/tasks.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void print_text(FILE *out, const char *table,
                       const struct dsflow_option *o)
{
    char key[64];

    snprintf(key, sizeof(key), "%s.%s", table, o->key);
    fprintf(out, "%-30s %-16s %s\n%-30s   expects %s\n", key,
            o->fallback != NULL ? o->fallback : "(required)", o->help, "",
            dsf_option_expected(o).s);
}

static void list_keys_json(void)
{
    json_t *keys = json_array();

    for (const struct dsf_table *t = dsf_job_tables; t->name != NULL; t++)
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++)
            json_array_append_new(
                keys, json_pack("{s:s, s:s, s:s?, s:s, s:s}", "table",
                                t->name, "key", o->key, "default",
                                o->fallback, "expects",
                                dsf_option_expected(o).s, "meaning", o->help));
    json_dumpf(keys, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(keys);
}

/* For man(7): quotes and backslashes as roff wants them. */
static void put_roff(const char *s)
{
    for (; *s != '\0'; s++)
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '"')
            fputs("\\(dq", stdout);
        else
            putchar(*s);
}

static void list_keys_roff(void)
{
    for (const struct dsf_table *t = dsf_job_tables; t->name != NULL; t++) {
        printf(".SS [%s]\n%s\n", t->name, t->summary);
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++) {
            printf(".TP\n.B %s\n", o->key);
            put_roff(o->help);
            fputs(".\nExpects ", stdout);
            put_roff(dsf_option_expected(o).s);
            fputs(o->fallback != NULL ? "; default " : "; required", stdout);
            put_roff(o->fallback != NULL ? o->fallback : "");
            fputs(".\n", stdout);
        }
    }
}

static void list_keys(const struct dsf_words *words)
{
    if (dsf_flag_value(words, "json") != NULL) {
        list_keys_json();
        return;
    }
    if (dsf_flag_value(words, "roff") != NULL) {
        list_keys_roff();
        return;
    }
    for (const struct dsf_table *t = dsf_job_tables; t->name != NULL; t++) {
        printf("%s[%s] %s\n", t == dsf_job_tables ? "" : "\n", t->name,
               t->summary);
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++)
            print_text(stdout, t->name, o);
    }
}

static void list_tasks(const struct dsf_words *words)
{
    const struct dsflow_op *op;

    for (unsigned i = 0; (op = dsflow_op_at(i)) != NULL; i++) {
        printf("%-26s %s\n%-26s   ", op->name, op->summary, "");
        for (unsigned p = 0; p < op->nports; p++)
            printf("%s%s %s", p > 0 ? ", " : "", op->ports[p].name,
                   op->ports[p].access == DSFLOW_R   ? "R"
                   : op->ports[p].access == DSFLOW_W ? "W"
                                                     : "RW");
        printf("%s\n", op->repeats ? ", …" : "");
    }
}

static void list_codelets(const struct dsf_words *words)
{
    const struct dsflow_op *op;

    for (unsigned i = 0; (op = dsflow_op_at(i)) != NULL; i++) {
        const struct dsflow_codelet *c = dsflow_codelet_find(op);

        printf("%-26s %s%s%s\n", op->name,
               c == NULL           ? "none"
               : c->cpu != NULL    ? "cpu"
                                   : "",
               c != NULL && c->cuda != NULL ? " cuda" : "",
               c != NULL && c->host_only ? ", on the host only" : "");
    }
}

static void list_policies(const struct dsf_words *words)
{
    for (unsigned i = 0; i < dsf_npolicies; i++)
        printf("%-16s %s\n", dsf_policies[i]->name, dsf_policies[i]->summary);
}

static const struct {
    const char *name;
    void (*print)(const struct dsf_words *words);
} lists[] = { { "tasks", list_tasks },
              { "policies", list_policies },
              { "codelets", list_codelets },
              { "keys", list_keys } };

static int list(const struct dsf_words *words, struct dsflow_err *err)
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
        if (strcmp(words->words[0], lists[i].name) == 0) {
            lists[i].print(words);
            return DSFLOW_OK;
        }
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "list: %.60s: expected tasks, policies, codelets or "
                       "keys",
                       words->words[0]);
}

static const struct dsf_flag list_flags[] = {
    { "json", NULL, "keys: as JSON" },
    { "roff", NULL, "keys: as the tables of job.toml(5)" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_list = {
    .name = "list",
    .args = "tasks|policies|codelets|keys [--json|--roff]",
    .summary = "what this build has",
    .help = "tasks: the kinds of task and their ports. policies: the passes over\n"
            "the graph, in order. codelets: what computes each kind of task.\n"
            "keys: every key of job.toml, with default, range and meaning.",
    .flags = list_flags,
    .least = 1,
    .most = 1,
    .run = list,
};
