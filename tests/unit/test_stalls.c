/* Why lanes stand still, on schedules that offload: each wait that a plan can bring about is told by the thing waited for. */
#include "tests/support/planned_run.h"

#include "engine/observe/history.h"

#define STAGE3          "topology.ranks=2", "bf16.enabled=true", "zero_optimization.stage=3", "schedule.update_tile=4096"
#define TO(what, where)                                                                                                \
    "zero_optimization.offload_" what ".device=" where, "zero_optimization.offload_" what ".nvme_path=/tmp"
#define PIPELINED                                                                                                      \
    "zero_optimization.offload_optimizer.pipeline_read=true", "zero_optimization.offload_optimizer.pipeline_write="    \
                                                              "true"

static const struct setting host = {{STAGE3, TO("optimizer", "cpu"), TO("param", "cpu")}},
                            nvme = {{STAGE3, TO("optimizer", "nvme"), TO("param", "nvme"), PIPELINED,
                                     "zero_optimization.offload_param.max_in_cpu=0"}},
                            in_turn = {{STAGE3, TO("optimizer", "nvme")}},
                            half = {{STAGE3, TO("optimizer", "cpu"), "gradient_accumulation_steps=2"}},
                            none = {{STAGE3}}, full = {{STAGE3, "zero_optimization.stage3_max_live_parameters=1"}};

static const struct expectation {
    const struct setting *setting;
    enum op_kind op, awaited;
    enum why_wait why;
    enum stall stall;
} expectations[] = {
    {&host, OP_GRAD_D2H, OP_REDUCE_SCATTER, WAIT_DATA, STALL_GRADIENT},
    {&host, OP_HOST_NORM, OP_GRAD_D2H, WAIT_DATA, STALL_GRADIENT},
    {&half, OP_HOST_ADD, OP_GRAD_D2H, WAIT_DATA, STALL_GRADIENT},
    {&half, OP_UPLOAD, OP_HOST_UPDATE, WAIT_DATA, STALL_HOST},
    {&half, OP_HOST_UPDATE, OP_UPLOAD, WAIT_MEMORY, STALL_PINNED},
    {&host, OP_GATHER, OP_PARAM_H2D, WAIT_DATA, STALL_COPY},
    {&nvme, OP_HOST_UPDATE, OP_SWAP_IN, WAIT_DATA, STALL_NVME},
    {&nvme, OP_PARAM_H2D, OP_SWAP_IN, WAIT_DATA, STALL_NVME},
    {&nvme, OP_SWAP_OUT, OP_HOST_UPDATE, WAIT_DATA, STALL_HOST},
    {&nvme, OP_SWAP_IN, OP_SWAP_OUT, WAIT_MEMORY, STALL_POOL},
    {&nvme, OP_SWAP_IN, OP_PARAM_H2D, WAIT_MEMORY, STALL_POOL},
    {&in_turn, OP_SWAP_IN, OP_HOST_UPDATE, WAIT_LIMIT, STALL_LIMIT},
    {&none, OP_FORWARD, OP_GATHER, WAIT_DATA, STALL_GATHER},
    {&none, OP_GATHER, OP_FORWARD, WAIT_MEMORY, STALL_ASKED},
    {&host, OP_PARAM_H2D, OP_FORWARD, WAIT_MEMORY, STALL_ASKED},
    {&full, OP_GATHER, OP_FORWARD, WAIT_MEMORY, STALL_MEMORY},
    {&none, OP_REDUCE_SCATTER, OP_BACKWARD, WAIT_DATA, STALL_COMPUTE},
};
enum { EXPECTATIONS = sizeof expectations / sizeof expectations[0] };

/* How many waits of this sort the plan has; all are told alike. */
static int waits_told(const struct run_schedule *plan, const struct expectation *want)
{
    const struct schedule *schedule = &plan->ops;
    int found = 0;
    for (int i = 0; i < schedule->op_count; i++)
        for (int d = 0; d < schedule->ops[i].dependency_count; d++) {
            const struct dependency on = schedule->ops[i].dependency[d];
            if (schedule->ops[i].kind != want->op || schedule->ops[on.op].kind != want->awaited || on.why != want->why)
                continue;
            const struct span span = {.issued_ns = 5, .ready_ns = 12, .op = (uint32_t)i, .waited_on = on.op};
            const struct stall_reason reason = stall_before(plan, &span);
            if (reason.why != want->stall)
                fail_msg("%s waits for %s: told as \"%s\", not as \"%s\"", op_name(want->op, NULL),
                         op_name(want->awaited, NULL), stall_table[reason.why].name, stall_table[want->stall].name);
            assert_int_equal(reason.ns, 7);
            assert_int_equal(reason.op, on.op);
            found++;
        }
    return found;
}

/* As a reader of the trace has it: written and read back. */
static void waits_are_told_by_what_is_waited_for(void **state)
{
    (void)state;
    for (int e = 0; e < EXPECTATIONS; e++) {
        struct config config = config_of(expectations[e].setting);
        struct run_model *model = planned_run(&config, NULL);
        const struct run_schedule *plan = run_schedule_numbered(model, 1);
        assert_true(plan && plan->has_ops);
        if (!waits_told(plan, &expectations[e]))
            fail_msg("%s never waits for %s in row %d", op_name(expectations[e].op, NULL),
                     op_name(expectations[e].awaited, NULL), e);
        run_model_free(model);
        config_release(&config);
    }
}

static void letters_are_all_different(void **state)
{
    (void)state;
    for (enum stall a = 0; a < STALLS; a++)
        for (enum stall b = 0; b < a; b++) assert_int_not_equal(stall_table[a].letter, stall_table[b].letter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_told_by_what_is_waited_for),
        cmocka_unit_test(letters_are_all_different),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
