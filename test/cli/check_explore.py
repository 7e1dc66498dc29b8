"""prestage explore: one result for any number of threads, runs that are ended and go on, files, what is wrong with specs."""
import csv
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

from program import PRESTAGE, document, golden, main, output, refused, run

MODEL = golden("smollm-q8_0")
SPEC = {
    "title": "A tiny sweep & its <names>", "about": "For tests.", "machine": "ascend-910b", "model": MODEL,
    "workload": {"context_tokens": 64, "prefetch": "preserve"}, "baseline": {"workload.prefetch": "off"},
    "sweep": [{"field": "workload.ranks", "values": [1, 2, 64]},
              {"fields": ["workload.batch", "workload.context_tokens"], "values": [[1, 32], [4, 64]]},
              {"field": "machine.comm_ns", "from": 1000, "to": 4000, "factor": 2}],
    "plots": [{"kind": "lines", "x": "machine.comm_ns", "y": "speedup", "series": "workload.ranks"},
              {"kind": "timeline", "policies": ["serial", "fused", "preserve"], "workload": {"ranks": 2}}],
    "expect": [{"what": "one rank gains nothing", "paper": 1, "absolute": 0, "metric": "speedup", "of": "max",
                "where": {"workload.ranks": 1}, "source": "here"}],
}
RANKS, SHAPES, LATENCIES = (1, 2, 64), ((1, 32), (4, 64)), (1000, 2000, 4000)


def write(folder, spec, name="spec.json"):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def points(path, *flags):
    return document("explore", path, *flags)["specs"][0]["points"]


def test_rows_are_the_product():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, SPEC)
        rows = points(path)
        wanted = [(r, b, c, ns) for r, (b, c), ns in itertools.product(RANKS, SHAPES, LATENCIES)]
        keys = ("workload.ranks", "workload.batch", "workload.context_tokens", "machine.comm_ns")
        assert [tuple(row[key] for key in keys) for row in rows] == wanted
        for row in rows:
            if row["workload.ranks"] == 64:  # more than the model has heads
                assert "64" in row["error"] and row["step_ns"] is None and row["speedup"] is None, row
            else:
                assert row["error"] is None and row["step_ns"] > 0, row
                speedup = row["baseline.total_ns"] / row["total_ns"]
                assert abs(row["speedup"] / speedup - 1) < 1e-5, row
                assert row["workload.ranks"] > 1 or row["speedup"] == 1, row
        # An area that nobody has given is none.
        row, = points(write(folder, {**SPEC, "machine": "mi300x", "plots": [], "expect": [], "sweep": [
            {"field": "workload.batch", "values": [1]}]}, "area.json"))
        assert row["area_mm2"] is None and row["tokens_per_s_per_mm2"] is None and row["baseline.area_mm2"] is None, row
        slow = [row["baseline.step_ns"] for row in rows if row["workload.ranks"] == 2 and row["workload.batch"] == 4]
        assert slow == sorted(slow) and slow[0] < slow[-1]


def test_threads_change_nothing():
    with tempfile.TemporaryDirectory() as folder:
        search = {**SPEC, "plots": [], "expect": [], "search": {"minimise": "step_ns", "points": 40, "over": [
            {"field": "machine.read_gbs", "from": 100, "to": 3000, "scale": "log"}]}}
        for name, spec in (("a.json", SPEC), ("b.json", search)):
            path = write(folder, spec, name)
            one = output("explore", path, "--json", "-t", "1")
            assert one == output("explore", path, "--json", "-t", "2") == output("explore", path, "--json", "-t", "7")
            assert output("explore", path, "-t", "1") == output("explore", path, "-t", "3")
        best = [row for row in points(os.path.join(folder, "b.json")) if row["error"] is None]
        assert all(row["machine.read_gbs"] > 2900 for row in best), best  # the fastest memory is best


def test_files():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, SPEC)
        out = os.path.join(folder, "out")
        text = output("explore", path, "-o", out).decode()
        assert "confirmed" in text and sorted(os.listdir(folder)) == ["out.csv", "out.html", "out.json", "spec.json"]
        made = json.loads(read(out + ".json"))
        assert made == document("explore", path)
        one = made["specs"][0]
        assert one["spec"] == SPEC and one["title"] == SPEC["title"] and made["machines"]["ascend-910b"]["read_gbs"] > 0
        assert one["expectations"] == [{"what": "one rank gains nothing", "paper": "1", "ours": "1", "within": "0",
                                        "verdict": "confirmed", "source": "here", "reason": None}]
        with open(out + ".csv", encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        assert rows[0] == [column["name"] for column in one["columns"]] and len(rows) == 1 + len(one["points"])
        for row, point in zip(rows[1:], one["points"]):
            assert [str(v) if isinstance(v, str) else v and float(v) for v in map(point.get, rows[0])] == [
                None if text == "" else text if isinstance(point[key], str) else float(text)
                for key, text in zip(rows[0], row)], row
        html = xml.etree.ElementTree.fromstring(read(out + ".html"))
        assert SPEC["title"] in "".join(html.itertext())
        refused("explore", path, "-o", out, says=["out.csv", "--force"])
        output("explore", path, "-o", out, "--force")
        some = os.path.join(folder, "some")
        output("explore", path, "-o", some, "--format", "csv")
        assert read(some + ".csv") == read(out + ".csv") and not os.path.exists(some + ".json")


def test_several_specs():
    with tempfile.TemporaryDirectory() as folder:
        a, b = write(folder, SPEC, "a.json"), write(folder, {**SPEC, "title": "Another"}, "b.json")
        out = os.path.join(folder, "out")
        output("explore", a, b, "-o", out)
        assert [one["name"] for one in json.loads(read(out + ".json"))["specs"]] == ["a", "b"]
        assert read(out + "-a.csv") == read(out + "-b.csv")
        text = "".join(xml.etree.ElementTree.fromstring(read(out + ".html")).itertext())
        assert SPEC["title"] in text and "Another" in text
        refused("explore", a, a, says=["a.json", "another"])


def test_shipped_specs():
    names = [one["name"] for one in document("explore", "--list")]
    assert "preserve-table1" in names and names == sorted(names), names
    assert output("explore", "--list").decode().count("\n") == len(names)
    made = document("explore", "preserve-table1")["specs"][0]
    assert made["name"] == "preserve-table1" and any(e["verdict"] == "unknown" for e in made["expectations"])
    for name in names:
        assert document("explore", name)["specs"][0]["points"], name
    refused("explore", "preserve-tabel1", says=["preserve-table1", "--list"])


def test_check():
    with tempfile.TemporaryDirectory() as folder:
        def code(**more):
            path = write(folder, {**SPEC, "expect": [{**SPEC["expect"][0], **more}]})
            return run("explore", path, "--check").returncode, run("explore", path).returncode
        assert code() == (0, 0)
        assert code(paper=2) == (1, 0)
        assert code(paper=2, not_reproduced="it cannot be") == (0, 0)
        assert code(not_reproduced="it cannot be") == (0, 0)
        text = output("explore", os.path.join(folder, "spec.json")).decode()
        assert "out of date" in text, text


# Long enough to be ended in the middle.
LONG = {**SPEC, "plots": [], "expect": [],
        "sweep": [{"field": "machine.read_gbs", "from": 1000, "to": 2999, "step": 1}]}
LONG_POINTS = 2000


def end_in_the_middle(path, out, number):
    """Ends a run with a signal when it has some rows; its exit code and stderr."""
    with subprocess.Popen([PRESTAGE, "explore", path, "-o", out, "--format", "csv", "-t", "2"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        journal = out + ".journal"
        while process.poll() is None and (not os.path.exists(journal) or read(journal).count(b"\n") < 50):
            time.sleep(0.002)
        assert process.poll() is None, "it was too fast to be ended"
        process.send_signal(number)
        errors = process.stderr.read().decode()
        process.stdout.read()
        return process.wait(), errors


def test_runs_go_on():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, LONG)
        whole, out = os.path.join(folder, "whole"), os.path.join(folder, "out")
        output("explore", path, "-o", whole, "--format", "csv")
        assert not os.path.exists(whole + ".journal")
        code, errors = end_in_the_middle(path, out, signal.SIGINT)
        assert code == 130 and "--resume" in errors and errors.count("\n") == 1, (code, errors)
        assert not os.path.exists(out + ".csv")
        kept = read(out + ".journal")
        refused("explore", path, "-o", out, "--format", "csv", says=["out.journal", "--resume", "--force"])
        other = write(folder, {**LONG, "title": "Another"}, "other.json")
        refused("explore", other, "-o", out, "--format", "csv", "--resume", says=["out.journal", "another spec", "--force"])
        assert read(out + ".journal") == kept
        with open(out + ".journal", "ab") as file:
            file.write(b"[0,1999,[1")  # as of a run that was killed
        with open(out + ".csv", "wb") as file:
            file.write(b"of a run that was ended when it wrote")
        output("explore", path, "-o", out, "--format", "csv", "--resume")
        assert read(out + ".csv") == read(whole + ".csv") and not os.path.exists(out + ".journal")
        refused("explore", path, "-o", out, "--format", "csv", "--resume", says=["out.csv", "--force"])  # nothing to go on with


def test_runs_that_were_killed_go_on():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, LONG)
        whole, out = os.path.join(folder, "whole"), os.path.join(folder, "out")
        output("explore", path, "-o", whole, "--format", "csv")
        assert end_in_the_middle(path, out, signal.SIGKILL)[0] == -signal.SIGKILL
        rows = read(out + ".journal").count(b"\n") - 1
        assert 0 < rows < LONG_POINTS
        output("explore", path, "-o", out, "--format", "csv", "--resume")
        assert read(out + ".csv") == read(whole + ".csv")
        with open(out + ".journal", "wb") as file:
            file.write(b"something else\n")
        os.remove(out + ".csv")
        write(folder, SPEC, "short.json")
        refused("explore", path, "-o", out, "--format", "csv", "--resume", says=["out.journal", "--force"])
        output("explore", os.path.join(folder, "short.json"), "-o", out, "--format", "csv", "--force")


def test_refusals():
    with tempfile.TemporaryDirectory() as folder:
        def wrong(says, **members):
            spec = {key: value for key, value in {**SPEC, **members}.items() if value is not None}
            refused("explore", write(folder, spec), says=["spec.json", *says])
        wrong(["titel", "'title'"], titel="x")
        wrong(["title is missing"], title=None)
        wrong(["sweep[0].field", "'workload.batch'"], sweep=[{"field": "workload.bacht", "values": [1]}])
        wrong(["workload.prefetch", "preserve"], workload={"prefetch": "preserved"})
        wrong(["set.machine.l2_bytes", "192 MB"], set={"machine.l2_bytes": "192 MB"})
        wrong(["plots[0].x", "workload.ranks"], plots=[{"kind": "lines", "x": "ranks", "y": "speedup"}])
        wrong(["plots[0].policies"], plots=[{"kind": "timeline", "policies": ["seriel"]}])
        wrong(["plots[0].workload.batch"], plots=[{"kind": "timeline", "policies": ["serial"], "workload": {"batch": 0}}])
        wrong(["expect[0].where.model", "text"], expect=[{**SPEC["expect"][0], "where": {"model": 7}}])
        path = write(folder, {**SPEC, "machine": "ascend-910"})
        refused("explore", path, says=["ascend-910b"])
        path = write(folder, {**SPEC, "model": "lama3-8b"})
        refused("explore", path, says=["llama3-8b"])
        path = write(folder, {**SPEC, "workload": {"prompt_tokens": 64}})
        refused("explore", path, says=["workload.batch=1", "prompt_tokens"])
        path = write(folder, {**SPEC, "workload": {"sequence_parallel": True}})  # with a timeline that is fused
        made = os.path.join(folder, "made")
        refused("explore", path, "-o", made, says=["plots[1]", "fused", "sequence-parallel"])
        path = write(folder, {**LONG, "machine": "r9700", "set": {"machine.server_ranks": 2}})
        refused("explore", path, "-o", made, says=["machine.read_gbs=1000", "server_comm_gbs"])
        assert not [name for name in os.listdir(folder) if name.startswith("made")]
        path = write(folder, SPEC)
        refused("explore", says=["--list"])
        refused("explore", path, "--all", says=["--all"])
        for more in ((path,), ("--all",), ("-o", "x"), ("--check",), ("--resume",)):
            refused("explore", "--list", *more, says=["--list", more[0]])
        refused("explore", path, "--format", "csv", says=["--format", "-o"])
        refused("explore", path, "--resume", says=["--resume", "-o"])
        refused("explore", path, "-o", os.path.join(folder, "x"), "--format", "cvs", says=["--format", "csv"])
        refused("explore", path, "-o", os.path.join(folder, "no", "x"), says=["no/x"])
        refused("explore", path, "-o", folder + "/", says=["-o", folder])
        refused("explore", path, "-o", "", says=["-o"])
        refused("explore", os.path.join(folder, "none.json"), says=["none.json"])
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"title": "t",\n "title": 3}')
        refused("explore", path, says=["spec.json", "line 2"])


main(sys.modules[__name__])
