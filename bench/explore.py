#!/usr/bin/env python3
"""How many design points `prestage explore` plays a second: a model of 80 layers, plan and play of each point.

    bench/explore.py [--threads 2] [--points 4000]

Two sweeps of different length are timed, several times in turns, and the difference counts, so that starting and
writing do not. The bar is 1,000 points a second on two threads, that is 2 ms of a thread for each. Needs an idle machine
and the release build; the time that CPUs were busy with a point is beside it.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time

import rates

BAR = 1000
ROUNDS = 5


def spec(points, prefetch):
    return {"title": "points a second", "machine": "ascend-910b", "model": "llama3-70b",
            "workload": {"batch": 4, "context_tokens": 16384, "ranks": 4, "weight_bits": 8, "prefetch": prefetch},
            "sweep": [{"field": "machine.read_gbs", "from": 1000, "to": 1000 + points - 1, "step": 1}]}


def busy():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(threads, points, prefetch, folder):
    """By the clock, and of CPUs."""
    path = os.path.join(folder, "spec.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(spec(points, prefetch), file)
    begin, busy_before = time.perf_counter(), busy()
    subprocess.run([rates.PRESTAGE, "explore", path, "-t", str(threads)], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin, busy() - busy_before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--points", type=int, default=4000, help="of the longer sweep")
    o = parser.parse_args()
    threads, points = o.threads, o.points
    print(f"| policy | points a second on {threads} threads (least to most of {ROUNDS}) | us of a thread | us of a CPU | bar |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for prefetch in ("off", "preserve", "auto"):
            speeds, used = [], []
            for _ in range(ROUNDS):
                few = seconds(threads, points // 10, prefetch, folder)
                many = seconds(threads, points, prefetch, folder)
                speeds.append((points - points // 10) / (many[0] - few[0]))
                used.append((many[1] - few[1]) / (points - points // 10))
            rate = statistics.median(speeds)
            print(f"| {prefetch} | {rate:.0f} ({min(speeds):.0f} to {max(speeds):.0f}) | {threads / rate * 1e6:.0f} "
                  f"| {statistics.median(used) * 1e6:.0f} | {'met' if rate >= BAR else 'not met'} |")


if __name__ == "__main__":
    main()
