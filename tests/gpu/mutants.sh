#!/bin/sh
# mutants.sh BUILD [WORDS] - do the tests of kernels find faults? Each line of
# mutants.list (those with WORDS in them) puts one into a copy of its file; the
# test it names is linked with the kernels that this changes, and must fail, end by
# a signal, or hang. BUILD: a build folder in which these tests have been built.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd) || exit 2
words=${2-}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
missed=0
tried=0

value() {
    sed -n "s/^$1 = //p" "$build/Makefile"
}
cxx=$(value CXX)

# mutant FILE KERNELS TEST SCRIPT: is it found?
mutant() {
    rm -rf "$work/gpu"
    mkdir "$work/gpu"
    cp "$top/src/gpu/$2.cu" "$work/gpu/"
    sed "$4" "$top/src/gpu/$1" > "$work/gpu/$1"
    if cmp -s "$top/src/gpu/$1" "$work/gpu/$1"; then
        echo "changes nothing"
        return 1
    fi
    $cxx -std=c++17 -O1 -w -ffp-contract=off -D_GNU_SOURCE \
        -I"$work" -I"$top/tests/gpu/emulation" -I"$top/include" -I"$top/src" \
        -x c++ -c -o "$work/mutant.o" "$work/gpu/$2.cu" || return 1
    "$build/libtool" --silent --tag=CXX --mode=link $cxx -o "$work/mutant" \
        "$build/tests/gpu/$3.o" "$work/mutant.o" \
        "$build/tests/gpu/libemulated.la" "$build/libdsflow_core.la" -lcmocka ||
        return 1
    ! timeout 60 "$work/mutant" > "$work/said" 2>&1
}

while read -r file kernels test script; do
    case $file in '#'* | '') continue ;; esac
    case "$file $script" in *"$words"*) ;; *) continue ;; esac
    tried=$((tried + 1))
    if mutant "$file" "$kernels" "$test" "$script"; then
        echo "found   $file: $script"
    else
        echo "MISSED  $file: $script"
        missed=$((missed + 1))
    fi
done < "$top/tests/gpu/mutants.list"
echo "$((tried - missed)) of $tried found"
[ $missed -eq 0 ]
