#!/bin/sh
# check-exports.sh - the shared library exports dsflow_ names and no others,
# and each function that an installed header declares; the command does too.
lib=.libs/libdsflow.so
inc=${srcdir:-.}/include/dsflow
test -e $lib || exit 77

names=$(nm -D --defined-only $lib | awk '{ print $3 }' | sort -u)
status=0
for name in $(echo "$names" | grep -v '^dsflow_'); do
    echo "$name is exported: it should be hidden"
    status=1
done
declared=$(cat "$inc"/*.h | tr '\n' ' ' |
    grep -o 'DSFLOW_API [^;(]*(' | grep -o 'dsflow_[a-z0-9_]* *($' |
    tr -d ' (' | sort -u)
test -n "$declared" || { echo "no declaration found in $inc"; exit 1; }
for name in $declared; do
    echo "$names" | grep -qx "$name" || {
        echo "$name is declared, and not in the library"
        status=1
    }
done
# A plug-in that the command loads finds them in the command itself; what trains
# and plans (src/api) is for programs.
own=$(nm -D --defined-only dsflow | awk '{ print $3 }')
for name in $names; do
    grep -qs "^[a-z].*\b$name(" "${srcdir:-.}"/src/api/*.c && continue
    echo "$own" | grep -qx "$name" || {
        echo "$name is in the library, and not in the command"
        status=1
    }
done
exit $status
