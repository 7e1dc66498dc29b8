// ctest-labels: unit;prop
// Goal: lru, lfu and hotset give the victims that their names say, whatever is busy and however the
// slots grow and shrink, and every policy keeps its promises about what it protects.
// Method: random calls on few keys against lists that are searched from end to end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "experts/policy.h"

#include "gen.h"
#include <prestage/prestage.h>

#include <string.h>

#define KEYS 60u
#define SLOTS 24u
#define FLOOR 6u
#define HOT 30u
#define STEPS 3000

// What is known of the keys, and the policy that is tried.
typedef struct rig {
    ps_gen gen;
    ps_expert_policy *policy;
    ps_expert_policy_kind kind;
    uint32_t slots, used;
    uint32_t hot[HOT];
    bool is_hot[KEYS], is_in[KEYS], is_busy[KEYS];
    uint64_t uses[KEYS], last_use[KEYS], last_step[KEYS];
    uint64_t time, step;
} rig;

static bool is_busy(void *context, uint32_t key)
{
    return ((const rig *)context)->is_busy[key];
}

// Pinned by a hot set of so many slots.
static bool is_protected(const rig *r, uint32_t key)
{
    for (uint32_t i = 0; r->kind == PS_EXPERTS_HOTSET && i < HOT && i < r->slots - FLOOR; i++) {
        if (r->hot[i] == key) {
            return true;
        }
    }
    return false;
}

static bool leaves_before(const rig *r, uint32_t a, uint32_t b)
{
    if (r->kind == PS_EXPERTS_LFU) {
        return r->uses[a] != r->uses[b] ? r->uses[a] < r->uses[b]
                                        : r->last_step[a] < r->last_step[b];
    }
    return r->last_use[a] < r->last_use[b];
}

static void check_victim(const rig *r, uint32_t victim)
{
    bool is_any = false;
    for (uint32_t key = 0; key < KEYS; key++) {
        if (!r->is_in[key] || r->is_busy[key] || is_protected(r, key)) {
            continue;
        }
        is_any = true;
        assert_int_not_equal(PS_NO_KEY, victim);
        if (leaves_before(r, key, victim)) {
            fail_msg("%s: key %u should leave before %u", ps_expert_policy_name(r->kind), key,
                     victim);
        }
    }
    assert_int_equal(is_any, victim != PS_NO_KEY);
    if (is_any) {
        assert_true(r->is_in[victim] && !r->is_busy[victim] && !is_protected(r, victim));
    }
}

static void take_out(rig *r, uint32_t key)
{
    ps_expert_policy_leave(r->policy, key);
    r->is_in[key] = false;
    r->used--;
}

static void make_room(rig *r, uint32_t key, uint32_t slots)
{
    while (r->used > slots) {
        const uint32_t victim = ps_expert_policy_victim(r->policy, key, is_busy, r);
        if (r->kind == PS_EXPERTS_LRU || r->kind == PS_EXPERTS_LFU ||
            r->kind == PS_EXPERTS_HOTSET) {
            check_victim(r, victim);
        }
        assert_in_range(victim, 0, KEYS - 1);
        assert_true(r->is_in[victim] && !r->is_busy[victim]);
        assert_false(ps_expert_policy_is_pinned(r->policy, victim));
        take_out(r, victim);
    }
}

static void put_in(rig *r, uint32_t key)
{
    make_room(r, key, r->slots - 1);
    ps_expert_policy_enter(r->policy, key);
    r->is_in[key] = true;
    r->used++;
    r->last_use[key] = r->time++; // a key that comes is the newest
}

// Up to half the floor of different keys, low ones more often; they are busy until the next call.
static void call_layer(rig *r)
{
    uint32_t keys[FLOOR / 2];
    const uint32_t count = (uint32_t)ps_gen_range(&r->gen, 1, FLOOR / 2);
    memset(r->is_busy, 0, sizeof r->is_busy);
    for (uint32_t i = 0; i < count; i++) {
        do {
            keys[i] = (uint32_t)(ps_gen_range(&r->gen, 0, KEYS - 1) *
                                 ps_gen_range(&r->gen, 0, KEYS - 1) / (KEYS - 1));
        } while (r->is_busy[keys[i]]);
        const uint32_t rows = (uint32_t)ps_gen_range(&r->gen, 1, 3);
        r->is_busy[keys[i]] = true;
        r->uses[keys[i]] += rows;
        r->last_use[keys[i]] = r->time++;
        r->last_step[keys[i]] = r->step;
        ps_expert_policy_use(r->policy, keys[i], rows);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!r->is_in[keys[i]]) {
            put_in(r, keys[i]);
        }
    }
}

static void check_pinned(const rig *r)
{
    uint32_t pinned = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        const bool is_pinned = ps_expert_policy_is_pinned(r->policy, key);
        assert_true(!is_pinned || r->is_in[key]);
        pinned += is_pinned;
        if (r->kind == PS_EXPERTS_HOTSET) {
            assert_int_equal(r->is_in[key] && is_protected(r, key), is_pinned);
        }
    }
    assert_true(pinned <= r->slots - FLOOR);
    assert_true(pinned == 0 || (r->kind != PS_EXPERTS_LRU && r->kind != PS_EXPERTS_LFU));
}

static void resize(rig *r)
{
    memset(r->is_busy, 0, sizeof r->is_busy);
    r->slots = (uint32_t)ps_gen_range(&r->gen, FLOOR, SLOTS);
    ps_expert_policy_resize(r->policy, r->slots);
    if (r->kind == PS_EXPERTS_HOTSET) { // what is released has been pinned, and leaves first
        while (r->used > r->slots) {
            take_out(r, ps_expert_policy_victim(r->policy, PS_NO_KEY, is_busy, r));
        }
        for (uint32_t key = 0; key < KEYS; key++) {
            if (r->is_in[key] && !is_protected(r, key)) {
                take_out(r, key);
            }
        }
    }
    make_room(r, PS_NO_KEY, r->slots);
}

static void start(rig *r, ps_expert_policy_kind kind)
{
    *r = (rig){.gen = r->gen, .kind = kind, .slots = SLOTS, .time = 1};
    for (uint32_t i = 0; i < HOT; i++) {
        r->hot[i] = (11 * i + 5) % KEYS;
    }
    const ps_expert_policy_options options = {.kind = kind,
                                              .keys = KEYS,
                                              .slots = SLOTS,
                                              .floor = FLOOR,
                                              .hot = r->hot,
                                              .hot_count = HOT};
    assert_int_equal(PS_OK, ps_expert_policy_create(&options, &r->policy));
    uint32_t pinned[SLOTS];
    const uint32_t count = ps_expert_policy_pinned(r->policy, pinned);
    assert_true(count <= SLOTS - FLOOR);
    if (kind == PS_EXPERTS_HOTSET) {
        assert_int_equal(SLOTS - FLOOR, count);
        assert_memory_equal(r->hot, pinned, count * sizeof *pinned);
    }
    for (uint32_t i = 0; i < count; i++) {
        put_in(r, pinned[i]);
    }
    check_pinned(r);
}

static void test_random(void **state)
{
    (void)state;
    rig r = {.gen = ps_gen_start()};
    for (uint32_t kind = 0; kind < PS_EXPERTS_POLICY_COUNT; kind++) {
        start(&r, (ps_expert_policy_kind)kind);
        for (int i = 0; i < STEPS; i++) {
            call_layer(&r);
            if (ps_gen_range(&r.gen, 0, 3) == 0) {
                memset(r.is_busy, 0, sizeof r.is_busy);
                ps_expert_policy_token(r.policy);
                r.step++;
            }
            if (ps_gen_range(&r.gen, 0, 200) == 0) {
                resize(&r);
            }
            check_pinned(&r);
        }
        ps_expert_policy_destroy(r.policy);
    }
}

static void expect_refused(ps_expert_policy_options options, const char *message)
{
    ps_expert_policy *policy = NULL;
    assert_int_equal(PS_INVALID, ps_expert_policy_create(&options, &policy));
    assert_null(policy);
    assert_string_equal(message, ps_error_message());
}

static void test_refusals(void **state)
{
    (void)state;
    static const uint32_t TWICE[] = {3, 9, 3};
    static const uint32_t LARGE[] = {10};
    const ps_expert_policy_options good = {
        .kind = PS_EXPERTS_LRU, .keys = 10, .slots = 5, .floor = 4};
    ps_expert_policy_options o = good;
    o.slots = 3;
    expect_refused(o, "3 slots for experts: at least 4 would be right");
    o = good;
    o.keys = 0;
    expect_refused(o, "0 experts in all: 1 to 16777216 would be right");
    o = good;
    o.kind = PS_EXPERTS_HOTSET;
    expect_refused(o, "policy hotset needs a hot set");
    o.hot = TWICE;
    o.hot_count = 3;
    expect_refused(o, "hot set: key 3, at place 2, stands twice");
    o.hot = LARGE;
    o.hot_count = 1;
    expect_refused(o, "hot set: key 10, at place 0, is too large");
    assert_string_equal("heat", ps_expert_policy_name(PS_EXPERTS_HEAT));
    assert_null(ps_expert_policy_name(PS_EXPERTS_POLICY_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
