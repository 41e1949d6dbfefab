# bare.sh - a machine that shows little of itself: no /proc, no /sys, no
# /dev/shm; and libraries that are loaded only for who asks for them.
. "${srcdir:-.}/tests/cli/lib.sh"

# started ARGS...: the libraries that dsflow loads and starts, one a line.
started() {
    rm -f ld.*
    LD_DEBUG=libs LD_DEBUG_OUTPUT=$here/ld "$dsflow" "$@" > log 2>&1 ||
        { fault "dsflow $* ended with $?"; cat log; }
    sed -n 's/.*calling init: //p' ld.*
}

started --version > version
grep -q "libc\.so" version || fault "no library is seen: $(cat version)"
grep -E "/lib(cuda|cu[a-z]+|nv[a-zA-Z]+|nvidia.*|pocl)[-.]" version &&
    fault "--version starts what it does not need"
started run job.toml --set job.output=seen > cores
grep -q "libdnnl" cores || fault "no oneDNN is seen: $(cat cores)"
grep -E "/lib(cuda|cu[a-z]+|nv[a-zA-Z]+|nvidia.*|pocl)[-.]" cores &&
    fault "a run on cores starts the libraries of devices"

# hidden ARGS...: dsflow where none of them is mounted.
cat > hide.sh <<'EOF2'
for folder in /dev/shm /sys /proc; do
    mount -t tmpfs none $folder || exit 125
done
exec "$@"
EOF2
hidden() {
    unshare --mount sh ./hide.sh "$dsflow" "$@"
}

hidden --version > out 2> err
status=$?
if [ $status -eq 0 ]; then
    hidden report > out 2> err || fault "report: $(cat err)"
    [ -s err ] && fault "report says $(cat err)"
    grep -q "^memory  *[1-9]" out || fault "no memory: $(cat out)"
    hidden run job.toml --set job.output=bare > log 2>&1 ||
        fault "the run: $(cat log)"
    grep "^\[" log && fault "the run has remarks of libraries"
    same seen bare
    hidden run job.toml --set job.output=virtual --set machine.virtual=1 \
        > log 2>&1 || fault "a virtual device: $(cat log)"
    same seen virtual
else
    # Not root, or a sanitizer's library, which reads /proc itself.
    echo "nothing can be hidden here: $(cat err)"
fi
finish
