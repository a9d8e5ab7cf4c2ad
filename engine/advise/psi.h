/* `zerolab plan --psi N`: what follows from a number of parameters alone. Model states by stage, as each accounting counts them
 * (accountings.def), and the paper's traffic (ZeRO, section 7) under a configuration's settings. */
#ifndef ENGINE_ADVISE_PSI_H
#define ENGINE_ADVISE_PSI_H

#include <stdio.h>

#include "engine/config/config.h"

/* Parses 1 to 2^56 parameters: "7e9", "7B" (K, M, B, T: powers of 1000), "7,241,732,096". STATUS_USAGE: anything else. */
int psi_read(int64_t *psi, const char *text, struct error *err);

/* The configuration gives ranks, types and settings; its model is not looked at. */
void psi_print(FILE *out, const struct config *config, int64_t psi);
int psi_print_json(FILE *out, const struct config *config, int64_t psi, struct error *err);

#endif
