#!/bin/bash
# fuzz.sh [SECONDS [READER...]] - libFuzzer on the readers of files, for so long
# each (60), or on those that are named: job, trace, … (tests/fuzz/fuzz_*.c).
#
# Builds with clang in build-fuzz/, where build-fuzz/corpus/READER keeps what was
# found from run to run. Bytes that end a reader are left in build-fuzz/ as
# READER.crash-…: once it is mended they go to tests/fuzz/corpus, which
# make check tries, or into a unit test.
. "$(dirname "$0")/setup.sh"

dir=$top/build-fuzz
seconds=${1:-60}
[ $# -eq 0 ] || shift
checked=-fsanitize=address

command -v clang >/dev/null || {
    say "no clang here (clang, with libclang-rt-14-dev)"
    exit 1
}
install_starpu
[ -x "$top/configure" ] || "$top/autogen.sh" >&2
mkdir -p "$dir"
[ -e "$dir/Makefile" ] || (cd "$dir" && "$top/configure" \
    --with-starpu="$starpu_prefix" --disable-static CC="${CC:-clang}" \
    CXX="${CXX:-clang++}" CPPFLAGS=-DFUZZ_BY_CLANG \
    CFLAGS="-O1 -g $checked -fsanitize=fuzzer-no-link" \
    CXXFLAGS="-O1 $checked" LDFLAGS="$checked" >configure.out 2>&1) ||
    { tail -n 20 "$dir/configure.out" >&2; exit 1; }

readers=$*
[ -n "$readers" ] || readers=$(sed -n 's|.*%reldir%/fuzz_\([a-z]*\)\( .\)\?$|\1|p' \
    "$top/tests/fuzz/local.am")
found=0
for reader in $readers; do
    make -C "$dir" --no-print-directory -j"$jobs" "tests/fuzz/fuzz_$reader" \
        LDFLAGS="$checked -fsanitize=fuzzer" >&2
    mkdir -p "$dir/corpus/$reader"
    cp "$top/tests/fuzz/corpus/$reader".* "$dir/corpus/$reader" 2>/dev/null || true
    (cd "$dir" && srcdir=.. "tests/fuzz/fuzz_$reader" -max_total_time="$seconds" \
        -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$reader." "corpus/$reader" 2>"fuzz-$reader.log") ||
        { found=1; grep -E -m 3 "ERROR|fuzz_|SUMMARY" "$dir/fuzz-$reader.log" >&2; }
    say "$reader: $(sed -n 's/.*number_of_executed_units: *//p' \
        "$dir/fuzz-$reader.log") files tried"
done
exit $found
