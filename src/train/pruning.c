/* pruning.c - the model that is left when layers, heads or inner columns go. */
#include "train/pruning.h"

#include "base/alloc.h"
#include "config/layer_list.h"
#include "train/identity.h"
#include "train/origin.h"

#include <stdlib.h>

static int check(const struct dsf_session *s, const struct dsf_prune *what,
                 struct dsflow_err *err)
{
    const struct dsf_dims *d = &s->model.dims;
    const bool fewer_heads = what->heads != d->heads;
    const int32_t of_keys = d->heads / d->kv_heads;
    char segments[300];

    if (fewer_heads && s->model.family == DSF_GPT2)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "heads: %lld: expected %d: those of a gpt2 have its "
                           "width between them",
                           (long long)what->heads, (int)d->heads);
    if (what->heads % of_keys != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "heads: %lld: expected a multiple of %d, the heads "
                           "that share a head of keys",
                           (long long)what->heads, (int)of_keys);
    if ((fewer_heads || what->ffn_width != d->ffn) &&
        dsf_identity_segments(&s->model, segments, sizeof(segments)))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "model.segments: %s: expected " DSF_USUAL_SEGMENTS
                           " where heads or ffn_width go",
                           segments);
    return DSFLOW_OK;
}

/* Those that have a window, of the layers that stay, and how long it is; 0
 * where none has. */
static char *windows_of(const struct dsf_model *m, const struct dsf_prune *what,
                        int32_t *window)
{
    bool *on = dsf_xcalloc((size_t)what->nlayers, sizeof(*on));
    char *text;

    *window = 0;
    for (int32_t l = 0; l < what->nlayers; l++) {
        on[l] = m->windows[what->layers[l]] > 0;
        if (on[l])
            *window = m->windows[what->layers[l]];
    }
    text = dsf_layer_list_text(on, what->nlayers);
    free(on);
    return text;
}

static int init_model(const struct dsf_session *s, const struct dsf_prune *what,
                      const struct dsf_job *job, struct dsf_model *model,
                      struct dsflow_err *err)
{
    const int32_t of_keys = s->model.dims.heads / s->model.dims.kv_heads;
    int32_t window;
    char *windows = windows_of(&s->model, what, &window);
    char *sets[] = {
        dsf_xasprintf("model.layers=%d", (int)what->nlayers),
        dsf_xasprintf("model.heads=%lld", (long long)what->heads),
        dsf_xasprintf("model.kv_heads=%lld", (long long)what->heads / of_keys),
        dsf_xasprintf("model.ffn_width=%lld", (long long)what->ffn_width),
        dsf_xasprintf("model.window=%d", (int)window),
        dsf_xasprintf("model.window_layers=\"%s\"",
                      window == 0 ? "all" : windows),
    };
    const unsigned n = sizeof(sets) / sizeof(*sets);
    struct dsf_job sized;
    int status =
        dsf_job_with(job, DSF_GIVEN, (const char *const *)sets, n, &sized, err);

    if (status == DSFLOW_OK) {
        status = dsf_model_init(model, &sized, err);
        dsf_job_fini(&sized);
    }
    for (unsigned i = 0; i < n; i++)
        free(sets[i]);
    free(windows);
    return status;
}

int dsf_prune_model(const struct dsf_session *s, const struct dsf_prune *what,
                    struct dsf_model *model, struct dsflow_err *err)
{
    struct dsf_job job;
    int status = check(s, what, err);

    if (status == DSFLOW_OK)
        status = dsf_origin_say(s, &job, err);
    if (status < 0)
        return status;
    status = init_model(s, what, &job, model, err);
    dsf_job_fini(&job);
    return status;
}
