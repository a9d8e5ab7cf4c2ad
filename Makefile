# zerolab. `make run` and `make test` also set up a fresh machine; `make` alone only builds.
#
#   make                       build/release/zerolab
#   make run [ARGS="..."]      ... and start it
#   make test                  all tests, within five minutes
#   make bench                 the figures that the README quotes, and its table of them
#   make bundle                one archive that builds and runs on laptops without a network
#   make clean
#
# Knobs: SAN=address|undefined|thread (a build of its own under build/), CUDA=auto|0|1, V=1 shows the commands,
# CC=clang, -jN (default: all processors).

ifneq ($(filter-out address undefined thread,$(SAN)),)
$(error SAN=$(SAN) is unknown; use address, undefined or thread)
endif
CUDA ?= auto
ifneq ($(filter-out auto 0 1,$(CUDA)),)
$(error CUDA=$(CUDA) is unknown; use auto, 0 or 1)
endif
ifeq ($(CUDA),1)
$(error CUDA=1: there is no GPU backend in this version; use CUDA=auto or CUDA=0)
endif

ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
ifeq ($(origin CC),default)
CC := gcc
endif
Q := $(if $(filter 1,$(V)),,@)
BUILD := build/$(or $(SAN),release)

MPI_CFLAGS := $(shell pkg-config --cflags ompi-c 2>/dev/null)
MPI_LIBS := $(shell pkg-config --libs ompi-c 2>/dev/null)
FLAGS := -std=c17 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-psabi -Werror \
	-ffp-contract=off -fno-math-errno -fopenmp -pthread -I. -MMD -MP \
	$(if $(MPI_LIBS),-DHAVE_MPI $(patsubst -I%,-isystem %,$(MPI_CFLAGS)))
LIBS := $(MPI_LIBS) -lncursesw -lcjson -lzstd -lz -lpcre2-8 -laio -ldnnl -lgomp -lpthread -lm
# Sanitizers hide values from gcc's flow analysis, which then warns about what cannot happen.
FLAGS += $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-var-tracking-assignments -Wno-format-truncation -Wno-maybe-uninitialized)
FLAGS += $(if $(filter undefined,$(SAN)),-fno-sanitize-recover=undefined)

SOURCES := $(wildcard engine/*/*.c kernels/*.c kernels/cpu/*.c kernels/cuda/absent.c tui/*/*.c)
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o)
PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c tests/bench_*.c tests/truth.c))
TESTS := $(filter $(BUILD)/tests/test_%,$(PROGRAMS))
BENCHES := $(filter $(BUILD)/tests/bench_%,$(PROGRAMS))
HELPERS := $(filter-out $(TESTS) $(BENCHES),$(PROGRAMS)) # programs that test scripts call

all: $(BUILD)/zerolab
tests: all $(TESTS) $(HELPERS)
benches: all $(BENCHES)

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

$(BUILD)/zerolab: $(OBJECTS)
	@echo "  LINK $@"
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libzerolab.a: $(filter-out $(BUILD)/engine/run/main.o,$(OBJECTS))
	@rm -f $@; ar rcs $@ $^

$(PROGRAMS): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libzerolab.a
	@echo "  LINK $@"
	$(Q)$(CC) $(FLAGS) -o $@ $^ -lcmocka $(LIBS)

$(BUILD)/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
$(BUILD)/%_avx512bf16.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma -mf16c
$(BUILD)/%_avx2.o: ISA := -mavx2 -mfma -mf16c
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(FLAGS) $(ISA) -c -o $@ $<

# Written anew only when it differs, so that objects follow the flags (MPI installed later, another compiler).
$(BUILD)/flags: always
	@mkdir -p $(@D); echo '$(CC) $(FLAGS)' | cmp -s - $@ || echo '$(CC) $(FLAGS)' > $@

# Files that the assembler includes, which -MMD does not see.
$(BUILD)/engine/config/builtin.o: configs/nano.json
$(BUILD)/engine/lab/catalog.o: $(wildcard labs/*/lab.md)
$(BUILD)/engine/data/default_text.o: data/default.txt

.PHONY: all tests benches run test bench bundle clean always
.SECONDARY:
-include $(OBJECTS:.o=.d) $(PROGRAMS:=.d)
