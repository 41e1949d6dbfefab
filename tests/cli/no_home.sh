# no_home.sh - StarPU's files are of the run alone: it starts where nothing can be
# written in any folder of the user, where what it once kept there is damaged,
# and where the disk of TMPDIR is full; and leaves nothing.
. "${srcdir:-.}/tests/cli/lib.sh"

run run --set job.steps=2

# starts COMMAND...: evaluates the run, with nothing of StarPU's said.
starts() {
    "$@" "$dsflow" -q eval run > out 2> err
    status=$?
    { [ $status -eq 0 ] && [ ! -s err ]; } || fault "$*: status $status: $(cat err)"
}

mkdir tmp
for home in "" / /proc /nonexistent; do
    starts env -u XDG_CACHE_HOME -u STARPU_HOME HOME="$home" TMPDIR="$here/tmp"
done
for at in STARPU_HOME XDG_CACHE_HOME STARPU_PERF_MODEL_DIR TMPDIR; do
    starts env "$at="
    starts env "$at=/proc/none"
done
starts env STARPU_HOSTNAME=other STARPU_MPI_HOSTNAMES="a b"

# What it measures where it finds no file of its own takes seconds on some machines.
starts env STARPU_SILENT=0

bus=home/.starpu/sampling/bus
mkdir -p $bus
for file in affinity bandwidth config latency platform.xml platform.v4.xml; do
    echo "no number" > "$bus/$(uname -n | cut -d. -f1).$file"
done
starts env XDG_CACHE_HOME="$here/home"

ls tmp/* 2> /dev/null && fault "files are left"

# A folder for temporary files that has no room: the next one is taken.
if unshare -rm true 2> /dev/null; then
    starts unshare -rm sh -c 'mount -t tmpfs -o size=4k none tmp &&
        head -c 4096 /dev/zero > tmp/full; TMPDIR=$PWD/tmp exec "$@"' sh
fi
finish
