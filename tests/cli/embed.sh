# embed.sh - programs that link an installed dsflow: examples/embed, one in C++
# and one in Python. What is trained has the bits of `dsflow run`.
. "${srcdir:-.}/tests/cli/lib.sh"
build=$OLDPWD
source=$(cd "$build" && cd "${srcdir:-.}" && pwd)

MAKEFLAGS= MAKELEVEL= make -C "$build" -s install DESTDIR="$here/root" \
    > log 2>&1 || { cat log; exit 1; }
pc=$(find root -name dsflow.pc)
prefix=$(sed -n 's/^prefix=//p' "$pc")
lib=$(dirname "$(find "$here/root" -name libdsflow.so)")
PKG_CONFIG_PATH=$here/$(dirname "$pc")
PKG_CONFIG_LIBDIR=$PKG_CONFIG_PATH
PKG_CONFIG_SYSROOT_DIR=$here/root
LD_LIBRARY_PATH=$lib
export PKG_CONFIG_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH
dsflow=$here/root$prefix/bin/dsflow

# link COMPILER FILE PROGRAM
link() {
    $1 -O1 -Wall -Werror -Wno-missing-field-initializers "$2" -o "$3" \
        $sanitize $(pkg-config --cflags --libs dsflow) > log 2>&1 ||
        { fault "$2: $(cat log)"; finish; }
}
sanitize=
nm -D "$lib/libdsflow.so" | grep -q __asan_init && sanitize=-fsanitize=address,undefined

# The example of the README: twenty steps on bytes.
link "${CC:-cc}" "$source/examples/embed/train.c" train
[ "$(wc -l < "$source/examples/embed/train.c")" -le 120 ] || fault "train.c is long"
./train text.txt embedded > out 2> err || fault "train: $(cat err)"
[ "$(grep -c '^step [0-9]*  loss [0-9.]*$' out)" -eq 20 ] || fault "steps: $(cat out)"
[ "$(wc -c < embedding.f32)" -eq $((256 * 64 * 4)) ] || fault "no embedding"

# The same job by the command, with text in the same order.
cat > same.toml <<'EOF'
[job]
steps = 20
[model]
layers = 2
heads = 2
width = 64
context = 64
[data]
train = "text.txt"
shuffle = false
validation = 0
[batch]
sequences = 8
[optimizer]
lr = 1e-3
EOF
"$dsflow" run same.toml --set job.output=run > log 2>&1 || fault "run: $(cat log)"
same run embedded

# It goes on where it was; a second time there is nothing to do.
./train text.txt embedded > out 2> err || fault "train again: $(cat err)"
[ -s out ] && fault "steps after the last: $(cat out)"

# A folder that cannot be written to, and text that is too short: one line each.
echo > file
./train text.txt file > out 2> err && fault "a file for a folder"
[ "$(said | wc -l)" -eq 1 ] || fault "a file for a folder: $(cat err)"

# Nothing of it is left when all is closed: two steps of one layer, by one worker,
# where valgrind is. What libraries do with numbers that were never set is theirs.
# The machine is measured before, and under its name there: valgrind has no AVX-512.
if command -v valgrind > /dev/null && [ -z "$sanitize" ]; then
    sed 's/steps = 20/steps = 2/; s/layers = 2/layers = 1/; s/width = 64/width = 16/
        s/sequences = 8/sequences = 1\\nmicro = 1\\ntile = 64/
        s/lr = 1e-3/lr = 1e-3\\n[machine]\\nworkers = 1/' \
        "$source/examples/embed/train.c" > small.c
    link "${CC:-cc}" small.c small
    XDG_CACHE_HOME=$here/measured
    export XDG_CACHE_HOME
    ./small text.txt small-before > out 2> err || fault "small: $(cat err)"
    sed -i 's/, avx512[a-z0-9_]*"$/, avx2"/' measured/dsflow/machine.toml
    DSFLOW_ISA=portable valgrind -q --undef-value-errors=no --error-exitcode=9 \
        --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect --num-callers=25 \
        ./small text.txt small-run > out 2> err || fault "valgrind: $(cat err)"
    [ "$(grep -c "^step" out)" -eq 2 ] || fault "steps under valgrind: $(cat out)"
else
    echo "no valgrind here, or no use of it: what leaks is not looked for"
fi

link "${CC:-cc}" "$source/examples/embed/plan.c" plan
sed 's/^sequences = 8/sequences = 8\nmicro = 1/' same.toml > plan.toml
./plan plan.toml "$source/examples/machines/h200-8.toml" > out 2> err ||
    fault "plan: $(cat err)"
[ "$(grep -c 'tokens/s' out)" -eq 4 ] || fault "plan: $(cat out)"
./plan plan.toml nowhere.toml > out 2> err
[ $? -eq 2 ] || fault "a machine that is not there: $(cat err)"
grep -q "^plan: nowhere.toml: " err || fault "no name of the file: $(cat err)"

# C++: the same headers.
cat > embed.cpp <<'EOF'
#include <dsflow.h>
#include <cstdio>
int main()
{
    dsflow_job *job = nullptr;
    dsflow_err err;
    if (dsflow_job_parse("[job]\nsteps = 3\n[model]\nlayers = 1\nheads = 1\n"
                         "width = 8\ncontext = 8\n[wrong]\n", "embed.cpp", &job,
                         &err) == DSFLOW_OK)
        return 1;
    std::puts(err.msg);
    dsflow_job_free(job);
}
EOF
link "${CXX:-c++}" embed.cpp cpp
./cpp > out 2>&1 || fault "C++: $(cat out)"
grep -q "^embed.cpp:8: \[wrong\]: unknown table" out || fault "C++: $(cat out)"

# Python, where there is one; a library under the sanitizers cannot be loaded.
if command -v python3 > /dev/null && [ -z "$sanitize" ]; then
    cat > embed.py <<'EOF'
import ctypes, sys
lib = ctypes.CDLL("libdsflow.so")
class Err(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("msg", ctypes.c_char * 512)]
err, job = Err(), ctypes.c_void_p()
if lib.dsflow_job_read(b"same.toml", ctypes.byref(job), ctypes.byref(err)) != 0:
    sys.exit(err.msg.decode())
sets = (ctypes.c_char_p * 2)(b"job.output=python", b"job.steps=2")
two = ctypes.c_void_p()
if lib.dsflow_job_with(job, sets, 2, ctypes.byref(two), ctypes.byref(err)) != 0:
    sys.exit(err.msg.decode())
if lib.dsflow_train(two, None, ctypes.byref(err)) != 0:
    sys.exit(err.msg.decode())
EOF
    python3 embed.py > out 2>&1 || fault "Python: $(cat out)"
    [ "$(cat python/checkpoints/latest)" = step-2 ] || fault "Python trained nothing"
fi

finish
