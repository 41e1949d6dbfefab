/* parts.h - what each of T tensor ranks has of a unit of the model (the words
 * are explained in segments/unit.h).
 */
#ifndef DSF_MODEL_PARTS_H
#define DSF_MODEL_PARTS_H

#include "model/model.h"

/* Part `index` of `unit`, as above. With one part, part 0 is the unit. */
void dsf_part_init(struct dsf_part *part, const struct dsf_model *model,
                   int32_t parts, unsigned unit, int32_t index);

/* From the whole unit, or into it (only what the part has). */
void dsf_part_split(const struct dsf_part *part, const float *whole,
                    float *own);
void dsf_part_merge(const struct dsf_part *part, const float *own,
                    float *whole);

#endif
