# How kernels/cuda is built: with nvcc; with a C++ compiler for the CUDA device emulated on the CPU (CUDA=fake); or not at all.
# It sets CUDA_SOURCES, CUDA_COMPILE, CUDA_GUARD and CUDA_LIBS. Its knobs are explained at the top of the Makefile.

NCCL ?= auto
CUDA_ARCHS ?= 80 90
WGMMA ?= 1

NVCC := $(if $(filter 0 fake,$(CUDA))$(SAN),,$(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc build/cuda-toolkit/bin/nvcc)))
ifneq ($(and $(SAN),$(filter 1,$(CUDA))),)
$(error SAN=$(SAN) does not go with CUDA=1: there are no sanitizers of this kind for a GPU. Use CUDA=fake, or compute-sanitizer (make test-gpu runs it))
endif
ifeq ($(CUDA)$(NVCC),1)
$(error CUDA=1: nvcc is neither on PATH nor in /usr/local/cuda; install the CUDA toolkit, or use CUDA=auto)
endif
CUDA_HOME := $(if $(NVCC),$(patsubst %/bin/nvcc,%,$(realpath $(NVCC))))
CUDA_FLAGS := -std=c++17 $(if $(SAN),-O1 -g1,-O2 -g) -D_GNU_SOURCE -I. -MMD -MP $(CUDA_INCLUDE:%=-I%)
CUDART ?= -lcudart_static
# GPUs newer than all of them translate what is kept for the oldest.
OLDEST_ARCH := $(firstword $(CUDA_ARCHS))
# Code of exactly 9.0 ("90a") has more instructions. nvcc knows them from 12.0 on.
NVCC_VERSION := $(if $(NVCC),$(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p'))
HAVE_WGMMA := $(if $(filter 0,$(WGMMA))$(filter 8 9 10 11,$(NVCC_VERSION)),,$(if $(filter fake,$(CUDA)),yes,$(filter 90,$(CUDA_ARCHS))))
CUDA_FLAGS += $(if $(HAVE_WGMMA),-DHAVE_WGMMA)
ifeq ($(CUDA),fake)
CUDA_SOURCES := $(filter-out %/product_cublaslt.cu %/nccl_library.cu %/nvml_library.cu,$(wildcard kernels/cuda/*.cu)) $(wildcard tests/support/fake_cuda/*.cu)
CUDA_SOURCES += $(wildcard tests/support/fake_cuda/*.cc)
CUDA_COMPILE = $(filter ccache,$(CC)) $(CXX) -x c++ $(CUDA_FLAGS) -Itests/support/fake_cuda -Wall -Wextra -Wno-unknown-pragmas $(WERROR) \
	$(if $(SAN),-fsanitize=$(subst -,$(comma),$(SAN)) -fno-omit-frame-pointer)
CUDA_LIBS := -lstdc++
else ifneq ($(NVCC),)
# Wheels have each library in a folder of its own: nvidia/cuda_nvcc, nvidia/nccl.
NCCL_PLACES := $(if $(filter auto,$(NCCL)),$(CUDA_HOME) $(CUDA_HOME)/../nccl /usr /usr/local,$(filter-out 0,$(NCCL)))
NCCL_HOME := $(patsubst %/include/nccl.h,%,$(firstword $(wildcard $(NCCL_PLACES:%=%/include/nccl.h))))
ifeq ($(NCCL_HOME)$(filter auto 0,$(NCCL)),)
$(error NCCL=$(NCCL): there is no include/nccl.h in that folder)
endif
CUDA_SOURCES := $(wildcard kernels/cuda/*.cu)
ifeq ($(NCCL_HOME),)
CUDA_SOURCES := $(filter-out %/clique.cu %/nccl_library.cu,$(CUDA_SOURCES)) kernels/cuda/clique_absent.c
endif
CUDA_FLAGS += $(if $(NCCL_HOME),$(if $(filter $(CUDA_HOME) /usr,$(NCCL_HOME)),,-I$(NCCL_HOME)/include) -DNCCL_HOME='"$(NCCL_HOME)"')
CUDA_COMPILE = $(filter ccache,$(CC)) $(NVCC) $(CUDA_FLAGS) $(foreach a,$(if $(HAVE_WGMMA),$(CUDA_ARCHS:90=90a),$(CUDA_ARCHS)),-gencode arch=compute_$(a),code=sm_$(a)) \
	-gencode arch=compute_$(OLDEST_ARCH),code=compute_$(OLDEST_ARCH) -Xcompiler -Wall,-Wextra $(WERROR:-Werror=-Werror all-warnings) \
	-allow-unsupported-compiler -DCUDA_LIBRARIES='"$(CUDA_HOME)/lib64"'
CUDA_GUARD = tools/ptxas-notes.sh $@
CUDA_LIBS := $(addprefix -L,$(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/targets/x86_64-linux/lib)) $(CUDART) -lstdc++ -ldl -lrt
else
CUDA_SOURCES := kernels/cuda/absent.c kernels/cuda/clique_absent.c
endif
