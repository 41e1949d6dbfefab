#!/bin/bash
# generate.sh DSFLOW - text against what the machine can do, of GPT-2 124M with
# random weights: tokens a second against a plain read of the weights by as many
# threads, and a prompt against the forward pass of training. All in turn;
# medians, and the ratios of each turn (bench_generate.c).
#
# DSFLOW is the program in its build folder, which has or makes the benchmark.
# PRECISION is the type of the computation (fp32). PAIRS and WORKERS as in
# common.sh; some 5 GB of memory.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${1:-}"
build=$(dirname -- "$dsflow")
make -s -C "$build" tests/bench/bench_generate
cd "$work"
"$build/tests/bench/bench_generate" "$PAIRS" "$WORKERS" "${PRECISION:-fp32}"
