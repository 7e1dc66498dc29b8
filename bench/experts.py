#!/usr/bin/env python3
"""Models whose experts are more than memory holds, against llama.cpp and against what the disk gives. Prints tables.

    bench/experts.py [--only PART,...] [--rounds 3] [--threads 2] [--peer DIR] [--json FILE]

    beyond    a made model of 4 GB, 24 layers of 128 experts top-8, in a cgroup with a third of that: prestage with --memory, from
              the GGUF file and from a compiled one, against llama.cpp's mmap on the same file; files are not cached at the
              start of any run. Needs root and cgroup v1 or v2                                             10 minutes
    resident  the same without a limit, all in memory                                                       2 minutes
    disk      decoding while bound by the disk: bytes read from it against the best figure of bench_reader on the same file
              2 minutes
    policies  replays of made routes: hits of each policy by size, and the bars that they have to reach     3 minutes
    prefetch  guesses of the next layer's experts: what they are worth under a budget, with routes of the model's own  2 minutes
    streams   a model of Flash-Next's shape (512 experts top-10, 2560 -> 640) cut to --layers, with routes as skewed as
              Flash-Next's, 16 % of experts kept: 4 streams and one, experts on disk, and in memory behind a link of
              13.7 GB/s (--tier-sim); scaled to 48 layers                                                   15 minutes

Ratios are medians of rounds with the smallest and largest. Needs an idle machine, the release build, and 20 GB of disk.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import rates

MOE_BYTES_PART = 3  # of which memory has one
REPORT_LAYERS = 48  # of Flash-Next


def forget(path):
    """Nothing of the file is cached any more."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def cgroup(controller, name_v1, name_v2, value_v1, value_v2):
    """The folder of a cgroup with a limit; None where that cannot be had."""
    v1 = Path("/sys/fs/cgroup") / controller
    base, name, value = (v1, name_v1, value_v1) if v1.exists() else (Path("/sys/fs/cgroup"), name_v2, value_v2)
    group = base / "prestage-bench"
    try:
        group.mkdir(exist_ok=True)
        (group / name).write_text(str(value))
    except OSError as error:
        print(f"left out: no cgroup with a limit of {controller} can be made here ({error})")
        yield None
        return
    try:
        yield group
    finally:
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def limited(limit_bytes):
    """So much memory, page cache included."""
    return cgroup("memory", "memory.limit_in_bytes", "memory.max", limit_bytes, limit_bytes)


def throttled(path, bytes_per_second):
    """So many bytes read in a second, of the disk that holds the file."""
    disk = os.stat(path).st_dev
    while not Path(f"/sys/dev/block/{os.major(disk)}:{os.minor(disk)}/queue").exists():  # a partition is throttled as its disk
        disk = os.makedev(os.major(disk), 0)
    number = f"{os.major(disk)}:{os.minor(disk)}"
    return cgroup("blkio", "blkio.throttle.read_bps_device", "io.max", f"{number} {bytes_per_second}",
                  f"{number} rbps={bytes_per_second}")


def output(command, group=None):
    def enter():
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, preexec_fn=enter)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr[-2000:]}")
    return result.stdout


def decode(o, model, generate, *extra, group=None):
    """The row of `prestage bench`."""
    return json.loads(output([rates.PRESTAGE, "bench", "-m", model, "-t", o.threads, "-p", 0, "-n", generate, "-r", 1,
                              "--no-ceiling", "-o", "json", *extra], group))[0]


def llama(o, model, generate, *extra, group=None):
    rows = json.loads(output([o.peer / "llama-bench", "-m", model, "-t", o.threads, "-p", 0, "-n", generate, "-r", 1, "-o",
                              "json", *extra], group))
    return rows[0]["avg_ts"]


def ratio(name, values, bar=None):
    median = statistics.median(values)
    met = "" if bar is None else "met" if median >= bar else "MISSED"
    print(f"| {name} | {median:.2f} ({min(values):.2f} to {max(values):.2f}) | {'' if bar is None else bar} | {met} |", flush=True)
    FIGURES.append({"figure": name, "median": median, "lowest": min(values), "highest": max(values), "bar": bar})


FIGURES = []
HEAD = "\n| figure | median (range) | bar | |\n|---|---|---|---|"


def moe():
    return rates.made("moe-q8_0", "--shape", "moe")


def compiled(model):
    path = model.with_suffix(".pst")
    if not path.exists():
        output([rates.PRESTAGE, "compile", model, "-o", path])
    return path


def beyond(o):
    gguf = moe()
    pst = compiled(gguf)
    limit = gguf.stat().st_size // MOE_BYTES_PART
    budget = ("--memory", f"{limit - (40 << 20)}")  # the cgroup counts kernel memory and page tables, too
    samples = {"gguf": [], "pst": [], "llama.cpp": []}
    with limited(limit) as group:
        for _ in range(o.rounds if group is not None else 0):
            forget(gguf)
            samples["llama.cpp"].append(llama(o, gguf, 4, group=group))
            for name, model in (("gguf", gguf), ("pst", pst)):
                forget(model)
                samples[name].append(decode(o, model, 64, *budget, group=group)["avg_ts"])
    if samples["gguf"]:
        print(f"{HEAD}")
        for name, values in samples.items():
            print(f"| {name}, tok/s | {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}) | | |")
        for name in ("gguf", "pst"):
            ratio(f"memory for a third: {name} / llama.cpp's mmap",
                  [a / b for a, b in zip(samples[name], samples["llama.cpp"])], 12)


def resident(o):
    gguf = moe()
    print(HEAD)
    pairs = [(decode(o, gguf, 64)["avg_ts"], llama(o, gguf, 64)) for _ in range(o.rounds)]
    ratio("all in memory: prestage / llama.cpp", [a / b for a, b in pairs], 1.2)


THROTTLE_GBS = 1.0


def reader_gbs(path):
    """The best of random pieces of a file, by any way, size and number of reads at a time, past the page cache."""
    return json.loads(output([rates.ROOT / "build/release/bench/bench_reader", "--json", "--file", path, "--rounds", 1, "--ms",
                              100]))["ceiling_gbs"]


def disk_bound(o, pst, what, bar, group=None):
    """In a group the limit is what the disk gives, which bench_reader's short cells would burst through."""
    busy, whole = [], []
    for _ in range(o.rounds):
        ceiling = THROTTLE_GBS if group is not None else reader_gbs(pst)
        row = decode(o, pst, 48, "--expert-memory", "200MiB", group=group)["experts"]
        busy.append(row["read_gbs"] / ceiling)
        whole.append(row["read_bytes"] / (row["move_ns"] + row["compute_ns"] + row["dispatch_ns"]) / ceiling)
        print(f"  {row['read_gbs']:.2f} GB/s while something was read, the disk gives {ceiling:.2f}")
    ratio(f"{what}: bytes by the time in which something was read / what the disk gives", busy, bar)
    ratio("  the same by the time of all layers of experts", whole)


def disk(o):
    pst = compiled(moe())
    print(HEAD)
    disk_bound(o, pst, "disk as it is", 0.85)
    with throttled(pst, int(THROTTLE_GBS * 1e9)) as group:
        if group is not None:
            disk_bound(o, pst, "disk throttled to 1 GB/s", 0.85, group)


def policies(o):
    print()
    for name in ("qwen30", "flashnext", "uniform", "drift"):
        print(output([rates.PRESTAGE, "experts", "replay", "--synth", name, "--sizes", "4.4%,6.25%,16.3%,34%"]), flush=True)


def prefetch(o):
    pst = compiled(moe())
    print(HEAD)
    row = decode(o, pst, 256, "--expert-memory", "1200MiB")["experts"]
    for key, value in row["guesses"].items():
        print(f"| guesses: {key} | {value} | | |")


def streams(o):
    model = rates.made(f"flash-next-q4_0-{o.layers}", "--shape", "flash-next", "--layers", o.layers, "--type", "Q4_0")
    pst = compiled(model)
    routes = rates.CACHE / f"flashnext-{o.layers}.routes"
    if not routes.exists():
        output([rates.PRESTAGE, "experts", "synth", "flashnext", "--layers", o.layers, "--streams", 4, "--tokens", 512, "-o",
                routes])
    kept = f"{int(0.163 * 512 * o.layers * 2.85)}MiB"  # 3 x 2560 x 640 weights of 4.5 bits, on pages
    print(HEAD)
    for tier, extra, bar in (("disk", (), 1.6), ("memory behind 13.7 GB/s", ("--tier-sim", "latency=10us,bandwidth=13.7GB/s"), 6.4)):
        for count in (4, 2):
            values, each = [], []
            for _ in range(o.rounds):
                row = json.loads(output([rates.PRESTAGE, "bench", "-m", pst, "-t", o.threads, "-p", 8, "-n", 64, "--streams",
                                         count, "--force-routes", routes, "--expert-memory", kept, "--json", *extra]))
                values.append(row["together_ts"] * o.layers / REPORT_LAYERS)
                each.append(row["alone_ts"] * o.layers / REPORT_LAYERS)
            ratio(f"{tier}: {count} streams, tok/s at {REPORT_LAYERS} layers", values, bar if count == 4 else None)
            if count == 2:
                ratio(f"{tier}: one stream", each, 2.5 if extra else None)


PARTS = {"beyond": beyond, "resident": resident, "disk": disk, "policies": policies, "prefetch": prefetch, "streams": streams}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=8, help="of the model of streams (8)")
    parser.add_argument("--peer", type=Path, help="the folder of llama.cpp's programs; built when it is not given")
    parser.add_argument("--json")
    o = parser.parse_args()
    parts = o.only.split(",")
    for part in parts:
        if part not in PARTS:
            parser.error(f"--only {part}: {', '.join(PARTS)} would be right")
    if {"beyond", "resident"} & set(parts):
        o.peer = rates.llama_cpp(o.peer)
    print(f"`{' '.join([os.path.relpath(sys.argv[0], rates.ROOT), *sys.argv[1:]])}`", flush=True)
    for part in parts:
        PARTS[part](o)
    if o.json:
        Path(o.json).write_text(json.dumps(FIGURES, indent=1))


if __name__ == "__main__":
    main()
