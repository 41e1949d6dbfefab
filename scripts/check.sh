#!/bin/bash
# check.sh - build with warnings as errors, and run all tests; then the same
# under the sanitizers (address,undefined).
#
# The last line is `N passed, N failed, N skipped`, from the results of the test
# harness; the status is 0 when nothing failed. CHECK_SANITIZE=no leaves the
# second round out, =yes runs it even when the first was slow.
. "$(dirname "$0")/setup.sh"

round_limit=900 # seconds after which no second round is started

failed_builds=0

# round DIR OPTIONS...: one build, all its tests.
round() {
    local dir=$1
    shift

    say "building in $dir ($*)"
    find "$dir" -name '*.trs' -delete 2>/dev/null || true
    if ! build "$dir" "$@"; then
        say "the build in $dir failed"
        failed_builds=$((failed_builds + 1))
        return 0
    fi
    # Its status says less than the results of each test, counted below, except
    # when a test did not even build.
    make -C "$dir" --no-print-directory -k -j"$jobs" check >"$dir/check.out" 2>&1 ||
        true
    grep -E '^(PASS|FAIL|SKIP|XPASS|XFAIL|ERROR):' "$dir/check.out" >&2 || true
    if ! grep -q '^# TOTAL:' "$dir/check.out"; then
        say "the tests in $dir did not build; the end of $dir/check.out:"
        tail -n 40 "$dir/check.out" >&2
        failed_builds=$((failed_builds + 1))
    fi
}

# results DIR...: one line per test, `RESULT FILE`.
results() {
    find "$@" -name '*.trs' 2>/dev/null | sort | while read -r trs; do
        sed -n "s|^:test-result: *\([A-Z]*\).*|\1 ${trs%.trs}|p" "$trs"
    done
}

install_packages "${packages[@]}"
install_starpu

rounds=("$top/build-check")
round "$top/build-check" --enable-werror --disable-static
case ${CHECK_SANITIZE:-auto} in
no) sanitize=no ;;
yes) sanitize=yes ;;
*) [ $SECONDS -lt $round_limit ] && sanitize=yes || sanitize=no ;;
esac
if [ $sanitize = yes ]; then
    rounds+=("$top/build-sanitize")
    round "$top/build-sanitize" --enable-werror --disable-static \
        --enable-sanitize
else
    say "the tests under the sanitizers were not run"
fi

all=$(results "${rounds[@]}")
echo "$all" | while read -r result test; do
    case $result in
    FAIL | XPASS | ERROR)
        echo "--- $result: $test"
        tail -n 100 "$test.log"
        ;;
    esac
done

count() {
    echo "$all" | grep -cE "^($1) " || true
}
passed=$(count 'PASS|XFAIL')
failed=$(($(count 'FAIL|XPASS|ERROR') + failed_builds))
skipped=$(count SKIP)
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
