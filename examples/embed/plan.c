/* plan.c - a program that asks how long a step of a job takes, on one to eight
 * GPUs of a machine that it need not have:
 *
 *     cc plan.c -o plan $(pkg-config --cflags --libs dsflow)
 *     ./plan job.toml machine.toml
 */
#include <dsflow.h>

#include <stdio.h>

/* One line: ranks, seconds, tokens a second, memory of a rank. */
static int predict(const struct dsflow_job *job,
                   const struct dsflow_machine *machine, int ranks,
                   struct dsflow_err *err)
{
    struct dsflow_prediction found = DSFLOW_PREDICTION();
    struct dsflow_planned *planned = NULL;
    struct dsflow_job *shared = NULL;
    char set[64];
    const char *sets[] = { set };
    int status;

    snprintf(set, sizeof(set), "mesh.data=%d", ranks);
    status = dsflow_job_with(job, sets, 1, &shared, err);
    if (status == DSFLOW_OK)
        status = dsflow_plan_job(shared, machine, NULL, &planned, err);
    if (status == DSFLOW_OK)
        status = dsflow_predict(planned, &found, err);
    if (status == DSFLOW_OK)
        printf("%d ranks  %8u tasks  %.4g s  %.4g tokens/s  %.1f GiB\n", ranks,
               dsflow_graph_ntasks(dsflow_planned_graph(planned)),
               found.step_seconds, found.tokens_per_second,
               found.device_bytes / (1 << 30));
    dsflow_planned_free(planned);
    dsflow_job_free(shared);
    return status;
}

int main(int argc, char **argv)
{
    struct dsflow_machine *machine = NULL;
    struct dsflow_job *job = NULL;
    struct dsflow_err err;
    int status;

    if (argc != 3) {
        fprintf(stderr, "expected: plan job.toml machine.toml\n");
        return 2;
    }
    status = dsflow_job_read(argv[1], &job, &err);
    if (status == DSFLOW_OK)
        status = dsflow_machine_read(argv[2], &machine, &err);
    for (int ranks = 1; ranks <= 8 && status == DSFLOW_OK; ranks *= 2)
        status = predict(job, machine, ranks, &err);
    if (status < 0)
        fprintf(stderr, "plan: %s\n", err.msg);
    dsflow_machine_free(machine);
    dsflow_job_free(job);
    return dsflow_status_exit(status);
}
