/* nccl.h - the types and functions of NCCL that the module of src/gpu uses, under
 * its names: for GPUs that are not there, on machines without NCCL. */
#ifndef DSF_TESTS_GPU_NCCL_H
#define DSF_TESTS_GPU_NCCL_H

#include <cuda_runtime_api.h>

#define NCCL_VERSION_CODE 22809

enum { NCCL_UNIQUE_ID_BYTES = 128 };
struct ncclUniqueId {
    char internal[NCCL_UNIQUE_ID_BYTES];
};
typedef struct ncclComm *ncclComm_t;

enum ncclResult_t {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclInProgress = 7
};
enum ncclDataType_t { ncclUint8 = 1 };

extern "C" {
ncclResult_t ncclGetVersion(int *version);
const char *ncclGetErrorString(ncclResult_t r);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id,
                              int rank);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *found);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *at, size_t n, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *at, size_t n, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
}

#endif
