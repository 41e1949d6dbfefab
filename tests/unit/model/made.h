/* made.h - the model of a table of keys. */
#ifndef DSF_TESTS_UNIT_MODEL_MADE_H
#define DSF_TESTS_UNIT_MODEL_MADE_H

#include "model/model.h"

#include "lib/test.h"

static inline void make(struct dsf_model *m, struct dsf_job *job,
                        const char *model)
{
    char text[512];
    int n =
        snprintf(text, sizeof(text),
                 "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n[model]\n%s", model);
    struct dsflow_err err;

    if (dsf_job_parse(text, (size_t)n, "job.toml", NULL, 0, NULL, job, &err) <
            0 ||
        dsf_model_init(m, job, &err) < 0)
        fail_msg("%s", err.msg);
}

#endif
