/* words.c - the words of a command line, sorted into flags and others. */
#include "cli/words.h"

#include "base/alloc.h"
#include "config/option.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct dsf_flag *find(const struct dsf_cmd *cmd, const char *name,
                                   size_t n)
{
    for (const struct dsf_flag *f = cmd->flags; f->name != NULL; f++)
        if (strlen(f->name) == n && strncmp(f->name, name, n) == 0)
            return f;
    return NULL;
}

static int unknown_flag(const struct dsf_cmd *cmd, const char *word,
                        struct dsflow_err *err)
{
    const char *names[32], *nearest;
    unsigned n = 0;

    for (const struct dsf_flag *f = cmd->flags; f->name != NULL; f++)
        names[n++] = f->name;
    nearest = dsf_nearest(word + strspn(word, "-"), names, n);
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %.60s: unknown option%s%s",
                       cmd->name, word,
                       nearest != NULL ? "; did you mean --" : "",
                       nearest != NULL ? nearest : "");
}

/* One flag, whose value may be the next word: returns how many it took. */
static int add_flag(const struct dsf_cmd *cmd, struct dsf_cli_args *w,
                    const char *word, const char *next, struct dsflow_err *err)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t n = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct dsf_flag *flag = find(cmd, name, n);
    const char *value = equals != NULL ? equals + 1 : NULL;
    int took = 1;

    if (flag == NULL)
        return unknown_flag(cmd, word, err);
    if (flag->arg == NULL && value != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: --%s: takes no value",
                           cmd->name, flag->name);
    if (flag->arg != NULL && flag->arg[0] != '[' && value == NULL) {
        if (next == NULL)
            return dsflow_fail(err, DSFLOW_EINVAL, "%s: --%s: expected %s",
                               cmd->name, flag->name, flag->arg);
        value = next;
        took = 2;
    }
    w->opts[w->nopts++] =
        (struct dsf_cli_opt){ flag, value != NULL ? value : "" };
    return took;
}

int dsf_cli_args_read(const struct dsf_cmd *cmd, int argc, char **argv,
                      struct dsf_cli_args *w, struct dsflow_err *err)
{
    bool flags = true;

    memset(w, 0, sizeof(*w));
    w->words = dsf_xcalloc((size_t)argc + 1, sizeof(*w->words));
    w->opts = dsf_xcalloc((size_t)argc + 1, sizeof(*w->opts));
    for (int i = 0; i < argc;) {
        if (flags && strcmp(argv[i], "--") == 0) {
            flags = false;
            i++;
        } else if (flags && strncmp(argv[i], "--", 2) == 0) {
            int took = add_flag(cmd, w, argv[i],
                                i + 1 < argc ? argv[i + 1] : NULL, err);

            if (took < 0)
                return took;
            i += took;
        } else if (flags && argv[i][0] == '-' && argv[i][1] != '\0') {
            return unknown_flag(cmd, argv[i], err);
        } else {
            w->words[w->nwords++] = argv[i++];
        }
    }
    if (w->nwords < cmd->least || w->nwords > cmd->most)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "%s: expected: dsflow %s%s%s (dsflow %s --help)", cmd->name,
            cmd->name, cmd->args[0] != '\0' ? " " : "", cmd->args, cmd->name);
    return DSFLOW_OK;
}

void dsf_cli_args_fini(struct dsf_cli_args *w)
{
    free(w->words);
    free(w->opts);
}

const char *dsf_flag_value(const struct dsf_cli_args *w, const char *name)
{
    for (unsigned i = w->nopts; i-- > 0;)
        if (strcmp(w->opts[i].flag->name, name) == 0)
            return w->opts[i].value;
    return NULL;
}

const char **dsf_flag_values(const struct dsf_cli_args *w, const char *name,
                             unsigned *n)
{
    const char **values = dsf_xcalloc(w->nopts + 1, sizeof(*values));

    *n = 0;
    for (unsigned i = 0; i < w->nopts; i++)
        if (strcmp(w->opts[i].flag->name, name) == 0)
            values[(*n)++] = w->opts[i].value;
    return values;
}

int dsf_flag_number(const struct dsf_cli_args *w, const char *name, double min,
                    double max, double *value, struct dsflow_err *err)
{
    const char *text = dsf_flag_value(w, name);
    char *end;
    double x;

    if (text == NULL)
        return DSFLOW_OK;
    x = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(x) || x < min || x > max)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--%s: %.60s: expected a number, %.10g to %.10g",
                           name, text, min, max);
    *value = x;
    return DSFLOW_OK;
}

int dsf_flag_whole(const struct dsf_cli_args *w, const char *name, int64_t min,
                   int64_t max, int64_t *value, struct dsflow_err *err)
{
    const char *text = dsf_flag_value(w, name);
    char *end;
    long long x;

    if (text == NULL)
        return DSFLOW_OK;
    errno = 0;
    x = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || x < min || x > max)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--%s: %.60s: expected a whole number, %lld to %lld",
                           name, text, (long long)min, (long long)max);
    *value = x;
    return DSFLOW_OK;
}
