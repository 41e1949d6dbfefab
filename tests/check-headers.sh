#!/bin/sh
# check-headers.sh - each installed header compiles alone, as C and as C++; and so
# do the macros that fill structures.
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

structures() {
    "$@" -I "$inc" -Wall -Wextra -pedantic -Werror -Wno-unused-variable \
        -Wno-unused-but-set-variable -Wno-missing-field-initializers -fsyntax-only - <<'END' || {
#include <dsflow.h>
void fill(void);
void fill(void)
{
    struct dsflow_batches a = DSFLOW_BATCHES(.vocab = 256, .user = 0);
    struct dsflow_exec_options b = DSFLOW_EXEC_OPTIONS(.workers = 3);
    struct dsflow_data_spec c = DSFLOW_DATA(.name = "x", .elems = 3);
    struct dsflow_task_spec d = DSFLOW_TASK(.layer = 3);
    struct dsflow_tensor_info e = DSFLOW_TENSOR_INFO();
    struct dsflow_sampling f = DSFLOW_SAMPLING(.tokens = 3, .top_k = 1);
    struct dsflow_program_steps g = DSFLOW_PROGRAM_STEPS(.every = 2);
    struct dsflow_kept h = DSFLOW_KEPT(.name = "x");
    struct dsflow_prediction i = DSFLOW_PREDICTION();
    struct dsflow_span j = DSFLOW_SPAN();
    struct dsflow_train_options k = DSFLOW_TRAIN_OPTIONS(.serial = 1);
}
END
        echo "macros that fill structures: $*"
        status=1
    }
}
structures ${CC:-cc} -x c -std=c11
structures ${CXX:-c++} -x c++ -std=c++20
exit $status
