#!/bin/sh
# check-mutants.sh - each fault of tests/gpu/mutants.list still changes its file,
# and what it compiles and runs is there. Whether tests find the faults,
# tests/gpu/mutants.sh tries, which takes hours.
top=${srcdir:-.}
list=$top/tests/gpu/mutants.list

faults=$(grep -v -e '^#' -e '^$' "$list" | while read -r file unit test script; do
    for path in "src/$file" "src/$unit" "tests/gpu/${test%.sh}"; do
        [ -e "$top/$path" ] || [ -e "$top/$path.c" ] || [ -e "$top/$path.cpp" ] ||
            [ -e "$top/$path.sh" ] || printf '%s\n' "no $path: $script"
    done
    ! sed "$script" "$top/src/$file" | cmp -s - "$top/src/$file" ||
        printf '%s\n' "$file: changes nothing: $script"
done)
[ -z "$faults" ] || { printf '%s\n' "$list:" "$faults"; exit 1; }
[ "$(wc -l < "$list")" -gt 100 ]
