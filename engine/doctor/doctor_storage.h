/* `zerolab doctor --storage`: how fast the disk of a folder is for what the NVMe tier does. */
#ifndef ENGINE_DOCTOR_DOCTOR_STORAGE_H
#define ENGINE_DOCTOR_DOCTOR_STORAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "engine/base/error.h"

/* Some ten seconds. Says on `progress` what is being measured, on one line that it removes again (NULL: nobody looks). */
int doctor_storage(const char *folder, bool json, FILE *out, FILE *progress, struct error *err);

#endif
