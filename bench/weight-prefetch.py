#!/usr/bin/env python3
"""What weight prefetching under vector operators gains here: off, the guide's ratios, and those that `prestage tune` finds.

    bench/weight-prefetch.py [--threads 2] [--rounds 5] [--batches 1,4,16,72,144] [--time-limit 90] [--csv FILE] [MODEL...]

Without MODEL: SmolLM2-135M's shape and a Llama of 1.28 billion parameters, each in Q8_0 and Q4_0, made in the cache folder.
Each cell is a decode of some tokens by that many sequences. off and ratio run in alternation in one process, which fails when
their tokens differ; a second off is the control. Figures are medians of the rounds' ratios to off with the smallest and the
largest. `same` are cells for which the tuner found that nothing pays, so that off is what runs. Takes about 20 minutes; needs
an idle machine and the release build.
"""
import argparse
import csv
import json
import statistics
from pathlib import Path

import rates
from bars import made

SITES = ("attn.qkv", "attn.o", "mlp.gate_up", "mlp.down")


def config(ratios):
    modules = {}
    for name, ratio in ratios.items():
        module, key = name.split(".")
        modules.setdefault(module, {})[key] = ratio
    return json.dumps({"weight_prefetch_config": {"enabled": True, "prefetch_ratio": modules}})


def tuned(o, model):
    """Of each batch: the ratios found, or None where nothing pays."""
    found = json.loads(rates.output([rates.PRESTAGE, "tune", model, "-t", o.threads, "--time-limit", o.time_limit, "-b",
                                     o.batches, "--json"]))["ratios"]
    buckets = {bucket["rows"]: bucket for bucket in found["buckets"]}
    by_batch = {}
    for row in found["batches"]:
        bucket = buckets[row["bucket"]]
        by_batch[row["batch"]] = {k: v for k, v in bucket["ratios"].items() if k in SITES} if bucket["gains"] else None
    return by_batch


def against_off(o, model, batch, ratios):
    """(tok/s of off, ratios of each round of ratio to off, and of the control)."""
    rows = json.loads(rates.output([rates.PRESTAGE, "bench", "-m", model, "-t", o.threads, "-r", o.rounds, "-p", 0, "-n",
                                    max(8, 64 // batch), "-npl", batch, "-o", "json", "--no-ceiling", "--compare",
                                    "off,ratio,off", "--additional-config", config(ratios)]))
    off, ratio, control = (row["samples_ts"] for row in rows)
    return (statistics.median(off), [r / x for r, x in zip(ratio, off)], [c / x for c, x in zip(control, off)])


def text(ratios):
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", default="1,4,16,72,144")
    parser.add_argument("--time-limit", type=int, default=90, help="seconds of tuning for each model (90)")
    parser.add_argument("--csv")
    o = parser.parse_args()
    models = o.models or [*(rates.made_smol(kind, 30) for kind in ("Q8_0", "Q4_0")), *map(made, ("q8_0", "q4_0"))]
    cells = []
    print("| model | sequences | off tok/s | guide's ratios / off | tuned / off | off / off | tuned ratios |\n"
          "|---|---|---|---|---|---|---|", flush=True)
    for model in models:
        found = tuned(o, model)
        for batch in map(int, o.batches.split(",")):
            speed, guide, control = against_off(o, model, batch, dict.fromkeys(SITES, 1.0))
            best = None
            if found[batch] is not None:
                _, best, more = against_off(o, model, batch, found[batch])
                control += more
            words = ", ".join(f"{name} {ratio:g}" for name, ratio in (found[batch] or {}).items() if ratio > 0) or "off"
            print(f"| {model.stem} | {batch} | {speed:.1f} | {text(guide)} | {text(best) if best else 'same'} | "
                  f"{text(control)} | {words} |", flush=True)
            cells.append([model.stem, batch, speed, statistics.median(guide), statistics.median(best or [1.0]),
                          min(control), max(control), words])
    if o.csv:
        with open(o.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["model", "sequences", "off_ts", "guide", "tuned", "control_min", "control_max", "ratios"])
            writer.writerows(cells)


if __name__ == "__main__":
    main()
