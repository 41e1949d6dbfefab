/* model.c - weights in memory, and text from them. */
#include "api/api.h"

#include "base/alloc.h"
#include "train/export.h"
#include "train/params.h"

#include <stdlib.h>
#include <string.h>

struct dsflow_model {
    struct dsf_session s;
    float **params; /* by unit */
    int64_t updates;               /* that made them */
    struct dsf_text_weights *text; /* of them; all zero until text is made */
};

int dsflow_model_open(const struct dsflow_job *job, int64_t step,
                      struct dsflow_model **out, struct dsflow_err *err)
{
    struct dsflow_model *m = dsf_xcalloc(1, sizeof(*m));
    locale_t own = dsf_api_enter();
    int status = dsf_api_open(job, NULL, &m->s, err);

    m->text = dsf_xcalloc(1, sizeof(*m->text));
    if (status == DSFLOW_OK)
        status = dsf_api_check_step(step, err);
    if (status == DSFLOW_OK)
        status = dsf_params_all(&m->s, step < 0 ? DSF_LATEST : step, &m->params,
                                &m->updates, err);
    dsf_api_leave(own);
    *out = status == DSFLOW_OK ? m : NULL;
    if (status < 0)
        dsflow_model_close(m);
    return status;
}

void dsflow_model_close(struct dsflow_model *m)
{
    if (m == NULL)
        return;
    dsf_text_weights_fini(m->text);
    free(m->text);
    dsf_params_free(&m->s, m->params);
    dsf_session_close(&m->s);
    free(m);
}

int dsflow_model_tensor(const struct dsflow_model *m, unsigned i,
                        struct dsflow_tensor_info *tensor)
{
    return dsf_api_describe(&m->s.model, i, tensor);
}

int dsflow_model_get(const struct dsflow_model *m, const char *name, float *to,
                     int64_t elems, struct dsflow_err *err)
{
    struct dsf_tensor_place place;
    int status = dsf_api_find(&m->s.model, name, elems, &place, err);

    if (status == DSFLOW_OK)
        dsf_api_take(&place, m->params[place.unit], to);
    return status;
}

/* A dsf_unit_fn. */
static int read_unit(void *user, unsigned unit, float *to,
                     struct dsflow_err *err)
{
    const struct dsflow_model *m = user;

    memcpy(to, m->params[unit],
           (size_t)m->s.model.units[unit].elems * sizeof(*to));
    return DSFLOW_OK;
}

int dsflow_model_export(const struct dsflow_model *m, const char *folder,
                        enum dsflow_dtype dtype, struct dsflow_err *err)
{
    const struct dsf_export_spec spec = {
        .folder = folder,
        .dtype = dtype,
        .updates = m->updates,
        .read = read_unit,
        .user = (void *)m,
    };
    locale_t own;
    int status;

    if (dtype != DSFLOW_FP32 && dtype != DSFLOW_BF16 && dtype != DSFLOW_FP16)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "weights of type %s: expected fp32, bf16 or fp16",
                           dsflow_dtype_str(dtype));
    own = dsf_api_enter();
    status = dsf_export(&m->s, &spec, err);
    dsf_api_leave(own);
    return status;
}

/* Text is collected until the next token is asked for: that was one's. */
struct token_text {
    dsflow_token_fn on_token;
    void *user;
    char *v;
    size_t n, cap;
    bool begun; /* what came before was the prompt */
};

static void add_text(void *user, const char *text, size_t n)
{
    struct token_text *t = user;

    dsf_grow(&t->v, &t->cap, t->n + n, 1);
    memcpy(t->v + t->n, text, n);
    t->n += n;
}

static bool end_token(void *user)
{
    struct token_text *t = user;
    bool stop = t->begun && t->on_token(t->user, t->n > 0 ? t->v : "", t->n);

    t->begun = true;
    t->n = 0;
    return stop;
}

int dsf_api_generate(const struct dsf_session *s,
                     const struct dsf_text_weights *weights, const char *prompt,
                     size_t bytes, const struct dsflow_sampling *sampling,
                     dsflow_token_fn on_token, void *user,
                     struct dsflow_err *err)
{
    struct token_text text = { .on_token = on_token, .user = user };
    struct dsf_sampling how = {
        .temperature = sampling->temperature,
        .top_p = sampling->top_p > 0 ? sampling->top_p : 1,
        .top_k = sampling->top_k,
        .seed = sampling->seed,
        /* Those of an open run do not leave the cores. */
        .workers = s->exec != NULL ? 1 : 0,
        .user = &text,
        .on_text = add_text,
        .is_stopped = end_token,
    };
    struct dsf_sampled sampled;
    int status = dsf_api_check_size("struct dsflow_sampling", sampling->size,
                                    sizeof(*sampling), err);

    if (status == DSFLOW_OK &&
        (sampling->tokens < 0 || !(sampling->temperature >= 0) ||
         !(sampling->top_p >= 0) || sampling->top_p > 1 || sampling->top_k < 0))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "sampling: expected tokens, temperature and top_k "
                             "of at least 0, and top_p of 0 to 1");
    if (status == DSFLOW_OK)
        status = dsf_generate(&s->model, s->job, weights, s->tok, prompt, bytes,
                              sampling->tokens, &how, &sampled, err);
    if (status == DSFLOW_OK && text.n > 0)
        end_token(&text); /* of the last one */
    free(text.v);
    return status;
}

int dsflow_model_generate(const struct dsflow_model *m, const char *prompt,
                          size_t bytes, const struct dsflow_sampling *sampling,
                          dsflow_token_fn on_token, void *user,
                          struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (m->text->n == 0)
        status = dsf_text_weights_lend(m->text, &m->s.model, m->s.job,
                                       m->updates, m->params, err);
    if (status < 0) {
        dsf_text_weights_fini(m->text);
        return status;
    }
    return dsf_api_generate(&m->s, m->text, prompt, bytes, sampling, on_token,
                            user, err);
}
