/* nccl_module.cpp - the functions of nccl_module.h, over NCCL. */
#include "gpu/nccl_module.h"

#include <cstdio>
#include <cstring>
#include <nccl.h>

namespace {

static_assert(sizeof(ncclUniqueId) == DSF_NCCL_ID, "names of communicators");

/* What it warned of last, such as what CUDA said to it; "": nothing. */
const char *last_warning()
{
#if NCCL_VERSION_CODE >= 21300
    const char *last = ncclGetLastError(nullptr);

    return last != nullptr ? last : "";
#else
    return "";
#endif
}

const char *text_of(ncclResult_t r)
{
    static thread_local char text[400];

    if (r == ncclSuccess)
        return nullptr;

    const char *last = last_warning();

    snprintf(text, sizeof(text), "NCCL: %s%s%.200s", ncclGetErrorString(r),
             last[0] != '\0' ? ": " : "", last);
    return text;
}

ncclComm_t comm_of(void *comm)
{
    return static_cast<ncclComm_t>(comm);
}

int version()
{
    int v = 0;

    ncclGetVersion(&v);
    return v;
}

const char *group_begin()
{
    return text_of(ncclGroupStart());
}

const char *group_end()
{
    return text_of(ncclGroupEnd());
}

const char *name(char id[DSF_NCCL_ID])
{
    ncclUniqueId unique;
    ncclResult_t r = ncclGetUniqueId(&unique);

    memcpy(id, &unique, sizeof(unique));
    return text_of(r);
}

const char *join(const char id[DSF_NCCL_ID], int n, int number, void **comm)
{
    ncclUniqueId unique;

    memcpy(&unique, id, sizeof(unique));
    return text_of(ncclCommInitRank(reinterpret_cast<ncclComm_t *>(comm), n,
                                    unique, number));
}

const char *send(const void *at, size_t bytes, int to, void *comm, void *stream)
{
    return text_of(ncclSend(at, bytes, ncclUint8, to, comm_of(comm),
                            static_cast<cudaStream_t>(stream)));
}

const char *receive(void *at, size_t bytes, int from, void *comm, void *stream)
{
    return text_of(ncclRecv(at, bytes, ncclUint8, from, comm_of(comm),
                            static_cast<cudaStream_t>(stream)));
}

const char *failed(void *comm)
{
    ncclResult_t found = ncclSuccess;
    ncclResult_t r = ncclCommGetAsyncError(comm_of(comm), &found);

    if (r == ncclSuccess && found != ncclInProgress)
        r = found;
    return text_of(r);
}

const char *leave(void *comm)
{
    return text_of(ncclCommAbort(comm_of(comm)));
}

} // namespace

const dsf_nccl dsf_nccl_module = {
    DSF_NCCL_ABI, version, group_begin, group_end, name,
    join,         send,    receive,     failed,    leave,
};
