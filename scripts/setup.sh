# setup.sh - what quickstart.sh and check.sh share: packages, StarPU, a build.
# Sourced, not run. Every step that finds its work done does nothing, so a
# second run needs no network.

set -euo pipefail
exec </dev/null # nothing here asks a question
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
starpu_prefix=${DSFLOW_DEPS:-${HOME:-/root}/.local/share/dsflow}/starpu-1.4
starpu_built=$starpu_prefix/share/build-starpu/built
jobs=$(nproc)

# docs/dependencies.md says what each of these is for.
packages=(
    autoconf automake g++ gcc libtool make patch pkg-config
    libaio-dev libcmocka-dev libdnnl-dev libhwloc-dev libisal-dev
    libjansson-dev libopenmpi-dev libpcre2-dev libtomlplusplus-dev
    libutf8proc-dev libxxhash-dev libzip-dev openmpi-bin
    libxml2-utils pajeng python3 xz-utils
)

say() {
    echo "${0##*/}: $*" >&2
}

# install_packages NAME...: those that are not installed.
install_packages() {
    local absent=() sudo=() name

    if ! command -v apt-get >/dev/null; then
        say "no apt-get here: docs/dependencies.md lists what is needed"
        return 0
    fi
    for name; do
        dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null |
            grep -qx installed || absent+=("$name")
    done
    [ ${#absent[@]} -gt 0 ] || return 0

    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            say "neither root nor sudo; to be installed: ${absent[*]}"
            return 1
        fi
        sudo=(sudo env DEBIAN_FRONTEND=noninteractive)
    fi
    say "installing ${absent[*]}"
    "${sudo[@]}" apt-get -qq update >&2 ||
        say "apt-get update failed: going on with what it knows"
    "${sudo[@]}" apt-get -qq install -y --no-install-recommends \
        -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "${absent[@]}" >&2
}

# StarPU 1.4, built here; or the system's, where it is one and that cannot be.
install_starpu() {
    "$top/scripts/build-starpu.sh" "$starpu_prefix" && return 0
    pkg-config --exists starpu-1.4 || return 1
    say "taking the system's StarPU $(pkg-config --modversion starpu-1.4)"
}

# set_up DIR OPTIONS...: configure, when that is needed.
set_up() {
    local dir=$1 starpu=() want
    shift

    [ ! -e "$starpu_built" ] || starpu=(--with-starpu="$starpu_prefix")
    [ -x "$top/configure" ] || "$top/autogen.sh" >&2
    mkdir -p "$dir"
    want="$* ${starpu[*]:-} $(cat "$starpu_built" 2>/dev/null || true)"
    if [ ! -e "$dir/Makefile" ] ||
        [ "$(cat "$dir/.configured" 2>/dev/null)" != "$want" ]; then
        (cd "$dir" && "$top/configure" "${starpu[@]}" "$@" >configure.out 2>&1) || {
            tail -n 20 "$dir/configure.out" >&2
            return 1
        }
        # The summary, for who reads along.
        sed -n '/^dsflow /,$p' "$dir/configure.out" >&2
        echo "$want" >"$dir/.configured"
    fi
}

# build DIR OPTIONS...: the same, and make.
build() {
    set_up "$@" || return 1
    make -C "$1" --no-print-directory -j"$jobs" >&2
}

# value DIR NAME: a variable of the Makefile of a build.
value() {
    make -s --no-print-directory -C "$1" Makefile >&2 # where it is out of date
    printf 'include Makefile\nvalue:\n\t@echo $(%s)\n' "$2" |
        make -s --no-print-directory -C "$1" -f - value
}
