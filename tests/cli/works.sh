# works.sh - the table in README.md of what goes with what: each cell is a job that
# is planned here, on two data ranks; one of each row takes two steps, and as much
# memory as planned, in one process and, where there is MPI, in two. UPDATE=1 writes
# the table.
. "${srcdir:-.}/tests/cli/lib.sh"
cd - > /dev/null || exit 99
mpi=
# shellcheck source=tests/lib/mpi.sh
if (. "${srcdir:-.}/tests/lib/mpi.sh"); then
    . "${srcdir:-.}/tests/lib/mpi.sh"
    mpi=yes
fi
readme=$(cd "${srcdir:-.}" && pwd)/README.md
machine=$(cd "${srcdir:-.}" && pwd)/examples/machines/h200-8.toml
cd "$here" || exit 99
sed -i 's/^steps = .*/steps = 2/; s/^width = .*/width = 128/' job.toml
cat >> job.toml << 'END'
[compress]
keep = 0
[zero]
keep = 0
[memory.nvme]
path = "."
size = "64MiB"
END

# Name, and the keys that it is.
rows='gradients="bf16":compress.gradients=bf16
gradients="int8":compress.gradients=int8
gradients="int4":compress.gradients=int4
gradients="sign":compress.gradients=sign
error="fp32":compress.gradients=int4 compress.error=fp32
error="int8":compress.gradients=int4 compress.error=int8
two_level:compress.gradients=int4 compress.node=2 batch.groups=4
two_level, error="int8":compress.gradients=int4 compress.node=2 batch.groups=4 compress.error=int8
params="int8":compress.params=int8
secondary:compress.params=int8 compress.secondary=1 zero.stage=3
embedding="rows":compress.embedding=rows model.family=llama model.tied=false model.vocab=4096
quantize:weights.quantize=symmetric weights.group=32
prune:weights.prune=2:4
activations:activations.quantize=symmetric activations.group=32
lamb:optimizer.kind=lamb
adagrad:optimizer.kind=adagrad
muon:optimizer.kind=muon
onebit_adam:optimizer.kind=onebit_adam onebit_adam.freeze_step=1 optimizer.clip=0.0
onebit_lamb:optimizer.kind=onebit_lamb onebit_lamb.freeze_step=1 optimizer.clip=0.0
zeroone_adam:optimizer.kind=zeroone_adam optimizer.clip=0.0 zero.stage=0 zeroone_adam.var_freeze_step=1 job.steps=4'
columns='ZeRO 0:zero.stage=0
1:zero.stage=1
2:zero.stage=2
3:zero.stage=3
`reduce = "micro"`:zero.reduce=micro
pipeline:mesh.pipeline=2
tensor:mesh.tensor=2
sequence:mesh.sequence=2 batch.sequence_groups=2
recompute:recompute.what=block
offload, cpu:offload.optimizer=cpu offload.params=cpu offload.gradients=cpu
nvme:offload.optimizer=nvme offload.params=nvme offload.gradients=nvme
states in int8:precision.states=int8
bf16:precision.compute=bf16
gradients in bf16:precision.compute=bf16 precision.gradients=bf16
fp16:precision.compute=fp16
no masters:precision.compute=bf16 precision.master=false
GPUs:GPUS
several processes:PROCESSES'

# A plan or a run of these keys; later ones count.
planned() {
    command=$1
    shift
    set -- mesh.data=2 zero.stage=2 batch.groups=2 "$@"
    for key; do
        case $key in
        GPUS) set -- "$@" --machine "$machine" ;;
        PROCESSES) set -- "$@" -n 2 ;;
        *) set -- "$@" --set "$key" ;;
        esac
        shift
    done
    "$dsflow" $command job.toml "$@" > out 2> err
}

# The line of a refusal, without what it is about in front, and without the
# optimizer, which the row says.
refusal() {
    sed -n 's/^dsflow: \(--set: \)\?//p' err |
        sed 's/^\(compress: [a-z]*: \)[a-z0-9]*: /\1/
             s/,\? with optimizer.kind = "[a-z_]*"$//; 1q'
}

: > reasons
table() {
    printf '| |'
    echo "$columns" | sed 's/:.*/ |/; s/^/ /' | tr -d '\n'
    printf '\n|---|'
    echo "$columns" | sed 's/.*/---|/' | tr -d '\n'
    echo
    echo "$rows" | while IFS=: read -r name keys; do
        printf '| `%s` |' "$name"
        echo "$columns" | while IFS=: read -r _ with; do
            # shellcheck disable=SC2086 # words are what separates keys
            if planned "plan -q" $keys $with; then
                printf ' yes |'
            elif [ $? -eq 2 ] && [ -n "$(refusal)" ]; then
                grep -Fxq -e "$(refusal)" reasons || refusal >> reasons
                printf ' %s |' "$(grep -Fxn -e "$(refusal)" reasons | cut -d: -f1)"
            else
                printf ' FAULT |'
                echo "$keys $with: $(cat err)" >> broken
            fi
        done
        echo
    done
    echo
    awk '{ print NR ". " $0 }' reasons
}

# What two steps take on virtual devices, which count what they give, is what the
# plan says of all ranks, within 2 %.
as_planned() {
    name=$1 folder=$2
    shift 2
    planned run job.output="$folder" "$@" || { echo "$name: $(cat err)" >> broken; return 1; }
    planned=$(tr -d ' \n' < "$folder/plan.json" | grep -o '"peak_bytes":{"device":[0-9]*' |
        awk -F: '{ sum += $3 } END { print sum }')
    took=$(grep -o '"peak_bytes":{"device":[0-9]*' "$folder/metrics.jsonl" | tail -n 1 | cut -d: -f3)
    awk -v a="$took" -v b="$planned" 'BEGIN { exit !(a > 0.98 * b && a < 1.02 * b) }' ||
        echo "$name: $took bytes, planned $planned" >> broken
}

# That it is in two processes, each with a device, too, and their checkpoint has the
# same bytes.
echo "$rows" | while IFS=: read -r name keys; do
    # shellcheck disable=SC2086
    {
        as_planned "$name" one $keys machine.virtual=2
        if [ -n "$mpi" ] &&
            as_planned "$name, two processes" two $keys machine.virtual=1 PROCESSES; then
            same one two > differ 2>&1 || true
            [ ! -s differ ] || echo "$name: $(cat differ)" >> broken
        fi
        case $name in onebit_* | zeroone_*)
            as_planned "$name, offloaded" offloaded $keys machine.virtual=2 \
                offload.optimizer=nvme offload.gradients=cpu
            ;;
        esac
    }
    rm -rf one two offloaded
done

sed '/^<!-- works -->/q' "$readme" > page
table >> page
sed -n '/^<!-- end of works -->/,$p' "$readme" >> page
[ ! -e broken ] || fault "neither as planned nor refused: $(cat broken)"
[ "${UPDATE:-}" != 1 ] || cp page "$readme"
diff "$readme" page || fault "README.md does not say what goes with what (UPDATE=1 writes it)"
finish
