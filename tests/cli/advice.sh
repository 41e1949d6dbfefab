# advice.sh - jobs made slow on purpose: dsflow trace names the cause, and what
# it says of a change comes true.
tests=$(cd "${srcdir:-.}/tests/cli" && pwd)
. "$tests/lib.sh"
job | sed -e 's/layers = 2/layers = 6/; s/width = 32/width = 64/' \
    -e 's/^sequences = 4/sequences = 16/' > job.toml
job | sed -e 's/layers = 2/layers = 12/; s/heads = 2/heads = 4/' \
    -e 's/width = 32/width = 128/; s/= 48/= 64/' > wide.toml

# cores N: a machine of N cores. gpus BANDWIDTH: four GPUs on slow links, or not.
cores() {
    printf '[machine]\nname = "%s cores"\nworkers = %s\nmemory = "4GiB"\n' $1 $1
    printf 'fp32 = 5e10\nbandwidth = 1e10\noverhead = "3us"\n'
}
gpus() {
    printf '[machine]\nname = "4 GPUs"\nkind = "gpu"\ndevices = 4\n'
    printf 'memory = "2GiB"\nfp32 = 2e11\nbandwidth = 1e12\noverhead = "2us"\n'
    printf '[link]\nbandwidth = %s\nlatency = "3us"\n' $1
}
cores 2 > cores.toml
gpus 4e9 > gpus.toml
gpus 1e8 > slow-link.toml

# simulate NAME JOB MACHINE ARGS...: NAME.json says what its trace is.
simulate() {
    name=$1 file=$2 machine=$3
    shift 3
    "$dsflow" plan $file --machine $machine "$@" --trace $name.trace \
        > log 2>&1 &&
        "$dsflow" trace $name.trace --json > $name.json 2>> log ||
        { fault "$name: $* ended with $?"; cat log; }
}

# words NAME: NAME.txt says what its trace is, which is a file or of a run.
words() {
    trace=$1.trace
    [ -e "$trace" ] || trace=$1
    "$dsflow" trace $trace > $1.txt 2> log || fault "$1: $? $(cat log)"
}

# predict NAME JOB MACHINE ARGS...: NAME.json says what the step takes.
predict() {
    name=$1 file=$2 machine=$3
    shift 3
    "$dsflow" plan $file --machine $machine "$@" --json > $name.json 2> log ||
        { fault "$name: $* ended with $?"; cat log; }
}

# number NAME KEY: the first number of a key in what was said.
number() {
    sed -n "s/^ *\"$2\": *\([-0-9.e+]*\),*\$/\1/p" $1.json | head -n 1
}

# value NAME ADVISED KEY: a word or number of the change of the key ADVISED.
value() {
    awk -v key="\"$2\"," -v want="\"$3\":" '
        $1 == "\"key\":" { at = $2 == key }
        at && $1 == want { sub(/^[^:]*: /, ""); sub(/,$/, "")
                           gsub(/"/, ""); print; exit }' $1.json
}

# named NAME KEY TEXT: the key is advised, as is its cause.
named() {
    words $1
    [ -n "$(value $1 $2 to)" ] || { fault "$1: $2 is not advised"; cat $1.txt; }
    grep -q "$3" $1.txt || { fault "$1: no cause like $3"; cat $1.txt; }
}

# near A B: within a hundredth.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d * d <= 1e-4 * b * b) }'
}

# follow NAME KEY JOB MACHINE ARGS...: with the change, the step takes what was
# said, and less than before.
follow() {
    was=$1 key=$2
    to=$(value $1 $2 to) said=$(value $1 $2 seconds) also=$(value $1 $2 also)
    shift 2
    [ -n "$to" ] || return
    [ "$also" = null ] || set -- "$@" --set "$also"
    predict $was-then "$@" --set "$key=$to"
    now=$(number $was-then step_seconds)
    near "$now" "$said" || fault "$was: $key = $to takes $now, said were $said"
    awk -v a="$now" -v b="$(number $was step_seconds)" 'BEGIN { exit !(a < b) }' ||
        fault "$was: $key = $to is no faster"
}

# A ring that is too small: of activations; of layers that are gathered.
small="--set batch.in_flight=1 --set batch.tile=48"
simulate ring job.toml cores.toml $small
named ring batch.in_flight 'tasks wait for a slot of batch.in_flight'
follow ring batch.in_flight job.toml cores.toml $small

small="--set mesh.data=4 --set zero.stage=3 --set zero.prefetch=0"
simulate prefetch wide.toml gpus.toml $small
named prefetch zero.prefetch 'of rank [0-3] wait for a slot of zero.prefetch'
follow prefetch zero.prefetch wide.toml gpus.toml $small

# Stages that are unequal.
unequal="--set mesh.pipeline=2 --set pipeline.split=[1,5]"
simulate split job.toml gpus.toml $unequal
named split pipeline.split 'stages are unequal: stage 1 is busy'
follow split pipeline.split job.toml gpus.toml $unequal

# All of a summary, as it is read. UPDATE=1 writes it anew: read the difference.
expected=$tests/summary.expected
[ -z "${UPDATE:-}" ] || cp split.txt "$expected"
diff "$expected" split.txt || fault "the summary is not that of $expected"

# A slow link: the machine is another, not the job.
simulate link job.toml slow-link.toml --set mesh.data=4 --set zero.stage=3
named link link.bandwidth 'moving data takes'
gpus "$(value link link.bandwidth to)" > faster-link.toml
predict link-then job.toml faster-link.toml --set mesh.data=4 \
    --set zero.stage=3
near "$(number link-then step_seconds)" \
    "$(value link link.bandwidth seconds)" ||
    fault "a faster link takes $(number link-then step_seconds)"

# A slow disk: another one, or less on it. Both ways at once, or not.
disk() {
    cores 2
    printf '[disk]\nread = %s\nwrite = %s\nduplex = %s\n' $1 $2 $3
}
nvme="--set offload.optimizer=nvme --set memory.nvme.path=none"
for duplex in true false; do
    disk 4e7 4e7 $duplex > slow-disk.toml
    simulate disk job.toml slow-disk.toml $nvme
    named disk disk.read 'the disk works [0-9]* % of the step'
    disk "$(value disk disk.read to)" \
        "$(value disk disk.read also | sed 's/.*=//')" $duplex > faster.toml
    predict disk-then job.toml faster.toml $nvme
    near "$(number disk-then step_seconds)" "$(value disk disk.read seconds)" ||
        fault "a faster disk takes $(number disk-then step_seconds)"
    near "$(number disk reproduced)" 1 ||
        fault "disk: reproduced is $(number disk reproduced)"
    named disk offload.share 'the disk works'
    follow disk offload.share job.toml slow-disk.toml $nvme
done

# What is read is there too late: more of it ahead.
disk 4e8 4e8 true > disk.toml
late="--set offload.params=nvme --set offload.read_ahead=0"
late="$late --set memory.nvme.path=none"
simulate late job.toml disk.toml $late
named late offload.read_ahead 'tasks wait for a slot of offload.read_ahead'
follow late offload.read_ahead job.toml disk.toml $late

# Tasks that are too small.
simulate tiles job.toml cores.toml --set batch.tile=16
named tiles batch.tile 'tasks are small'
follow tiles batch.tile job.toml cores.toml --set batch.tile=16
simulate micro job.toml cores.toml --set batch.sequence=16
named micro batch.micro 'tasks are small'
follow micro batch.micro job.toml cores.toml --set batch.sequence=16

# A worker too few.
simulate worker job.toml cores.toml --set machine.workers=1
named worker machine.workers '1 worker is busy .* and the machine has 2 cores'
follow worker machine.workers job.toml cores.toml --set machine.workers=1

# A machine that is faster in bf16 than in fp32, and one that is not known to be.
cores 2 > narrow.toml
echo 'bf16 = 2e11' >> narrow.toml
simulate type wide.toml narrow.toml
named type precision.compute 'in fp32, and the machine is faster in bf16'
grep -q 'precision.compute = bf16 (now fp32): .* \[3\]$' type.txt &&
    grep -q '\[3\] rounds numbers to fewer bits' type.txt ||
    { fault "fewer bits are not said"; cat type.txt; }
[ "$(value type precision.compute changes_bits)" = true ] || fault "the bits are the same"
follow type precision.compute wide.toml narrow.toml
simulate same-type wide.toml cores.toml
[ -z "$(value same-type precision.compute to)" ] ||
    fault "a machine is not known to be faster in bf16"

# Nothing is wrong: it says what the limit is. The trace says all it needs.
simulate good job.toml cores.toml --set batch.micro=4
words good
grep -q '2 workers are busy [0-9]* % of the step' good.txt &&
    grep -q 'none of [0-9]* changes' good.txt ||
    { fault "a good job is told to change"; cat good.txt; }
near "$(number good reproduced)" 1 ||
    fault "the simulation is not reproduced: $(number good reproduced)"
mkdir else && mv good.trace else && cd else || exit 99
"$dsflow" trace good.trace > again.txt && cmp again.txt ../good.txt ||
    fault "a trace that was moved says something else"
cd ..

# A job that is planned in another way than when it was traced: no change can be
# tried, all else is said.
simulate gone job.toml cores.toml
LC_ALL=C sed 's/layers = 6/layers = 7/' gone.trace > changed.trace
"$dsflow" trace changed.trace > changed.txt || fault "a changed job: $?"
grep -q 'is not known: this dsflow plans the job of the trace in another way' \
    changed.txt || { fault "another plan is taken for that of the trace"
                     cat changed.txt; }
grep -q '^Workers' changed.txt || fault "no table without advice"

# Runs, whose times are what they are: what was small is named nevertheless.
run one --set batch.in_flight=1 --set batch.tile=48 --set machine.workers=2 \
    --trace
"$dsflow" trace one --json > one.json || fault "dsflow trace of a run: $?"
grep -q '"ring": "batch.in_flight"' one.json ||
    { fault "no task of a run waited for a slot"; cat one.json; }
"$dsflow" trace one > one.txt
grep -Eq '^step .*, predicted .*: ([0-9.]+ x (slower|faster) than|as) predicted$' one.txt ||
    { fault "the prediction is not beside the measurement"; cat one.txt; }
awk 'length > 100 { exit 1 }' one.txt ||
    fault "lines of more than 100 columns"
run serial --executor serial --trace
"$dsflow" trace serial | grep -q 'serial, 1 rank, 1 worker' ||
    fault "dsflow trace of a serial run"
run virtual --set machine.workers=1 --set machine.virtual=1 \
    --set offload.params=cpu --set machine.virtual_link=5MB --trace
"$dsflow" trace virtual --json > virtual.json
named virtual machine.virtual_link 'data on its way'

# A virtual device that copies nothing is one core less, and that is why.
"$dsflow" plan job.toml --set machine.workers=1 --set machine.virtual=1 \
    --trace device.trace > log 2>&1 || fault "dsflow plan --trace: $(cat log)"
"$dsflow" trace device.trace --json > device.json
named device machine.virtual '1 worker is busy [0-9]* % of the step'
finish
