/* exec_window.c - a buffer in which the program looks at data that is not in
 * main memory, one piece at a time: what is on NVMe, or on a device. */
#include "exec/exec_memory.h"
#include "exec/exec_private.h"
#include "exec/spread_private.h"

bool dsf_exec_is_near(const struct dsflow_exec *exec, dsflow_data_id data)
{
    if (exec->spread != NULL) {
        uint32_t own = exec->spread->part->data[data.i];

        return own != DSF_NOT_IN_PART &&
               dsf_exec_is_near(exec->spread->own, (dsflow_data_id){ own });
    }
    return exec->mem[data.i] != NULL && exec->on[data.i] == NULL;
}

/* There is one size, so that it is allocated once for all that can be mapped. */
static size_t most_bytes(const struct dsflow_exec *exec)
{
    size_t most = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(exec->graph); i++)
        if (!dsf_exec_is_near(exec, (dsflow_data_id){ i }) &&
            dsflow_graph_data(exec->graph, (dsflow_data_id){ i })->persistent &&
            dsf_exec_size(exec, i) > most)
            most = dsf_exec_size(exec, i);
    return (most + DSF_IO_ALIGN - 1) / DSF_IO_ALIGN * DSF_IO_ALIGN;
}

static int open_window(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct dsf_exec_window *w = &exec->window;
    int status = DSFLOW_OK;

    if (w->at != NULL)
        return DSFLOW_OK;
    w->bytes = most_bytes(exec);
    w->at = dsf_io_alloc(w->bytes, err);
    if (w->at == NULL)
        return DSFLOW_ENOMEM;
    for (unsigned i = 0; i < exec->ndevices && status == DSFLOW_OK; i++)
        status =
            exec->devices[i].class->pin(&exec->devices[i], w->at, w->bytes, err);
    return status;
}

static int get(struct dsflow_exec *exec, uint32_t data, struct dsflow_err *err)
{
    void *at = exec->window.at;

    return exec->on[data] != NULL
               ? dsf_exec_copy_now(exec, data, at, false, err)
               : dsf_io_read(exec->disk.io, at, exec->disk.at[data],
                             dsf_exec_size(exec, data), err);
}

static int put(struct dsflow_exec *exec, uint32_t data, struct dsflow_err *err)
{
    void *at = exec->window.at;

    return exec->on[data] != NULL
               ? dsf_exec_copy_now(exec, data, at, true, err)
               : dsf_io_write(exec->disk.io, at, exec->disk.at[data],
                              dsf_exec_size(exec, data), err);
}

int dsf_exec_window_put_back(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct dsf_exec_window *w = &exec->window;
    struct dsflow_err failure;

    if (w->dirty && put(exec, w->shown, &failure) < 0)
        dsf_exec_fail(exec, &failure);
    w->dirty = false;
    return dsflow_exec_failed(exec, err);
}

void dsf_exec_window_free(struct dsflow_exec *exec)
{
    struct dsf_exec_window *w = &exec->window;

    for (unsigned i = 0; i < exec->ndevices && w->at != NULL; i++)
        exec->devices[i].class->unpin(&exec->devices[i], w->at, w->bytes);
    dsf_io_free(w->at, w->bytes);
    w->at = NULL;
}

int dsf_exec_window_unmap(struct dsflow_exec *exec, struct dsflow_err *err)
{
    int status = dsf_exec_window_put_back(exec, err);

    dsf_exec_window_free(exec);
    return status;
}

void *dsf_exec_window_map(struct dsflow_exec *exec, uint32_t data,
                          enum dsflow_access access)
{
    struct dsf_exec_window *w = &exec->window;
    struct dsflow_err err;
    int status = dsf_exec_window_put_back(exec, &err);

    if (status == DSFLOW_OK)
        status = open_window(exec, &err);
    if (status == DSFLOW_OK && (access & DSFLOW_R))
        status = get(exec, data, &err);
    if (status < 0) {
        dsf_exec_fail(exec, &err);
        return NULL;
    }
    w->shown = data;
    w->dirty = (access & DSFLOW_W) != 0;
    return w->at;
}
