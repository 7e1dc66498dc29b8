#!/usr/bin/env python3
"""How far decode steps are from what prestage predicts for them, on this machine.

    bench/predict.py [--threads 1,2] [--batches 1,4,16] [--contexts 256,4096] [--rounds 7] [--ranks 2]
                     [--link latency=40us,bandwidth=25Gbps] [--ops] [--json FILE] [MODEL...]

Without MODEL: SmolLM2-135M's shape in Q8_0 and a Llama of 1.28 billion parameters in Q4_0, made in the cache folder. The machine
is tuned first, for each number of threads, into a folder of its own (--cache keeps it), so that the rates are of the same
minutes. Then `prestage bench --predict` for each model and number of threads, under off and auto: one process, and one rank of
so many whose others are simulated over a link (one thread), which is where auto differs. A line a step, then the median and
worst error of each model, of each policy and of all, beside the bars. --ops prints where each step's error is. Needs an idle
machine and the release build; twenty minutes with --ranks 0, half an hour with all.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import rates
from bars import made

MEDIAN_BAR, WORST_BAR = 0.10, 0.25


def run(o, words):
    command = [str(word) for word in (rates.PRESTAGE, *words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "PRESTAGE_CACHE": str(o.cache)})
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout


def steps(o, model, threads, ranks):
    """The rows of one process, or of one rank of several."""
    return json.loads(run(o, ["bench", model, "--predict", "-t", threads, "-npl", o.batches, "-d", o.contexts, "-r", o.rounds,
                              "--compare", "off,auto", *(["--ops"] if o.ops else []), *ranks, "-o", "json"]))["rows"]


def show(row):
    print(f"| {row['model']} | {row['n_ranks']} | {row['n_threads']} | {row['n_parallel']} | {row['n_depth']} | {row['policy']} | "
          f"{row['predicted_ms']:.3f} | {row['measured_ms']:.3f} ({row['lowest_ms']:.3f} to {row['highest_ms']:.3f}) | "
          f"{100 * row['error']:+.0f} % |", flush=True)
    for op in row.get("ops", ()):
        more = op["predicted_us"] - op["measured_us"]
        print(f"    {op['op']:18}{op['site']:12}{op['predicted_us']:12.1f}{op['measured_us']:12.1f}{more:+12.1f}")


def show_errors(name, rows):
    errors = [abs(row["error"]) for row in rows]
    median, worst = statistics.median(errors), max(errors)
    verdict = "met" if median <= MEDIAN_BAR and worst <= WORST_BAR else "missed"
    print(f"| {name} | {len(rows)} | {100 * median:.1f} % | {100 * worst:.1f} % | {verdict} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--contexts", default="256,4096")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=2, help="of the simulated link (2); 0: none")
    parser.add_argument("--link", default="latency=40us,bandwidth=25Gbps")
    parser.add_argument("--cache", type=Path, help="where the rates of prestage tune are kept")
    parser.add_argument("--ops", action="store_true")
    parser.add_argument("--json")
    o = parser.parse_args()
    models = o.models or [rates.made_smol("Q8_0", 30), made("q4_0")]
    folder = tempfile.TemporaryDirectory()
    o.cache = o.cache or Path(folder.name)
    settings = [(threads, []) for threads in map(int, o.threads.split(","))]
    if o.ranks > 1:
        settings.append((1, ["--ranks-sim", o.ranks, "--comm-sim", o.link]))
    for threads, ranks in settings:
        print(run(o, ["tune", "-t", threads, *ranks]).splitlines()[0])
    print("\n| model | ranks | threads | batch | context | policy | predicted ms | measured ms | error |\n"
          "|---|---|---|---|---|---|---|---|---|", flush=True)
    rows = []
    for model in models:
        for threads, ranks in settings:
            for row in steps(o, model, threads, ranks):
                rows.append({"model": model.stem, **row})
                show(rows[-1])
    print(f"\n| | steps | median error (bar {100 * MEDIAN_BAR:.0f} %) | worst (bar {100 * WORST_BAR:.0f} %) | |\n|---|---|---|---|---|")
    for model in models:
        show_errors(model.stem, [row for row in rows if row["model"] == model.stem])
    for policy in ("off", "auto"):
        show_errors(policy, [row for row in rows if row["policy"] == policy])
    show_errors("all", rows)
    if o.json:
        Path(o.json).write_text(json.dumps(rows, indent=1))
    folder.cleanup()


if __name__ == "__main__":
    main()
