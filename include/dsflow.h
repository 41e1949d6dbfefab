/* dsflow.h - everything that libdsflow offers. */
#ifndef DSFLOW_H
#define DSFLOW_H

#include <dsflow/codelet.h>
#include <dsflow/error.h>
#include <dsflow/exec.h>
#include <dsflow/export.h>
#include <dsflow/graph.h>
#include <dsflow/log.h>
#include <dsflow/op.h>
#include <dsflow/option.h>
#include <dsflow/policy.h>

#endif
