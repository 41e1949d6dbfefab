#!/bin/bash
# coverage.sh [TEST...] - which lines of src the unit and same tests run.
#
# Builds in build-coverage/, runs the tests that are named (all of them if none
# is, and then what was counted before is forgotten), and prints a line for each
# folder. build-coverage/lines has each line of src with 1 where it was run and
# 0 where it was not: `grep ' 0$' build-coverage/lines`.
. "$(dirname "$0")/setup.sh"

dir=$top/build-coverage
# Counted by several threads; what is inlined or moved counts where it was.
counted="--coverage -fprofile-update=atomic -fno-inline"

install_packages "${packages[@]}"
install_starpu
build "$dir" --disable-static CXXFLAGS="-O0 --coverage" \
    CFLAGS="-O1 $counted -include $top/scripts/counted.h"

if [ $# -gt 0 ]; then
    tests=$*
else
    find "$dir" -name '*.gcda' -delete
    tests=$(value "$dir" TESTS | tr ' ' '\n' | grep -E '^tests/(unit|same)/')
fi
# shellcheck disable=SC2086 # words are what separates tests
make -C "$dir" --no-print-directory -k -j"$jobs" check-TESTS \
    TESTS="$(echo $tests)" check_PROGRAMS= TEST_TIMEOUT=3600 \
    >"$dir/check.out" 2>&1 || true
grep -E '^(FAIL|ERROR):' "$dir/check.out" >&2 || true
grep -q '^# TOTAL:' "$dir/check.out" || {
    tail -n 20 "$dir/check.out" >&2
    say "the tests did not build"
    exit 1
}

# A line stands in several objects where a header has it: one of them is enough.
cd "$dir"
find src -name '*.gcno' -print0 | xargs -0 gcov -t 2>/dev/null |
    awk -F: -v top="$top/" '
        $2 + 0 == 0 && $3 == "Source" {
            file = index($4, top) == 1 ? substr($4, length(top) + 1) : ""
        }
        $2 + 0 > 0 && $1 !~ /-/ && file ~ /^src\// {
            run[file ":" $2 + 0] += $1 !~ /[#=]/
        }
        END { for (at in run) print at, (run[at] > 0) }' |
    sort -t: -k1,1 -k2,2n >lines
awk '{
        split($1, path, "/")
        all[path[2]]++
        run[path[2]] += $2
        total++
        runs += $2
    }
    END {
        for (folder in all)
            printf "%-12s %6d of %6d lines  %5.1f %%\n", folder, run[folder],
                all[folder], 100 * run[folder] / all[folder] | "sort"
        close("sort")
        if (total > 0)
            printf "%-12s %6d of %6d lines  %5.1f %%\n", "all of src", runs,
                total, 100 * runs / total
        exit total == 0
    }' lines
