/* second_moments.c - what the optimizer of a checkpoint knows of each weight.
 */
#include "train/second_moments.h"

#include "base/alloc.h"

#include <stdlib.h>

struct dsf_second_moments {
    const struct dsf_session *s;
    const char *folder;
    struct dsf_st_file *states;
};

static const struct dsf_st_tensor *find(const struct dsf_second_moments *m,
                                        const struct dsf_unit *unit,
                                        struct dsflow_err *err)
{
    static const char *const names[] = { "v", "sum" };
    const struct dsf_st_tensor *found = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && found == NULL;
         i++) {
        char *name = dsf_xasprintf("%s.%s", names[i], unit->name);
        const struct dsf_st_tensor wanted = {
            .name = name,
            .dtype = DSFLOW_FP32,
            .bytes = (size_t)unit->file_elems * sizeof(float),
        };

        found = dsf_ckpt_find(m->states, &wanted, NULL);
        free(name);
    }
    if (found == NULL)
        dsflow_fail(err, DSFLOW_EINVAL,
                    "%s: optimizer %s keeps no squares of the gradients of %s, "
                    "which say which heads and inner columns matter: expected "
                    "one that does, such as adamw",
                    m->folder, m->s->job->optimizer.kind, unit->name);
    return found;
}

/* What is behind heads and inner columns. */
static bool is_asked_for(const struct dsf_unit *unit)
{
    return unit->segment == &dsf_segment_out ||
           unit->segment == &dsf_segment_mlp;
}

int dsf_second_moments_open(const struct dsf_session *s,
                            const struct dsf_params *params,
                            struct dsf_second_moments **out,
                            struct dsflow_err *err)
{
    struct dsf_second_moments *m = dsf_xcalloc(1, sizeof(*m));
    int status = DSFLOW_OK;

    m->s = s;
    m->folder = dsf_params_folder(params);
    if (m->folder == NULL)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "the model has not been trained here: expected a "
                             "run, whose optimizer knows which heads and inner "
                             "columns matter (one with optimizer.lr = 0 learns "
                             "it and changes no weight)");
    if (status == DSFLOW_OK)
        status = dsf_ckpt_open_part(m->folder, "states", &m->states, err);
    for (unsigned u = 0; u < s->model.nunits && status == DSFLOW_OK; u++)
        if (is_asked_for(&s->model.units[u]) &&
            find(m, &s->model.units[u], err) == NULL)
            status = DSFLOW_EINVAL;
    if (status < 0) {
        dsf_second_moments_close(m);
        return status;
    }
    *out = m;
    return DSFLOW_OK;
}

void dsf_second_moments_close(struct dsf_second_moments *m)
{
    if (m == NULL)
        return;
    dsf_st_close(m->states);
    free(m);
}

int dsf_second_moments_read(void *moments, unsigned u, float *to,
                            struct dsflow_err *err)
{
    const struct dsf_second_moments *m = moments;
    const struct dsf_unit *unit = &m->s->model.units[u];
    const struct dsf_st_tensor *t = find(m, unit, err);
    int status;

    if (t == NULL)
        return DSFLOW_EINVAL;
    status = dsf_st_read(m->states, t, 0, t->bytes, to, err);
    if (status == DSFLOW_OK)
        dsf_unit_from_file(unit, to);
    return status;
}
