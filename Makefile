# zerolab. `make run` and `make test` also set up a fresh machine; `make` alone only builds.
#
#   make                       build/release/zerolab
#   make run [ARGS="..."]      ... and start it
#   make test                  all tests, two programs at a time
#   make bench                 the figures that the README quotes, and its table of them
#   make bundle                one archive that builds and runs on laptops without a network
#   make test-gpu              the checks that need a GPU, and bench-gpu its figures: with a CUDA toolkit, without our other libraries
#   make program CUDA=1        a folder with the program and its libraries, for such a machine (ZEROLAB=build/program/zerolab make test-gpu)
#   make clean
#
# Knobs: SAN=address|undefined|address-undefined|thread (a build of its own under build/), V=1 shows the commands, CC=clang, -jN (default: all processors),
# CUDA=auto|0|1|fake: where nvcc is found | never | or fail | a GPU played by the processor, for tests (build/fake),
# NCCL=auto|0|FOLDER: where CUDA is built, and nccl.h is beside it or in /usr | never | in FOLDER/include (a wheel's nvidia/nccl, too),
# CUDA_ARCHS="80 90": for which GPUs, by compute capability; WGMMA=0: without the instructions that an H100 has beyond those of its
# successors (first aid, should attention be wrong there); WERROR= for compilers that warn of more than ours.

ifneq ($(filter-out address undefined thread address-undefined,$(SAN)),)
$(error SAN=$(SAN) is unknown; use address, undefined, both as address-undefined, or thread)
endif
comma := ,
CUDA ?= auto
ifneq ($(filter-out auto 0 1 fake,$(CUDA)),)
$(error CUDA=$(CUDA) is unknown; use auto, 0, 1 or fake)
endif
NCCL ?= auto
CUDA_ARCHS ?= 80 90
WGMMA ?= 1
WERROR ?= -Werror

ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
ifeq ($(origin CC),default)
CC := gcc
endif
Q := $(if $(filter 1,$(V)),,@)
BUILD := build/$(if $(filter fake,$(CUDA)),fake$(SAN:%=-%),$(or $(SAN),release))

# What kernels/cuda is made with: nvcc, a C++ compiler and tests/fake_cuda, or nothing (kernels/cuda/absent.c).
NVCC := $(if $(filter 0 fake,$(CUDA))$(SAN),,$(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc build/cuda-toolkit/bin/nvcc)))
ifneq ($(and $(SAN),$(filter 1,$(CUDA))),)
$(error SAN=$(SAN) does not go with CUDA=1: there are no sanitizers of this kind for a GPU. Use CUDA=fake, or compute-sanitizer (make test-gpu runs it))
endif
ifeq ($(CUDA)$(NVCC),1)
$(error CUDA=1: nvcc is neither on PATH nor in /usr/local/cuda; install the CUDA toolkit, or use CUDA=auto)
endif
CUDA_HOME := $(if $(NVCC),$(patsubst %/bin/nvcc,%,$(realpath $(NVCC))))
CUDA_FLAGS := -std=c++17 -O2 -g -D_GNU_SOURCE -I. -MMD -MP $(CUDA_INCLUDE:%=-I%)
CUDART ?= -lcudart_static
NEWEST_ARCH := $(lastword $(CUDA_ARCHS))
# Code of exactly 9.0 ("90a") has more instructions. nvcc knows them from 12.0 on.
NVCC_VERSION := $(if $(NVCC),$(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p'))
HAVE_WGMMA := $(if $(filter 0,$(WGMMA))$(filter 8 9 10 11,$(NVCC_VERSION)),,$(if $(filter fake,$(CUDA)),yes,$(filter 90,$(CUDA_ARCHS))))
CUDA_FLAGS += $(if $(HAVE_WGMMA),-DHAVE_WGMMA)
ifeq ($(CUDA),fake)
CUDA_SOURCES := $(filter-out %/product_cublaslt.cu %/nccl_library.cu,$(wildcard kernels/cuda/*.cu)) $(wildcard tests/fake_cuda/*.cu)
CUDA_SOURCES += $(wildcard tests/fake_cuda/*.cc)
CUDA_COMPILE = $(filter ccache,$(CC)) $(CXX) -x c++ $(CUDA_FLAGS) -Itests/fake_cuda -Wall -Wextra -Wno-unknown-pragmas $(WERROR) \
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
	-gencode arch=compute_$(NEWEST_ARCH),code=compute_$(NEWEST_ARCH) -Xcompiler -Wall,-Wextra $(WERROR:-Werror=-Werror all-warnings) \
	-allow-unsupported-compiler -DCUDA_LIBRARIES='"$(CUDA_HOME)/lib64"'
CUDA_GUARD = tools/ptxas-notes.sh $@
CUDA_LIBS := $(addprefix -L,$(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/targets/x86_64-linux/lib)) $(CUDART) -lstdc++ -ldl -lrt
else
CUDA_SOURCES := kernels/cuda/absent.c kernels/cuda/clique_absent.c
endif

MPI_CFLAGS := $(shell pkg-config --cflags ompi-c 2>/dev/null)
MPI_LIBS := $(shell pkg-config --libs ompi-c 2>/dev/null)
FLAGS := -std=c17 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-psabi $(WERROR) \
	-ffp-contract=off -fno-math-errno -fopenmp -pthread -I. -MMD -MP \
	$(if $(MPI_LIBS),-DHAVE_MPI $(patsubst -I%,-isystem %,$(MPI_CFLAGS)))
LIBS := $(MPI_LIBS) -lncursesw -lcjson -lzstd -lz -lpcre2-8 -laio -ldnnl $(CUDA_LIBS) -lgomp -lpthread -lm
# Sanitizers hide values from gcc's flow analysis, which then warns about what cannot happen.
FLAGS += $(if $(SAN),-fsanitize=$(subst -,$(comma),$(SAN)) -fno-omit-frame-pointer -fno-var-tracking-assignments -Wno-format-truncation -Wno-maybe-uninitialized)
FLAGS += $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=undefined)

SOURCES := $(wildcard engine/*/*.c kernels/*.c kernels/cpu/*.c tui/*/*.c) $(CUDA_SOURCES)
OBJECTS := $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(SOURCES))))
PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c tests/bench_*.c tests/truth.c))
# Tests and figures of the GPU: programs that need the kernels and little else.
GPU_PROGRAMS := $(filter $(BUILD)/tests/test_cuda_% $(BUILD)/tests/bench_cuda_%,$(PROGRAMS))
TESTS := $(filter-out $(GPU_PROGRAMS),$(filter $(BUILD)/tests/test_%,$(PROGRAMS)))
BENCHES := $(filter-out $(GPU_PROGRAMS),$(filter $(BUILD)/tests/bench_%,$(PROGRAMS)))
HELPERS := $(filter-out $(TESTS) $(BENCHES),$(PROGRAMS)) # programs that test scripts call

all: $(BUILD)/zerolab
tests: all $(TESTS) $(HELPERS) $(if $(SAN)$(filter fake,$(CUDA)),,fake)
benches: all $(BENCHES)

# The GPU's kernels on a device that the processor plays, and the whole program with it: all else is the same objects.
ENGINE_OBJECTS := $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(filter-out $(CUDA_SOURCES),$(SOURCES)))))
CUDA_OBJECTS := $(filter-out $(ENGINE_OBJECTS),$(OBJECTS))
fake: $(ENGINE_OBJECTS)
	@$(MAKE) --no-print-directory CUDA=fake SAN= WITH="$^" gpu-programs build/fake/zerolab
gpu-programs: $(GPU_PROGRAMS)

test-gpu bench-gpu:
	@tools/gpu.sh $@ $(BUILD)

# The program with its libraries, for a machine that has a GPU and not these: ZEROLAB=build/program/zerolab make test-gpu.
program: all
	@tools/program.sh $(BUILD)/zerolab build/program

# A second make, because what this one asked pkg-config may have changed.
run:
	@tools/bootstrap.sh
	@$(MAKE) --no-print-directory all
	@$(BUILD)/zerolab $(ARGS)

test:
	@tools/bootstrap.sh
	@$(MAKE) --no-print-directory tests
	@tests/run-tests $(BUILD)

bench:
	@tools/bootstrap.sh
	@$(MAKE) --no-print-directory benches all
	@rm -f $(BUILD)/bench.txt $(BUILD)/bench.failed
	@export ZEROLAB=$(BUILD)/zerolab; for bench in $(BENCHES) tests/bench_*.sh; do \
		echo "== $$bench"; { $$bench || touch $(BUILD)/bench.failed; } | tee -a $(BUILD)/bench.txt; \
		[ ! -e $(BUILD)/bench.failed ] || exit 1; \
	done
	@echo "== the README's table, as measured here"; tools/bench-table.sh $(BUILD)/bench.txt

BUNDLE ?= build/zerolab.tar.gz
bundle:
	@tools/bundle.sh $(BUNDLE)

clean:
	rm -rf build

$(BUILD)/zerolab: $(if $(WITH),$(WITH) $(CUDA_OBJECTS),$(OBJECTS))
	@echo "  LINK $@"
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libzerolab.a: $(filter-out $(BUILD)/engine/run/main.o,$(OBJECTS))
	@rm -f $@; ar rcs $@ $^

# Of oneDNN, which a machine with a GPU may lack, only the CPU's products are made: without it, plain ones stand in.
HAVE_DNNL := $(shell $(CC) -include dnnl.h -x c -E /dev/null >/dev/null 2>&1 && echo yes)
GPU_SOURCES := $(wildcard engine/base/*.c kernels/*.c kernels/cpu/*.c) $(CUDA_SOURCES)
ifneq ($(HAVE_DNNL),yes)
GPU_SOURCES := $(filter-out $(wildcard kernels/cpu/product*.c kernels/cpu/dnnl*.c),$(GPU_SOURCES)) tests/plain_products.c
endif
$(BUILD)/libkernels.a: $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(GPU_SOURCES))))
	@rm -f $@; ar rcs $@ $^

$(GPU_PROGRAMS): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libkernels.a
	@echo "  LINK $@"
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(if $(HAVE_DNNL),-ldnnl) $(CUDA_LIBS) -lgomp -lpthread -lm

$(filter-out $(GPU_PROGRAMS),$(PROGRAMS)): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libzerolab.a
	@echo "  LINK $@"
	$(Q)$(CC) $(FLAGS) -o $@ $^ -lcmocka $(LIBS)

$(BUILD)/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
$(BUILD)/%_avx512bf16.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma -mf16c
$(BUILD)/%_avx2.o: ISA := -mavx2 -mfma -mf16c
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(FLAGS) $(ISA) -c -o $@ $<

$(BUILD)/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CUDA $<"
	$(Q)$(if $(WERROR),$(CUDA_GUARD)) $(CUDA_COMPILE) -c -o $@ $<
$(BUILD)/%.o: %.cc $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	$(Q)$(CUDA_COMPILE) -c -o $@ $<

# Written anew only when it differs, so that objects follow the flags (MPI installed later, another compiler).
$(BUILD)/flags: always
	@mkdir -p $(@D); echo '$(CC) $(FLAGS) $(subst ',,$(CUDA_COMPILE))' | cmp -s - $@ || echo '$(CC) $(FLAGS) $(subst ',,$(CUDA_COMPILE))' > $@

# Files that the assembler includes, which -MMD does not see.
$(BUILD)/engine/config/builtin.o: configs/nano.json
$(BUILD)/engine/lab/catalog.o: $(wildcard labs/*/lab.md)
$(BUILD)/engine/data/default_text.o: data/default.txt

.PHONY: all tests benches run test bench bundle program fake gpu-programs test-gpu bench-gpu clean always
.SECONDARY:
-include $(OBJECTS:.o=.d) $(PROGRAMS:=.d)
