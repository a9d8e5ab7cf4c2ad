/* Pages over JSON objects: each field and block by itself, then what is wrong in a page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/template.h"

static const char object[] =
    "{\"name\": \"nano\", \"none\": null, \"empty\": \"\", \"no\": false, \"yes\": true, \"zero\": 0, \"one\": 1, \"bytes\": 1234567,"
    "\"all\": 4000000, \"seconds\": 0.0125, \"share\": 0.256, \"model\": {\"name\": \"inner\", \"layers\": 2, \".text\": \"only\"},"
    "\"list\": [{\"x\": 1}, {\"x\": 2, \"name\": \"own\"}, {\"x\": 3, \".\": true}], \"nothing\": [], \"rows\": [[{\"x\": 4}], [{\"x\": 5}]],"
    "\".hidden\": 7, \"why\": \"one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen\"}";

static char *printed(const char *page)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    cJSON *facts = cJSON_Parse(object);
    assert_non_null(facts);
    template_print(out, page, facts);
    cJSON_Delete(facts);
    fclose(out);
    return text;
}

static void pages_print(void **state)
{
    (void)state;
    static const struct {
        const char *page, *text;
    } cases[] = {
        {"plain 100 %\n", "plain 100 %\n"},
        {"{name}|{name:6}|{name:-6}|{name:.2}", "nano|  nano|nano  |na"},
        {"{bytes:,}|{bytes:12,}|{bytes}|{bytes:.1M}|{bytes:.3B}", "1,234,567|   1,234,567|1234567|1.2|0.001"},
        {"{seconds:7.2m}|{seconds:.3}|{seconds:.3g}|{all:G}", "  12.50|0.013|0.0125|0.00 GB"},
        {"{share:.1%}|{share:+8.1%}|{bytes/all:6%}", "25.6 %| +25.6 %|  31 %"},
        {"{one} rank{one:s}, {zero} rank{zero:s}", "1 rank, 0 ranks"},
        {"{none}|{none:6}|{empty|-}|{none:4|=}|{lacking|}", "n/a|   n/a|-|   =|"},
        {"{bytes/zero}|{yes}|{no}", "n/a|true|false"},
        {"{model.name} of {name}: {model.layers}; {model..text}; {.hidden}", "inner of nano: 2; only; 7"},
        {"{none.name}|{name.name|x}", "n/a|x"},
        {"{#list}{x}{name} {/}", "1nano 2own 3nano "},
        {"{#list:2}{x}{/}|{#nothing}{x}{/}|{#model}{name}{/}|{#none}x{/}", "12||inner|"},
        {"{#rows}({#}{x}{/}){/}", "(4)(5)"},
        {"{?yes}a{/}{?no}b{/}{?zero}c{/}{?none}d{/}{?empty}e{/}{?nothing}f{/}{?list}g{/}{?lacking}h{/}", "acg"},
        {"{!yes}a{/}{!no}b{/}{!zero}c{/}{!none}d{/}{!lacking}e{/}", "bde"},
        {"{+one}a{/}{+zero}b{/}{+name}c{/}{+lacking}d{/}", "a"},
        {"{-one}a{/}{-zero}b{/}{-none}c{/}", "bc"},
        {"{?yes}{?no}a{#list}b{/}{/}c{/}d", "cd"},
        {"  {~:4}{why}{/}after", "  one two three four five six seven eight nine ten eleven twelve thirteen\n    fourteen fifteen\nafter"},
        {"  ab {~}{why}{/}", "  ab one two three four five six seven eight nine ten eleven twelve thirteen\n     fourteen fifteen\n"},
        {"{no}{~}x{/}{?no}{~}y{/}{/}", "falsex\n"},
        {"{naem}", "{naem}"},
        {"{name", "nano"},
        {"{?yes}a", "a"},
        {"a{/}b", "a"},
        {"{", "{}"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char *text = printed(cases[c].page);
        assert_string_equal(text, cases[c].text);
        free(text);
    }
}

static void json_lacks_what_is_for_text(void **state)
{
    (void)state;
    cJSON *facts = template_strip(cJSON_Parse(object));
    assert_null(json_get(facts, ".hidden"));
    assert_null(json_get(json_get(facts, "model"), ".text"));
    assert_non_null(json_get(json_get(facts, "model"), "layers"));
    assert_int_equal(cJSON_GetArraySize(json_get(facts, "list")), 2);
    cJSON_Delete(facts);
    assert_int_equal(template_answer(NULL, true, "", NULL, NULL), STATUS_RUN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_print),
        cmocka_unit_test(json_lacks_what_is_for_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
