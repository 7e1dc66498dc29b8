"""--additional-config in whole runs: what is asked for is made, once a layer and before its reader, bounded, reported, and off when off."""
import collections
import json
import os
import sys
import tempfile

from program import complaints, document, golden, main, output, run

DENSE = golden("gemma3-q8_0")  # six layers
MOE = golden("qwen3moe-q8_0")
ASKED = ("run", DENSE, "-p", "abc def", "--raw", "--temp", "0", "-n", "12")


def config(enabled=True, **more):
    return ("--additional-config", json.dumps({"weight_prefetch_config": {"enabled": enabled, **more}}))


def ratios(**modules):
    return config(prefetch_ratio=modules)


def bench(model, *flags, threads=2):
    return document("bench", model, "-p", "0", "-n", "24", "-r", "1", "--no-ceiling", "-t", str(threads), *flags)[0]


def sites_of(row, steps="decode"):
    return {site["site"]: site for site in row.get("prefetch", ()) if site["steps"] == steps}


def test_what_is_switched_on_moves_bytes():
    for model, sites in ((DENSE, {"attn.qkv", "attn.o", "mlp.gate_up", "mlp.down", "all"}), (MOE, {"attn.qkv", "attn.o", "moe.gate_up", "all"})):
        for threads in (2, 3):
            row = bench(model, *config(), threads=threads)
            found = sites_of(row)
            assert row["policy"] == "ratio" and set(found) == sites, row
            for site in found.values():
                assert site["fired"] > 0 and 0 <= site["moved_bytes"] <= site["asked_bytes"] > 0, site
            assert found["all"]["moved_bytes"] > 0, found


def test_what_is_switched_on_and_does_nothing_is_said():
    done = run(*ASKED, "-t", "1", *config())
    assert done.returncode == 0 and "nothing is prefetched" in complaints(done), done.stderr
    for flags in (("-t", "2", *config()), ("-t", "1", *config(False)), ("-t", "1")):
        assert "nothing is prefetched" not in complaints(run(*ASKED, *flags)), flags
    # Ratios of 0 are asked for.
    nothing = ratios(attn={"qkv": 0, "o": 0}, mlp={"gate_up": 0, "down": 0})
    assert not complaints(run(*ASKED, "-t", "2", *nothing))


def test_off_is_off_everywhere():
    tokens = document(*ASKED, "-t", "2", *config())["tokens"]
    for off in (config(False), ("--prefetch", "off"), ()):
        assert "prefetch" not in bench(DENSE, *off), off
        assert "prefetch " not in output("plan", DENSE, "--no-measure", "-t", "2", *off).decode(), off
        done = run(*ASKED, "-t", "2", "--stats", *off)
        assert done.returncode == 0 and "| prefetch" not in done.stderr.decode(), done.stderr
        assert document(*ASKED, "-t", "2", *off)["tokens"] == tokens, off
    for off in (config(False), ("--prefetch", "off")):
        assert "prefetch" not in bench(DENSE, "--ranks-sim", "2", *off), off


def test_a_ratio_of_zero_moves_nothing():
    found = sites_of(bench(DENSE, *ratios(mlp={"down": 0}, attn={"qkv": 0.5})))
    assert "mlp.down" not in found, found
    assert found["mlp.gate_up"]["fired"] > 0, found
    whole = sites_of(bench(DENSE, *config()))
    assert 0.4 < found["attn.qkv"]["asked_bytes"] / whole["attn.qkv"]["asked_bytes"] < 0.6, (found, whole)


def test_the_cap_is_told_with_its_source_and_its_sites():
    plan = document("plan", DENSE, "--no-measure", "-t", "2", *config(max_prefetch_bytes=5000))
    assert (plan["max_prefetch_bytes"], plan["max_prefetch_source"]) == (5000, "max_prefetch_bytes"), plan["max_prefetch_source"]
    clamped = {(p["site"], p["layer"]) for p in plan["prefetches"] if p["reason"] == "part_cap"}
    large = {(s["site"], s["layer"]) for s in plan["sites"] if s["bytes"] > 5000 and s["site"] not in ("lm_head",)}
    declined = {(p["site"], p["layer"]) for p in plan["prefetches"] if not p["taken"]}
    assert clamped == large - declined and clamped, (clamped, large, declined)
    assert "L2" in document("plan", DENSE, "--no-measure", "-t", "2", *config())["max_prefetch_source"]


def lanes_of(trace):
    """Events of each worker, in time: (name, site, layer, arguments)."""
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    lanes = collections.defaultdict(list)
    for event in trace:
        kind, _, worker = names.get((event["pid"], event["tid"]), "").partition(" ")
        if event["ph"] == "X" and kind in ("worker", "prefetch") and event["cat"] in ("compute", "prefetch"):
            name, _, site = event["name"].partition(" ")
            lanes[worker].append((event["ts"], name, site, event["args"]["layer"], event["args"]))
    return {worker: [event[1:] for event in sorted(events, key=lambda event: event[0])] for worker, events in lanes.items()}


def runs_of(events):
    runs = []
    for event in events:
        if event[0] == "embed":
            runs.append([])
        runs[-1].append(event)
    return runs


def traced(model, *flags):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        # Fewer runs than there are before the first control.
        output("bench", model, "-r", "1", "--no-ceiling", "-t", "2", "--trace", path, *flags)
        with open(path, encoding="utf-8") as file:
            return lanes_of(json.load(file)["traceEvents"])


def test_each_site_fires_once_a_layer_before_its_reader():
    """T11: what a refactoring took half of. The plan says which, and how much; a trace of each worker says what came of it."""
    for more in ({}, {"prefetch_ratio": {"attn": {"qkv": 0.5, "o": 0.25}, "mlp": {"gate_up": 0.75}}}, {"max_prefetch_bytes": 3000}):
        plan = document("plan", DENSE, "--no-measure", "-t", "2", "-c", "64", *config(**more))
        planned = collections.Counter((p["site"], p["layer"]) for p in plan["prefetches"] if p["taken"])
        asked = collections.Counter()
        for p in plan["prefetches"]:
            asked[p["site"], p["layer"]] += p["bytes"] if p["taken"] else 0
        assert {layer for site, layer in planned if site == "mlp.down"} == set(range(1, 7)), planned
        assert {layer for site, layer in planned if site == "attn.qkv"} == set(range(2, 7)), planned
        workers = [runs_of(events) for events in traced(DENSE, "-p", "0", "-n", "10", *config(**more)).values()]
        assert len(workers) == 2 and len(workers[0]) == len(workers[1]) >= 10, [len(runs) for runs in workers]
        for run_of_all in zip(*workers):
            left = collections.Counter(asked)
            for made in run_of_all:
                fired = collections.Counter((site, layer) for name, site, layer, _ in made if name == "vector_prefetch")
                assert fired == planned, (fired, planned)
                read = set()
                for name, site, layer, arguments in made:
                    if name == "vector_prefetch":
                        assert (site, layer) not in read, (name, site, layer)
                        left[site, layer] -= arguments["asked"]
                    else:
                        read.add((site, layer))
                assert set(planned) <= read, read
            # Whole groups of rows, and shares of whole bytes.
            assert all(abs(rest) <= 8 for rest in left.values()), left


def test_no_weight_is_asked_for_twice():
    """T13."""
    for model in (DENSE, MOE):
        for rows in ("1", "64"):
            plan = document("plan", model, "--no-measure", "-t", "2", "-b", rows, *config())
            values = collections.Counter(p["value"] for p in plan["prefetches"])
            assert values and set(values.values()) == {1}, values


def test_experts_are_bounded():
    """T23: nobody knows yet which experts rows will need; the ratio of all, and never more than the cap, in decoding and in prompts."""
    def asked(*flags):
        totals = set()
        for test in (("-p", "0", "-n", "8"), ("-p", "128", "-n", "0", "-b", "128")):
            lanes = [runs_of(events) for events in traced(MOE, *test, *flags).values()]
            for made in zip(*lanes):
                by_layer = collections.Counter()
                for name, site, layer, arguments in (event for events in made for event in events):
                    if name == "vector_prefetch" and site == "moe.gate_up":
                        assert arguments["bytes"] <= arguments["asked"], arguments
                        by_layer[layer] += arguments["asked"]
                totals |= set(by_layer.values())
        return totals
    plan = document("plan", MOE, "--no-measure", "-t", "2", *config())
    whole = collections.Counter()
    for p in plan["prefetches"]:
        whole[p["site"], p["layer"]] += p["whole_bytes"]
    experts = whole["moe.gate_up", 1]
    for most, flags in ((0.8 * experts, config()), (experts, ratios(moe={"gate_up": 1})), (2000, config(max_prefetch_bytes=2000))):
        found = asked(*flags)
        assert found and max(found) <= most and min(found) > 0.9 * most, (found, most)


def test_models_without_a_module():
    """T14: a module that is not there is declined by name, and the others' prefetches are made."""
    both = ratios(mlp={"gate_up": 1.0}, moe={"gate_up": 0.5}, attn={"o": 1.0})
    for model, missing in ((DENSE, "moe"), (MOE, "mlp")):
        assert f"# {missing}: declined" in output("plan", model, "--no-measure", "-t", "2", *both).decode()
        assert sites_of(bench(model, *both))["attn.o"]["fired"] > 0


def test_the_report():
    done = run(*ASKED, "-t", "2", "--stats", *config())
    table = done.stderr.decode()
    assert "| vector  | decode |" in table and "slack us" in table and "not measured" in table, table
    row = bench(DENSE, *config())
    assert all(site["slack_us"] == "not measured" for site in row["prefetch"]) and "linears" not in row, row
    row = bench(DENSE, "--ops", "-n", "200", *config())
    found = sites_of(row)
    assert found["attn.o"]["slack_us"] >= 0 and row["rates_source"], found
    linears = {linear["site"]: linear for linear in row["linears"] if linear["steps"] == "decode"}
    for site, linear in linears.items():
        off, on = linear["off"], linear["on"]
        assert off["linears"] > 0, (site, linear)  # controls
        assert (on["linears"] > off["linears"]) == (site in found), (site, linear)
        for part in (off, on):
            if part["linears"] > 0:
                assert part["time_us"] > 0 < part["warm_us_predicted"] and abs(part["stalled_share"] + part["compute_share"] - 1) < 1e-6, part
            else:
                assert part["time_us"] is None and part["stalled_share"] is None, part
    text = output("bench", DENSE, "-p", "0", "-n", "200", "-r", "1", "-t", "2", "--no-ceiling", "--ops", *config()).decode()
    assert "stalled off" in text and "warm, predicted" in text and "not measured" not in text, text
    assert "stalled off" in output("bench", DENSE, "-p", "0", "-n", "8", "-r", "1", "--no-ceiling", "--ops").decode()


main(sys.modules[__name__])
