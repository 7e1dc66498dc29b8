#!/usr/bin/env python3
"""What prefetching gains between ranks: in network namespaces, and over simulated links. Prints tables.

    bench/ranks.py [--only PART,...] [--rounds 5] [--minutes 240] [--csv FILE] [--svg FILE] [--quick]

    net      two ranks under mpirun, one in each of two network namespaces joined by a veth pair, as it is and shaped to
             10 and 1 Gbit/s (needs root, iproute2 and Open MPI)                                         10 minutes
    tp1      the same against one process of two threads: slower by at most its collectives and the uneven cut?
             3 minutes
    bar      the same on a model of 1 GB in Q4_0: its share of the read bandwidth against the 25 % that
             distributed-llama reached in this setting                                                    3 minutes
    sim      one rank of two with simulated peers: latencies 5 to 200 us, sequences 1 to 8, and the roof  40 minutes
    table    a model of 1.28 billion parameters in Q8_0, one rank of 2, 4 and 8 with simulated peers: static batches of
             4 sequences, end to end, prompts and generation                                              40 minutes
    heat     decoding, batches 1 to 16 by contexts 256 to 4096, every policy and fused sums               50 minutes
    cross    decoding, batches 32 to 512 at context 256: from where on sums chunk by chunk are better than prefetching,
             and whether --comm-schedule auto knows                                                        40 minutes
    prompts  prompts of 512 tokens over slow links, every schedule                                        5 minutes

Times are for the defaults on two cores of 2025. --minutes ends it for good: what has not been measured by then is left out,
and said so. --quick measures the smallest cells only, in a tenth of the time.

Policies run in alternation in one process (`prestage bench --compare`), which fails when their tokens differ. A control, off
against off, says what differences mean nothing. Figures are medians of the rounds' ratios with the smallest and largest. The
roof is what `prestage simulate` makes of the same plan and this machine's rates; gain / roof is (auto - 1) / (roof - 1), where
the roof is 1.02 and more, and should reach 0.85. CSV holds the cells of all parts, SVG the ratios of heat, and those of cross in
FILE-cross.svg. heat and cross take SmolLM2-135M's layers, as many as make a rank's part four times the last level cache, or
twice; other parts 270 of them, 1 GB in Q8_0, or --model. What does not fit into memory is left out and said so. Needs an idle machine
and the release build.
"""
import argparse
import csv
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import heatmap
import namespaces
import rates
from bars import made

LAYER_BYTES = (2 * 576 * 576 + 2 * 192 * 576 + 3 * 1536 * 576) * 34 // 32
LINK = "latency=40us,bandwidth=10Gbps"
DLLAMA_SHARE = 0.25  # of the read bandwidth, two nodes in two network namespaces, one thread each


def smol(layers):
    return rates.made_smol("Q8_0", layers)


class OutOfTime(Exception):
    pass


def run(o, command):
    """stdout; ends at the deadline at the latest. mpirun gets the time to end its ranks."""
    command = [str(word) for word in command]
    left = o.deadline - time.monotonic()
    if left <= 0:
        raise OutOfTime
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=namespaces.ENVIRONMENT) as process:
        try:
            out, errors = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            raise OutOfTime from None
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.communicate(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
    if process.returncode:
        sys.exit(f"{' '.join(command)}\n{errors[-2000:]}")
    return out


def bench(o, model, *words, prefix=(), threads=1, rounds=None):
    """The rows of `prestage bench`."""
    return json.loads(run(o, [*prefix, rates.PRESTAGE, "bench", "-m", model, "-t", threads, "-r", rounds or o.rounds, "-o",
                              "json", *words]))


def decoding(generate, depth=0, parallel=1):
    return ["-p", 0, "-n", generate, "-d", depth, "-npl", parallel]


def simulated_peers(ranks, link):
    return ["--ranks-sim", ranks, "--comm-sim", link]


def compare(o, model, policies, *words, **keywords):
    """Rows of the policies; the first is off, and so is the last, which is the control."""
    rows = bench(o, model, "--no-ceiling", "--compare", ",".join(policies), *words, **keywords)
    assert policies[0] == policies[-1] == "off" and [row["policy"] for row in rows] == policies, rows
    return rows


def simulate(o, model, link, depth, parallel):
    """Ratios of policies to off, as predicted."""
    rows = json.loads(run(o, [rates.PRESTAGE, "simulate", model, "--tp", 2, "-t", 1, "--comm-sim", link, "-c", depth + 32,
                              "--prompt-tokens", max(depth, 1), "-b", parallel, "--compare", "off,auto", "--json"]))
    return {row["policy"]: row["ratio"] for row in rows}


# ---- what is printed and written

def show(row):
    return f"{row['ratio']:.3f} ({row['ratio_lowest']:.3f} to {row['ratio_highest']:.3f})"


def heading(*columns):
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)


def line(*columns):
    print(f"| {' | '.join(str(column) for column in columns)} |", flush=True)


def noise(control):
    """How far from 1 the control went."""
    return max(control["ratio_highest"] - 1, 1 - control["ratio_lowest"])


class Cells:
    """What --csv and --svg hold."""

    def __init__(self):
        self.all = []

    def add(self, part, link, ranks, context, sequences, rows, **more):
        cell = {"part": part, "link": link, "ranks": ranks, "context": context, "sequences": sequences,
                "off_tok_s": rows[0]["avg_ts"], "control": rows[-1]["ratio"], "control_lowest": rows[-1]["ratio_lowest"],
                "control_highest": rows[-1]["ratio_highest"], **more}
        for row in rows[1:-1]:
            cell[row["policy"]] = row["ratio"]
            cell[row["policy"] + "_lowest"] = row["ratio_lowest"]
            cell[row["policy"] + "_highest"] = row["ratio_highest"]
        self.all.append(cell)
        return cell

    def of(self, part):
        return [cell for cell in self.all if cell["part"] == part]

    def write_csv(self, path):
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(dict.fromkeys(key for cell in self.all for key in cell)))
            writer.writeheader()
            writer.writerows(self.all)


# ---- decoding of two ranks

POLICIES = ["off", "preserve", "auto", "off"]


def decode_heading():
    heading("ranks", "link", "context", "sequences", "off tok/s", *(f"{p} / off" for p in POLICIES[1:]), "roof of auto",
            "gain / roof")


def decode_cell(o, part, link, depth, parallel, words, roof=None, prefix=()):
    rows = compare(o, o.model, POLICIES, *decoding(32, depth, parallel), *words, prefix=prefix)
    more = {} if roof is None else {"roof": roof}
    quotient = ""
    if roof is not None and roof >= 1.02:
        more["gain_of_roof"] = (rows[2]["ratio"] - 1) / (roof - 1)
        quotient = f"{more['gain_of_roof']:.2f}"
    o.cells.add(part, link, 2, depth, parallel, rows, **more)
    line(part, link, depth, parallel, f"{rows[0]['avg_ts']:.1f}", *map(show, rows[1:]), "" if roof is None else f"{roof:.3f}",
         quotient)


def net(o):
    decode_heading()
    with namespaces.joined() as two:
        for rate in (None,) if o.quick else (None, "10gbit", "1gbit"):
            two.shape(rate)
            for parallel in (1, 4):
                decode_cell(o, "veth", rate or "as it is", 0, parallel, [], prefix=two.mpirun)


def sim(o):
    decode_heading()
    for latency in (20, 40) if o.quick else (5, 10, 20, 40, 60, 100, 200):
        link = f"latency={latency}us"
        for parallel in (1,) if o.quick else (1, 2, 4, 8):
            for depth in (0,) if o.quick or parallel > 1 else (0, 1024, 4096):
                decode_cell(o, "sim", link, depth, parallel, simulated_peers(2, link),
                            roof=simulate(o, o.model, link, depth, parallel)["auto"])


# ---- two ranks against one process of two threads

def waits_ms(row):
    """What one thread's step spends on collectives: starting them, and waiting, for it waits for nothing else."""
    us = sum(op["wait_us"] + (op["work_us"] if op["op"] in ("all_reduce", "all_gather") else 0)
             for op in row["ops"] if op["op"] not in ("rest", "all"))
    return us / 1e3


def tp1(o):
    """A round is one process of each kind, so that a drift of the machine's speed meets all. Without prefetching the
    collectives' time is not hidden, and is what they take."""
    heading("link", "TP=1, 2 threads, ms/token", "TP=2, ms/token", "slower by, ms", "collectives, ms", "uneven cut, ms",
            "bound", "")
    with namespaces.joined() as two:
        for rate in (None,) if o.quick else (None, "10gbit", "1gbit"):
            two.shape(rate)
            rounds = []
            for _ in range(o.rounds):
                one, = bench(o, o.model, *decoding(32), "--no-ceiling", threads=2, rounds=1)
                pair, = bench(o, o.model, *decoding(32), "--no-ceiling", prefix=two.mpirun, rounds=1)
                plain, = bench(o, o.model, *decoding(32), "--no-ceiling", "--prefetch", "off", "--ops", prefix=two.mpirun,
                               rounds=1)
                one_ms = 1e3 / one["avg_ts"]
                uneven_ms = one_ms * (2 * pair["bytes_per_token"] / one["bytes_per_token"] - 1)
                rounds.append((one_ms, 1e3 / pair["avg_ts"], 1e3 / pair["avg_ts"] - one_ms, waits_ms(plain), uneven_ms))
            medians = [statistics.median(column) for column in zip(*rounds)]
            slower, bound = medians[2], medians[3] + max(0, medians[4])
            line(rate or "as it is", *(rates.spread(column) for column in zip(*rounds)), f"{bound:.2f}",
                 f"{slower:.2f} <= {bound:.2f}: {'met' if slower <= bound else 'NOT MET'}")


# ---- the bar of distributed-llama

def bar(o):
    """Read bandwidth: of both cores at once, right before or after in the same round. Bytes: of the whole model."""
    model = made("q4_0")
    heading("link", "tok/s", "MB/token", "read bandwidth GB/s", "share", "share / 25 %", "")
    with namespaces.joined() as two:
        rounds = []
        for _ in range(o.rounds):
            one, = bench(o, model, *decoding(32), threads=2, rounds=1)
            pair, = bench(o, model, *decoding(32), "--no-ceiling", prefix=two.mpirun, rounds=1)
            share = pair["avg_ts"] * one["bytes_per_token"] / 1e9 / one["ceiling_gbs"]
            rounds.append((pair["avg_ts"], one["bytes_per_token"] / 1e6, one["ceiling_gbs"], share, share / DLLAMA_SHARE))
    met = statistics.median(quotient for *_, quotient in rounds) >= 2.5
    line("veth, as it is", *(rates.spread(column) for column in zip(*rounds)), f">= 2.5: {'met' if met else 'NOT MET'}")


# ---- static batches

STATIC = ["off", "off+fused", "preserve", "auto", "auto+auto", "off"]


def part_ratios(rows, samples):
    """[row] median and range of the ratios to the first row's time."""
    return [[a / b for a, b in zip(rows[0][samples], row[samples])] for row in rows]


def table(o):
    """Our own Table 1 of PRESERVE (arXiv 2501.08192): its workload on a model of ours."""
    model = o.given_model or made("q8_0")
    tokens = 96 if o.quick else 768
    heading("ranks", "policy", "s end to end", "/ off", "s of prompts", "/ off", "s of generation", "/ off")
    for ranks in (2,) if o.quick else (2, 4, 8):
        rows = compare(o, model, STATIC, "--static-batch", 4, "--seq", tokens, *simulated_peers(ranks, o.link))
        for row in rows:
            row["samples_ms"] = [a + b for a, b in zip(row["samples_prompt_ms"], row["samples_gen_ms"])]
        ratios = {name: part_ratios(rows, name) for name in ("samples_ms", "samples_prompt_ms", "samples_gen_ms")}
        o.cells.add("table", o.link, ranks, tokens, 4, rows)
        for i, row in enumerate(rows):
            columns = []
            for name, of_rows in ratios.items():
                columns += [f"{statistics.median(row[name]) / 1e3:.2f}", "1" if i == 0 else rates.spread(of_rows[i])]
            line(ranks, "off (control)" if i + 1 == len(rows) else row["policy"], *columns)


# ---- batches and contexts

HEAT = ["off", "preserve", "auto", "off+fused", "off"]
CROSS = ["off", "preserve", "off+fused", "off+auto", "auto+auto", "off"]
RANK_KV_HEADS = 2  # of three, on the rank that has more


def llc_bytes():
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text(encoding="ascii").strip()
        return int(text[:-1]) << {"K": 10, "M": 20}[text[-1]]
    except (OSError, KeyError, ValueError):
        return 32 << 20


def large_layers(times):
    """Layers of SmolLM2-135M that make the part of one rank of two so many times the last level cache."""
    return max(30, -(-times * llc_bytes() // (LAYER_BYTES // 2)))


def memory_bytes():
    for row in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if row.startswith("MemAvailable:"):
            return int(row.split()[1]) << 10
    return 0


def fits(o, layers, sides, sequences, tokens, value_bytes):
    """Whether the KV of all sides and the weights do; says so when not."""
    kv = sides * sequences * tokens * layers * RANK_KV_HEADS * 64 * 2 * value_bytes
    need = kv + layers * LAYER_BYTES
    if need < 0.8 * memory_bytes():
        return True
    line("left out", f"{sequences} sequences of {tokens}: {need / 1e9:.1f} GB of KV and weights")
    return False


def heat(o):
    layers = o.layers or large_layers(4)
    model = smol(layers)
    print(f"\n{layers} layers, {o.link}")
    heading("context", "sequences", "off tok/s", *(f"{p} / off" for p in HEAT[1:]), "roof of auto", "gain / roof")
    for depth in (256,) if o.quick else (256, 1024, 4096):
        for parallel in (1, 4) if o.quick else (1, 2, 4, 8, 16):
            if not fits(o, layers, len(HEAT), parallel, depth + 16, 2):
                continue
            rows = compare(o, model, HEAT, *decoding(16, depth, parallel), *simulated_peers(2, o.link))
            roof = simulate(o, model, o.link, depth, parallel)["auto"]
            quotient = (rows[2]["ratio"] - 1) / (roof - 1) if roof >= 1.02 else None
            o.cells.add("heat", o.link, 2, depth, parallel, rows, roof=roof, gain_of_roof=quotient)
            line(depth, parallel, f"{rows[0]['avg_ts']:.1f}", *map(show, rows[1:]), f"{roof:.3f}",
                 "" if quotient is None else f"{quotient:.2f}")


def sums_in_chunks(o, model, rows):
    """What the plan of --comm-schedule auto does for steps of so many rows."""
    text = run(o, [rates.PRESTAGE, "plan", model, "--tp", 2, "-t", 1, "-b", rows, "-c", 272, "--comm-sim", o.link,
                   "--comm-schedule", "auto", "--prefetch", "off"])
    in_chunks = text.count(" = linear_all_reduce ")
    return in_chunks, in_chunks + text.count(" = all_reduce ")


def cross(o):
    layers = o.layers or large_layers(2)
    model = smol(layers)
    print(f"\n{layers} layers, context 256, KV in q8_0, {o.link}")
    heading("sequences", "off tok/s", *(f"{p} / off" for p in CROSS[1:]), "sums in chunks, planned", "schedule auto",
            "default")
    found = None  # the smallest from which on all are so
    for parallel in (32, 64) if o.quick else (32, 64, 128, 256, 512):
        if not fits(o, layers, len(CROSS), parallel, 264, 34 / 32):
            continue
        rows = compare(o, model, CROSS, *decoding(8, 256, parallel), "-b", parallel, "-ctk", "q8_0", "-ctv", "q8_0",
                       *simulated_peers(2, o.link))
        _, preserve, fused, schedule, default, control = (row["ratio"] for row in rows)
        spread = noise(rows[-1])
        chunks = sums_in_chunks(o, model, parallel)
        # Within what the control shows to mean nothing.
        verdicts = [f"{got:.3f} of {best:.3f}: {'better one' if got >= best - spread else 'WORSE ONE'}"
                    for got, best in ((schedule, max(1, fused)), (default, max(1, preserve, fused)))]
        o.cells.add("cross", o.link, 2, 256, parallel, rows, chunks=chunks[0], sums=chunks[1])
        line(parallel, f"{rows[0]['avg_ts']:.1f}", *map(show, rows[1:]), f"{chunks[0]} of {chunks[1]}", *verdicts)
        if fused <= preserve:
            found = None
        elif found is None:
            found = parallel
    print("\nSums chunk by chunk are better than preserve " +
          ("at none of these." if found is None else f"from {found} sequences on."), flush=True)


def prompts(o):
    sides = ["off", "off+fused", "off+auto", "auto+auto", "off"]
    heading("prompt", "link", "off tok/s", *(f"{p} / off" for p in sides[1:]))
    for link in ("latency=40us,bandwidth=1Gbps", "latency=40us,bandwidth=10Gbps"):
        rows = compare(o, o.model, sides, "-p", 512, "-n", 0, *simulated_peers(2, link))
        o.cells.add("prompts", link, 2, 512, 1, rows)
        line(512, link, f"{rows[0]['avg_ts']:.1f}", *map(show, rows[1:]))


PARTS = {"net": net, "tp1": tp1, "bar": bar, "sim": sim, "table": table, "heat": heat, "cross": cross, "prompts": prompts}


@contextmanager
def written(o):
    """What has been measured is written, whatever ends it."""
    try:
        yield
    finally:
        if o.csv and o.cells.all:
            o.cells.write_csv(o.csv)
        if o.svg and o.cells.of("heat"):
            heatmap.draw(o.svg, o.cells.of("heat"), HEAT[1:-1], ("sequences", "sequences"), ("context", "context"))
        if o.svg and o.cells.of("cross"):
            path = Path(o.svg)
            heatmap.draw(path.with_name(f"{path.stem}-cross{path.suffix}"), o.cells.of("cross"), CROSS[1:-1],
                         ("sequences", "sequences"), ("context", "context"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between them")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each cell (5)")
    parser.add_argument("--minutes", type=float, default=240, help="end after so long (240)")
    parser.add_argument("--model", type=Path, help="instead of the made one, of net, tp1, sim, table and prompts")
    parser.add_argument("--layers", type=int, help="of the models of heat and cross")
    parser.add_argument("--link", default=LINK, help=f"of table, heat and cross ({LINK})")
    parser.add_argument("--quick", action="store_true", help="the smallest cells, and three rounds at most")
    parser.add_argument("--csv")
    parser.add_argument("--svg")
    o = parser.parse_args()
    parts = o.only.split(",")
    for part in parts:
        if part not in PARTS:
            parser.error(f"--only {part}: {', '.join(PARTS)} would be right")
    o.rounds = min(3, o.rounds) if o.quick else o.rounds
    o.deadline = time.monotonic() + 60 * o.minutes
    o.given_model = o.model
    o.model = o.model or smol(270)
    o.cells = Cells()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces are taken down again
    print(f"`{' '.join([os.path.relpath(sys.argv[0], rates.ROOT), *sys.argv[1:]])}`", flush=True)
    with written(o):
        for part in parts:
            try:
                PARTS[part](o)
            except OutOfTime:
                print(f"\n{o.minutes:g} minutes are over: {', '.join(parts[parts.index(part):])} left out from here on.")
                break


if __name__ == "__main__":
    main()
