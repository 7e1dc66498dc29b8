#!/usr/bin/env python3
"""What prefetching gains between ranks: in network namespaces, and over simulated links.

    bench/ranks.py [--rounds 5] [--model FILE] [--only net,sim,fused] [--csv FILE] [--svg FILE] [--quick]

    net    two ranks under mpirun, one in each of two network namespaces joined by a veth pair, as it is and shaped to
           10 and 1 Gbit/s (needs root, iproute2 and Open MPI)
    sim    one rank of two with simulated peers: latencies 5 to 200 us, sequences 1 to 8, contexts 256 to 4096
    fused  the same with 64 sequences and in prompts, against sums chunk by chunk

Policies run in alternation in one process (`prestage bench --compare`), and their tokens are compared. A control, off against
off, says what differences mean nothing. Printed: medians of the rounds' ratios with the smallest and largest; the roof is what
`prestage simulate` makes of the same plan and this machine's rates. The default model has SmolLM2-135M's layers, 270 of them,
in Q8_0: 1 GB. Needs an idle machine and the release build.
"""
import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import rates

SHAPE = ("--type", "Q8_0", "--layers", "270", "--dim", "576", "--ffn", "1536", "--heads", "9", "--kv-heads", "3",
         "--vocabulary", "49152")
COMPARE = "off,preserve,auto,off"
SUBNET = "10.77.0"
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def default_model():
    path = rates.CACHE / "models" / "smol-q8_0-270.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        rates.output([rates.ROOT / "bench/make-model.py", *SHAPE, path])
    return path


def bench(o, words, prefix=(), generate=32, depth=0, parallel=1):
    command = [*prefix, rates.PRESTAGE, "bench", "-m", o.model, "-t", 1, "-p", 0, "-n", generate, "-d", depth, "-npl",
               parallel, "-r", o.rounds, "--no-ceiling", "--compare", COMPARE, "-o", "json", *words]
    result = subprocess.run([str(w) for w in command], capture_output=True, text=True, env={**os.environ, **ENVIRONMENT})
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr[-2000:]}")
    off, *others, control = json.loads(result.stdout)
    return off, others, control


def roof(o, link, depth, parallel):
    rows = json.loads(rates.output([rates.PRESTAGE, "simulate", o.model, "--tp", 2, "-t", 1, "--comm-sim", link, "-c",
                                    depth + 32, "-b", parallel, "--json"]))
    return {row["policy"]: row["ratio"] for row in rows}


def show(row):
    return f"{row['ratio']:.3f} ({row['ratio_lowest']:.3f} to {row['ratio_highest']:.3f})"


class Results:
    def __init__(self):
        self.cells = []

    def add(self, where, link, depth, parallel, off, others, control, simulated=None):
        cell = {"where": where, "link": link, "context": depth, "sequences": parallel, "off_tok_s": off["avg_ts"],
                "control": control["ratio"], "control_lowest": control["ratio_lowest"],
                "control_highest": control["ratio_highest"]}
        for row in others:
            cell[row["policy"]] = row["ratio"]
        text = " | ".join(show(row) for row in (*others, control))
        best = ""
        if simulated:
            cell["roof"] = simulated["auto"]
            best = f"{simulated['auto']:.3f}"
        self.cells.append(cell)
        print(f"| {where} | {link} | {depth} | {parallel} | {off['avg_ts']:.1f} | {text} | {best} |", flush=True)


def namespaces(o, results):
    """A veth pair, a launch agent that enters a namespace, and mpirun."""
    def ip(*words):
        subprocess.run(["ip", *words], check=True)
    names = [f"prestage{os.getpid()}-{n}" for n in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder) / "agent"
        agent.write_text(f'#!/bin/sh\nhost=$1\nshift\nexec ip netns exec {names[0][:-1]}${{host##*.}} sh -c "$*"\n')
        agent.chmod(0o755)
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "psv0", "netns", names[0], "type", "veth", "peer", "name", "psv1", "netns", names[1])
            for n, name in enumerate(names):
                ip("-n", name, "addr", "add", f"{SUBNET}.{n}/24", "dev", f"psv{n}")
                ip("-n", name, "link", "set", f"psv{n}", "up")
                ip("-n", name, "link", "set", "lo", "up")
            prefix = ["ip", "netns", "exec", names[0], "mpirun", "--bind-to", "none", "--mca", "plm_rsh_agent", agent,
                      "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", f"{SUBNET}.0/24",
                      "--mca", "oob_tcp_if_include", f"{SUBNET}.0/24", "-H", f"{SUBNET}.0:1,{SUBNET}.1:1", "-n", 2]
            for rate in (None, "10gbit", "1gbit"):
                for n, name in enumerate(names):
                    if rate:
                        subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", f"psv{n}", "root",
                                        "tbf", "rate", rate, "burst", "256kb", "latency", "50ms"], check=True)
                for parallel in (1, 4):
                    results.add("veth", rate or "as it is", 0, parallel, *bench(o, [], prefix, parallel=parallel))
        finally:
            for name in names:
                subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def simulated(o, results):
    latencies = (20, 40) if o.quick else (5, 10, 20, 40, 60, 100, 200)
    for latency in latencies:
        link = f"latency={latency}us"
        for parallel in ((1,) if o.quick else (1, 2, 4, 8)):
            for depth in ((0,) if o.quick or parallel > 1 else (0, 1024, 4096)):
                results.add("sim", link, depth, parallel,
                            *bench(o, ["--ranks-sim", 2, "--comm-sim", link], depth=depth, parallel=parallel),
                            simulated=roof(o, link, depth, parallel))


def fused(o, results):
    """Prompts of 512: serial and fused, by the comparison of two processes in turn."""
    for link in ("latency=40us,bandwidth=1Gbps", "latency=40us,bandwidth=10Gbps"):
        speeds = {"serial": [], "fused": [], "auto": []}
        for _ in range(o.rounds):
            for schedule, list_ in speeds.items():
                list_.append(rates.prestage(o.model, 1, prompt=512, extra=(
                    "--ranks-sim", 2, "--comm-sim", link, "--comm-schedule", schedule))["avg_ts"])
        for schedule in ("fused", "auto"):
            ratios = [a / b for a, b in zip(speeds[schedule], speeds["serial"])]
            print(f"| prompt of 512, {schedule} vs serial | {link} | | | | {rates.spread(ratios)} | | | |", flush=True)


def draw(cells, path):
    """Heatmap: latency across, sequences and context down; the gain of auto over off."""
    cells = [c for c in cells if c["where"] == "sim"]
    columns = list(dict.fromkeys(c["link"] for c in cells))
    rows = list(dict.fromkeys((c["sequences"], c["context"]) for c in cells))
    w, h, left, top = 90, 34, 190, 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + w * len(columns) + 10}" '
           f'height="{top + h * len(rows) + 10}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i, link in enumerate(columns):
        out.append(f'<text x="{left + i * w + w / 2}" y="26" text-anchor="middle">'
                   f'{re.sub("latency=", "", link)}</text>')
    for j, (sequences, context) in enumerate(rows):
        out.append(f'<text x="8" y="{top + j * h + 22}">{sequences} sequences, context {context}</text>')
        for i, link in enumerate(columns):
            for c in cells:
                if c["link"] == link and (c["sequences"], c["context"]) == (sequences, context):
                    heat = max(0.0, min(1.0, (c["auto"] - 1) / 0.4))
                    out.append(f'<rect x="{left + i * w}" y="{top + j * h}" width="{w - 2}" height="{h - 2}" '
                               f'fill="rgb({int(255 - 170 * heat)},{int(255 - 80 * heat)},{int(255 - 170 * heat)})"/>'
                               f'<text x="{left + i * w + w / 2}" y="{top + j * h + 21}" text-anchor="middle">'
                               f'{c["auto"]:.2f}</text>')
    out.append("</svg>")
    Path(path).write_text("\n".join(out) + "\n")


PARTS = {"net": namespaces, "sim": simulated, "fused": fused}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="two latencies, one sequence")
    parser.add_argument("--csv")
    parser.add_argument("--svg")
    o = parser.parse_args()
    o.model = o.model or default_model()
    results = Results()
    print("| ranks | link | context | sequences | off tok/s | preserve / off | auto / off | off / off | roof of auto |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for part in o.only.split(","):
        if part not in PARTS:
            parser.error(f"--only {part}: {', '.join(PARTS)} would be right")
        PARTS[part](o, results)
    if o.csv and results.cells:
        with open(o.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=sorted({k for c in results.cells for k in c}))
            writer.writeheader()
            writer.writerows(results.cells)
    if o.svg:
        draw(results.cells, o.svg)


if __name__ == "__main__":
    main()
