/* test_contents.c - whole units go into the replicas, shards and parts of any
 * mesh and memory, and come out of them as they were; what one mesh writes into
 * a file another reads. */
#include "trial.h"

#include "train/contents.h"

#include "lib/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const trials[] = {
    "gpt2",
    "gpt2 mesh.data=2",
    "gpt2 mesh.data=3 zero.stage=1 batch.sequences=12",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.keep=0",
    "gpt2 mesh.tensor=4 mesh.data=2 zero.stage=2",
    "gpt2 mesh.data=2 zero.stage=3 mesh.tensor=2 mesh.pipeline=2 "
    "pipeline.schedule=interleaved",
    "gpt2 offload.optimizer=cpu offload.params=cpu offload.piece=4KiB "
    "mesh.data=2 zero.stage=1",
    "gpt2 offload.optimizer=nvme offload.params=nvme offload.piece=4KiB",
    "gpt2 optimizer.kind=lion mesh.data=2 zero.stage=1",
};
enum { NTRIALS = sizeof(trials) / sizeof(*trials) };

static const char path[] = "test_contents.file";

/* A trial with the memory of its data, and what it keeps. */
struct run {
    struct trial trial;
    struct dsflow_exec *exec;
    struct dsf_contents c;
};

static void begin(struct run *r, const char *text)
{
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".";
    struct dsflow_exec_options options = DSFLOW_EXEC_OPTIONS(
            .kind = DSFLOW_SERIAL,
            .disk = { .paths = &folder, .npaths = 1, .block = 64 << 10 });
    static const struct dsflow_host host;
    struct dsflow_err err;

    plan_trial(&r->trial, text);
    options.ranks = (unsigned)r->trial.plan->nranks;
    must(text,
         dsflow_exec_open(r->trial.graph, &options, &host, &r->exec, &err),
         &err);
    dsf_contents_init(&r->c, &r->trial.model, r->trial.graph, r->exec,
                      &r->trial.plan->kept, r->trial.plan->nparts);
}

static void end(struct run *r)
{
    dsf_contents_fini(&r->c);
    dsflow_exec_close(r->exec);
    end_trial(&r->trial);
}

/* A unit whose numbers say where they are; padding is zero, as it always is. */
static float *new_unit(const struct dsf_model *model, unsigned u, unsigned kind)
{
    const struct dsf_unit *unit = &model->units[u];
    float *whole = calloc((size_t)unit->elems, sizeof(*whole));

    for (unsigned t = 0; t < unit->ntensors; t++)
        for (int64_t i = 0; i < unit->tensors[t].rows * unit->tensors[t].cols;
             i++)
            whole[unit->tensors[t].offset + i] =
                (float)(1 + kind) + (float)u * 16 +
                (float)(unit->tensors[t].offset + i) / 65536;
    return whole;
}

static bool is_tensors(const struct run *r, unsigned kind)
{
    return r->c.kept->v[kind].kind == DSFLOW_KEPT_TENSORS;
}

static void put_all(struct run *r)
{
    struct dsflow_err err;

    for (unsigned u = 0; u < r->trial.model.nunits; u++)
        for (unsigned k = 0; k < r->c.kept->n; k++) {
            float *whole;

            if (!is_tensors(r, k))
                continue;
            whole = new_unit(&r->trial.model, u, k);
            must(r->trial.text, dsf_contents_put(&r->c, u, k, whole, &err),
                 &err);
            free(whole);
        }
}

static void assert_all(struct run *r, const char *text)
{
    struct dsflow_err err;

    for (unsigned u = 0; u < r->trial.model.nunits; u++)
        for (unsigned k = 0; k < r->c.kept->n; k++) {
            size_t n = (size_t)r->trial.model.units[u].elems;
            float *whole, *got;

            if (!is_tensors(r, k))
                continue;
            whole = new_unit(&r->trial.model, u, k);
            got = calloc(n, sizeof(*got));
            must(text, dsf_contents_get(&r->c, u, k, got, &err), &err);
            for (size_t i = 0; i < n; i++)
                if (memcmp(&got[i], &whole[i], sizeof(*got)) != 0)
                    fail_msg("%s: number %zu of %s of unit %u is %g, not %g",
                             text, i, r->c.kept->v[k].name, u, (double)got[i],
                             (double)whole[i]);
            free(whole);
            free(got);
        }
}

static void what_is_put_comes_back_from_each_mesh(void **state)
{
    for (unsigned i = 0; i < NTRIALS; i++) {
        struct run r;

        begin(&r, trials[i]);
        put_all(&r);
        assert_all(&r, trials[i]);
        end(&r);
    }
}

/* All data that says that it is kept is part of it, and nothing else is. */
static void the_list_has_all_that_is_kept(void **state)
{
    for (unsigned i = 0; i < NTRIALS; i++) {
        struct run r;
        size_t n = 0;

        begin(&r, trials[i]);
        for (uint32_t d = 0; d < dsflow_graph_ndata(r.trial.graph); d++) {
            const struct dsflow_data_spec *spec =
                dsflow_graph_data(r.trial.graph, (dsflow_data_id){ d });

            if (spec->persistent && !spec->constant && spec->kept == 0)
                fail_msg("%s: %s is kept, and by no name", trials[i],
                         spec->name);
            if (spec->kept > 0 && !spec->persistent)
                fail_msg("%s: %s says that it is kept, and is not persistent",
                         trials[i], spec->name);
            n += spec->kept > 0;
        }
        assert_int_equal(r.c.n, n);
        assert_int_equal(dsflow_plan_kept(r.trial.plan, "control"),
                         1 + DSF_KEPT_CONTROL);
        end(&r);
    }
}

struct writing {
    struct run *r;
    unsigned *unit, *kind; /* by tensor */
};

static int put_tensor(void *user, unsigned i, struct dsf_st_writer *out,
                      struct dsflow_err *err)
{
    const struct writing *w = user;

    return dsf_contents_write(&w->r->c, w->unit[i], w->kind[i], out, err);
}

static void write_file(struct run *r)
{
    const struct dsf_model *model = &r->trial.model;
    size_t most = model->nunits * r->c.kept->n;
    struct dsf_st_tensor *tensors = calloc(most, sizeof(*tensors));
    struct writing w = { r, calloc(most, sizeof(unsigned)),
                         calloc(most, sizeof(unsigned)) };
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    struct dsflow_err err;
    unsigned n = 0;

    for (unsigned u = 0; u < model->nunits; u++)
        for (unsigned k = 0; k < r->c.kept->n; k++) {
            if (!is_tensors(r, k))
                continue;
            w.unit[n] = u;
            w.kind[n] = k;
            tensors[n].name = calloc(1, 64);
            snprintf(tensors[n].name, 64, "%u.%u", u, k);
            tensors[n].dtype = DSFLOW_FP32;
            tensors[n].ndims = 1;
            tensors[n].dims[0] = model->units[u].elems;
            tensors[n++].bytes = (size_t)model->units[u].elems * sizeof(float);
        }
    must(r->trial.text,
         dsf_st_write(fd, path, tensors, n, NULL, put_tensor, &w, NULL, &err),
         &err);
    close(fd);
    while (n-- > 0)
        free(tensors[n].name);
    free(tensors);
    free(w.unit);
    free(w.kind);
}

static void read_file(struct run *r)
{
    struct dsf_st_file *file;
    struct dsflow_err err;
    char name[64];

    must(path, dsf_st_open(path, &file, &err), &err);
    for (unsigned u = 0; u < r->trial.model.nunits; u++)
        for (unsigned k = 0; k < r->c.kept->n; k++) {
            snprintf(name, sizeof(name), "%u.%u", u, k);
            if (is_tensors(r, k))
                must(path,
                     dsf_contents_read(&r->c, u, k, file,
                                       dsf_st_find(file, name), &err),
                     &err);
        }
    dsf_st_close(file);
}

/* Each mesh to the next of the list; the last one has another optimizer. */
static void what_one_mesh_writes_another_reads(void **state)
{
    for (unsigned i = 0; i + 1 < NTRIALS; i++) {
        struct run from, to;

        begin(&from, trials[i]);
        put_all(&from);
        write_file(&from);
        end(&from);
        begin(&to, trials[(i + 1) % (NTRIALS - 1)]);
        read_file(&to);
        assert_all(&to, trials[i]);
        end(&to);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_comes_back_from_each_mesh),
        cmocka_unit_test(the_list_has_all_that_is_kept),
        cmocka_unit_test(what_one_mesh_writes_another_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
