/* What tests can ask of the fake device, over what CUDA offers. Plain C. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How much faster the device's clock runs than the host's. */
enum { FAKE_DRIFT_PPM = 80 };

/* Weak: NULL where the program runs on a real GPU. */
#define FAKE_KNOB __attribute__((weak))

#ifdef __cplusplus
extern "C" {
#endif

/* In which order the threads of a block, and the blocks of a grid, get their turns between two barriers. Results that depend
 * on it are races. */
enum fake_order { FAKE_FORWARD, FAKE_BACKWARD, FAKE_RANDOM, FAKE_ORDERS };
FAKE_KNOB void fake_set_order(enum fake_order order);

/* Streams begin each piece of work up to so much later, at random: what is not ordered by events comes out of order. */
FAKE_KNOB void fake_set_delay_us(int microseconds);

/* The next piece of work that is sent to a stream waits there until it is let go. */
FAKE_KNOB void fake_hold_next(void);
FAKE_KNOB void fake_let_go(void);

/* The next cudaSetDevice() waits until it is let go; fake_is_held(): it has come. */
FAKE_KNOB void fake_hold_choice(void);
FAKE_KNOB bool fake_is_held(void);

/* Whether the processor can keep the host away from the device's memory (protection keys). */
FAKE_KNOB bool fake_guards_host(void);

/* How often memory was made with cuMemCreate(). */
FAKE_KNOB int fake_pieces(void);

/* From now on a launch of the kernel of that name fails while it runs, as by a bad address, and the device with it. NULL mends. */
FAKE_KNOB void fake_break(const char *kernel);

#ifdef __cplusplus
}
#endif
