// ctest-labels: unit
// Goal: collectives take exactly what the textbook says of rings, meshes and trees, in one server
// and over several.
// Method: closed forms, worked out beside each case.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cost/cost.h"

#include <math.h>

#define BYTES 1000000u // of f32

static ps_machine machine_of(ps_comm_shape shape)
{
    return (ps_machine){
        .comm_ns = 100, .comm_gbs = 50, .profile = {.comm_shape = shape, .comm_step_ns = 7}};
}

static void expect_ns(const ps_machine *machine, ps_op op, uint32_t ranks, double want)
{
    const double got = ps_cost_collective_ns(machine, op, ranks, BYTES);
    if (fabs(got - want) > 1e-6) {
        fail_msg("%s of %u ranks: %.6f ns, %.6f expected", ps_op_get(op)->name, ranks, got, want);
    }
}

static void test_flat_knows_no_ranks(void **state)
{
    (void)state;
    const ps_machine machine = machine_of(PS_COMM_SHAPE_FLAT);
    expect_ns(&machine, PS_OP_ALL_REDUCE, 2, 100 + 20000);
    expect_ns(&machine, PS_OP_ALL_REDUCE, 64, 100 + 20000);
    expect_ns(&machine, PS_OP_ALL_GATHER, 64, 100 + 20000);
}

static void test_a_ring(void **state)
{
    (void)state;
    const ps_machine machine = machine_of(PS_COMM_SHAPE_RING);
    // of two: half of the bytes there, half back, a step each
    expect_ns(&machine, PS_OP_ALL_REDUCE, 2, 100 + 2 * 7 + 20000);
    expect_ns(&machine, PS_OP_ALL_REDUCE, 5, 100 + 8 * 7 + 2 * 0.8 * 20000);
    expect_ns(&machine, PS_OP_LINEAR_ALL_REDUCE, 5, 100 + 8 * 7 + 2 * 0.8 * 20000);
    expect_ns(&machine, PS_OP_ALL_GATHER, 5, 100 + 4 * 7 + 0.8 * 20000);
    // what these move is what the others have: four of five parts
    expect_ns(&machine, PS_OP_REDUCE_SCATTER, 5, 100 + 4 * 7 + 20000);
    expect_ns(&machine, PS_OP_ALL_GATHER_ROWS, 5, 100 + 4 * 7 + 20000);
}

static void test_a_mesh_takes_two_steps(void **state)
{
    (void)state;
    const ps_machine machine = machine_of(PS_COMM_SHAPE_MESH);
    expect_ns(&machine, PS_OP_ALL_REDUCE, 8, 100 + 2 * 7 + 2 * 0.875 * 20000);
    expect_ns(&machine, PS_OP_ALL_GATHER, 8, 100 + 7 + 0.875 * 20000);
}

static void test_a_tree_goes_up_and_down(void **state)
{
    (void)state;
    const ps_machine machine = machine_of(PS_COMM_SHAPE_TREE);
    expect_ns(&machine, PS_OP_ALL_REDUCE, 8, 100 + 6 * 7 + 2 * 20000);
    expect_ns(&machine, PS_OP_ALL_REDUCE, 9, 100 + 8 * 7 + 2 * 20000);
    expect_ns(&machine, PS_OP_ALL_GATHER, 9, 100 + 4 * 7 + 20000);
}

// 16 ranks in servers of 4: a ring of 4 for all bytes, and one of 4 servers for a quarter of them.
static void test_servers(void **state)
{
    (void)state;
    ps_machine machine = machine_of(PS_COMM_SHAPE_RING);
    machine.profile.server_ranks = 4;
    machine.profile.server_comm_ns = 1000;
    machine.profile.server_step_ns = 70;
    machine.profile.server_comm_gbs = 5;
    expect_ns(&machine, PS_OP_ALL_REDUCE, 4, 100 + 6 * 7 + 2 * 0.75 * 20000);
    const double inside = 100 + 6 * 7 + 2 * 0.75 * 20000;
    const double between = 1000 + 6 * 70 + 2 * 0.75 * 200000 / 4;
    expect_ns(&machine, PS_OP_ALL_REDUCE, 16, inside + between);
    expect_ns(&machine, PS_OP_ALL_REDUCE, 13, inside + between); // the last server is not full
}

static void test_narrow_elements(void **state)
{
    (void)state;
    ps_machine machine = machine_of(PS_COMM_SHAPE_RING);
    machine.profile.element_bytes = 2;
    expect_ns(&machine, PS_OP_ALL_REDUCE, 2, 100 + 2 * 7 + 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat_knows_no_ranks),
        cmocka_unit_test(test_a_ring),
        cmocka_unit_test(test_a_mesh_takes_two_steps),
        cmocka_unit_test(test_a_tree_goes_up_and_down),
        cmocka_unit_test(test_servers),
        cmocka_unit_test(test_narrow_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
