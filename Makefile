# zerolab: `make` builds, `make run` and `make test` also set up a fresh machine. Knobs: SAN=address|undefined|thread,
# CUDA=auto|0|1, V=1, CC=clang.
BUILD ?= build/$(if $(SAN),$(SAN),release)
CC ?= gcc
V ?= 0
Q := $(if $(filter 1,$(V)),,@)

PKGS := dnnl ncursesw libcjson libzstd zlib
CFLAGS_BASE := -std=c17 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror \
	-ffp-contract=off -fno-math-errno -fopenmp -pthread -I. -MMD -MP
MPI_CFLAGS := $(shell pkg-config --silence-errors --cflags ompi-c)
MPI_LIBS := $(shell pkg-config --silence-errors --libs ompi-c)
CFLAGS_BASE += $(if $(MPI_LIBS),-DHAVE_MPI $(patsubst -I%,-isystem %,$(MPI_CFLAGS)))
LIBS := $(MPI_LIBS) -lncursesw -lcjson -lzstd -lz -laio -ldnnl -lgomp -lpthread -lm
ifneq ($(SAN),)
CFLAGS_BASE += -fsanitize=$(SAN) -fno-omit-frame-pointer
endif

SOURCES := $(wildcard engine/*/*.c kernels/cpu/*.c tui/*/*.c)
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o)
LIBRARY_OBJECTS := $(filter-out $(BUILD)/engine/run/main.o,$(OBJECTS))
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))

all: $(BUILD)/zerolab
tests: $(TESTS)

$(BUILD)/zerolab: $(OBJECTS)
	@echo "  LINK $@"
	$(Q)$(CC) $(CFLAGS_BASE) -o $@ $^ $(LIBS)

$(BUILD)/libzerolab.a: $(LIBRARY_OBJECTS)
	@rm -f $@; ar rcs $@ $^

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libzerolab.a
	@echo "  LINK $@"
	$(Q)$(CC) $(CFLAGS_BASE) -o $@ $^ -lcmocka $(LIBS)

$(BUILD)/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
$(BUILD)/%_avx512bf16.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma -mf16c
$(BUILD)/%_avx2.o: ISA := -mavx2 -mfma -mf16c
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(Q)$(CC) $(CFLAGS_BASE) $(ISA) -c -o $@ $<

$(BUILD)/engine/config/builtin.o: configs/nano.json
$(BUILD)/engine/data/default_text.o: data/default.txt

clean:
	rm -rf build

.PHONY: all tests clean
.SECONDARY:
-include $(OBJECTS:.o=.d) $(TESTS:=.d)
