# axis.sh - an axis of the mesh that only this test has, with a policy of its
# own: keys, messages, plan, JSON and traces follow it, and bits stay.
. "${srcdir:-.}/tests/cli/lib.sh"
cd - > /dev/null || exit 99
source=$(cd "${srcdir:-.}" && pwd)
cd "$here" || exit 99

# build OUTPUT FLAGS...: CC may hold options.
build() {
    out=$1
    shift
    ${CC:-cc} -I "$source/include" -Wall -Wextra -Wno-unused-parameter \
        -Werror "$@" -shared -fPIC -o "$out" "$source/tests/plugin/copies.c" ||
        exit 99
}
build libcopies.so
sed -i '/^\[model\]/i [codelets]\nload = ["./libcopies.so"]' job.toml
sed 's/^micro = .*/&\ngroups = 2/' job.toml > new && mv new job.toml

# line MESSAGE ARGS...: refused with this message.
line() {
    message=$1
    shift
    timeout 60 "$dsflow" -q "$@" > out 2> err
    got=$?
    [ $got -eq 2 ] || fault "dsflow $*: status $got"
    [ "$(cat err)" = "dsflow: $message" ] ||
        fault "dsflow $*: says '$(cat err)', not 'dsflow: $message'"
}

# Keys and messages.
"$dsflow" list axes ./libcopies.so > out || fault "list axes"
grep -qx "copies  *ranks that do what the first of them does; from ./libcopies.so" out ||
    fault "list axes: $(cat out)"
grep -qx "tensor  *ranks that share .*; built-in" out || fault "list axes: $(cat out)"
"$dsflow" list axes | grep -q copies && fault "list axes: copies without it"
"$dsflow" list keys mesh.copies ./libcopies.so | grep -q "whole number, 1 to 4" ||
    fault "list keys: no mesh.copies"
line "--set: mesh: copies: 5: expected a whole number, 1 to 4" \
    plan job.toml --set mesh.copies=5
line "--set: mesh: copie: unknown key; did you mean copies?" \
    plan job.toml --set mesh.copie=2
sed 's/^\[model\]/[mesh]\ncopies = 0\n&/' job.toml > zero.toml
line "zero.toml:9: mesh: copies: 0: expected a whole number, 1 to 4" \
    plan zero.toml
line "--set: mesh: data: 40000 ranks in all: expected at most 32767" \
    plan job.toml --set mesh.data=1000 --set mesh.pipeline=10 --set mesh.copies=4

# The plan, as text and as JSON, and the ranks in it: copies are outermost.
"$dsflow" plan job.toml --set mesh.copies=2 --set mesh.data=2 > out ||
    fault "plan: status $?"
grep -qx "mesh    data 2 x pipeline 1 x tensor 1 x sequence 1 x copies 2: 4 ranks" out ||
    fault "plan: $(grep ^mesh out)"
"$dsflow" plan job.toml --set mesh.copies=2 --set mesh.data=2 --json |
    tr -d ' \n' > out
grep -q '"mesh":{"data":2,"pipeline":1,"tensor":1,"sequence":1,"copies":2,' out ||
    fault "plan --json: $(cut -c 1-200 out)"
for rank in 0 1 2 3; do
    grep -q "\"rank\":$rank,[^{]*\"coords\":{\"data\":$((rank % 2)),\"pipeline\":0,\"tensor\":0,\"sequence\":0,\"copies\":$((rank / 2))}" out ||
        fault "plan --json: where is rank $rank?"
done

# The same bits, whichever copy they are taken from: with parts of tensors a
# checkpoint is put together from all ranks, the last one last.
run whole
run copies --set mesh.copies=2
same whole copies
run many --set mesh.copies=3 --set mesh.data=2 --set mesh.pipeline=2 \
    --set zero.stage=2
same whole many
run tensor --set mesh.tensor=2
run tensors --set mesh.tensor=2 --set mesh.copies=2 --trace
same tensor tensors

# Copies that follow each other, inside of the ranks along tensor: a policy puts
# tasks on ranks along its own axis only.
build libinner.so -DORDER=35
run inner --set 'codelets.load=["./libinner.so"]' --set mesh.tensor=2 \
    --set mesh.copies=2 --set mesh.pipeline=2
same tensor inner

# A run that began with one copy goes on with four.
run moved --set job.steps=4 --set schedule.total=10
run moved --set mesh.copies=4 --set schedule.total=10 --resume
same whole moved

# If the axis says that it regroups sums, a run keeps its number of ranks.
build libgroups.so -DREGROUPS=1
groups='--set codelets.load=["./libgroups.so"]'
# shellcheck disable=SC2086
run kept $groups --set mesh.copies=2 --set job.steps=4 --set schedule.total=10
# shellcheck disable=SC2086
"$dsflow" run job.toml --set job.output=kept --resume --set schedule.total=10 \
    $groups > log 2>&1 && fault "another number of copies is not refused"
grep -q "the job has changed (mesh.copies): set it back" log || fault "another mesh.copies: $(cat log)"
# shellcheck disable=SC2086
run kept $groups --set mesh.copies=2 --resume --set schedule.total=10
same whole kept

# A trace has a row for each of the ranks, which says where it is.
"$dsflow" trace tensors --json > out 2> log || fault "trace: $(cat log)"
tr -d ' \n' < out | grep -q '"mesh":{"data":1,"pipeline":1,"tensor":2,"sequence":1,"copies":2}' ||
    fault "trace --json: $(tr -d ' \n' < out | cut -c 1-300)"
"$dsflow" trace tensors --paje out 2> log || fault "trace --paje: $(cat log)"
for rank in 0 1 2 3; do
    grep -q "\"rank $rank (tensor $((rank % 2)) copies $((rank / 2)))\"" out ||
        fault "trace --paje: no row of rank $rank: $(grep CR out)"
done
finish
