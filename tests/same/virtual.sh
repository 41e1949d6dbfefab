# virtual.sh - the same bits on virtual devices, whose memory is as much as the
# plan says, over links that take their time.
cpu="offload.optimizer=cpu offload.params=cpu offload.gradients=cpu
     offload.activations=cpu"
nvme="offload.optimizer=nvme offload.params=nvme offload.gradients=nvme
      offload.activations=nvme"
failed=0

trial() {
    # shellcheck disable=SC2086 # words are what separates keys
    set -- $*
    if ! ./tests/same/test_meshes "$*" > virtual.log 2>&1; then
        cat virtual.log
        failed=1
    fi
    rm -f virtual.log
}

trial gpt2 machine.virtual=1 machine.virtual_memory=2MiB
trial gpt2 machine.virtual=1 machine.virtual_memory=1MiB $cpu
trial gpt2 machine.virtual=1 machine.virtual_memory=1MiB $nvme memory.nvme.path=.
trial gpt2 machine.virtual=2 machine.virtual_memory=1MiB $nvme \
    offload.read_ahead=0 offload.write_behind=0 batch.order=micro_major
trial gpt2 machine.virtual=1 offload.optimizer=cpu
trial gpt2 machine.virtual=2 precision.states=int8 mesh.data=2 zero.stage=1
trial gpt2 machine.virtual=2 mesh.tensor=2 mesh.data=2 zero.stage=3 zero.keep=0 \
    machine.workers=1
trial llama machine.virtual=1 machine.virtual_memory=4MiB $nvme \
    offload.piece=4KiB optimizer.clip=0.0 memory.nvme.verify=true
trial llama machine.virtual=1 machine.virtual_memory=4MiB $nvme \
    mesh.data=2 zero.stage=3 zero.keep=0
trial llama machine.virtual=2 machine.virtual_memory=4MiB $cpu \
    mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.keep=0 recompute.what=block
trial llama machine.virtual=2 mesh.pipeline=2 machine.virtual_link=100MB $cpu
exit $failed
