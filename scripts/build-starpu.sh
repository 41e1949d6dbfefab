#!/bin/bash
# build-starpu.sh [PREFIX] - build StarPU 1.4 from Debian's source package.
#
# The source is that of Debian's unstable distribution, from the mirror that
# this machine's apt already uses, read through an apt state of its own: the
# system's sources stay as they are. With STARPU_TARBALL=FILE nothing is
# downloaded. FxT is built in when it is there; a second run
# does nothing unless what it would build has changed.
#
# Exit status: 0 installed, or there already; 1 it did not build; 2 the command
# line is wrong; 3 no source can be reached.
set -euo pipefail
exec </dev/null

series=1.4
pinned=1.4.10+dfsg
pinned_sha256=6b3bb9ec0d79f937882148b2da09ae6cb0ad4d1e83a104be45723dd70eba99c3
suites="sid testing stable" # in this order, until one has the series

here=$(cd "$(dirname "$0")" && pwd)
default=${DSFLOW_DEPS:-${HOME:-/root}/.local/share/dsflow}/starpu-$series

case ${1:-} in
-h | --help)
    echo "usage: build-starpu.sh [PREFIX]    default: $default"
    exit 0
    ;;
-*)
    echo "build-starpu.sh: $1: expected a folder to install in" >&2
    exit 2
    ;;
esac
if [ $# -gt 1 ]; then
    echo "usage: build-starpu.sh [PREFIX]" >&2
    exit 2
fi
prefix=${1:-$default}
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
state=$prefix/share/build-starpu # how it was built, the log, the source
mkdir -p "$state"

say() {
    echo "build-starpu.sh: $*" >&2
}

# --- what would be built ------------------------------------------------------

# Without what only its own developers need, and without the libraries that
# StarPU takes when it finds them and dsflow does not use: a package removed
# later would leave it unable to start. Devices and messages are dsflow's own, so
# without CUDA and MPI.
# What StarPU keeps of a piece of data grows with the square of the memory nodes:
# 19 KB with 32 of them, 5 KB with 16. A static library, which goes into dsflow: an
# installed dsflow then needs nothing of this folder.
options=(
    --disable-build-doc --disable-build-examples --disable-build-tests
    --disable-fortran --disable-mpi --disable-cuda --disable-hip --disable-opencl --disable-socl
    --disable-starpufft --disable-starpurm --disable-starpupy --disable-fstack-protector-all
    --disable-leveldb --disable-papi --disable-glpk
    --enable-static --disable-shared --with-pic
    --enable-maxcpus=128 --enable-maxnumanodes=8
    --enable-maxbuffers=16 --enable-maxnodes=16
)
has=()
if pkg-config --exists fxt 2>/dev/null; then
    options+=(--with-fxt)
    has+=(FxT)
else
    options+=(--disable-fxt)
fi

# One build at a time; the second of two that start together finds it done.
exec 9>"$state/lock"
flock 9

is_pinned() {
    echo "$pinned_sha256  $1" | sha256sum --check --status 2>/dev/null
}

# The stamp is written last, and says what was built and how.
fixes=("$here"/starpu-$series-*.patch)
want="$pinned $(cat "${fixes[@]}" | sha256sum) ${options[*]}"
if [ -n "${STARPU_TARBALL:-}" ] && ! is_pinned "$STARPU_TARBALL"; then
    want="$STARPU_TARBALL $want"
fi
if [ "$(cat "$state/built" 2>/dev/null)" = "$want" ]; then
    say "already in $prefix"
    exit 0
fi
rm -f "$state/built"

work=$(mktemp -d "${TMPDIR:-/tmp}/build-starpu.XXXXXX")
trap 'rm -rf "$work"' EXIT

# --- the source ---------------------------------------------------------------

# The mirrors of this machine's apt, those that look like Debian's first: what
# is not Debian's has no source that Debian signed.
mirrors() {
    apt-get indextargets --format '$(REPO_URI) $(IDENTIFIER)' 2>/dev/null |
        awk '$2 == "Packages" && $1 !~ /security|^cdrom:/ {
            sub("/$", "", $1)
            if (!seen[$1]++)
                print ($1 ~ /\/debian$/ ? 0 : 1), $1
        }' | sort -s -n -k1,1 | cut -d' ' -f2
}

# download MIRROR SUITE: the newest source of the series, the pinned one if it
# is there. apt checks it against the index, and the index's signature.
download() {
    local apt=$work/apt keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    local version

    rm -rf "$apt"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts"
    echo "deb-src [signed-by=$keyring] $1 $2 main" >"$apt/sources.list"
    # An index past its date only offers what Debian signed earlier: on a mirror
    # that lags, that is still the source wanted here.
    local private=(
        -o "Dir::Etc::sourcelist=$apt/sources.list"
        -o "Dir::Etc::sourceparts=$apt/parts"
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache"
        -o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none
        -o Acquire::Retries=2 -o Acquire::Check-Valid-Until=false
        -o APT::Update::Error-Mode=any
    )
    say "reading the source index of $2 at $1"
    apt-get -qq "${private[@]}" update >&2 || return 1
    version=$(apt-cache "${private[@]}" showsrc --only-source starpu 2>/dev/null |
        awk -v series="$series." '$1 == "Version:" &&
            index($2, series) == 1 { print $2 }' |
        sort -V | awk -v pinned="$pinned-" '
            { last = $1 }
            index($1, pinned) == 1 { exact = $1 }
            END { print exact != "" ? exact : last }')
    [ -n "$version" ] || return 1
    say "downloading the source of StarPU $version"
    (cd "$work" && apt-get -qq "${private[@]}" source --download-only \
        --only-source "starpu=$version" >&2) || return 1
    for tarball in "$work"/starpu_*.orig.tar.?z; do
        [ -e "$tarball" ] || return 1
    done
    # What the index vouches for is enough for another version; the pinned one
    # must be the one that was tried here.
    case $tarball in
    */starpu_"$pinned".orig.tar.gz) is_pinned "$tarball" ;;
    *) say "$pinned has gone; taking $version, which Debian signed" ;;
    esac
}

find_source() {
    local mirror suite

    if [ -n "${STARPU_TARBALL:-}" ]; then
        tarball=$STARPU_TARBALL
        if [ ! -r "$tarball" ]; then
            say "STARPU_TARBALL: $tarball cannot be read"
            return 1
        fi
        is_pinned "$tarball" ||
            say "$tarball is not $pinned: its sum is not checked"
        return 0
    fi
    tarball=$state/starpu_$pinned.orig.tar.gz
    is_pinned "$tarball" && return 0
    if ! command -v apt-get >/dev/null; then
        say "no apt-get here, which would download it"
        return 1
    fi
    for suite in $suites; do
        for mirror in $(mirrors); do
            download "$mirror" "$suite" && return 0
        done
    done
    return 1
}

if ! find_source; then
    say "no source of StarPU $series can be reached. Any of these will do:
  STARPU_TARBALL=FILE $0: FILE is starpu_$pinned.orig.tar.gz of
    https://deb.debian.org/debian/pool/main/s/starpu/
  a mirror in apt's sources that has Debian's $suites
  StarPU $series built by hand in DIR, and configure --with-starpu=DIR"
    exit 3
fi

# --- build --------------------------------------------------------------------

src=$work/src
log=$state/log
mkdir -p "$src" "$work/build"
tar -xf "$tarball" -C "$src" --strip-components=1 --no-same-owner

# Each says what it is for; a later release may not need it.
for fix in "${fixes[@]}"; do
    if patch -d "$src" -p1 --dry-run --force --silent <"$fix" >/dev/null 2>&1
    then
        patch -d "$src" -p1 --force --silent <"$fix"
    fi
done

say "building StarPU with ${has[*]:-CPUs only}, about a minute; log in $log"
build() {
    cd "$work/build"
    "$src/configure" --prefix="$prefix" "${options[@]}" CFLAGS="-O2 -w"
    make -j"$(nproc)"
    # Of an earlier build; and what makes libtool remember this folder.
    rm -f "$prefix"/lib/libstarpu*
    make install
    rm -f "$prefix"/lib/*.la
}
# Not `if build`: there, a command that fails would not stop it.
set +e
(
    set -e
    build
) >"$log" 2>&1
status=$?
set -e
if [ $status -ne 0 ]; then
    say "StarPU did not build; the end of $log:"
    tail -n 20 "$log" >&2
    exit 1
fi

case $tarball in
"$work"/*) cp "$tarball" "$state/" ;;
esac
echo "$want" >"$state/built"
say "StarPU is in $prefix"
