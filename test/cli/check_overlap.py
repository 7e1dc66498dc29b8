"""What `prestage overlap` says of prefetches under vector operators: traces with known times, written here, and one of a real run."""
import json
import os
import sys
import tempfile

from program import document, golden, main, output, refused

MODEL = golden("smollm-q8_0")
SPLIT = '{"weight_prefetch_config": {"enabled": true}}'


class Trace:
    """Two workers of one rank. Worker 0 has a vector operator of `vector` us at 10, both read the weight at 40 and take `reader` us."""

    def __init__(self):
        self.events = [{"ph": "M", "pid": 0, "tid": tid, "name": "thread_name", "args": {"name": name}}
                       for tid, name in enumerate(("worker 0", "worker 1", "prefetch 0", "prefetch 1"))]
        self.start = 0

    def add(self, tid, name, start, duration, **arguments):
        self.events.append({"ph": "X", "pid": 0, "tid": tid, "name": name, "cat": "compute", "ts": self.start + start, "dur": duration,
                            "args": arguments})

    def run(self, vector, reader, prefetch=None, bytes_moved=0, asked=1000, more=()):
        for worker in (0, 1):
            self.add(worker, "embed", 0, 1)
            self.add(worker, "linear attn.o", 2, 6, layer=2, bytes=4000)
        self.add(0, "norm_quantise", 10, vector, layer=2)
        for tid, start, duration in more:
            self.add(tid, "add", start, duration, layer=2)
        for worker in (0, 1):
            self.add(worker, "gate_up mlp.gate_up", 40, reader, layer=2, bytes=4000)
        if prefetch is not None:
            self.add(2, "vector_prefetch mlp.gate_up", 9, 0, layer=2, bytes=0, asked=asked)
            self.add(3, "vector_prefetch mlp.gate_up", *prefetch, layer=2, bytes=bytes_moved, asked=asked)
        self.start += 100
        return self

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": self.events}, file)
        return path


def site_of(trace):
    with tempfile.TemporaryDirectory() as folder:
        path = trace.write(os.path.join(folder, "trace.json"))
        table = output("overlap", path).decode()
        sites = document("overlap", path)["sites"]
    assert [site["site"] for site in sites] == ["mlp.gate_up"] and sites[0]["window"] == "vector", sites
    assert sites[0]["advice"] in table and "Vector operators before a reader" in table, table
    return sites[0]


def close(site, **expected):
    for key, value in expected.items():
        assert abs(site[key] - value) < 1e-3, (key, value, site)


def test_times():
    site = site_of(Trace().run(20, 10).run(21, 7, (12, 9), 1000))
    close(site, vector_us=21, vector_without_us=20, prefetch_us=9, overlap_us=9, vector_slack_us=10, vector_in_time=1, asked_of_weight=0.5,
          reader_us=7, reader_without_us=10)


def test_overlap_is_what_lies_inside():
    # before, across both ends, behind; two operators at once count once, and a gap does not
    for prefetch, more, inside in (((2, 5), (), 0), ((5, 10), (), 5), ((5, 30), (), 20), ((25, 14), (), 5), ((31, 5), (), 0),
                                   ((10, 20), ((1, 10, 20),), 20), ((25, 14), ((1, 32, 4),), 9), ((12, 3), ((0, 31, 2),), 3)):
        close(site_of(Trace().run(20, 10).run(20, 7, prefetch, 1000, more=more)), overlap_us=inside)


def test_slack_is_to_the_end_of_the_last():
    close(site_of(Trace().run(20, 10).run(20, 7, (10, 30), 1000)), vector_slack_us=-10)
    close(site_of(Trace().run(20, 10).run(20, 7, (10, 5), 1000, more=((1, 31, 4),))), vector_slack_us=20)


def test_prefetches_of_one_reader_are_one():
    trace = Trace().run(20, 10).run(20, 7, (12, 4), 500, asked=500)
    trace.start -= 100
    trace.add(3, "vector_prefetch mlp.gate_up", 17, 3, layer=2, bytes=250, asked=500)
    close(site_of(trace), prefetch_us=8, overlap_us=8, vector_slack_us=10, vector_in_time=0.75)


def test_advice():
    for vector, reader, prefetch, moved, asked, says in (
            (20, 7, (12, 9), 1000, 1000, "larger: it ends before"),
            (20, 7, (12, 17.5), 1000, 1000, "as it is: it fills its window"),
            (20, 7, (12, 9), 2000, 2000, "as it is: all of the weight"),
            (20, 7, (12, 25), 1000, 1000, "smaller: it ends after"),
            (20, 7, (12, 9), 500, 1000, "smaller: the wait ends"),
            (20, 10, (12, 9), 1000, 1000, "off: the reader is no faster"),
            (20, 12, (12, 9), 1000, 1000, "off: the reader is no faster"),
            # T25: all of it came in time, the reader found it, and the step got longer.
            (24, 7, (12, 9), 1000, 1000, "off: the vector operators lose"),
            (20, 7, (12, 0), 0, 1000, "off: no worker waits")):
        site = site_of(Trace().run(20, 10).run(vector, reader, prefetch, moved, asked))
        assert site["advice"].startswith(says), (says, site)
    assert site_of(Trace().run(20, 7, (12, 9), 1000))["advice"] == "no control run in the trace"


def test_other_windows_are_told_as_before():
    trace = Trace().run(20, 10).run(20, 7, (12, 9), 1000)
    for event in trace.events:
        event["name"] = event["name"].replace("vector_prefetch", "barrier_prefetch")
    with tempfile.TemporaryDirectory() as folder:
        path = trace.write(os.path.join(folder, "trace.json"))
        assert "vector_us" not in document("overlap", path)["sites"][0]
        assert "Vector operators before a reader" not in output("overlap", path).decode()


def test_damaged_traces_are_refused():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        for key, value in (("dur", -1), ("dur", 1e300), ("ts", -1), ("ts", 1e16)):
            trace = Trace().run(20, 10)
            trace.events[-1][key] = value
            refused("overlap", trace.write(path), says=[path, "gate_up", "would be right"])
        for key, value in (("layer", -1), ("layer", 1e300), ("bytes", -1), ("asked", 1e300)):
            trace = Trace().run(20, 10)
            trace.events[-1]["args"][key] = value
            refused("overlap", trace.write(path), says=[path, "gate_up", "would be right"])
        # What is only of another type counts as not there.
        trace = Trace().run(20, 10, (12, 9), 1000)
        trace.events[-1]["args"] = []
        trace.events[-2].update(name="vector_prefetch " + "x" * 100, ts="1")
        assert document("overlap", trace.write(path))["runs"] == 1


def test_a_real_run():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        output("bench", MODEL, "-p", "0", "-n", "64", "-r", "3", "-t", "2", "--no-ceiling", "--trace", path, "--additional-config", SPLIT)
        sites = {site["site"]: site for site in document("overlap", path)["sites"]}
        assert set(sites) == {"attn.qkv", "attn.o", "mlp.gate_up", "mlp.down"}, sites
        for site in sites.values():
            assert site["window"] == "vector" and abs(site["asked_of_weight"] - 1) < 0.01, site
            assert site["vector_us"] >= 0 and site["vector_without_us"] >= 0 and site["advice"], site
        assert any(site["vector_us"] > 0 for site in sites.values()), sites


main(sys.modules[__name__])
