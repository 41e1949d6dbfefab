#!/bin/bash
# wires.sh DSFLOW [GBIT...] - what each mode of [compress] is predicted to give a
# model of 1.3 billion parameters on 8 nodes of eight H200, joined by a network of
# so many Gbit/s a node (1 10 100): a table of the time of a step, and of the bytes
# that come to a node from others. All of it is planned, nothing runs.
#
# A column has the time of a step, and how many times faster than the dense one of
# its stage of ZeRO that is, twice: formats coded by kernels on the GPU, at the
# rate of its memory; and by cores, to which numbers go and from which they come
# by the host link, as formats of plug-ins are.
set -euo pipefail
bench=$(dirname -- "$(realpath -- "$0")")
. "$bench/common.sh"

find_dsflow "${1:-}"
shift
(($# > 0)) || set -- 1 10 100

cat > "$work/job.toml" << 'END'
[job]
steps = 1000
[model]
layers = 24
heads = 32
width = 2048
context = 1024
vocab = 50257
[data]
train = "text.txt"
[batch]
sequences = 256
micro = 4
tile = 1024
groups = 64
[mesh]
data = 64
[precision]
compute = "bf16"
END

# machine GBIT WHERE: of h200-64-nodes.toml, with a network, and with what coding
# takes on cores: a byte over the link, and in an eighth of main memory.
machine()
{
    python3 - "$bench/../../examples/machines/h200-64-nodes.toml" "$@" << 'END'
import re, sys
text, gbit, where = open(sys.argv[1]).read(), float(sys.argv[2]), sys.argv[3]
rate = gbit * 1e9 / 8 / 8 * 0.9
text = text.replace("nodes = 64", "nodes = 8").replace("64 x 8", "8 x 8")
text = re.sub(r"(\[network\]\nbandwidth = )\S+", lambda m: m[1] + str(rate), text)
if where == "cores":
    text += "[kinds]\n" + "".join(
        f'"{kind}" = [0.0, 0.0, {1 / 5.1e10 + 8 / 4.3e11}]\n'
        for kind in ("compress", "decompress", "add_compressed", "add_recoded",
                     "recode", "feed_momentum", "serve", "chunk_squares"))
print(text)
END
}

for gbit; do
    for where in gpu cores; do
        machine "$gbit" $where > "$work/$gbit-$where.toml"
    done
done

# plan STAGE KEYS...: a row.
plan()
{
    local stage=$1 keys=() key gbit where file row="| $1 | ${*:2} | "

    shift
    [[ $* != dense ]] || set --
    for key in "zero.stage=$stage" "$@"; do
        keys+=(--set "$key")
    done
    for gbit in $speeds; do
        for where in gpu cores; do
            file=$work/$gbit-$where.toml
            "$dsflow" plan "$work/job.toml" -q --machine "$file" "${keys[@]}" --json \
                > "$work/plan-$where.json" || die "plan $*"
        done
        row+=$(python3 - "$work/plan-gpu.json" "$work/plan-cores.json" \
            "$work/dense-$stage-$gbit" << 'END'
import json, os, sys
def seconds(path):
    plan = json.load(open(path))
    of = [p for p in plan["programs"] if p["name"] in ("step", "compressed")]
    return of[-1]["seconds"]
gpu, cores = map(seconds, sys.argv[1:3])
if not os.path.exists(sys.argv[3]):
    open(sys.argv[3], "w").write(repr(gpu))
dense = float(open(sys.argv[3]).read())
print(f"{gpu:.3g} s, {dense / gpu:.2f} x; {dense / cores:.2f} x | ", end="")
END
        )
        [[ $gbit = "${speeds%% *}" ]] || continue
        row+="$(python3 - "$work/plan-gpu.json" << 'END'
import json, sys
plan = json.load(open(sys.argv[1]))
# It is of the program `step`.
if any(p["name"] == "compressed" for p in plan["programs"]):
    print("", end="")
else:
    print(f"{plan['traffic']['all']['between']['bytes'] / 8 / 1e9:.2f} GB", end="")
END
        ) | "
    done
    echo "${row% }"
}

speeds=$*
printf '| ZeRO | keys | '
for gbit in $speeds; do
    printf '%s Gbit/s | ' "$gbit"
    [[ $gbit != "$1" ]] || printf 'to a node | '
done
echo
printf '|---|---|%s\n' "$(for _ in $speeds to; do printf -- '---|'; done)"
g=compress.gradients p=compress.params n=compress.node=8 s=compress.secondary=8
plan 2 dense
plan 2 $g=bf16
plan 2 $g=int8 compress.node=1
plan 2 $g=int4 compress.node=1
plan 2 $g=int4 $n
plan 2 $g=int4 $n $p=int8
plan 2 optimizer.kind=onebit_adam onebit_adam.freeze_step=150 optimizer.clip=0.0 $p=int8
plan 3 dense
plan 3 $s
plan 3 $g=int4 $n
plan 3 $g=int4 $n $p=int8
plan 3 $g=int4 $n $p=int8 $s
