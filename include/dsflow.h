/* dsflow.h - everything that libdsflow offers.
 *
 * Threads: any thread may call any function, and calls of two threads do not
 * overlap, but where a header says that they may: what makes, plans, trains,
 * generates, measures or loads shares tables of the process. What is made by
 * one thread may be used and freed by another. A callback is called by the
 * thread that called the function it was given to, but for dsflow_batches and
 * dsflow_log_fn, which threads of the library call too, several at a time. It
 * does not step or close the run that calls it. A child of fork(2) has none of
 * the library's threads: it leaves alone a run that was open in its parent.
 *
 * Pointers are not NULL, but where a header says that they may be.
 *
 * Locale: text has numbers as in C, "0.5", whatever locale the program has set;
 * callbacks may find that of C for numbers. */
#ifndef DSFLOW_H
#define DSFLOW_H

#include <dsflow/axis.h>
#include <dsflow/batches.h>
#include <dsflow/checkpoint.h>
#include <dsflow/codelet.h>
#include <dsflow/dtype.h>
#include <dsflow/error.h>
#include <dsflow/exec.h>
#include <dsflow/export.h>
#include <dsflow/graph.h>
#include <dsflow/job.h>
#include <dsflow/log.h>
#include <dsflow/lr_schedule.h>
#include <dsflow/machine.h>
#include <dsflow/model.h>
#include <dsflow/op.h>
#include <dsflow/optimizer.h>
#include <dsflow/option.h>
#include <dsflow/plan.h>
#include <dsflow/plugin.h>
#include <dsflow/policy.h>
#include <dsflow/predict.h>
#include <dsflow/rewrite.h>
#include <dsflow/segment.h>
#include <dsflow/segments.h>
#include <dsflow/sparsity.h>
#include <dsflow/trace.h>
#include <dsflow/train.h>
#include <dsflow/wire_format.h>

#endif
