#!/bin/sh
# check-headers.sh - each installed header compiles alone, as C and as C++.
inc=${srcdir:-.}/include
status=0

check() {
    name=$1
    shift
    echo "#include <$name>" |
        "$@" -I "$inc" -Wall -Wextra -Werror -fsyntax-only - || {
        echo "$name does not stand alone: $*"
        status=1
    }
}

for h in "$inc"/dsflow.h "$inc"/dsflow/*.h; do
    # CC may hold options: it is split on purpose.
    check "${h#"$inc"/}" ${CC:-cc} -x c -std=gnu11
    check "${h#"$inc"/}" ${CXX:-c++} -x c++ -std=c++17
    # What `make install` would leave out.
    case $h in
    */dsflow.h) ;;
    *)
        grep -q "dsflow/${h##*/}\$\|dsflow/${h##*/} " "$inc/local.am" || {
            echo "${h#"$inc"/} is not in include/local.am"
            status=1
        }
        grep -q "<dsflow/${h##*/}>" "$inc/dsflow.h" || {
            echo "${h#"$inc"/} is not in dsflow.h"
            status=1
        }
        ;;
    esac
done
exit $status
