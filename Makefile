# zerolab. `make run` and `make test` also install what is missing on a Debian machine; `make` alone only builds.
#
#   make                       build/release/zerolab
#   make run [ARGS="..."]      ... and start it
#   make install               program, man page and completions below PREFIX (/usr/local), or below DESTDIR/PREFIX; make uninstall
#   make deb                   a Debian package, build/zerolab_VERSION_ARCH.deb
#   make test                  all tests, four programs at a time
#   make test-full             the same with nano, where make test trains a smaller model, with every combination and more rounds
#   make bench                 the figures of docs/BENCHMARKS.md, and its table of them
#   make bundle                one archive that builds and runs on laptops without a network
#   make test-gpu              the checks that need a GPU, and bench-gpu its figures: with a CUDA toolkit, without our other libraries
#   make program CUDA=1        build/program and an archive of it: the program, the tests of a GPU and their libraries, for a machine
#                              that builds nothing (there: ZEROLAB=build/program/zerolab make test-gpu)
#   make clean
#
# Knobs:
#   SAN=address|undefined|address-undefined|thread    a sanitizer, in a build folder of its own
#   V=1                        show the commands
#   CC=clang, -jN              the compiler; how many at once (default: all processors)
#   WERROR=-Werror             warnings are errors, as in CI
#   CUDA=auto|0|1|fake         where nvcc is found | never | or fail | a CUDA device emulated on the CPU, for tests (build/fake)
#   NCCL=auto|0|FOLDER         where nccl.h is beside CUDA or in /usr | never | in FOLDER/include (a wheel's nvidia/nccl, too)
#   CUDA_ARCHS="80 90"         for which GPUs, by compute capability
#   WGMMA=0                    without wgmma, the matrix instructions of an H100 (first aid, should attention be wrong there)

ifneq ($(filter-out address undefined thread address-undefined,$(SAN)),)
$(error SAN=$(SAN) is unknown; use address, undefined, both as address-undefined, or thread)
endif
comma := ,
CUDA ?= auto
ifneq ($(filter-out auto 0 1 fake,$(CUDA)),)
$(error CUDA=$(CUDA) is unknown; use auto, 0, 1 or fake)
endif

ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
ifeq ($(origin CC),default)
CC := gcc
endif
Q := $(if $(filter 1,$(V)),,@)
BUILD := build/$(if $(filter fake,$(CUDA)),fake$(SAN:%=-%),$(or $(SAN),release))

include cuda.mk

MPI_CFLAGS := $(shell pkg-config --cflags ompi-c 2>/dev/null)
MPI_LIBS := $(shell pkg-config --libs ompi-c 2>/dev/null)
# With a sanitizer -O1, and of debug information line numbers alone: that takes half the time to compile.
FLAGS := -std=c17 -D_GNU_SOURCE $(if $(SAN),-O1 -g1,-O2 -g) -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-psabi $(WERROR) \
	-ffp-contract=off -fno-math-errno -fopenmp -pthread -I. -MMD -MP \
	$(if $(MPI_LIBS),-DHAVE_MPI $(patsubst -I%,-isystem %,$(MPI_CFLAGS)))
LIBS := $(MPI_LIBS) -lncursesw -lcjson -lzstd -lz -lpcre2-8 -laio -ldnnl $(CUDA_LIBS) -lgomp -lpthread -lm
# Sanitizers hide values from gcc's flow analysis, which then warns about what cannot happen.
FLAGS += $(if $(SAN),-fsanitize=$(subst -,$(comma),$(SAN)) -fno-omit-frame-pointer -fno-var-tracking-assignments -Wno-format-truncation -Wno-maybe-uninitialized)
FLAGS += $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=undefined)

SOURCES := $(wildcard engine/*/*.c kernels/*.c kernels/cpu/*.c tui/*/*.c) $(CUDA_SOURCES)
OBJECTS := $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(SOURCES))))
# Programs of all folders of tests/ lie in $(BUILD)/tests.
PROGRAM_SOURCES := $(wildcard tests/*/test_*.c tests/bench/bench_*.c) tests/support/truth.c tests/support/overlap.c
PROGRAM_OBJECTS := $(PROGRAM_SOURCES:%.c=$(BUILD)/%.o)
PROGRAMS := $(addprefix $(BUILD)/tests/,$(basename $(notdir $(PROGRAM_SOURCES))))
# Tests and figures of the GPU: programs that need the kernels and little else.
GPU_PROGRAMS := $(filter $(BUILD)/tests/test_cuda_% $(BUILD)/tests/bench_cuda_%,$(PROGRAMS))
TESTS := $(filter-out $(GPU_PROGRAMS),$(filter $(BUILD)/tests/test_%,$(PROGRAMS)))
BENCHES := $(filter-out $(GPU_PROGRAMS),$(filter $(BUILD)/tests/bench_%,$(PROGRAMS)))
HELPERS := $(filter-out $(TESTS) $(BENCHES),$(PROGRAMS)) # programs that test scripts call

all: $(BUILD)/zerolab
tests: all $(TESTS) $(HELPERS) $(if $(SAN)$(filter fake,$(CUDA)),,fake)
benches: all $(BENCHES)

# The GPU's kernels on a CUDA device emulated on the CPU, and the whole program with it. All else is the same objects (WITH).
ENGINE_OBJECTS := $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(filter-out $(CUDA_SOURCES),$(SOURCES)))))
CUDA_OBJECTS := $(filter-out $(ENGINE_OBJECTS),$(OBJECTS))
fake: $(ENGINE_OBJECTS)
	@$(MAKE) --no-print-directory CUDA=fake SAN= WITH="$^" gpu-programs build/fake/zerolab
gpu-programs: $(GPU_PROGRAMS)

test-gpu bench-gpu:
	@tools/gpu.sh $@ $(BUILD)

# The program with its libraries, for a machine that has not these; with the tests of a GPU, which then builds nothing:
# ZEROLAB=build/program/zerolab make test-gpu.
program: all $(if $(NVCC),$(GPU_PROGRAMS) $(BUILD)/tests/truth)
	@tools/program.sh build/program $(BUILD)/zerolab $(if $(NVCC),$(GPU_PROGRAMS) $(BUILD)/tests/truth)

# A second make, because what this one asked pkg-config may have changed.
run:
	@tools/bootstrap.sh
	@$(MAKE) --no-print-directory all
	@$(BUILD)/zerolab $(ARGS)

test:
	@tools/bootstrap.sh
	@$(MAKE) --no-print-directory tests
	@tests/run-tests $(BUILD)
test-full:
	@FULL=1 LIMIT=1800 $(MAKE) --no-print-directory test

bench:
	@tools/bootstrap.sh
	@$(MAKE) --no-print-directory benches all
	@rm -f $(BUILD)/bench.txt $(BUILD)/bench.failed
	@export ZEROLAB=$(BUILD)/zerolab; for bench in $(BENCHES) tests/bench/bench_*.sh; do \
		echo "== $$bench"; { $$bench || touch $(BUILD)/bench.failed; } | tee -a $(BUILD)/bench.txt; \
		[ ! -e $(BUILD)/bench.failed ] || exit 1; \
	done
	@echo "== the table of docs/BENCHMARKS.md, as measured here"; tools/bench-table.sh $(BUILD)/bench.txt

PREFIX ?= /usr/local
INSTALLED := bin/zerolab share/man/man1/zerolab.1 share/bash-completion/completions/zerolab share/zsh/site-functions/_zerolab
install: all
	@tools/install.sh $(BUILD)/zerolab $(DESTDIR)$(PREFIX)
uninstall:
	@cd $(DESTDIR)$(PREFIX) && rm -f $(INSTALLED)

deb: all
	@tools/deb.sh $(BUILD)/zerolab build

BUNDLE ?= build/zerolab.tar.gz
bundle:
	@tools/bundle.sh $(BUNDLE)

clean:
	rm -rf build

$(BUILD)/zerolab: $(if $(WITH),$(WITH) $(CUDA_OBJECTS),$(OBJECTS))
	@echo "  LINK $@"
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libzerolab.a: $(filter-out $(BUILD)/engine/cli/main.o,$(OBJECTS))
	@rm -f $@; ar rcs $@ $^

# Of oneDNN, which a machine with a GPU may lack, only the CPU's products are made: without it, plain ones stand in.
HAVE_DNNL := $(shell $(CC) -include dnnl.h -x c -E /dev/null >/dev/null 2>&1 && echo yes)
GPU_SOURCES := $(wildcard engine/base/*.c kernels/*.c kernels/cpu/*.c) $(CUDA_SOURCES)
ifneq ($(HAVE_DNNL),yes)
GPU_SOURCES := $(filter-out $(wildcard kernels/cpu/product*.c kernels/cpu/dnnl*.c),$(GPU_SOURCES)) tests/support/plain_products.c
endif
GPU_OBJECTS := $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(GPU_SOURCES))))
GPU_OBJECTS += $(filter $(BUILD)/tests/unit/test_cuda_% $(BUILD)/tests/bench/bench_cuda_%,$(PROGRAM_OBJECTS))

# Missing libraries are named here, with the command that installs them, before a compiler complains.
$(filter-out $(GPU_OBJECTS),$(OBJECTS) $(PROGRAM_OBJECTS)): | $(BUILD)/libraries
$(BUILD)/libraries: tools/bootstrap.sh
	@tools/bootstrap.sh --check && mkdir -p $(@D) && touch $@

ENGINE_KERNELS := $(basename $(filter-out $(CUDA_SOURCES),$(GPU_SOURCES)))
$(BUILD)/libkernels.a: $(if $(WITH),$(CUDA_OBJECTS) $(foreach k,$(ENGINE_KERNELS),$(filter %/$k.o,$(WITH))),\
		$(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(GPU_SOURCES)))))
	@rm -f $@; ar rcs $@ $^

# The object of a program, which is in the folder of its source.
.SECONDEXPANSION:
object = $(filter %/$*.o,$(PROGRAM_OBJECTS))

$(GPU_PROGRAMS): $(BUILD)/tests/%: $$(object) $(BUILD)/libkernels.a
	@echo "  LINK $@"
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(if $(HAVE_DNNL),-ldnnl) $(CUDA_LIBS) -lgomp -lpthread -lm

$(filter-out $(GPU_PROGRAMS),$(PROGRAMS)): $(BUILD)/tests/%: $$(object) $(BUILD)/libzerolab.a
	@echo "  LINK $@"
	$(Q)$(CC) $(FLAGS) -o $@ $^ -lcmocka $(LIBS)

# What a test itself computes is little; compiled so, it takes a third of the time. Kernels are the same code with less debug information,
# of which they would have most: two thirds of the time.
$(addprefix $(BUILD)/tests/,unit/% engine/% program/%): MORE_FLAGS := $(if $(SAN),-O1,-O0) -g1
$(BUILD)/kernels/cpu/isa_%: MORE_FLAGS := -g1
$(BUILD)/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
$(BUILD)/%_avx512bf16.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma -mf16c
$(BUILD)/%_avx2.o: ISA := -mavx2 -mfma -mf16c
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(FLAGS) $(MORE_FLAGS) $(ISA) -c -o $@ $<

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
$(BUILD)/engine/config/models.o: configs/nano.json configs/teach.json
$(BUILD)/engine/lab/catalog.o: $(wildcard labs/*/lab.md labs/*/*.zlt) labs/skeleton.md
$(BUILD)/engine/data/corpus.o: data/default.txt
$(BUILD)/engine/simulate/hardware.o: $(wildcard configs/hardware/*.json)
$(BUILD)/tui/draw/animation.o: tui/draw/player.html

.PHONY: all tests benches run test test-full bench install uninstall deb bundle program fake gpu-programs test-gpu bench-gpu clean always
.SECONDARY:
-include $(OBJECTS:.o=.d) $(PROGRAM_OBJECTS:.o=.d)
