/* compress_units.c - what a job sends in fewer bytes: which units, in which
 * codes. */
#include "policies/compress.h"

#include "plan/division.h"
#include "plan/stretch.h"
#include "policies/onebit.h"
#include "policies/zeroone.h"

#include <stdio.h>
#include <string.h>

static bool names_format(const char *name)
{
    return strcmp(name, DSF_NO_FORMAT) != 0;
}

bool dsf_compresses_gradients(const struct dsf_job *job)
{
    return names_format(dsf_compress_keys(job)->gradients);
}

bool dsf_compresses_params(const struct dsf_job *job)
{
    return names_format(dsf_compress_keys(job)->params);
}

/* Those of the data ranks that share the node of the first, where as many share
 * each of the others. */
static int32_t groups_of_a_node(const struct dsflow_plan *plan)
{
    const int32_t ranks = plan->nranks, data = dsf_plan_sharers(plan);
    const int32_t first = dsf_rank_node(plan->machine, ranks, 0);
    int32_t n = 1;

    while (n < data && dsf_rank_node(plan->machine, ranks,
                                     dsf_plan_sharer_at(plan, 0, n)) == first)
        n++;
    return data % n == 0 ? n * (dsf_plan_sums(plan) / data) : 1;
}

/* A format with a scale for each tensor needs all of what it codes, of which
 * ranks have runs. */
int32_t dsf_compress_node(const struct dsflow_plan *plan)
{
    const struct dsf_compress_keys *keys = dsf_compress_keys(plan->job);
    const struct dsflow_wire_format *f =
        dsflow_wire_format_find(keys->gradients);
    int64_t node = keys->node < 0 ? groups_of_a_node(plan) : keys->node;

    return keys->two_level && node > 1 && node < dsf_plan_sums(plan) &&
                   f != NULL && f->encode_by == NULL
               ? (int32_t)node
               : 0;
}

/* How `format` codes the unit; false where it has too few matrices. */
static bool code(const struct dsf_job *job, const char *format,
                 const struct dsf_unit *unit, int64_t cut, int64_t matrices,
                 struct dsf_coding *coding)
{
    const struct dsf_compress_keys *keys = dsf_compress_keys(job);
    const struct dsflow_wire_format *f = dsflow_wire_format_find(format);

    if (f == NULL ||
        (int64_t)dsflow_dtype_bytes(DSFLOW_FP32, unit->elems) <= keys->keep)
        return false;
    *coding = (struct dsf_coding){ .block = keys->block < 0 ? f->block
                                                            : keys->block };
    snprintf(coding->format, sizeof(coding->format), "%s", format);
    dsf_coding_fit(coding, cut, matrices);
    return coding->coded > 0;
}

/* Of a format that has a scale for each tensor: what is coded. */
static bool code_tensors(struct dsf_coding *coding,
                         const struct dsf_coded_tensor *matrices, unsigned n)
{
    if (dsflow_wire_format_find(coding->format)->encode_by == NULL)
        return true;
    dsf_coding_by_tensor(coding, n, matrices);
    return coding->ntensors > 0;
}

unsigned dsf_compress_matrices(const struct dsf_unit *unit,
                               struct dsf_coded_tensor *matrices)
{
    unsigned n = 0;

    for (unsigned i = 0; i < unit->ntensors; i++)
        if (!unit->tensors[i].vector && n < DSF_CODED_TENSORS)
            matrices[n++] = (struct dsf_coded_tensor){
                unit->tensors[i].offset,
                unit->tensors[i].rows * unit->tensors[i].cols, i
            };
    return n;
}

bool dsf_compress_by_tensor(const struct dsf_job *job, const char *format,
                            const struct dsf_unit *unit, unsigned n,
                            const struct dsf_coded_tensor *matrices,
                            struct dsf_coding *coding)
{
    return code(job, format, unit, unit->block, unit->decay, coding) &&
           code_tensors(coding, matrices, n);
}

bool dsf_compress_gradient(const struct dsf_job *job,
                           const struct dsf_unit *unit,
                           struct dsf_coding *coding)
{
    struct dsf_coded_tensor matrices[DSF_CODED_TENSORS];
    const unsigned n = dsf_compress_matrices(unit, matrices);

    return dsf_compress_by_tensor(job, dsf_compress_keys(job)->gradients, unit,
                                  n, matrices, coding);
}

void dsf_compress_part(const struct dsf_unit *unit, const struct dsf_part *part,
                       struct dsf_coding *coding)
{
    struct dsf_coded_tensor matrices[DSF_CODED_TENSORS];
    unsigned n = 0;

    dsf_coding_fit(coding, part->block, part->decay);
    for (unsigned i = 0; i < part->nblocks; i++)
        if (part->blocks[i].at_part < part->decay && n < DSF_CODED_TENSORS)
            matrices[n++] = (struct dsf_coded_tensor){
                part->blocks[i].at_part,
                part->blocks[i].rows * part->blocks[i].cols,
                dsf_unit_tensor_at(unit, part->blocks[i].at_whole)
            };
    if (coding->ntensors == 0)
        return;
    dsf_coding_by_tensor(coding, n, matrices);
    if (coding->ntensors == 0)
        coding->coded = 0;
}

bool dsf_compress_params(const struct dsf_job *job, const struct dsf_unit *unit,
                         int64_t cut, int64_t matrices,
                         struct dsf_coding *coding)
{
    return code(job, dsf_compress_keys(job)->params, unit, cut, matrices,
                coding);
}

bool dsf_carries_errors(const struct dsf_job *job)
{
    return dsf_compresses_gradients(job) &&
           dsf_compress_keys(job)->error != DSF_ERROR_NONE;
}

enum dsflow_dtype dsf_error_type(const struct dsf_job *job)
{
    const struct dsf_onebit_keys *keys = dsf_onebit_keys(job);
    const struct dsf_zeroone_keys *zeroone = dsf_zeroone_keys(job);

    if (keys != NULL)
        return dsf_onebit_error_type(keys);
    if (zeroone != NULL)
        return dsf_zeroone_error_type(zeroone);
    return dsf_compress_keys(job)->error == DSF_ERROR_INT8 ? DSFLOW_INT8_BLOCK
                                                           : DSFLOW_FP32;
}

bool dsf_has_errors(const struct dsf_job *job, const struct dsf_model *model,
                    const struct dsf_unit *unit)
{
    struct dsf_coding coding;

    if (dsf_sends_signs(job))
        return dsf_onebit_coding(job, model, unit).ntensors > 0;
    return dsf_carries_errors(job) && !dsf_compress_rows(job, model, unit) &&
           dsf_compress_gradient(job, unit, &coding);
}

/* Of a tied one, the head has gradients for all rows. */
bool dsf_compress_rows(const struct dsf_job *job, const struct dsf_model *model,
                       const struct dsf_unit *unit)
{
    return dsf_compress_keys(job)->embedding == DSF_ROWS && !model->tied &&
           unit == &model->units[0] && dsf_gradient_type(job) == DSFLOW_FP32;
}
