#!/bin/bash
# make.sh BUILD FOLDER - what a machine lacks that has NVIDIA's driver, CUDA and
# Python with PyTorch: dsflow with its libraries, tests and text in one folder.
# `make gpu-bundle` calls it when all of that has been built.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
top=$(realpath -- "$here/../..")
build=$(realpath -- "$1")
folder=$2
most=60000000 # bytes

# Libraries that every machine has, or that are NVIDIA's.
is_theirs()
{
    case ${1##*/} in
    ld-linux* | libc.so.* | libm.so.* | libdl.so.* | librt.so.* | \
        libpthread.so.* | libresolv.so.* | libcuda.so.* | libcudart.so.* | \
        libcublas*) return 0 ;;
    esac
    return 1
}

# libraries FILE: paths of those that it needs, by ldd.
libraries()
{
    ldd "$1" | awk '$2 == "=>" && $3 ~ "^/" { print $3 }'
}

put()
{
    install -m "$1" "$2" "$3"
    strip --strip-unneeded "$3"
}

rm -rf -- "$folder"
mkdir -p "$folder/bin" "$folder/lib" "$folder/text"
for program in dsflow tests/gpu/test_module tests/gpu/planted \
    tests/bench/gpu_speeds tests/bench/gpu_products; do
    put 755 "$build/$program" "$folder/bin/${program##*/}"
done
put 644 "$build/.libs/dsflow-cuda.so" "$folder/lib/dsflow-cuda.so"
for file in "$build/dsflow" "$build/tests/gpu/test_module" \
    "$build/.libs/dsflow-cuda.so"; do
    libraries "$file"
done | sort -u | while read -r library; do
    is_theirs "$library" ||
        install -m 644 "$(realpath -- "$library")" "$folder/lib/${library##*/}"
done
"${CC:-cc}" -O1 -shared -fPIC -o "$folder/lib/crash.so" "$here/crash.c"
# Those of the machine's compiler, where it has them: tools of NVIDIA's that are
# loaded into programs may need newer ones than ours.
mkdir "$folder/lib/spare"
mv "$folder"/lib/libstdc++.so.* "$folder"/lib/libgcc_s.so.* "$folder/lib/spare"

cp "$here"/*.py "$here/run" "$folder"
cp "$top/tests/bench/torch_train.py" "$folder"
cat "$top"/docs/*.md "$top"/docs/design/*.md "$top"/*.md > "$folder/text/docs"

# The largest are packed; run unpacks them.
find "$folder/lib" -name '*.so*' -size +4M -exec gzip -9 {} +
bytes=$(du -sb -- "$folder" | cut -f1)
if ((bytes > most)); then
    echo "make.sh: $folder has $bytes bytes: expected $most at most" >&2
    exit 1
fi
echo "$folder: $((bytes / 1000000)) MB"
