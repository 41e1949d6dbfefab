#!/bin/bash
# check.sh - build with warnings as errors, and run all tests; then the same
# under the sanitizers (address,undefined), and what runs on several threads under
# ThreadSanitizer.
#
# The last line is `N passed, N failed, N skipped`, from the results of the test
# harness; the status is 0 when nothing failed. CHECK_SANITIZE=no leaves the
# sanitizers out, =yes runs them even when the first round was slow.
. "$(dirname "$0")/setup.sh"

round_limit=500 # seconds after which no other round is started: they take 2.5 times as long

failed_builds=0

# round HOW DIR OPTIONS...: one build, and its tests: all of them, or `threads`.
round() {
    local how=$1 dir=$2
    shift 2

    say "building in $dir ($*)"
    find "$dir" -name '*.trs' -delete 2>/dev/null || true
    if ! "build_$how" "$dir" "$@"; then
        say "the build in $dir failed"
        failed_builds=$((failed_builds + 1))
        return 0
    fi
    # Its status says less than the results of each test, counted below, except
    # when a test did not even build.
    "test_$how" "$dir" >"$dir/check.out" 2>&1 || true
    grep -E '^(PASS|FAIL|SKIP|XPASS|XFAIL|ERROR):' "$dir/check.out" >&2 || true
    if ! grep -q '^# TOTAL:' "$dir/check.out"; then
        say "the tests in $dir did not build, says $dir/check.out:"
        grep -E 'error:|undefined reference|\*\*\*' "$dir/check.out" |
            head -n 40 >&2 || true
        failed_builds=$((failed_builds + 1))
    fi
}

build_all() {
    build "$@"
}

# One test more than there are cores, as many of them also wait.
test_all() {
    make -C "$1" --no-print-directory -k -j$((jobs + 1)) check
}

# Only what the tests of threads need is built, with them.
build_threads() {
    set_up "$@"
}

# ThreadSanitizer may not find its memory where the kernel gives addresses at
# random.
test_threads() {
    local tests fixed=

    tests=$(value "$1" thread_tests)
    ! setarch -R true 2>/dev/null || fixed="setarch -R"
    make -C "$1" --no-print-directory -k -j"$jobs" check-TESTS TESTS="$tests" \
        check_PROGRAMS="$tests" check_SCRIPTS= \
        LOG_COMPILER="$fixed timeout -k 10 $(value "$1" TEST_TIMEOUT)"
}

# Does a program under ThreadSanitizer run here at all?
has_threads() {
    local dir status=0

    dir=$(mktemp -d)
    { echo 'int main(void) { return 0; }' |
        ${CC:-cc} -fsanitize=thread -x c - -o "$dir/try" &&
        { "$dir/try" || setarch -R "$dir/try"; }; } >/dev/null 2>&1 || status=1
    rm -r "$dir"
    return $status
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
# Nobody debugs what is built here: without debug information, links are shorter.
round all "$top/build-check" --enable-werror --disable-static \
    CFLAGS=-O2 CXXFLAGS=-O2
case ${CHECK_SANITIZE:-auto} in
no) sanitize=no ;;
yes) sanitize=yes ;;
*) [ $SECONDS -lt $round_limit ] && sanitize=yes || sanitize=no ;;
esac
if [ $sanitize = yes ]; then
    rounds+=("$top/build-sanitize")
    round all "$top/build-sanitize" --enable-werror --disable-static \
        --enable-sanitize CFLAGS="-O2 -g1" CXXFLAGS="-O2 -g1"
    if has_threads; then
        rounds+=("$top/build-thread")
        round threads "$top/build-thread" --enable-werror --disable-static \
            --enable-sanitize=thread CFLAGS="-O1 -g" CXXFLAGS=-O0
    else
        say "ThreadSanitizer does not run here"
    fi
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
