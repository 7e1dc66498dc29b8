#!/usr/bin/env python3
"""prestage against llama.cpp: same file, same threads, in alternation; prints ratios with their spread.

    bench/compare-llama.cpp.py [--rounds 5] [--threads 1,2] [--prompt 512] [--generate 64] [--depth 0] MODEL.gguf...

Each round runs both programs once per test, in turn, so that a drift of the machine's speed meets both. A run is
`-r 1` behind the program's own warm-up. Printed: the median of each side in tokens a second, the median of the rounds'
ratios, and their smallest and largest. Needs the release build of prestage, and llama-bench: from --peer FOLDER or
bench/build-llama.cpp.sh. --first-token compares the time from start to the first token of a one-token answer, repacking
included, and peak memory.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import rates


def compare(options, model, threads, prompt, generate):
    ours, theirs = [], []
    for _ in range(options.rounds):
        test = (model, threads, prompt, generate, options.depth)
        ours.append(rates.prestage(*test, program=options.prestage)["avg_ts"])
        theirs.append(rates.llama_bench(options.peer / "llama-bench", *test))
    ratios = [a / b for a, b in zip(ours, theirs)]
    name = f"pp{prompt}" if prompt else f"tg{generate}"
    name += f" @ d{options.depth}" if options.depth else ""
    print(f"| {model.name} | {threads} | {name} | {statistics.median(ours):8.2f} | {statistics.median(theirs):8.2f} | "
          f"{rates.spread(ratios)} |", flush=True)
    return statistics.median(ratios)


def timed(command):
    """Seconds and peak kB of one run."""
    before = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(map(str, command))} failed")
    return time.monotonic() - before, usage.ru_maxrss


def first_token(options, model, threads):
    """Whole processes that answer one token, the file in the page cache."""
    text = "the first token of an answer to a short prompt"
    common = ["-m", str(model), "-p", text, "-n", "1", "-t", str(threads), "-c", "512"]
    ours = [options.prestage, "run", *common, "--raw", "--temp", "0"]
    theirs = [options.peer / "llama-completion", *common, "-no-cnv", "--temp", "0", "--no-warmup", "--no-display-prompt"]
    timed(["cat", str(model)])
    pairs = [(timed(ours), timed(theirs)) for _ in range(options.rounds)]
    ratios = [a[0] / b[0] for a, b in pairs]
    size = model.stat().st_size
    print(f"| {model.name} | {threads} | {statistics.median(a[0] for a, _ in pairs):.2f} s | "
          f"{statistics.median(b[0] for _, b in pairs):.2f} s | {rates.spread(ratios)} | "
          f"{max(a[1] for a, _ in pairs) * 1024 / size:.2f} | "
          f"{max(b[1] for _, b in pairs) * 1024 / size:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--prompt", type=int, default=512, help="0: no prefill test")
    parser.add_argument("--generate", type=int, default=64, help="0: no decode test")
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--first-token", action="store_true")
    parser.add_argument("--prestage", default=rates.PRESTAGE)
    parser.add_argument("--peer", type=Path, help="folder of llama-bench")
    parser.add_argument("models", nargs="+", type=Path)
    options = parser.parse_args()
    options.peer = rates.llama_cpp(options.peer)
    threads = [int(t) for t in options.threads.split(",")]

    if options.first_token:
        print("| model | threads | prestage | llama.cpp 11434 | ratio (range) | peak memory / file | llama.cpp's |")
        print("|---|---|---|---|---|---|---|")
        for model in options.models:
            for t in threads:
                first_token(options, model, t)
        return
    print("| model | threads | test | prestage tok/s | llama.cpp 11434 tok/s | ratio (range) |")
    print("|---|---|---|---|---|---|")
    ratios = []
    for model in options.models:
        for t in threads:
            if options.generate:
                ratios.append(compare(options, model, t, 0, options.generate))
            if options.prompt:
                ratios.append(compare(options, model, t, options.prompt, 0))
    print(f"\ngeometric mean of {len(ratios)} ratios: {statistics.geometric_mean(ratios):.2f}, smallest {min(ratios):.2f}")


if __name__ == "__main__":
    main()
