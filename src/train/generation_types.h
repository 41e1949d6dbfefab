/* generation_types.h - the types in which text is made. */
#ifndef DSF_TRAIN_GENERATION_TYPES_H
#define DSF_TRAIN_GENERATION_TYPES_H

#include "model/model.h"

/* That of the job (precision.compute) where every segment of the model takes
 * it; fp32 where one does not. The head may be fp32 behind others that are not.
 */
struct dsf_generation_types {
    enum dsflow_dtype body, head;
};

/* `job` may be NULL: fp32. */
struct dsf_generation_types dsf_generation_types(const struct dsf_model *model,
                                                 const struct dsf_job *job);

/* Of the parameters of a unit. */
enum dsflow_dtype dsf_generation_unit_type(const struct dsf_model *model,
                                           struct dsf_generation_types types,
                                           unsigned unit);

/* Of the data on a port of a segment of the body, of floats, where tasks of
 * `job` use it. */
enum dsflow_dtype dsf_generation_port_type(struct dsf_generation_types types,
                                           const struct dsf_job *job,
                                           const struct dsflow_segment *segment,
                                           unsigned port);

/* The kind of task that runs the segment forward. */
const struct dsflow_op *dsf_generation_op(const struct dsf_job *job,
                                          const struct dsflow_segment *segment);

#endif
