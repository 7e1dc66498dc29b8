"""Expectations of a spec (docs/explore.md) judged a second time, out of the rows, with more than a verdict: how far
off each one is. For bench/fit-ascend.py, which compares the verdicts with the program's. Shares no code with it.
"""
import math
import statistics

ROUNDING = 1e-9  # of bounds and tolerances that are met exactly
SCALE = 0.05     # a speedup or a share that misses a bound by so much is one unit off


def is_judged(expect):
    return expect.get("paper", 0) is not None


def same(a, b):
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return math.isclose(a, b, rel_tol=ROUNDING)


def holds(conditions, row):
    """conditions: {column: value, or a list of values}."""
    return all(any(same(row[column], value) for value in (values if isinstance(values, list) else [values]))
               for column, values in conditions.items())


class Judged:
    """numbers: what the rows say, one for each value of `per`. misfit: the squared log error, in tolerances; None
    where the paper states no number with one. gap: how far from being met, 0 where it is."""

    def __init__(self, expect, rows):
        self.expect = expect
        self.xs = sorted({row[expect["x"]] for row in rows}) if "x" in expect else []
        chosen = [row for row in rows if holds(expect.get("where", {}), row)]
        groups = [chosen]
        if "per" in expect:
            found = list(dict.fromkeys(row[expect["per"]] for row in chosen))
            groups = [[row for row in chosen if row[expect["per"]] == value] for value in found]
        curves = [self.curve(group, expect["metric"], expect.get("to")) for group in groups]
        self.numbers = [self.reduce(curve, group) for curve, group in zip(curves, groups)]
        if expect.get("then", "all") != "all" and self.numbers:
            then = {"mean": statistics.fmean, "min": min, "max": max, "median": statistics.median}[expect["then"]]
            self.numbers = [math.nan if any(map(math.isnan, self.numbers)) else then(self.numbers)]
            curves = [None]
        self.gap = sum(self.off(number, curve) for number, curve in zip(self.numbers, curves)) if self.numbers else 1
        self.misfit = self.squared() if "relative" in expect or "absolute" in expect else None

    @property
    def is_met(self):
        return self.gap == 0

    def curve(self, rows, metric, to=None):
        """[(x, y)] by x, equal ones averaged; without an x the rows as they come."""
        pairs = [(row.get(self.expect.get("x"), i), number(row, metric) / (number(row, to) if to else 1))
                 for i, row in enumerate(rows)]
        sums = {}
        for x, y in pairs:
            sums.setdefault(x, []).append(y)
        means = [(x, statistics.fmean(ys)) for x, ys in sorted(sums.items())]
        return [(x, y) for x, y in means if math.isfinite(y)]

    def reduce(self, curve, rows):
        of = self.expect.get("of", "value")
        xs, ys = [x for x, _ in curve], [y for _, y in curve]
        if not ys or (of == "value" and len(ys) > 1):
            return math.nan
        if of == "ratio_of_max":
            above, below = (max(y for _, y in self.curve(rows, self.expect[key])) for key in ("metric", "to"))
            return above / below
        if of == "x_saturated":
            share = self.expect.get("share", 0.01)
            far = [i for i, y in enumerate(ys) if abs(y - ys[-1]) > share * abs(ys[-1])]
            return xs[far[-1] + 1] if far else xs[0]
        if of == "x_crosses":
            return next((x for x, y in curve if y <= self.expect["at"]), math.nan)
        return {"value": lambda: ys[0], "max": lambda: max(ys), "min": lambda: min(ys),
                "mean": lambda: statistics.fmean(ys), "x_of_max": lambda: xs[ys.index(max(ys))],
                "x_of_min": lambda: xs[ys.index(min(ys))], "cut": lambda: 1 - ys[-1] / ys[0],
                "gain": lambda: ys[-1] / ys[0] - 1, "rise_min": lambda: min(rises(ys)),
                "rise_max": lambda: max(rises(ys)),
                "x_of_drop": lambda: xs[rises(ys).index(min(rises(ys))) + 1] if len(ys) > 1 else math.nan}[of]()

    def papers(self):
        paper = self.expect["paper"]
        return paper if isinstance(paper, list) else [paper]

    def place(self, x):
        return min(range(len(self.xs)), key=lambda i: abs(self.xs[i] - x))

    def off(self, ours, curve):
        """0 where the number is right, else how far it is from that: about 1 where it is clearly wrong."""
        e = self.expect
        if math.isnan(ours):
            return 10
        if "steps" in e:
            steps = min(abs(self.place(ours) - self.place(paper)) for paper in self.papers()) - e["steps"]
            if steps <= 0:
                return 0
            # Where another x should have been the best one: how much is missing there.
            if e["of"] == "x_of_max" and curve:
                right = [y for x, y in curve
                         if any(abs(self.place(x) - self.place(paper)) <= e["steps"] for paper in self.papers())]
                if right:
                    return max((max(y for _, y in curve) / max(right) - 1) / SCALE, ROUNDING)
            return steps
        if "relative" in e or "absolute" in e:
            far = min(abs(ours - paper) / (e["absolute"] if "absolute" in e else e["relative"] * abs(paper))
                      for paper in self.papers())
            return 0 if far <= 1 + ROUNDING else far - 1
        room = ROUNDING * abs(ours)
        bounds = [e[key] for key, sign in (("at_least", 1), ("at_most", -1))
                  if key in e and sign * (e[key] - ours) > room]
        if not bounds:
            return 0
        is_x = e.get("of", "value").startswith("x_")
        return abs(math.log2(ours / bounds[0])) if is_x else abs(ours - bounds[0]) / SCALE

    def squared(self):
        e = self.expect
        if any(not number > 0 for number in self.numbers):
            return 100.0
        return max(min((math.log(ours / paper) / math.log1p(e.get("relative", e.get("absolute", 0) / paper))) ** 2
                       for paper in self.papers()) for ours in self.numbers)


def number(row, column):
    value = row[column]
    return math.nan if value is None else value


def rises(ys):
    return [b / a - 1 for a, b in zip(ys, ys[1:])] or [math.nan]
