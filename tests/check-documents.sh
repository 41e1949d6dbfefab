#!/bin/sh
# check-documents.sh - what documents name is there: files, functions and types,
# headings that links lead to, and the folders that use a library.
cd "${srcdir:-.}" || exit 99
documents="README.md ARCHITECTURE.md HACKING.md $(echo docs/*.md docs/design/*.md)"
LC_ALL=C
export LC_ALL

# Files, by their paths or the ends of these; in the rows of ARCHITECTURE.md, in
# their folder. Names with an x or a * stand for several; `free` ones are those of
# DeepSpeed, of the reader, and of what make writes.
there() {
    find src include tests scripts examples docs completion build-aux -type f
    ls
}
check_files() {
    # shellcheck disable=SC2086 # documents are words
    there | awk -v free='^(csrc/|centralize|mine|tests/same/meshes-)' '
        NR == FNR {
            there[$0] = 1
            for (end = $0; sub("^[^/]*/", "", end);)
                there[end] = 1
            next
        }
        {
            folder = FILENAME == "ARCHITECTURE.md" && /^\| `[a-z]*` \|/ ? $2 : ""
            gsub("`", "", folder)
            n = split($0, part, "`")
            for (i = 2; i <= n; i += 2) {
                m = split(part[i], word, /[^A-Za-z0-9_.\/+*-]+/)
                for (k = 1; k <= m; k++) {
                    name = word[k]
                    sub("^([.][.]?/)+", "", name)
                    if (name !~ /[a-z0-9_]\.(c|h|cpp|cu|sh)$/ ||
                        name ~ /[*]|(^|[\/_])x\./ || name ~ free)
                        continue
                    if (folder != "" && name !~ "/" && i > 2 &&
                        name ~ /\.(c|cpp|cu)$/)
                        name = "src/" folder "/" name
                    if (!(name in there))
                        print FILENAME ":" FNR ": no file " name
                }
            }
        }' - $documents
}

# Each folder of src has its row.
check_rows() {
    for folder in src/*/; do
        folder=$(basename "$folder")
        grep -q "^| \`$folder\` |" ARCHITECTURE.md ||
            echo "ARCHITECTURE.md: no row of $folder"
    done
}

# What dsflow names, in text and in code.
check_names() {
    name='(dsf|dsflow|DSF|DSFLOW)_[A-Za-z0-9_]*[A-Za-z0-9]'

    # shellcheck disable=SC2086 # documents are words
    grep -rhowE "$name" src include tests examples scripts configure.ac | sort -u |
        awk -v name="^$name\$" '
            NR == FNR { there[$0] = 1; next }
            {
                n = split($0, word, /[^A-Za-z0-9_]+/)
                for (i = 1; i <= n; i++)
                    if (word[i] ~ name && !(word[i] in there))
                        print FILENAME ":" FNR ": no " word[i]
            }' - $documents
}

# Headings, as GitHub makes anchors of them. Whether the files of links are there,
# tests/cli/installed.sh says.
anchors() {
    sed -n 's/.*<a id="\([^"]*\)">.*/\1/p; /^##* /{s/^#* *//;s/[^A-Za-z0-9 _-]//g;s/ /-/g;p;}' "$1" |
        tr '[:upper:]' '[:lower:]'
}
check_headings() {
    for document in $documents; do
        sed 's/](/\n](/g' "$document" |
            sed -n 's/^](\([^):#][^):#]*\)#\([^)]*\)).*/\1 \2/p; s/^](#\([^)]*\)).*/- \1/p' |
            while read -r file anchor; do
                case $file in
                -) file=$document ;;
                *) file=$(dirname "$document")/$file ;;
                esac
                anchors "$file" | grep -qxF -e "$anchor" ||
                    echo "$document: $file has no heading #$anchor"
            done
    done
}

# Who includes the headers of a library.
check_libraries() {
    while read -r header library; do
        row=$(grep "^| $library |" docs/dependencies.md)
        for folder in src/*; do
            used=no said=no
            grep -rqE "#include [<\"]([a-z0-9+]*/)*$header" "$folder" && used=yes
            case $row in *"\`$folder\`"*) said=yes ;; esac
            [ $used = $said ] ||
                echo "docs/dependencies.md: $library in $folder: used: $used, said: $said"
        done
    done << END
starpu.h StarPU 1.4
dnnl.h oneDNN
omp.h GCC's OpenMP (libgomp)
hwloc.h hwloc
toml.h toml++
pcre2.h PCRE2
utf8proc.h utf8proc
isa-l/ ISA-L
xxhash.h xxHash
zip.h libzip
libaio.h libaio
END
}

faults=$(check_files; check_rows; check_names; check_headings; check_libraries)
[ -z "$faults" ] || { echo "$faults"; exit 1; }
