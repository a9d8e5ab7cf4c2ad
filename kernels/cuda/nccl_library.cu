/* Opens the NCCL library: where the system finds it, else beside the header that this build used. */
#include "kernels/cuda/nccl.cuh"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libnccl.so.2"
#ifndef NCCL_HOME
#define NCCL_HOME "/usr" /* whose include folder has the header that this build read */
#endif

static int nccl_find(struct nccl *nccl, struct error *err)
{
#define X(name)                                                                                                        \
    nccl->name = (decltype(&::name))dlsym(nccl->handle, #name);                                                        \
    if (!nccl->name) return error_set(err, STATUS_RUN, LIBRARY " has no " #name "; NCCL 2.14 or later is needed");
    NCCL_CALLS(X)
#undef X
    return STATUS_OK;
}

int nccl_open(struct nccl *nccl, struct error *err)
{
    static const char *const places[] = {LIBRARY, NCCL_HOME "/lib/" LIBRARY, NCCL_HOME "/lib64/" LIBRARY};
    memset(nccl, 0, sizeof *nccl);
    for (const char *place : places)
        if (!nccl->handle) nccl->handle = dlopen(place, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!nccl->handle)
        return error_set(err, STATUS_RUN,
                         LIBRARY " cannot be opened, neither as it is nor in " NCCL_HOME
                                 "/lib; is its folder in LD_LIBRARY_PATH?");
    int status = nccl_find(nccl, err);
    if (status) nccl_close(nccl);
    return status;
}

void nccl_close(struct nccl *nccl)
{
    if (nccl->handle) dlclose(nccl->handle);
    nccl->handle = NULL;
}
