/* Evaluates formulas as papers write them: "s b h (34 + 5 a s/h)", "2 psi + (2 + K) psi/N", "psi max(4 N, 16)".
 *
 * Factors stand side by side; an x between them has no effect. / divides by the next factor only. Operators, the
 * tightest first: ^, then / and products, + and -, then the comparisons =, < and >=, which give 1 or 0. Functions: min(a, b),
 * max(a, b), floor(a), ceil(a), if(condition, a, b). A name is a letter with letters, digits and _ behind it. */
#pragma once

#include <stddef.h>

/* The value of a name; NAN: unknown. */
typedef double arithmetic_lookup(const char *name, void *context);

/* NAN: malformed, or the value depends on an unknown name. The branch of an if() that is not taken does not count. */
double arithmetic_value(const char *formula, arithmetic_lookup *lookup, void *context);

/* The formula with the values in place of its names: "5×4×256×128 + (2+4)×4×256"; ?: unknown. */
void arithmetic_numbers(char *text, size_t room, const char *formula, arithmetic_lookup *lookup, void *context);
