# mpi.sh - for tests with several processes, which are skipped where there is no MPI.
# Read it in the build folder, before lib.sh leaves that.
command -v mpirun > /dev/null && [ -e .libs/dsflow-mpi.so ] || exit 77

# Memory may not be read across processes, and leaks are MPI's.
export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
export ASAN_OPTIONS=detect_leaks=0

# has_ucx: Open MPI may go over UCX, as on InfiniBand. over_ucx: from now on it does;
# not_over_ucx: no more.
has_ucx() {
    ompi_info 2> /dev/null | grep -q "MCA pml: ucx"
}
over_ucx() {
    export OMPI_MCA_pml=ucx OMPI_MCA_opal_common_ucx_tls=any \
        OMPI_MCA_opal_common_ucx_devices=any
}
not_over_ucx() {
    unset OMPI_MCA_pml OMPI_MCA_opal_common_ucx_tls OMPI_MCA_opal_common_ucx_devices
}

# by_mpirun: the test calls mpirun itself, which is to allow what `dsflow run -n`
# makes it allow: that root calls it, and more processes than cores.
by_mpirun() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1
    export OMPI_MCA_hwloc_base_binding_policy=none
}
