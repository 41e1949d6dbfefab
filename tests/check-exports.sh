#!/bin/sh
# check-exports.sh - the shared library exports dsflow_ names and no others, each
# with a version, and each function that an installed header declares; the
# command does too.
lib=.libs/libdsflow.so
inc=${srcdir:-.}/include/dsflow
test -e $lib || exit 77

nm -D --defined-only --with-symbol-versions $lib > exports.got
names=$(awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' exports.got | sort -u)
status=0
# A name that stands for a version has no address, and is none to link with.
awk '$2 != "A" && $3 !~ /@@DSFLOW_[0-9]+\.[0-9]+$/ {
    print $3 " has no version"
    bad = 1
} END { exit bad }' exports.got || status=1
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
        echo "$name is declared, and not in the library: see src/libdsflow.map"
        status=1
    }
done
# A plug-in that the command loads finds them in the command itself; what trains
# and plans (src/api) is for programs.
own=$(nm -D --defined-only dsflow | awk '{ sub(/@.*/, "", $3); print $3 }')
for name in $names; do
    grep -qs "^[a-z].*\b$name(" "${srcdir:-.}"/src/api/*.c && continue
    echo "$own" | grep -qx "$name" || {
        echo "$name is in the library, and not in the command"
        status=1
    }
done
exit $status
