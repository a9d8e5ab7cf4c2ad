/* Prints text from a template and a JSON object, so that the text and the JSON of an answer have the same figures:
 *
 *     {NAME}          a member of the current object, else of the objects around it; {model.name}: a member's member
 *     {NAME/OTHER}    the quotient of two numbers
 *     {...:FORMAT}    FORMAT: + (a sign), width (-: left), .places, and a letter:
 *                     , whole, in groups of digits     % a share in percent    m seconds in ms    M, B millionths, billionths
 *                     G bytes in GB, with this unit    g as printf's %g        s "" for 1, else "s"
 *                     For a string, .places is the most characters that are printed.
 *     {...|TEXT}      TEXT if the member is missing, null, not finite or ""; without |TEXT, the last three print as "n/a"
 *     {#NAME} {/}     what is between: for each element of a list, or once for an object; {#NAME:3}: for three elements at most;
 *                     {#}: for each element of the current list
 *     {?NAME} {/}     ... if the member is there, and is not null, false, "" or empty; {!NAME} {/}: if not
 *     {+NAME} {/}     ... if it is a number other than 0; {-NAME} {/}: if not
 *     {~:HANG} {/}    ... as words, on as many lines as they need, and a newline. Later lines begin in column HANG; 0: below the first
 *
 * A missing member without |TEXT prints as its field, {NAME}, so that the mistake is seen. Members whose names begin with a dot are for
 * text only, and so are objects that have a member ".". */
#pragma once

#include "engine/base/json.h"

void template_print(FILE *out, const char *page, const cJSON *facts);

/* Prints the facts as one line of JSON, without the members that are for text only, or as text. Frees the facts. STATUS_RUN: no memory. */
int template_answer(FILE *out, bool as_json, const char *page, cJSON *facts, struct error *err);

/* Deletes the members that are for text only. Returns `facts`. */
cJSON *template_strip(cJSON *facts);
