/* cmd_list.c - what this build has, from the tables it is built on. */
#include "base/alloc.h"
#include "cli/cmd.h"
#include "cli/list_keys.h"
#include "codelets/codelets.h"
#include "import/ds_keys.h"
#include "plugin/plugin.h"
#include "policies/policies.h"
#include "segments/segment.h"
#include "tasks/components.h"
#include "tasks/sparsity.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where a component comes from, where that is not here. */
static const char *from(const struct dsf_registered *r)
{
    static char text[256];

    if (strcmp(r->origin, DSF_BUILTIN) == 0)
        return DSF_BUILTIN;
    snprintf(text, sizeof(text), "from %s", r->origin);
    return text;
}

/* "x R, rope R?": a port that may be left out has a mark. */
static void list_ports(const struct dsflow_op *op)
{
    static const char *const access[] = { "?", "R", "W", "RW" };
    const char *comma = "";

    for (unsigned p = 0; p < op->nports; p++) {
        const struct dsflow_port *port = &op->ports[p];

        if (port->name == NULL)
            continue;
        printf("%s%s %s%s", comma, port->name, access[port->access & 3],
               port->optional ? "?" : "");
        comma = ", ";
    }
}

static void list_tasks(const struct dsf_cli_args *args)
{
    const struct dsf_registered *r;

    for (size_t i = 0; (r = dsf_registry_at(&dsf_task_kinds, i)) != NULL; i++) {
        const struct dsflow_op *op = r->thing;

        printf("%-26s %s; %s\n%-26s   ", op->name, op->summary, from(r), "");
        list_ports(op);
        printf("%s\n", op->repeats ? ", …" : "");
    }
}

/* By kind of task, and those that have none. */
static void list_codelets(const struct dsf_cli_args *args)
{
    const struct dsflow_op *op;

    for (unsigned i = 0; (op = dsflow_op_at(i)) != NULL; i++) {
        const struct dsf_registered *r =
            dsf_registry_find(&dsf_codelet_kinds, op->name);
        const struct dsflow_codelet *c = r != NULL ? r->thing : NULL;

        if (c == NULL) {
            printf("%-26s none\n", op->name);
            continue;
        }
        printf("%-26s %-9s %s%s\n", op->name,
               c->cpu != NULL && c->cuda != NULL ? "cpu cuda"
               : c->cpu != NULL                  ? "cpu"
                                                 : "cuda",
               from(r), c->host_only ? ", on the host only" : "");
    }
}

static void list_policies(const struct dsf_cli_args *args)
{
    const struct dsflow_policy *p;

    for (unsigned i = 0; (p = dsflow_policy_at(i)) != NULL; i++)
        printf("%-16s %s; %s\n", p->name, p->summary,
               from(dsf_registry_find(&dsf_policies, p->name)));
}

/* Components of a sort by name, with the summary that stands at `at` in each. */
static void list_components(struct dsf_registry *registry, size_t at)
{
    const struct dsf_registered *r;

    for (size_t i = 0; (r = dsf_registry_at(registry, i)) != NULL; i++)
        printf("%-16s %s; %s\n", r->name,
               *(const char *const *)((const char *)r->thing + at), from(r));
}

/* As one writes them in [mesh]. */
static void list_axes(const struct dsf_cli_args *args)
{
    list_components(&dsf_axes, offsetof(struct dsflow_axis, summary));
}

static void list_optimizers(const struct dsf_cli_args *args)
{
    list_components(&dsf_optimizers, offsetof(struct dsflow_optimizer, summary));
}

static void list_schedules(const struct dsf_cli_args *args)
{
    list_components(&dsf_lr_schedules,
                    offsetof(struct dsflow_lr_schedule, summary));
}

/* As one writes them in [compress]. */
static void list_formats(const struct dsf_cli_args *args)
{
    list_components(&dsf_wire_formats,
                    offsetof(struct dsflow_wire_format, summary));
}

static void list_layouts(const struct dsf_cli_args *args)
{
    list_components(&dsf_sparsities, offsetof(struct dsflow_sparsity, summary));
}

/* As one writes them in [model]. */
static void list_segments(const struct dsf_cli_args *args)
{
    const struct dsf_registered *r;

    for (size_t i = 0; (r = dsf_registry_at(&dsf_segments, i)) != NULL; i++) {
        const struct dsflow_segment *s = r->thing;
        char key[64];

        if (s->replaces != NULL)
            snprintf(key, sizeof(key), "%s = \"%s\"", s->replaces, s->name);
        else
            snprintf(key, sizeof(key), "%s", s->name);
        printf("%-24s %s; %s\n", key, s->summary, from(r));
    }
}

static void list_plugins(const struct dsf_cli_args *args)
{
    const struct dsflow_plugin *p;
    const char *origin;

    for (unsigned i = 0; (p = dsflow_plugin_at(i, &origin)) != NULL; i++)
        printf("%-16s %s; from %s\n", p->name, p->summary, origin);
}

/* What becomes of the keys of its configuration. */
static void list_deepspeed(const struct dsf_cli_args *args)
{
    const struct dsf_ds_key *k;

    for (size_t i = 0; (k = dsf_ds_key_at(i)) != NULL; i++) {
        printf("%-58s %s", k->key, dsf_ds_fate_str(k->fate));
        if (k->fate == DSF_DS_BECOMES)
            printf(" %s\n", k->words);
        else if (k->off != NULL)
            printf(" but for %s: %s\n", k->off, k->words);
        else
            printf("%s%s\n", k->words[0] != '\0' ? ": " : "", k->words);
    }
}

static const struct {
    const char *name;
    void (*print)(const struct dsf_cli_args *args);
} lists[] = {
    { "tasks", list_tasks },         { "codelets", list_codelets },
    { "policies", list_policies },   { "optimizers", list_optimizers },
    { "schedules", list_schedules }, { "layouts", list_layouts },
    { "segments", list_segments },   { "axes", list_axes },
    { "formats", list_formats },     { "plugins", list_plugins },
    { "deepspeed", list_deepspeed }, { "keys", NULL /* below */ }
};

static int list(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    enum { N = sizeof(lists) / sizeof(*lists) };
    size_t at = 0;
    int status = DSFLOW_OK;

    while (at < N && strcmp(args->words[0], lists[at].name) != 0)
        at++;
    if (at == N)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "list: %.60s: expected tasks, codelets, policies, "
            "optimizers, schedules, layouts, segments, axes, formats, "
            "plugins, deepspeed or keys",
            args->words[0]);
    for (unsigned i = 1; i < args->nwords && status == DSFLOW_OK; i++)
        if (lists[at].print != NULL || dsf_is_library(args->words[i]))
            status = dsflow_plugin_load(args->words[i], err);
    if (status < 0)
        return status;
    dsf_registry_count(&dsf_segments); /* some bring kinds of task along */
    if (lists[at].print == NULL)
        return dsf_list_keys(args, err);
    lists[at].print(args);
    return DSFLOW_OK;
}

static const struct dsf_flag list_flags[] = {
    { "json", NULL, "keys: as JSON" },
    { "roff", NULL, "keys: as the tables of job.toml(5)" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_list = {
    .name = "list",
    .args =
        "tasks|codelets|policies|optimizers|schedules|layouts|segments|axes|"
        "formats|plugins|deepspeed|keys [TABLE|KEY|LIBRARY]…",
    .summary = "what this build has, and what plug-ins bring",
    .help =
        "tasks: the kinds of task and their ports. codelets: what computes\n"
        "each. policies: the passes over the graph, in order. optimizers,\n"
        "schedules (of the learning rate), layouts (of sparse attention),\n"
        "segments (of a layer): what optimizer.kind, schedule.kind,\n"
        "sparse_attention.mode and the keys of [model] may name. axes of the\n"
        "mesh: the keys of [mesh]. formats for what ranks send: what\n"
        "[compress] may name.\n"
        "plugins: the libraries that were loaded. deepspeed: the keys of its\n"
        "configuration, and what dsflow import makes of each. keys: every key "
        "of\n"
        "job.toml, with default, range, meaning and what it is used with, or\n"
        "those of a TABLE (optimizer), or one KEY (optimizer.lr, or lr). Each\n"
        "says where it comes from: with a LIBRARY, what that plug-in brings "
        "is\n"
        "there too.",
    .flags = list_flags,
    .least = 1,
    .most = 64,
    .run = list,
};
