#!/bin/sh
# mutants.sh BUILD [WORDS] - do the tests of GPUs find faults? Each line of
# mutants.list (those with WORDS in them) puts one into a copy of its file; the
# test that it names, which `make check` runs, is linked with the object that this
# changes, and must fail, end by a signal, or hang; without a fault it must pass.
# BUILD: a build folder in which the tests have been built.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd) || exit 2
words=${2-}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$build" || exit 2
missed=0
tried=0
sane=' '

# value TEXT: as the Makefile has it.
value() {
    printf 'include Makefile\nvalue:\n\t@echo "%s"\n' "$1" | make -s -f - value
}
all='$(DEFS) $(DEFAULT_INCLUDES)'
c_compile=$(value "\$(CC) $all")
cxx_compile=$(value "\$(CXX) $all")
c_flags=$(value '$(CPPFLAGS) $(AM_CFLAGS) -O1 -w')
cxx_flags=$(value '$(CPPFLAGS) $(AM_CXXFLAGS) -fno-sanitize=thread -O1 -w')
core_flags=$(value '$(AM_CPPFLAGS)')
kernel_flags=$(value '$(emulation_flags) $(AM_CPPFLAGS)')
side_flags=$(value '$(tests_gpu_libemulated_la_CPPFLAGS)')
module_flags=$(value '$(tests_gpu_dsflow_cuda_emulated_la_CPPFLAGS)')
link="./libtool --silent --tag=CXX --mode=link $(value '$(CXX) $(AM_LDFLAGS)')"
libs=$(value '$(LDADD)')

# compile UNIT: from $work/src to $work/mutant.lo.
compile() {
    in="-I$work/src"
    case $1 in
    *.cu) how="$cxx_compile $in $kernel_flags $cxx_flags" ;;
    gpu/module.cpp) how="$cxx_compile $in $module_flags $cxx_flags" ;;
    *.cpp) how="$cxx_compile $in $side_flags $cxx_flags" ;;
    gpu/*) how="$c_compile $in $side_flags $c_flags" ;;
    *) how="$c_compile $in $core_flags $c_flags" ;;
    esac
    tag=CXX
    case $1 in *.c) tag=CC ;; esac
    ./libtool --silent --tag=$tag --mode=compile $how -c -o "$work/mutant.lo" \
        "$work/src/$1"
}

# relink UNIT TEST: what the test runs, with the mutant.
relink() {
    rm -f "$work/run/$2"
    case $1:$2 in
    gpu/module.cpp:*)
        ln -s "$build/tests/gpu/$2" "$work/run/$2"
        $link -module -avoid-version -rpath / -o "$work/mutant.la" \
            "$work/mutant.lo" tests/gpu/libruntime.la tests/gpu/libemulated.la &&
            for m in bare emulated; do
                ln -f "$work/.libs/mutant.so" \
                    "$work/run/tests/gpu/.libs/dsflow-cuda-$m.so"
            done
        ;;
    *:meshes.sh | *:jobs.sh)
        rm "$work/run/tests/same/test_meshes"
        $link -o "$work/run/tests/same/test_meshes" "$work/mutant.lo" \
            $(value '$(tests_same_test_meshes_OBJECTS)') $libs
        ;;
    *:*.sh)
        rm "$work/run/dsflow"
        $link -export-dynamic -o "$work/run/dsflow" "$work/mutant.lo" \
            $(value '$(dsflow_OBJECTS)') $libs
        ;;
    *:test_cuda | *:test_planned)
        $link -o "$work/run/$2" "$work/mutant.lo" \
            $(value "\$(tests_gpu_$2_OBJECTS)") $libs
        ;;
    *)
        $link -o "$work/run/$2" "$work/mutant.lo" \
            $(value "\$(tests_gpu_$2_OBJECTS)") tests/gpu/libemulated.la $libs
        ;;
    esac
}

# A folder like the build's, with what was built.
set_up() {
    rm -rf "$work/run"
    mkdir -p "$work/run/tests/gpu/.libs" "$work/run/tests/same"
    ln -s "$build/dsflow" "$build/tests/gpu/test_"* "$work/run/"
    ln -s "$build/tests/same/test_meshes" "$work/run/tests/same/"
    ln -s "$build/tests/gpu/.libs/"*.so "$work/run/tests/gpu/.libs/"
    mkdir "$work/run/.libs"
    ln -s "$build/.libs/dsflow-mpi.so" "$work/run/.libs/"
}

# passes TEST
passes() {
    case $1 in
    *.sh) set -- sh "$top/tests/gpu/$1" ;;
    *) set -- "./$1" ;;
    esac
    (
        cd "$work/run" &&
            srcdir=$top PATH=$work/run:$PATH STARPU_NCPU=2 STARPU_SILENT=1 \
                STARPU_WORKERS_NOBIND=1 \
                XDG_CACHE_HOME=$build/tests/.cache HWLOC_COMPONENTS=-pci,-gl \
                timeout -k 5 150 "$@" < /dev/null > "$work/said" 2>&1
    )
}

# mutant FILE UNIT TEST SCRIPT: is it found?
mutant() {
    case $sane in
    *" $3 "*) ;;
    *) set_up && passes "$3" || { echo "$3 fails without a fault"; return 1; } ;;
    esac
    sane="$sane$3 "
    rm -rf "$work/src"
    mkdir -p "$work/src/${1%/*}"
    cp "$top/src/$2" "$work/src/$2"
    sed "$4" "$top/src/$1" > "$work/src/$1"
    ! cmp -s "$top/src/$1" "$work/src/$1" || { echo "changes nothing"; return 1; }
    set_up
    compile "$2" && relink "$2" "$3" || { echo "does not build"; return 1; }
    ! passes "$3"
}

while read -r file unit test script; do
    case $file in '#'* | '') continue ;; esac
    case "$file $test $script" in *"$words"*) ;; *) continue ;; esac
    tried=$((tried + 1))
    if mutant "$file" "$unit" "$test" "$script"; then
        printf '%s\n' "found   $file: $script"
    else
        printf '%s\n' "MISSED  $file: $script"
        missed=$((missed + 1))
    fi
done < "$top/tests/gpu/mutants.list"
echo "$((tried - missed)) of $tried found"
[ $missed -eq 0 ]
