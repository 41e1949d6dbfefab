#!/bin/sh
# nvcc.sh NVCC ARGS... - run nvcc, handing the -f flags to its host compiler.
nvcc=$1
shift
for arg; do
    shift
    case $arg in
    -f*) set -- "$@" -Xcompiler "$arg" ;;
    *) set -- "$@" "$arg" ;;
    esac
done
exec "$nvcc" "$@"
