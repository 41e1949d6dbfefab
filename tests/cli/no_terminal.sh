# no_terminal.sh - where no pseudo-terminal can be made, as in a chroot without
# /dev/pts, the tests that need one are skipped and none fails.
build=$PWD
tests=$(cd "${srcdir:-.}/tests" && pwd)
. "${srcdir:-.}/tests/cli/lib.sh"

# hidden COMMAND...: with a /dev/pts that has nothing in it.
hidden() {
    unshare -rm sh -c 'mount -t tmpfs none /dev/pts && exec "$@"' sh "$@"
}
if ! hidden true > /dev/null 2>&1; then
    echo "no namespace can be made here in which /dev/pts is empty"
    exit 77
fi

hidden sh -c ". '$tests/cli/lib.sh' && ! has_terminal" > out 2>&1 ||
    fault "has_terminal: $(cat out)"
if [ -x "$build/tests/unit/cli/test_progress" ]; then
    hidden "$build/tests/unit/cli/test_progress" > out 2>&1 ||
        fault "test_progress: $(cat out)"
    grep -q "SKIPPED.*a_bar_never_wraps" out || fault "nothing is skipped: $(cat out)"
    grep -q "OK.*a_file_gets_a_line" out || fault "all is skipped: $(cat out)"
fi
finish
