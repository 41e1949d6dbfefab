# processes.sh - the same bits in several processes that mpirun starts.
command -v mpirun > /dev/null && [ -e .libs/dsflow-mpi.so ] || exit 77
cpu="offload.optimizer=cpu offload.params=cpu offload.gradients=cpu
     offload.activations=cpu"
nvme="offload.optimizer=nvme offload.params=nvme offload.gradients=nvme
      offload.activations=nvme"
bf16="precision.compute=bf16"
failed=0

DSFLOW_MPI=$PWD/.libs/dsflow-mpi.so
# Root may, cores may be fewer, and memory may not be read across processes.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
ASAN_OPTIONS=detect_leaks=0 # of MPI's
export DSFLOW_MPI OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM \
    OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_hwloc_base_binding_policy \
    OMPI_MCA_btl OMPI_MCA_btl_vader_single_copy_mechanism ASAN_OPTIONS

# in_processes N TRIAL...: each in N processes.
in_processes() {
    n=$1
    shift
    timeout -k 5 200 mpirun -n $n ./tests/same/test_meshes "$@" \
        > processes.log 2>&1
    status=$?
    # All of them say so.
    [ $status -eq 0 ] && [ "$(grep -c '^\[  PASSED  \]' processes.log)" -eq $n ] || {
        echo "in $n processes: status $status"
        cat processes.log
        failed=1
    }
    rm -f processes.log
}

# trial KEYS...: in a line.
trial() {
    # shellcheck disable=SC2086 # words are what separates keys
    echo $*
}

in_processes 2 \
    "gpt2 mesh.data=2" \
    "gpt2 mesh.data=2 zero.stage=2 zero.reduce=micro batch.groups=4" \
    "$(trial gpt2 mesh.data=2 zero.stage=3 zero.keep=0 $nvme $bf16)" \
    "$(trial llama mesh.pipeline=2 pipeline.schedule=zero_bubble $cpu)" \
    "$(trial llama mesh.tensor=2 recompute.what=block $bf16)" \
    "gpt2 mesh.data=11 zero.stage=3 zero.keep=0 batch.sequences=22"
in_processes 3 \
    "$(trial gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=1 \
        pipeline.schedule=interleaved)" \
    "llama mesh.pipeline=6 pipeline.schedule=gpipe"
in_processes 4 \
    "$(trial gpt2 mesh.tensor=2 mesh.data=2 mesh.pipeline=2 zero.stage=3 \
        zero.keep=0 precision.gradients=bf16 $bf16)" \
    "$(trial llama mesh.data=4 zero.stage=2 precision.states=int8 \
        offload.optimizer=nvme offload.piece=4KiB)"
exit $failed
