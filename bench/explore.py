#!/usr/bin/env python3
"""How many design points `prestage explore` plays a second: a model of 80 layers, plan and play of each point.

usage: explore.py PRESTAGE [THREADS [POINTS]]

Two sweeps of different length are timed, several times in turns, and the difference counts, so that starting and
writing do not. The bar is 1,000 points a second on two threads, that is 2 ms of a thread for each. Needs an idle machine;
the time that CPUs were busy with a point is beside it.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BAR = 1000
ROUNDS = 5


def spec(points, prefetch):
    return {"title": "points a second", "machine": "ascend-910b", "model": "llama3-70b",
            "workload": {"batch": 4, "context_tokens": 16384, "ranks": 4, "weight_bits": 8, "prefetch": prefetch},
            "sweep": [{"field": "machine.read_gbs", "from": 1000, "to": 1000 + points - 1, "step": 1}]}


def busy():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(prestage, threads, points, prefetch, folder):
    """By the clock, and of CPUs."""
    path = os.path.join(folder, "spec.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(spec(points, prefetch), file)
    begin, busy_before = time.perf_counter(), busy()
    subprocess.run([prestage, "explore", path, "-t", str(threads)], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin, busy() - busy_before


def main():
    prestage = sys.argv[1]
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    points = int(sys.argv[3]) if len(sys.argv) > 3 else 4000
    print(f"| policy | points a second on {threads} threads (least to most of {ROUNDS}) | us of a thread | us of a CPU | bar |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for prefetch in ("off", "preserve", "auto"):
            rates, used = [], []
            for _ in range(ROUNDS):
                few = seconds(prestage, threads, points // 10, prefetch, folder)
                many = seconds(prestage, threads, points, prefetch, folder)
                rates.append((points - points // 10) / (many[0] - few[0]))
                used.append((many[1] - few[1]) / (points - points // 10))
            rate = statistics.median(rates)
            print(f"| {prefetch} | {rate:.0f} ({min(rates):.0f} to {max(rates):.0f}) | {threads / rate * 1e6:.0f} "
                  f"| {statistics.median(used) * 1e6:.0f} | {'met' if rate >= BAR else 'not met'} |")


main()
