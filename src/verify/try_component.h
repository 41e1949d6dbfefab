/* try_component.h - what is tried of components that are more than a codelet:
 * optimizers, schedules of the learning rate, policies; and formats. */
#ifndef DSF_VERIFY_TRY_COMPONENT_H
#define DSF_VERIFY_TRY_COMPONENT_H

#include <dsflow/lr_schedule.h>
#include <dsflow/optimizer.h>
#include <dsflow/policy.h>
#include <dsflow/wire_format.h>

#include "verify/try_codelet.h"

/* Are the keys of `how` right? */
int dsf_try_keys(const struct dsf_verify_options *how, struct dsflow_err *err);

/* These end the child (child.h) when something is wrong. */

/* What computes an optimizer on the units of small models: whole, in shards
 * (which must leave the same numbers), with padding (which must stay zero); and
 * beside `reference` (its cpu is NULL: there is none). */
void dsf_try_optimizer(const struct dsflow_optimizer *o,
                       const struct dsf_computes *by,
                       const struct dsf_computes *reference,
                       const struct dsf_verify_options *how,
                       struct dsf_verdict *verdict);

/* Rates are finite, not negative, and those of a step do not change. */
void dsf_try_schedule(const struct dsflow_lr_schedule *s,
                      const struct dsf_verify_options *how,
                      struct dsf_verdict *verdict);

/* The policy among all others in small jobs: the graph is right, and the same
 * one twice. */
void dsf_try_policy(const struct dsflow_policy *policy,
                    const struct dsf_verify_options *how,
                    struct dsf_verdict *verdict);

/* Numbers move no further than it says, what is no number stays none, and each
 * block is coded by itself. */
void dsf_try_format(const struct dsflow_wire_format *f,
                    const struct dsf_verify_options *how,
                    struct dsf_verdict *verdict);

#endif
