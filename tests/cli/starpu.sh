# starpu.sh - where no source of StarPU can be reached, the script that builds it
# says what will do instead, and leaves nothing that looks like a build.
tests=$(cd "${srcdir:-.}/tests" && pwd)
. "${srcdir:-.}/tests/cli/lib.sh"
build=$tests/../scripts/build-starpu.sh

# refused WORDS COMMAND...: status 3, these words, and what to do.
refused() {
    words=$1
    shift
    "$@" > out 2>&1
    status=$?
    [ $status -eq 3 ] || fault "$*: status $status: expected 3: $(cat out)"
    for w in "$words" "no source of StarPU 1.4 can be reached" \
        "STARPU_TARBALL=FILE" "--with-starpu=DIR"; do
        grep -q -e "$w" out || fault "$*: does not say '$w': $(cat out)"
    done
    [ ! -e prefix/share/build-starpu/built ] || fault "$*: says it is built"
}

refused "nowhere.tar.gz cannot be read" \
    env STARPU_TARBALL=nowhere.tar.gz bash "$build" prefix

mkdir bin
printf '#!/bin/sh\nexit 100\n' > bin/apt-get
chmod +x bin/apt-get
refused "" env PATH="$here/bin:$PATH" bash "$build" prefix
finish
