/* A mistyped key is refused and the right one named: for every key of the table, and every letter of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/config/config.h"
#include "engine/config/keys.h"
#include "tests/config_fixture.h"

static void a_typo_is_refused_with_the_nearest_key(void **state)
{
    (void)state;
    refused("{" BATCH "\"zero_optimisation\": {\"stage\": 1}}", NULL, STATUS_USAGE, "did you mean zero_optimization?");
    refused("{" BATCH "\"zero_optimization\": {\"stge\": 1}}", NULL, STATUS_USAGE,
            "did you mean zero_optimization.stage?");
    refused("{" BATCH "\"optimizer\": {\"params\": {\"lrr\": 1}}}", NULL, STATUS_USAGE,
            "did you mean optimizer.params.lr?");
    refused("{" BATCH "\"reduce_bucket_size\": 5}", NULL, STATUS_USAGE,
            "did you mean zero_optimization.reduce_bucket_size?");
    refused("{" BATCH "\"zero_optimization\": {\"grad_hooks\": true}}", NULL, STATUS_USAGE,
            "zero_optimization.grad_hooks: unknown key");
    refused("{" BATCH "\"model\": {\"name\": \"gtp2\"}}", NULL, STATUS_USAGE, "did you mean gpt2?");
    refused("{" BATCH "}", "topology.rank=2", STATUS_USAGE, "did you mean topology.ranks?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_typo_is_refused_with_the_nearest_key),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
