#!/bin/sh
# check-types.sh - elements have a type (dsflow/dtype.h), and bytes follow from
# it: what plans, moves or runs tasks does not count in floats. Kernels and
# files know theirs; the head's working memory has doubles.
src=${srcdir:-.}/src

found=$(grep -nE 'sizeof\((float|double)\)' \
    "$src"/policies/*.[ch] "$src"/plan/*.[ch] "$src"/sim/*.[ch] \
    "$src"/graph/*.[ch] "$src"/exec/*.[ch] "$src"/segments/*.[ch] \
    "$src"/tasks/*.[ch] |
    grep -vE 'char pad\[|(task_head.c|tile.h):.*sizeof\(double\)' || true)
test -z "$found" || {
    echo "the size of a type that dsflow_dtype_bytes says:"
    echo "$found"
    exit 1
}
