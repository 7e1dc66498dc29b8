#!/usr/bin/env python3
"""The figures that prestage holds itself to on one machine, each beside its bar. Prints one table.

    bench/bars.py [--rounds 5] [--threads 1,2] [--only PART,...] [--json FILE]

Parts: share decode prefill batch parallel depth small l2 gemm experts open. All but l2 and gemm, which are of kernels, and
experts, which is of the calls of one MoE layer, run whole programs; all compare within one interleaved run; a figure is
the median over rounds, with the smallest and largest. Models of random weights are made in the cache folder (7 GB), real
ones fetched, llama.cpp is built there when it is missing. IK_LLAMA_BENCH names the llama-bench of ik_llama.cpp; without
it those rows are left out. `gemm` needs bench/onednn_gemm, which is built where oneDNN's headers are. Needs an idle
machine and the release build. About an hour.
"""
import argparse
import json
import os
import statistics

import rates
from rates import ROOT

# Random weights: layers such that a file has 1 GB and more.
MADE = {"q8_0": 16, "q4_0": 26, "q4_k_m": 22, "q6_k": 16}
SHARE_BARS = {"q8_0": 0.93, "q4_0": 0.88, "q4_k_m": 0.85, "q6_k": 0.85}
REAL = ("smollm2", "gemma3", "qwen2.5-coder")
GENERATE = 32
LLAMA = "llama.cpp " + rates.LLAMA_VERSION
IK = os.environ.get("IK_LLAMA_BENCH")


def made(kind):
    return rates.made(f"made-{kind}-{MADE[kind]}", "--type", kind.upper(), "--layers", MADE[kind])


class Table:
    def __init__(self):
        self.rows = []

    def add(self, name, values, bar=None, at_least=True, or_else=False):
        """Values of the rounds; bar None: for information. or_else: another bar that serves as well is met."""
        median = statistics.median(values)
        met = None if bar is None else or_else or (median >= bar if at_least else median <= bar)
        self.rows.append({"figure": name, "median": median, "lowest": min(values), "highest": max(values),
                          "bar": bar, "at_least": at_least, "met": met})
        sign = "" if bar is None else f"{'>=' if at_least else '<='} {bar:g}"
        verdict = {None: "", True: "met", False: "NOT MET"}[met]
        print(f"| {name} | {rates.spread(values)} | {sign} | {verdict} |", flush=True)
        return median


def program(name):
    return ROOT / "build/release/bench" / name


def interleaved(rounds, functions):
    """[rounds] results of each function, called in turn."""
    results = [[] for _ in functions]
    for _ in range(rounds):
        for result, function in zip(results, functions):
            result.append(function())
    return results


def ratios(a, b):
    return [x / y for x, y in zip(a, b)]


def share(o, table):
    for kind in MADE:
        for t in o.threads:
            rows = interleaved(o.rounds, [lambda: rates.prestage(made(kind), t, generate=GENERATE, ceiling=True)])[0]
            table.add(f"share of read bandwidth, decode, {kind}, {t} threads", [row["share"] for row in rows],
                      SHARE_BARS[kind])


def against_peers(o, table, name, test, bars):
    """test: prompt or generate. bars: mean against llama.cpp, lowest against it, mean against ik_llama.cpp."""
    llama, lowest, ik = bars
    for t in o.threads:
        against_llama, against_ik = [], []
        for kind in MADE:
            functions = [lambda: rates.prestage(made(kind), t, **test)["avg_ts"],
                         lambda: rates.llama_bench(o.llama / "llama-bench", made(kind), t, **test)]
            if IK:
                functions.append(lambda: rates.ik_bench(IK, made(kind), t, **test))
            ours, theirs, *others = interleaved(o.rounds, functions)
            against_llama.append(table.add(f"{name} vs {LLAMA}, {kind}, {t} threads", ratios(ours, theirs), lowest))
            if IK:
                against_ik.append(table.add(f"{name} vs ik_llama.cpp, {kind}, {t} threads", ratios(ours, others[0])))
        table.add(f"{name} vs {LLAMA}, geometric mean, {t} threads", [statistics.geometric_mean(against_llama)], llama)
        if IK:
            table.add(f"{name} vs ik_llama.cpp, geometric mean, {t} threads",
                      [statistics.geometric_mean(against_ik)], ik)


def decode(o, table):
    against_peers(o, table, "decode", {"generate": GENERATE}, (1.6, 1.2, 1.2))


def prefill(o, table):
    against_peers(o, table, "prefill 512", {"prompt": 512}, (2.5, None, 1.3))


def step_s(kind, threads, parallel):
    return parallel / rates.prestage(made(kind), threads, generate=GENERATE, parallel=parallel)["avg_ts"]


def weights(kind):
    """Products of one row: those of the layers of make-model.py's default shape, and of the logits."""
    return MADE[kind] * (2 * 2048 * 2048 + 2 * 2048 * 512 + 3 * 2048 * 8192) + 2048 * 151936


def onednn_gops(rows):
    return json.loads(rates.output([program("onednn_gemm"), "--tokens", rows, "--inputs", 2048, "--outputs",
                                    8192]))["gops"]


def batch(o, table):
    """Where arithmetic binds before memory does, 0.6 of oneDNN's rate on as many cores is the bar."""
    has_onednn = program("onednn_gemm").exists()
    for kind in ("q8_0", "q4_0"):
        for t in o.threads:
            functions = [lambda n=n: step_s(kind, t, n) for n in (1, 4, 8)]
            functions += [lambda n=n: onednn_gops(n) for n in (4, 8)] if has_onednn else []
            one, four, eight, *onednn = interleaved(o.rounds, functions)
            for n, steps, bar, i in ((4, four, 1.2, 0), (8, eight, 1.35, 1)):
                share = [2 * n * weights(kind) / step / 1e9 / t / gops
                         for step, gops in zip(steps, onednn[i] if has_onednn else [])]
                table.add(f"step of {n} sequences vs 1, {kind}, {t} threads", ratios(steps, one), bar, at_least=False,
                          or_else=has_onednn and statistics.median(share) >= 0.6)
                if has_onednn:
                    table.add(f"  its products a core vs oneDNN u8s8s32, {n} rows", share)


def parallel(o, table):
    for kind in ("q8_0", "q4_0"):
        for t in o.threads:
            ours, theirs = interleaved(o.rounds, [
                lambda: rates.prestage(made(kind), t, generate=GENERATE, depth=16, parallel=8)["avg_ts"],
                lambda: rates.batched_bench(o.llama / "llama-batched-bench", made(kind), t, 16, GENERATE, 8)])
            table.add(f"8 sequences vs llama-batched-bench, {kind}, {t} threads", ratios(ours, theirs), 2.5)


def depth(o, table):
    test = {"generate": GENERATE, "depth": 4096}
    for t in o.threads[-1:]:  # a prompt of 4,096 for each figure is long
        functions = [lambda: rates.prestage(made("q4_0"), t, **test)["avg_ts"]]
        functions += [lambda fa=fa: rates.llama_bench(o.llama / "llama-bench", made("q4_0"), t, **test,
                                                      extra=("-fa", fa)) for fa in (0, 1)]
        if IK:
            functions.append(lambda: rates.ik_bench(IK, made("q4_0"), t, **test))
        ours, off, on, *ik = interleaved(o.rounds, functions)
        table.add(f"decode at depth 4096 vs {LLAMA} (better of -fa 0 and 1), q4_0, {t} threads",
                  [a / max(b, c) for a, b, c in zip(ours, off, on)], 2)
        if ik:
            table.add(f"decode at depth 4096 vs ik_llama.cpp, q4_0, {t} threads", ratios(ours, ik[0]), 1.5)


def small(o, table):
    for name in REAL:
        model = rates.output([ROOT / "scripts/fetch-models.py", name]).strip()
        for t in o.threads:
            ours, theirs = interleaved(o.rounds, [
                lambda: rates.prestage(model, t, generate=64)["avg_ts"],
                lambda: rates.llama_bench(o.llama / "llama-bench", model, t, generate=64)])
            table.add(f"decode vs {LLAMA}, {name}, {t} threads", ratios(ours, theirs),
                      1.4 if t == 2 else None)


def kernels(kind, tokens, *words):
    """The rows of bench_kernels for one type: as it runs alone on one core."""
    return json.loads(rates.output([program("bench_kernels"), "--filter", f"linear_{kind}", "--tokens", tokens,
                                    "--inputs", 2048, "--json", *words]))


def l2(o, table):
    for kind, bar in (("q8_0", 0.6), ("q4_0", 0.6), ("q4_k", None), ("q5_k", None), ("q6_k", None)):
        rows = interleaved(o.rounds, [lambda: kernels(kind, 1, "--rounds", 5, "--dram-mib", 64)])[0]
        table.add(f"matrix-vector product in L2 vs plain reads, {kind}",
                  [row["read_share"] for round in rows for row in round if row["footprint"] == "L2"], bar)


def gemm(o, table):
    if not program("onednn_gemm").exists():
        print("| int8 product vs oneDNN: its headers are not here | | | |")
        return
    for kind, bars in (("q8_0", {512: 0.6, 8: None}), ("q4_0", {512: 0.6, 8: None}), ("q4_k", {512: None}),
                       ("q6_k", {512: 0.45})):
        for tokens, bar in bars.items():
            ours, theirs = interleaved(o.rounds, [
                lambda: kernels(kind, tokens, "--rounds", 3, "--outputs", 8192)[0]["gops"],
                lambda: onednn_gops(tokens)])
            table.add(f"int8 product vs oneDNN u8s8s32, {tokens} rows, {kind}", ratios(ours, theirs), bar)


def experts(o, table):
    """4 rows through 512 experts top-10, 2560 -> 640: rows that share none read all bytes once; rows that agree, a quarter."""
    for t in o.threads:
        rounds = [json.loads(rates.output([program("bench_experts"), "--threads", t, "--json"])) for _ in range(o.rounds)]
        for index, line in enumerate(rounds[0]):
            rows = [lines[index] for lines in rounds]
            name = f"{line['type']}, {t} threads, rows {line['rows']}"
            table.add(f"grouped experts vs plain reads, {name}", [row["read_share"] for row in rows],
                      0.85 if line["rows"] == "apart" else None)
            table.add(f"  ms a block of {line['bytes'] / 1e6:.0f} MB", [row["block_ms"] for row in rows])
            if line["rows"] == "agree":
                table.add("  a call for each (row, expert) vs grouped", [row["pairs_ratio"] for row in rows], 2)


def opening(o, table):
    """A compiled file of 1 GB and more, cached, against its GGUF file: to the first token, whole processes."""
    source = made("q8_0")
    compiled = source.with_suffix(".pst")
    if not compiled.exists():
        rates.output([rates.PRESTAGE, "compile", source, "-o", compiled])
    for path in (source, compiled):
        rates.output(["sh", "-c", f"cat {path} > /dev/null"])

    def load_ms(path):
        return json.loads(rates.output([rates.PRESTAGE, "run", path, "-p", "a", "--raw", "--temp", 0, "-n", 1, "-c", 64,
                                        "--json"]))["timings"]["load_ms"]
    gguf, pst = interleaved(o.rounds, [lambda: load_ms(source), lambda: load_ms(compiled)])
    table.add(f"seconds to open a compiled file of {compiled.stat().st_size / 1e9:.2f} GB, cached",
              [ms / 1e3 for ms in pst], 1, at_least=False)
    table.add("opening it vs opening its GGUF file", ratios(pst, gguf))


PARTS = {"share": share, "decode": decode, "prefill": prefill, "batch": batch, "parallel": parallel, "depth": depth,
         "small": small, "l2": l2, "gemm": gemm, "experts": experts, "open": opening}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--peer", help="folder of llama.cpp's programs")
    parser.add_argument("--json", help="write the rows to this file")
    o = parser.parse_args()
    o.threads = [int(t) for t in o.threads.split(",")]
    o.llama = rates.llama_cpp(o.peer)
    parts = o.only.split(",")
    for part in parts:
        if part not in PARTS:
            parser.error(f"--only {part}: {', '.join(PARTS)} would be right")
    table = Table()
    print("| figure | median (range) | bar | |\n|---|---|---|---|")
    for part in parts:
        PARTS[part](o, table)
    missed = [row["figure"] for row in table.rows if row["met"] is False]
    print(f"\n{sum(row['met'] is True for row in table.rows)} bars met, {len(missed)} not met")
    if o.json:
        with open(o.json, "w") as file:
            json.dump(table.rows, file, indent=1)


if __name__ == "__main__":
    main()
