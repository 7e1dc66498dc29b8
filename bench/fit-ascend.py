#!/usr/bin/env python3
"""How well the shipped profile ascend-910b plays what the PRESERVE paper says, and how well others would.

    bench/fit-ascend.py [--threads N] [--prestage FILE]                          3 minutes of a processor
    bench/fit-ascend.py --search N [--seed S] [--join MODE]                       N = 80: half an hour
    bench/fit-ascend.py --ablate                                                 15 seconds

Without an option: every expectation of data/paper/preserve-*.json, but for the sizes of Figure 2, with ours beside the
paper's, the loss, and for each fitted number of the profile how far it may be moved alone, down and up, until the first
expectation fails. --search draws N sets from the table PARAMETERS, refines the best ones and, where the join is its own, the
shipped one, and prints what it found; workloads stay those of the specs. --ablate changes one thing of the profile or the
workloads and says what fails then.

The loss is the sum of squared log errors of all expectations that state a number with a tolerance in percent or as an
amount, each in units of its tolerance: 1 for an expectation that is just met. A search minimises it, with a penalty for
expectations that are not met. Everything is played by `prestage explore`, rows that no expectation reads left out, and
judged here and there (expectations.py). A difference is told on stderr and the program's verdict counts: it knows more than the
seven digits of its rows, which matters at the edge of a tolerance.
"""
import argparse
import json
import math
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from expectations import Judged, holds, is_judged

ROOT = Path(__file__).resolve().parent.parent
PROFILE = json.loads((ROOT / "data/machines/ascend-910b.json").read_text(encoding="utf-8"))
SHIPPED = {key: entry["value"] for key, entry in PROFILE.items() if isinstance(entry, dict)}

L2_READS = ("linear_share", "kv_cache_share")
# What a search may choose: keys that get the same number, bounds, and why these.
PARAMETERS = [
    (("weight_share",), 0.5, 1, "of a peak that is never reached; matrix products on other devices read at 0.6 to 0.95"),
    (("kv_share",), 0.3, 1, "attention reads worse than a product of matrices"),
    (("kv_strided_share",), 0.1, 1, "of several heads, apart in memory; never more than kv_share"),
    (L2_READS, 0.2, 1, "of 7 TB/s, which are reads and writes; below 0.23 it would be memory"),
    (("fill_gbs",), 800, 1600, "half of memory's rate to all of it"),
    (("compute_share",), 0.4, 1, "msmodeling takes 0.7"),
    (("comm_ns",), 3000, 90000, "msmodeling takes 10 us; 390 us have been measured where the host starts each one"),
    (("comm_gbs",), 20, 200, "25 between servers, 196 inside one, by msmodeling"),
    (("matmul_ns",), 500, 15000, "msmodeling takes 5 us"),
    (("vector_ns",), 500, 15000, "msmodeling takes 2 us"),
    (("l2_share",), 0.3, 1, "activations and what is in use need the rest"),
    (("attention_splits",), 1, 24, "24 cores; a context can be cut more often than they are many"),
    (("core_mm2",), 80, 900, "a reticle holds about 850 mm2"),
    (("l2_mm2_per_mib",), 0.23, 1.2, "a cell of 7 nm is 0.027 um2, 0.23 mm2 for the bits of a MiB alone"),
]
WHOLE = {"attention_splits"}
KEYS = [keys[0] for keys, *_ in PARAMETERS]

FITTED = [key for key, entry in PROFILE.items() if isinstance(entry, dict) and "fit-ascend" in entry["source"]
          and isinstance(entry["value"], (int, float))]
SIZES = "preserve-fig02"  # of models and KV: no number of a machine changes them
WIDE = 1.5      # a factor that says "not identified"
FARTHEST = 4    # factor that a number is moved at most
CLOSE = 0.002   # to which a limit is found
UNMET = 3       # penalty of an expectation that is not met, and of each unit that it is off
EDGE = 1e-9     # off, of what is at the edge of its tolerance
STAGE_POINTS = 50 # after so many points a set may be given up
REFINED = 2     # sets that a search refines
STRIDES = (0.1, 0.005) # of a range, from and to
GAIN = 0.003    # of a round; after a smaller one strides are halved

# What, numbers of the machine (None: without), members of the workload.
ABLATIONS = [
    ("KV in 8 bits", {}, {"kv_bits": 8}),
    ("KV in 8 bits, all of L2", {"l2_share": 1}, {"kv_bits": 8}),
    ("whole KV heads only", {}, {"even_kv": False}),
    ("prefetches may fill all of L2", {"l2_share": 1}, {}),
    ("attention is never short of pieces", {"attention_splits": None, "cores": None}, {}),
    ("strided KV as fast as contiguous", {"kv_strided_share": SHIPPED["kv_share"]}, {}),
    ("prefetches as fast as reads of weights", {"fill_gbs": SHIPPED["weight_share"] * SHIPPED["read_gbs"]}, {}),
    ("prefetches as fast as memory", {"fill_gbs": SHIPPED["read_gbs"]}, {}),
    ("each chunk of a fused sum starts anew", {"chunk_ns": 0}, {}),
    ("join: event", {"join": "event"}, {}),
    ("join: stream", {"join": "stream"}, {}),
    ("bytes of a ring, start constant", {"comm_shape": "ring"}, {}),
    ("a ring whose steps cost: the same time at 4 devices",
     {"comm_shape": "ring", "comm_ns": 0, "comm_step_ns": SHIPPED["comm_ns"] / 6}, {}),
    ("links of 196 GB/s", {"comm_gbs": 196}, {}),
    ("no fixed cost of products", {"matmul_ns": 0}, {}),
    ("no fixed cost of vector operators", {"vector_ns": 0}, {}),
    ("sums in single precision", {"element_bytes": 4}, {}),
]


class Sources:
    """The specs of the paper, as `prestage explore` takes them, about one machine file that is written anew for each set."""

    def __init__(self, prestage, threads, folder):
        self.prestage, self.threads, self.folder = prestage, threads, Path(folder)
        self.machine = self.folder / "machine.json"
        self.specs = {}
        for path in sorted((ROOT / "data/paper").glob("preserve-*.json")):
            spec = json.loads(path.read_text(encoding="utf-8"))
            if not label_of(spec) or path.stem == SIZES:
                continue
            spec.pop("plots")
            spec["machine"] = str(self.machine)
            spec["expect"] = [expect for expect in spec["expect"] if is_judged(expect)]
            self.specs[path.stem] = spec

    def explore(self, specs, changes):
        """{name: (rows, the program's verdicts)}"""
        numbers = {key: value for key, value in {**SHIPPED, **changes}.items() if value is not None}
        self.machine.write_text(json.dumps({"name": "candidate", **numbers}), encoding="utf-8")
        paths = [self.folder / f"{name}.json" for name in specs]
        for path, spec in zip(paths, specs.values()):
            path.write_text(json.dumps(spec), encoding="utf-8")
        command = [self.prestage, "explore", *map(str, paths), "--json", "-t", str(self.threads)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"fit-ascend.py: {run.stderr.strip()}")
        return {name: (answer["points"], [e["verdict"] == "confirmed" for e in answer["expectations"]])
                for name, answer in zip(specs, json.loads(run.stdout)["specs"])}


def label_of(spec):
    """"" for a spec that is not of a table or figure."""
    match = re.match(r"PRESERVE, ((?:Table|Figure) \d+):", spec["title"])
    return match[1] if match else ""


def pruned(spec, rows):
    """The same spec with the points alone that an expectation reads. Which rows fit into memory is the same for all sets."""
    fields = [field for axis in spec["sweep"] for field in axis.get("fields", [axis.get("field")])]
    stable = [*fields, "fits"]
    conditions = [{column: value for column, value in expect.get("where", {}).items() if column in stable}
                  for expect in spec["expect"]]
    kept = [[row[field] for field in fields] for row in rows if any(holds(where, row) for where in conditions)]
    return {**spec, "sweep": [{"fields": fields, "values": kept}]}


class Verdict:
    def __init__(self):
        self.loss, self.cost, self.judged = 0.0, 0.0, []

    def add(self, label, judged, weight):
        self.judged.append((label, judged))
        self.loss += judged.misfit or 0
        self.cost += weight * (judged.misfit or 0)
        self.cost += 0 if judged.is_met else UNMET * (1 + min(judged.gap, 10))

    @property
    def failed(self):
        return [f"{label}, {judged.expect['what']}" for label, judged in self.judged if not judged.is_met]

    def loss_of(self, start):
        return sum(judged.misfit or 0 for label, judged in self.judged if label.startswith(start))


class Judge:
    """Judges sets of numbers by all specs, those with few points first, and stops where a set is known to be too bad."""

    def __init__(self, sources, weight=1):
        self.sources, self.weight = sources, weight
        rows = sources.explore(sources.specs, {})
        small = {name: pruned(spec, rows[name][0]) for name, spec in sources.specs.items()}
        by_points = sorted(small, key=lambda name: len(small[name]["sweep"][0]["values"]))
        self.stages = [{}]
        for name in by_points:
            if sum(len(spec["sweep"][0]["values"]) for spec in self.stages[-1].values()) > STAGE_POINTS:
                self.stages.append({})
            self.stages[-1][name] = small[name]

    def __call__(self, changes, cost_most=math.inf):
        """None: costs more than that."""
        verdict = Verdict()
        for stage in self.stages:
            judge_rows(verdict, stage, self.sources.explore(stage, changes), self.weight)
            if verdict.cost >= cost_most:
                return None
        return verdict


def judge_rows(verdict, specs, answers, weight=1):
    for name, spec in specs.items():
        rows, verdicts = answers[name]
        label = label_of(spec)
        for expect, is_met in zip(spec["expect"], verdicts):
            judged = Judged(expect, rows)
            if judged.is_met != is_met:
                print(f"{name}: '{expect['what']}': the program says {'met' if is_met else 'not met'}, expectations.py "
                      f"the opposite of {judged.numbers}", file=sys.stderr)
                judged.gap = 0 if is_met else judged.gap or EDGE
            verdict.add(label, judged, weight if label == "Table 1" else 1)


def judge_whole(sources, changes, workload):
    """All points, with other members of the workloads."""
    specs = {name: {**spec, "workload": {**spec["workload"], **workload}} for name, spec in sources.specs.items()}
    verdict = Verdict()
    judge_rows(verdict, specs, sources.explore(specs, changes))
    return verdict


# ---- tables

def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def short(number):
    if abs(number) >= 1e6:
        return f"{number / 1e6:.4g} M"
    return str(round(number)) if round(number) == number else f"{float(f'{number:.4g}'):g}"


def tolerance(expect):
    bounds = [f"{word} {short(expect[key])}" for key, word in (("at_least", "at least"), ("at_most", "at most"))
              if key in expect]
    return (" and ".join(bounds) if bounds else f"{100 * expect['relative']:g} %" if "relative" in expect
            else f"{short(expect['absolute'])}" if "absolute" in expect
            else f"{expect['steps']} step{'' if expect['steps'] == 1 else 's'}")


def row_of(label, judged):
    paper = judged.expect.get("paper", [])
    paper = paper if isinstance(paper, list) else [paper]
    texts = list(dict.fromkeys(map(short, judged.numbers)))
    ours = texts[0] if len(texts) == 1 else f"{short(min(judged.numbers))} to {short(max(judged.numbers))}"
    return [label, judged.expect["what"], " or ".join(map(short, paper)), ours, tolerance(judged.expect),
            "" if judged.misfit is None else f"{judged.misfit:.2f}", "yes" if judged.is_met else "**no**"]


def print_expectations(verdict):
    in_order = sorted(verdict.judged, key=lambda each: (each[0] != "Table 1", int(each[0].split()[1])))
    table(["where", "what", "paper", "ours", "tolerance", "loss", "met"], [row_of(*each) for each in in_order])
    count = len(verdict.judged)
    print(f"{count - len(verdict.failed)} of {count} expectations met, loss {verdict.loss:.2f}, "
          f"of which Table 1 {verdict.loss_of('Table 1'):.2f}\n")


def first_of(failed):
    return failed[0] + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else "") if failed else ""


# ---- how far a number may be moved

def moved(key, factor):
    value = SHIPPED[key] * factor
    return round(value) if key in WHOLE else value


def limit(judge, key, is_up):
    """The farthest number on that side that fails nothing, the next one tried behind it, and what fails there."""
    most = min(FARTHEST, 1 / SHIPPED[key] if key.endswith("_share") else FARTHEST)
    good, stride = 1.0, 0.01
    while True:
        bad = min(good * (1 + stride), most) if is_up else max(good / (1 + stride), 1 / FARTHEST)
        if key in WHOLE:
            bad = (round(SHIPPED[key] * good) + (1 if is_up else -1)) / SHIPPED[key]
        if bad == good or moved(key, bad) < 1e-3 or not 1 / FARTHEST <= bad <= most:
            return good, []
        failed = judge({key: moved(key, bad)}).failed
        if failed:
            break
        good, stride = bad, stride * 1.5
    while key not in WHOLE and abs(math.log(bad / good)) > CLOSE:
        middle = math.sqrt(good * bad)
        now = judge({key: moved(key, middle)}).failed
        good, bad, failed = (good, middle, now) if now else (middle, bad, failed)
    return good, failed


def print_ranges(judge):
    rows = []
    for key in FITTED:
        (low, below), (high, above) = limit(judge, key, False), limit(judge, key, True)
        wide = [word for word, factor, failed in (("down", 1 / low, below), ("up", high, above))
                if factor > WIDE or not failed]
        rows.append([key, short(SHIPPED[key]), f"{short(moved(key, low))} ({low - 1:+.0%})",
                     f"{short(moved(key, high))} ({high - 1:+.0%})", first_of(below) or "nothing",
                     first_of(above) or "nothing", "not identified" + ("" if len(wide) == 2 else f" ({wide[0]})")
                     if wide else ""])
        print(f"{key} done", file=sys.stderr)
    table(["number", "value", "lowest", "highest", "fails first, down", "fails first, up", ""], rows)


# ---- search

def bounds_of(index):
    return PARAMETERS[index][1:3]


def numbers_of(point, join):
    """point: places between the bounds of PARAMETERS, 0 to 1, on a scale of logarithms."""
    changes = {"join": join}
    for place, (keys, low, high, _) in zip(point, PARAMETERS):
        value = float(f"{low * (high / low) ** place:.4g}")
        for key in keys:
            changes[key] = round(value) if key in WHOLE else value
    changes["kv_strided_share"] = min(changes["kv_strided_share"], changes["kv_share"])
    return changes


def point_of(numbers):
    return [math.log(numbers[keys[0]] / low) / math.log(high / low) for keys, low, high, _ in PARAMETERS]


def inside(point):
    return [min(max(place, 0.0), 1.0) for place in point]


def tries(rng, point, stride):
    """One round of neighbours: along each axis, and along random directions. Each starts from the best so far."""
    for index in rng.sample(range(len(point)), len(point)):
        for step in (stride, -stride):
            yield lambda best, i=index, s=step: [place + (s if j == i else 0) for j, place in enumerate(best)]
    for _ in range(3 * len(point)):
        steps = [rng.gauss(0, stride) * (rng.random() < 0.5) for _ in point]
        yield lambda best, s=steps: [place + step for place, step in zip(best, s)]


def refine(judge, rng, point, join, verdict):
    stride, least = STRIDES
    while stride > least:
        before = verdict.cost
        for make in tries(rng, point, stride):
            candidate = inside(make(point))
            better = judge(numbers_of(candidate, join), verdict.cost)
            if better:
                point, verdict = candidate, better
        stride = stride if verdict.cost < (1 - GAIN) * before else stride / 2
        print(f"stride {stride:.4f}: cost {verdict.cost:.3f}, {len(verdict.failed)} fail", file=sys.stderr, flush=True)
    print(json.dumps(numbers_of(point, join)), file=sys.stderr, flush=True)
    return point, verdict


def search(judge, count, seed, join, start):
    rng = random.Random(seed)
    kept = []
    for _ in range(count):
        point = [rng.random() for _ in PARAMETERS]
        verdict = judge(numbers_of(point, join), kept[-1][1].cost if len(kept) == REFINED else math.inf)
        if verdict:
            kept = sorted([*kept, (point, verdict)], key=lambda each: each[1].cost)[:REFINED]
    starts = [("drawn", *each) for each in kept]
    if start or join == SHIPPED["join"]:
        point = inside(point_of({**SHIPPED, **start}))
        starts.append(("that of --start" if start else "shipped", point, judge(numbers_of(point, join))))
    found = [(name, *refine(judge, rng, point, join, verdict)) for name, point, verdict in starts]
    return sorted(found, key=lambda each: each[2].cost)


def print_sets(found, join):
    """The sets side by side, shipped first where the join is its own."""
    sets = [numbers_of(point, join) for _, point, _ in found]
    head = ["", "shipped", *(f"from {name}" for name, *_ in found)]
    rows = [[key, short(SHIPPED[key]), *(short(numbers[key]) for numbers in sets)] for key in KEYS]
    table(head, rows)
    for (name, _, verdict), numbers in zip(found, sets):
        print(f"from {name}, join {join}: {json.dumps(numbers)}")
        if verdict.failed:
            print("fails: " + "; ".join(verdict.failed))
        print_expectations(verdict)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prestage", default=str(ROOT / "build/release/prestage"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--search", type=int, metavar="N", help="random sets that are tried")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--join", choices=("event", "stream", "barrier"), default=SHIPPED["join"])
    parser.add_argument("--start", type=json.loads, default={}, metavar="JSON", help="a set as it is printed, refined too")
    parser.add_argument("--table1", type=float, default=1, metavar="W", help="weight of Table 1 in a search")
    parser.add_argument("--ablate", action="store_true")
    options = parser.parse_args()
    if not Path(options.prestage).is_file():
        parser.error(f"{options.prestage} is not there; make builds it")
    if not isinstance(options.start, dict) or not set(options.start) <= set(SHIPPED):
        parser.error(f"--start: an object of {', '.join(KEYS)} would be right")
    if options.search == 0 and not options.start and options.join != SHIPPED["join"]:
        parser.error("--search 0 has nothing to start from; --start JSON, or a larger N, would be right")
    with tempfile.TemporaryDirectory() as folder:
        sources = Sources(options.prestage, options.threads, folder)
        if options.ablate:
            rows = []
            for what, changes, workload in ABLATIONS:
                verdict = judge_whole(sources, changes, workload)
                rows.append([what, str(len(verdict.failed)), f"{verdict.loss:.1f}", "; ".join(verdict.failed)])
            table(["one thing changed", "fail", "loss", "which"], rows)
        elif options.search is not None:
            judge = Judge(sources, options.table1)
            found = search(judge, options.search, options.seed, options.join, options.start)
            print_sets(found, options.join)
        else:
            judge = Judge(sources)
            print_expectations(judge({}))
            print_ranges(judge)


main()
