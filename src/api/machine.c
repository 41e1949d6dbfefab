/* machine.c - machines. */
#include "api/api.h"

#include "base/alloc.h"
#include "measure/machine_cache.h"

#include <stdlib.h>

static int keep(int status, struct dsflow_machine *machine,
                struct dsflow_machine **out)
{
    *out = status == DSFLOW_OK ? machine : NULL;
    if (status < 0)
        free(machine);
    return status;
}

int dsflow_machine_present(struct dsflow_machine **out, struct dsflow_err *err)
{
    struct dsflow_machine *machine = dsf_xcalloc(1, sizeof(*machine));
    struct dsf_machine present;
    locale_t own = dsf_api_enter();
    int status = dsf_machine_probe(&present, err);

    if (status == DSFLOW_OK)
        status = dsf_machine_present(&present, &machine->model, err);
    dsf_api_leave(own);
    return keep(status, machine, out);
}

int dsflow_machine_read(const char *path, struct dsflow_machine **out,
                        struct dsflow_err *err)
{
    struct dsflow_machine *machine = dsf_xcalloc(1, sizeof(*machine));
    locale_t own = dsf_api_enter();
    int status = dsf_machine_model_read(path, &machine->model, err);

    dsf_api_leave(own);
    return keep(status, machine, out);
}

int dsflow_machine_write(const struct dsflow_machine *machine, const char *path,
                         struct dsflow_err *err)
{
    locale_t own = dsf_api_enter();
    int status = dsf_machine_save(&machine->model, path, err);

    dsf_api_leave(own);
    return status;
}

void dsflow_machine_free(struct dsflow_machine *machine)
{
    if (machine == NULL)
        return;
    dsf_machine_model_fini(&machine->model);
    free(machine);
}
