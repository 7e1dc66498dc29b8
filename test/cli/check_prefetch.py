"""What the command line shows of prefetching: in plans, in graphs of others, in traces, in simulated time."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from program import PRESTAGE, SOURCE, Skip, document, golden, main, output, refused

MODEL = golden("smollm-q8_0")
GRAPH = os.path.join(SOURCE, "test", "passes", "prefetch.graph")
LINK = ("--comm-sim", "latency=40us")
SITES = {"attn.qkv", "attn.o", "mlp.gate_up", "mlp.down", "kv", "lm_head", "all"}


def prefetches(text):
    return [line for line in text.splitlines() if line.startswith("prefetch ")]


def others(text):
    return [line for line in text.splitlines() if not line.startswith("prefetch ")]


def test_plans_hold_them_for_ranks_alone():
    assert not prefetches(output("plan", MODEL, "--no-measure").decode())
    assert not prefetches(output("plan", MODEL, "--no-measure", "--tp", "2", "--prefetch", "off").decode())
    text = output("plan", MODEL, "--no-measure", "--tp", "2", *LINK).decode()
    assert prefetches(text) and " ranks=2 " in text and "all_reduce" in text and "all_gather" in text, text[:200]
    # 10 bytes in a second: there is no time for any, and the plan says so.
    lines = prefetches(output("plan", MODEL, "--no-measure", "-t", "1", "--tp", "2", "--comm-sim", "latency=1ns").decode())
    assert lines and all("reason=no_time" in line for line in lines), lines


def test_barriers_are_filled_for_several_workers():
    """By default where several ranks share the model; one has to ask for it, and needs two workers to wait for each other."""
    for flags, fills in ((("-t", "2"), False), (("-t", "2", "--prefetch", "auto"), True), (("-t", "1", "--prefetch", "auto"), False),
                         (("-t", "2", "--prefetch", "preserve"), False), (("-t", "2", "--tp", "2"), True),
                         (("-t", "2", "--tp", "2", "--prefetch", "preserve"), False), (("-t", "1", "--tp", "2"), False)):
        text = output("plan", MODEL, "--no-measure", *flags).decode()
        lines = [line for line in prefetches(text) if " window=barrier}" in line]
        assert bool(lines) == fills, (flags, text)
    got = document("plan", MODEL, "--no-measure", "-t", "2", "--prefetch", "auto")["prefetches"]
    assert {row["window"] for row in got} == {"barrier"} and {row["site"] for row in got if row["taken"]} >= {"attn.o", "mlp.down"}, got


def test_waits_at_barriers_show_everywhere():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        flags = ("-p", "0", "-n", "64", "-r", "2", "--no-ceiling", "-t", "2")
        rows = document("bench", MODEL, *flags, "--compare", "off,auto", "--trace", path)
        assert [row["policy"] for row in rows] == ["off", "auto"] and "prefetch" not in rows[0], rows
        assert {site["window"] for site in rows[1]["prefetch"]} == {"barrier", "all"}, rows[1]
        assert sum(site["moved_bytes"] for site in rows[1]["prefetch"]) > 0, rows[1]
        sites = document("overlap", path)["sites"]
        assert {site["window"] for site in sites} == {"barrier"} and {site["site"] for site in sites} <= SITES, sites
        assert any(site["moved_bytes"] > 0 for site in sites), sites
        assert "| barrier |" in output("overlap", path).decode()
        text = output("bench", MODEL, *flags, "--prefetch", "auto", "--ops").decode()
        assert "| barrier | decode |" in text, text
        assert "barrier" not in [cell.strip() for cell in output("bench", MODEL, *flags, "--ops").decode().split("|")]


def side_plans(folder, *flags):
    """Plans of a model that a machine with small caches of its own could not keep in them: dedicated threads have something to do."""
    machine = document("plan", MODEL, "--no-measure", "-t", "2")["machine"]
    if machine["llc_bytes"] <= machine["l2_bytes"]:
        refused("run", MODEL, "-p", "a", "--prefetch-threads", "1", says=["0 would be right"])
        raise Skip("the cores of this machine share no cache")
    with open(os.path.join(folder, "machine.json"), "w", encoding="utf-8") as file:
        json.dump({**machine, "l2_bytes": 4096}, file)
    path = os.path.join(folder, "side.plans")
    output("plan", MODEL, "-o", path, "--machine", os.path.join(folder, "machine.json"), "-c", "1024", "-t", "2", *flags)
    return path


def test_dedicated_threads():
    with tempfile.TemporaryDirectory() as folder:
        for threads in ("1", "2"):
            plans = side_plans(folder, "--force", "--prefetch-threads", threads)
            flags = ("-c", "1024", "-t", "2")
            side = ("--plan", plans, "--prefetch-threads", threads)
            asked = ("run", MODEL, "-p", "abc " * 200, "--raw", "--temp", "0", "-n", "40")
            assert document(*asked, *flags, *side)["tokens"] == document(*asked, *flags)["tokens"]
        bench = ("bench", MODEL, "-p", "0", "-n", "1024", "-r", "1", "-t", "2", "--no-ceiling", *side)
        trace = os.path.join(folder, "trace.json")
        row = document(*bench, "--trace", trace)[0]
        found = {site["site"]: site for site in row["prefetch"] if site["window"] == "side"}
        assert row["policy"] == "auto" and set(found) == SITES - {"all"}, row
        assert all(site["fired"] > 0 and site["moved_bytes"] <= site["asked_bytes"] for site in found.values()), found
        assert sum(site["moved_bytes"] for site in found.values()) > 0, found
        assert {site["window"] for site in document("overlap", trace)["sites"]} == {"side"}
        # Plans and threads belong together.
        refused("run", MODEL, "-p", "a", *flags, "--plan", plans, says=["for prefetch threads, here there are 0"])
        output("plan", MODEL, "-o", plans, "--force", "--no-measure", "-c", "1024", "-t", "2", "--prefetch", "auto")
        refused("run", MODEL, "-p", "a", *flags, *side, says=["without prefetch threads, here there are 2", "--prefetch-threads 2"])


def test_dedicated_threads_that_cannot_be():
    for policy in ("off", "preserve"):
        refused("run", MODEL, "-p", "a", "-t", "1", "--prefetch-threads", "1", "--prefetch", policy, says=[policy, "auto would be right"])
    refused("plan", MODEL, "-t", "2", "--prefetch-threads", "3", "--no-measure", says=["0 to 2"])
    refused("plan", GRAPH, "--prefetch-threads", "1", says=["--prefetch-threads"])
    machine = document("plan", MODEL, "--no-measure", "-t", "2")["machine"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "machine.json")
        for llc_bytes in (1 << 19, 1 << 25):
            with open(path, "w", encoding="utf-8") as file:
                json.dump({**machine, "l2_bytes": 1 << 20, "llc_bytes": llc_bytes}, file)
            if llc_bytes < 1 << 20:
                refused("plan", MODEL, "-t", "2", "--prefetch-threads", "1", "--machine", path, says=["share", "0 would be right"])
                continue
            # All of the model stays in L2: nothing is prefetched, and the plan says why.
            lines = prefetches(output("plan", MODEL, "-t", "2", "--prefetch-threads", "1", "--machine", path).decode())
            assert lines and all("reason=in_cache window=side" in line for line in lines), lines


def test_dedicated_threads_end_with_the_program():
    with tempfile.TemporaryDirectory() as folder:
        plans = side_plans(folder, "--prefetch-threads", "2")
        with subprocess.Popen([PRESTAGE, "bench", MODEL, "-p", "0", "-n", "1024", "-r", "100", "-t", "2", "--no-ceiling", "--plan", plans,
                               "--prefetch-threads", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                time.sleep(0.5)
                process.send_signal(signal.SIGINT)
                assert process.wait(timeout=20) == 130
            finally:
                process.kill()


def test_prompts_and_decoding_are_reported_apart():
    """The KV of a prompt's earlier pieces is moved for the later ones."""
    rows = document("bench", MODEL, "--ranks-sim", "2", *LINK, "-p", "0", "-n", "0", "-pg", "96,8", "-b", "32", "-r", "2", "--no-ceiling",
                    "--prefetch", "preserve", "-t", "1")
    moved = {(site["steps"], site["site"]): site["moved_bytes"] for site in rows[0]["prefetch"]}
    for kind in ("prompt", "decode"):
        assert moved[kind, "kv"] > 0 and moved[kind, "all"] >= moved[kind, "kv"] + moved[kind, "mlp.down"], moved


def test_graphs_of_others_get_prefetches_and_nothing_else():
    plain = output("plan", GRAPH, "--no-measure", "--prefetch", "off").decode()
    assert not prefetches(plain)
    for policy in ("preserve", "auto"):
        text = output("plan", GRAPH, "--no-measure", "--prefetch", policy, *LINK).decode()
        assert others(text) == others(plain), policy
        assert any("%gate " in line and "reason" not in line for line in prefetches(text)), text
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.graph")
        output("plan", GRAPH, "--no-measure", *LINK, "-o", path)
        with open(path, encoding="utf-8") as file:
            assert file.read() == output("plan", GRAPH, "--no-measure", *LINK).decode()
        refused("plan", GRAPH, "--no-measure", "-o", path, says=[path, "--force"])
        refused("plan", path, "--no-measure", *LINK, says=["prefetches already", "off"])
        with open(path, "w", encoding="utf-8") as file:
            file.write("vocabulary 3\n%x = wieght F32 [1, 3]\n")
        refused("plan", path, says=[path, "line 2", "'weight'"])
    refused("plan", GRAPH, "--json", says=["--json"])
    refused("plan", GRAPH, "--dot", says=["--dot"])


def test_machines_of_files():
    machine = document("plan", MODEL, "--no-measure", "--tp", "2")["machine"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "machine.json")

        def planned(**changes):
            with open(path, "w", encoding="utf-8") as file:
                json.dump({**machine, **changes}, file)
            return output("plan", MODEL, "--tp", "2", "--machine", path).decode()
        assert planned() == output("plan", MODEL, "--no-measure", "--tp", "2").decode()
        assert prefetches(planned(comm_ns=1, comm_gbs=1e6)) != prefetches(planned(comm_ns=1e6))
        for text, says in (('{"read_gb": 1}', "'read_gbs'"), ('{"read_gbs": -1}', "read_gbs"), ('{"read_gbs": "1"}', "read_gbs"),
                           ("[", "line"), ("", "line")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            refused("plan", MODEL, "--machine", path, says=[path, says])


def test_traces():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        # preserve: auto may find out that a site does not pay here, and leave it out
        output("bench", MODEL, "--ranks-sim", "2", *LINK, "-p", "0", "-n", "64", "-r", "2", "--no-ceiling", "--trace", path,
               "--prefetch", "preserve")
        with open(path, encoding="utf-8") as file:
            assert json.load(file)["traceEvents"]
        got = document("overlap", path)
        sites = {site["site"]: site for site in got["sites"]}
        assert {"attn.qkv", "mlp.down"} <= set(sites) <= SITES, sites
        for site in sites.values():
            assert site["fired"] > 0 and 0 <= site["moved_bytes"] <= site["asked_bytes"], site
        assert sites["mlp.down"]["moved_bytes"] > 0, sites
        text = output("overlap", path).decode()
        assert "mlp.gate_up" in text and "runs with prefetching" in text, text
        # every rank writes its own
        output("run", MODEL, "-p", "abc", "-n", "8", "--tp", "2", "--trace", path)
        assert os.path.exists(path + ".rank1"), os.listdir(folder)
        for bad in (MODEL, folder, os.path.join(folder, "none")):
            refused("overlap", bad, says=[bad])


def test_simulated_time():
    rows = document("simulate", MODEL, "--no-measure", "--tp", "2", *LINK, "--compare", "off,preserve,auto")
    assert [row["policy"] for row in rows] == ["off", "preserve", "auto"], rows
    off, *more = rows
    assert off["ratio"] == 1 and off["moved_bytes"] == 0, off
    for row in more:
        assert row["moved_bytes"] > 0 and row["ratio"] > 1 and row["step_ns"] < off["step_ns"], row
        # It all ends with the collectives, which prefetching neither shortens nor lengthens.
        assert row["wait_ns"] == off["wait_ns"] and row["moved_bytes"] <= row["fillable_bytes"], row
    refused("simulate", MODEL, "--compare", "off,of", says=["--compare 'of'"])


def test_policies_side_by_side():
    rows = document("bench", MODEL, "--ranks-sim", "2", *LINK, "-p", "0", "-n", "16", "-r", "2", "--no-ceiling",
                    "--compare", "off,preserve,auto")
    assert [row["policy"] for row in rows] == ["off", "preserve", "auto"] and rows[0]["ratio"] == 1, rows
    moved = {row["policy"]: sum(site["moved_bytes"] for site in row.get("prefetch", ())) for row in rows}
    assert moved["off"] == 0 < moved["preserve"], moved
    # Sums in whatever way and pieces: the same tokens, with simulated peers too.
    for test in (("-p", "0", "-n", "4", "-d", "40"), ("--static-batch", "100", "--seq", "30")):
        rows = document("bench", MODEL, "--ranks-sim", "2", *test, "-r", "1", "--no-ceiling",
                        "--compare", "off,off+fused,auto+auto,off+serial")
        assert [row["policy"] for row in rows] == ["off", "off+fused", "auto+auto", "off+serial"], rows
    for policies in ("", "of", "off,", "off,off2", "off+", "off+fusd"):
        refused("bench", MODEL, "--ranks-sim", "2", "--compare", policies, says=["--compare"])


main(sys.modules[__name__])
