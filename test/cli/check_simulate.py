"""What `prestage simulate` says: tables, JSON, operators, traces; numbers that can be worked out from a config.json and a few rates."""
import json
import os
import re
import sys
import tempfile

from program import document, golden, main, output, refused, run

FILE = golden("smollm-q8_0")
# Everything that counts is stated, so that answers can be worked out.
RATES = {"base": "ascend-910b", "read_gbs": 1000, "cache_read_gbs": 8000, "linear_share": 1, "int8_gops": 250000, "f32_gops": 100000,
         "fill_gbs": 1000, "comm_ns": 40000, "comm_gbs": 100, "comm_shape": "mesh", "comm_step_ns": 0, "weight_share": 1, "kv_share": 1, "kv_strided_share": 1,
         "kv_cache_share": 1, "compute_share": 1, "attention_splits": 65536, "matmul_ns": 0, "vector_ns": 0, "memory_bytes": 24_000_000_000}
SHAPE = ("--tp", "4", "-b", "4", "-c", "6000", "--weight-bits", "8", "--kv-bits", "16")
# Llama3-8B
LAYERS, HIDDEN, KV_HEADS, HEAD, INNER, WORDS = 32, 4096, 8, 128, 14336, 128256
LINEARS = {"linear attn.qkv": HIDDEN * (HIDDEN + 2 * KV_HEADS * HEAD), "linear attn.o": HIDDEN * HIDDEN,
           "linear mlp.gate_up": 2 * HIDDEN * INNER, "linear mlp.down": HIDDEN * INNER}


class Machine:
    """A file with rates, for as long as it is used."""

    def __init__(self, **other):
        self.rates = {**RATES, **other}

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "machine.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.rates, file)
        return path

    def __exit__(self, *_):
        self.folder.cleanup()


def sides(*arguments, **rates):
    with Machine(**rates) as machine:
        return document("simulate", "llama3-8b", "--machine", machine, *SHAPE, *arguments)


def near(left, right, tolerance=1e-6):
    return abs(left - right) <= tolerance * max(abs(left), abs(right))


def test_sides():
    rows = sides()
    assert [row["policy"] for row in rows] == ["serial", "fused", "preserve", "ratio", "auto"], rows
    serial = rows[0]
    for row in rows:
        workload = row["workload"]
        assert (workload["batch"], workload["context_tokens"], workload["prompt_tokens"], workload["ranks"]) == (4, 6000, 4000, 4), workload
        assert near(row["ratio"], serial["step_ns"] / row["step_ns"]) and near(row["tokens_per_s"], 4e9 / row["step_ns"]), row
        assert near(row["total_ns"], row["prompt_ns"] + 2000 * row["step_ns"]), row
        assert row["first_ns"] <= row["step_ns"] <= row["last_ns"], row
        assert near(row["step_ns"], row["work_ns"] + row["wait_ns"] + row["barrier_ns"]), row
        assert row["model"] == "llama3-8b" and row["meets_slo"] == 1, row
    assert serial["moved_bytes"] == rows[1]["moved_bytes"] == 0
    for row in rows[2], rows[4]:
        assert row["moved_bytes"] > 0 and row["ratio"] > 1, row
    alone = document("simulate", FILE, "--no-measure")
    assert [row["policy"] for row in alone] == ["serial", "ratio", "auto"], alone
    shared = document("simulate", FILE, "--no-measure", "--tp", "2", "--sequence-parallel")
    assert [row["policy"] for row in shared] == ["serial", "preserve", "ratio", "auto"], shared


def test_names_of_sides():
    rows = sides("--compare", "serial,off,off+serial,fused,off+fused")
    assert len({row["step_ns"] for row in rows[:3]}) == 1 and rows[3]["prompt_ns"] == rows[4]["prompt_ns"], rows
    assert [row["workload"]["prefetch"] for row in rows] == ["off"] * 5, rows
    assert [row["workload"]["comm_schedule"] for row in rows] == ["serial"] * 3 + ["fused"] * 2, rows


def test_memory():
    row = sides("--compare", "serial")[0]
    layer = sum(LINEARS.values())
    assert near(row["layer_attention_bytes"], (LINEARS["linear attn.qkv"] + LINEARS["linear attn.o"]) / 4), row
    assert near(row["layer_ffn_bytes"], (LINEARS["linear mlp.gate_up"] + LINEARS["linear mlp.down"]) / 4), row
    assert near(row["kv_bytes"], 4 * 6000 * LAYERS * 2 * KV_HEADS * HEAD * 2 / 4), row
    whole = LAYERS * layer / 4
    # beside them an embedding and a head, shared out or not, and norms
    assert whole < row["weight_bytes"] <= whole + 2 * WORDS * HIDDEN + 1e6, (row, whole)
    assert row["memory_bytes"] == row["weight_bytes"] + row["kv_bytes"] and row["fits"] == 1, row
    assert row["memory_limit_bytes"] == 24_000_000_000
    assert sides("--compare", "serial", "--tp", "1", "-b", "32")[0]["fits"] == 0
    half = sides("--compare", "serial", "--weight-bits", "4", "--kv-bits", "8")[0]
    assert near(half["kv_bytes"], row["kv_bytes"] / 2) and near(half["layer_ffn_bytes"], row["layer_ffn_bytes"] / 2, 1e-3), half


def test_operators():
    row = sides("--ops", "--compare", "serial")[0]
    ops = {op["name"]: op for op in row["operators"]}
    assert near(sum(op["ns"] for op in row["operators"]), row["last_ns"]), row
    for name, weights in LINEARS.items():
        op = ops[name]
        assert op["count"] == LAYERS and op["site"] == name.split()[1], op
        assert near(op["memory_bytes"], LAYERS * weights / 4) and op["cache_bytes"] == 0, op
        # One byte a word, read at 1000 a nanosecond; two operations for each row.
        assert near(op["ns"], LAYERS * weights / 4 / 1000) and op["bound"] == "memory", op
        assert near(op["ops_per_word"], 8) and near(op["roofline_ops_per_word"], 2 * 250000 / 1000), op
    attention = [op for name, op in ops.items() if name.startswith("attention") and op["words"] > 0]
    assert len(attention) == 1 and near(attention[0]["memory_bytes"], row["kv_bytes"]), attention
    # Four query heads for each KV head. Two bytes a word.
    assert near(attention[0]["ops_per_word"], 8) and near(attention[0]["roofline_ops_per_word"], 2 * 2 * 100000 / 1000), attention
    assert near(row["roofline"]["linear"], 500) and near(row["roofline"]["attention"], 400), row["roofline"]
    assert ops["waits"]["bound"] == "wait" and near(ops["waits"]["ns"], 65 * 40000, 0.1), ops["waits"]
    words = sum(op["words"] for op in row["operators"] if op["ops"] > 0)
    assert near(row["roofline"]["ops_per_word"], sum(op["ops"] for op in row["operators"]) / words, 1e-4), row["roofline"]


def test_bounds():
    def bound(name, compare="serial", **rates):
        return {op["name"]: op["bound"] for op in sides("--ops", "--compare", compare, **rates)[0]["operators"]}[name]
    assert bound("linear mlp.down", int8_gops=1000) == "compute"
    assert bound("linear mlp.down", matmul_ns=1e6) == "fixed"
    assert bound("linear mlp.gate_up", "preserve", cache_read_gbs=1000) == "cache"
    assert bound("linear mlp.gate_up", "preserve", l2_share=0.01) == "memory"  # nothing fits


def test_one_step():
    row = sides("--compare", "serial", "--prompt-tokens", "5999")[0]
    assert row["first_ns"] == row["step_ns"] == row["last_ns"], row
    assert near(row["last_ns"], sides("--compare", "serial")[0]["last_ns"])
    steps = [sides("--compare", "serial", "--prompt-tokens", str(tokens))[0] for tokens in (1000, 3000, 5000)]
    assert near(steps[1]["first_ns"] - steps[0]["first_ns"], steps[2]["first_ns"] - steps[1]["first_ns"]), steps


def test_trace():
    names = ["serial", "fused", "preserve", "ratio", "auto"]
    with Machine() as machine, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        rows = document("simulate", "llama3-8b", "--machine", machine, *SHAPE, "--trace", path, "--prompt-tokens", "5999")
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        refused("overlap", path, says=["no lanes of workers"])
    meta = {(event["pid"], event["tid"], event["name"]): event["args"].get("name") for event in events if event["ph"] == "M"}
    assert [meta[pid, 0, "process_name"] for pid in range(5)] == names, meta
    for pid, row in enumerate(rows):
        assert [meta[pid, tid, "thread_name"] for tid in range(3)] == ["compute", "comm", "prefetch"], meta
        lanes = [[event for event in events if event["ph"] == "X" and event["pid"] == pid and event["tid"] == tid] for tid in range(3)]
        at = 0
        for event in lanes[0]:  # one behind the other, without a gap
            assert abs(event["ts"] - at) < 1e-6 and 0 <= event["args"]["layer"] <= LAYERS, (at, event)
            at = round(event["ts"] + event["dur"], 3)
        assert abs(at * 1000 - row["last_ns"]) < 2, (at, row)
        waits = sum(event["dur"] for event in lanes[0] if event["cat"] == "wait")
        assert near(waits * 1000, row["wait_ns"], 1e-3), (waits, row)
        assert near(sum(event["dur"] for event in lanes[1]) * 1000, row["comm_ns"], 1e-3), row
        assert near(sum(event["args"]["bytes"] for event in lanes[2]), row["moved_bytes"], 1e-6), row
        assert {event["args"]["layer"] for event in lanes[0]} >= set(range(1, LAYERS + 1))
        assert sum(event["name"] == "linear mlp.down" for event in lanes[0]) == LAYERS
    assert not [event for event in events if event["ph"] == "X" and event["pid"] == 0 and event["tid"] == 2]


def test_table():
    with Machine() as machine:
        text = output("simulate", "llama3-8b", "--machine", machine, *SHAPE, "--ops", "--slo", "100ms").decode()
    rows = re.findall(r"^\| (serial|fused|preserve|ratio|auto) .*\| met  \|$", text, re.MULTILINE)
    assert rows == ["serial", "fused", "preserve", "ratio", "auto"], text
    assert "4 ranks, batch 4, 6000 tokens, of which 4000 are prompt; weights in 8 bits, KV in 16 bits" in text, text
    assert "of 24.00 GB: fits" in text and "# operators of the last step of serial" in text, text
    assert re.search(r"^\| linear mlp.down +\| +32 \|.*\| +8\.0 \| +500 \| memory", text, re.MULTILINE), text
    assert text.count("operators of") == 1, text
    assert "SLO" not in output("simulate", FILE, "--no-measure").decode()


def test_slo():
    row = sides("--compare", "serial")[0]
    between = f"{(row['step_ns'] + row['last_ns']) / 2:.0f}ns"
    with Machine() as machine:
        words = ("simulate", "llama3-8b", "--machine", machine, *SHAPE, "--json")
        for slo, compare, met in (("1s", "serial", [1]), ("1us", "serial", [0]), (between, "serial", [0]),
                                  (between, "serial,preserve", [0, 1]), ("0.05ms", "serial,preserve", [0, 0])):
            done = run(*words, "--slo", slo, "--compare", compare)
            assert [side["meets_slo"] for side in json.loads(done.stdout)] == met, (slo, done)
            assert done.returncode == (0 if 1 in met else 1) and not done.stderr, (slo, done)


def test_experts():
    shape = ("simulate", "qwen3-235b-a22b", "--machine", "h100", "--tp", "4", "--weight-bits", "4", "-c", "1000", "--compare", "serial")
    whole = document(*shape)[0]
    halves = [document(*shape, "--experts-kept", "0.5", *more)[0] for more in ((), ("--coverage", "0.9"))]
    assert whole["step_ns"] < halves[1]["step_ns"] < halves[0]["step_ns"], (whole, halves)
    assert whole["weight_bytes"] > halves[0]["weight_bytes"] == halves[1]["weight_bytes"], (whole, halves)
    ops = document(*shape, "--experts-kept", "0.5", "--ops")[0]["operators"]
    assert "experts" in {op["bound"] for op in ops}, ops


def test_this_machine():
    rows = document("simulate", FILE, "-t", "1", "--no-measure", "--tp", "2", "--comm-sim", "latency=40us,bandwidth=1Gbps")
    assert {row["rates_source"] for row in rows} == {"defaults"}, rows
    assert rows[0]["workload"]["context_tokens"] == 1024, rows  # what the model was made for
    alone, eight, four = (document("simulate", FILE, "--no-measure", *more)[0]
                          for more in ((), ("-ctk", "q8_0", "-ctv", "q8_0"), ("--weight-bits", "4")))
    assert near(eight["kv_bytes"], alone["kv_bytes"] * 17 / 32), (eight, alone)  # 34 bytes where there were 64
    assert four["weight_bytes"] < alone["weight_bytes"] and four["step_ns"] < alone["step_ns"], (four, alone)


def test_errors():
    with Machine() as machine:
        words = ("simulate", "llama3-8b", "--machine", machine)
        for more, says in ((("--tp", "64"), ["llama3-8b", "64 ranks", "1 to 32"]),
                           (("--weight-bits", "5"), ["weight_bits", "5", "4, 8 or 16"]),
                           (("--weight-bits", "x"), ["--weight-bits 'x'"]),
                           (("--kv-bits", "12"), ["kv_bits", "12", "4, 8 or 16"]),
                           (("-c", "100", "--prompt-tokens", "100"), ["prompt_tokens", "100", "fewer"]),
                           (("--tp", "4", "--context-shards", "3"), ["context_shards", "3", "4", "divisor"]),
                           (("--slo", "100"), ["--slo '100'", "100ms"]),
                           (("--slo", "-1ms"), ["--slo '-1ms'"]),
                           (("--slo", "0ms"), ["--slo '0ms'"]),
                           (("--coverage", "1.5"), ["--coverage '1.5'", "0 to 1"]),
                           (("--experts-kept", "nan"), ["--experts-kept 'nan'"]),
                           (("--compare", "serial,fast"), ["'fast'", "serial, fused, off, preserve, auto or ratio"]),
                           (("--compare", ",".join(["off"] * 17)), ["at most 16"]),
                           (("--prefetch", "auto"), ["--prefetch", "nearest"]),
                           (("--trace", "/nowhere/trace.json"), ["/nowhere/trace.json"])):
            refused(*words, *more, says=says)
    refused("simulate", "lama3-8b", says=["lama3-8b", "llama3-8b"])
    refused("simulate", "llama3-8b", "--machine", "ascend", says=["ascend", "ascend-910b"])
    refused("simulate", says=["no model"])
    for option in ("--experts-kept", "--coverage"):
        refused("simulate", "llama3-8b", "--machine", "a100", option, "0.5", says=["llama3-8b", option, "no experts"])


if __name__ == "__main__":
    main(sys.modules[__name__])
