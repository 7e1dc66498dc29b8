"""Machines by name: what list, show and check print, that shown machines are files, and what bad ones do."""
import json
import os
import sys
import tempfile

from program import SOURCE, document, golden, main, output, refused

MODEL = golden("smollm-q8_0")
FOLDER = os.path.join(SOURCE, "data", "machines")
NAMES = sorted(name[:-len(".json")] for name in os.listdir(FOLDER))
TEXTS = ("name", "source", "what")


def source_file(name):
    with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def written(folder, machine, name="machine.json"):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(machine if isinstance(machine, str) else json.dumps(machine))
    return path


def test_list():
    got = document("machine", "list")
    assert [line["machine"] for line in got] == NAMES, got
    text = output("machine", "list").decode()
    for line in got:
        assert line["numbers"] > line["fitted"] > 0 and line["what"] in text and line["links"] in text, line
    ascend = got[NAMES.index("ascend-910b")]
    assert (ascend["l2_bytes"], ascend["int8_gops"], ascend["memory_bytes"]) == (192 << 20, 400000, 64 << 30), ascend
    assert ascend["links"].startswith("flat at 50 GB/s") and "mesh of 8" in got[NAMES.index("h100")]["links"]
    assert text.splitlines()[-1].startswith("this ")
    refused("machine", "list", "a100", says=["a100", "machine show"])


def test_show_is_what_the_file_says():
    for name in NAMES:
        said = source_file(name)
        got = document("machine", "show", name)
        base = source_file(said["base"]) if "base" in said else {}
        for key, entry in {**base, **said}.items():
            if key == "base":
                continue
            if key in TEXTS:
                assert got[key] == entry, (name, key, got[key])
                continue
            assert {**entry, "fitted": entry.get("fitted", False)} == got[key], (name, key, got[key])
        text = output("machine", "show", name).decode()
        for key in said:
            assert key in TEXTS + ("base",) or f"\n{key} " in text, (name, key)
        assert text.count(" ~ ") == sum(entry["fitted"] for key, entry in got.items() if key not in TEXTS)


def test_shown_machines_are_files():
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES + ["this"]:
            shown = document("machine", "show", name, "--no-measure", "-t", "2")
            path = written(folder, shown)
            assert document("machine", "show", path) == shown, name
            assert document("machine", "check", path)["without_source"] == [], name
            assert document("plan", MODEL, "--machine", path) == document("plan", MODEL, "--machine", name, "--no-measure", "-t", "2") \
                or shown["source"] == "defaults", name


def test_this_machine():
    with tempfile.TemporaryDirectory() as folder:
        where = {"PRESTAGE_CACHE": folder}
        plain = document("machine", "show", "this", "-t", "1", "--no-measure", environment=where)
        assert plain["source"] == "defaults" and plain["read_gbs"]["fitted"] and not plain["l2_bytes"]["fitted"], plain
        quick = document("machine", "show", "this", "-t", "1", environment=where)
        assert quick["source"] == "measured quickly now" == quick["read_gbs"]["source"], quick
        tuned = document("tune", "-t", "1", environment=where)
        got = document("machine", "show", "this", "-t", "1", environment=where)
        assert got["source"] == got["read_gbs"]["source"] == tuned["rates_source"], got
        assert got["read_gbs"]["value"] == tuned["read_gbs"] and got["comm_ns"]["fitted"], got
        assert got == document("machine", "show", tuned["file"]) | {"what": got["what"]}
        plan = document("plan", MODEL, "-t", "1", "--machine", "this", environment=where)["machine"]
        assert plan["source"] == tuned["rates_source"]
        link = document("machine", "show", "this", "-t", "1", "--comm-sim", "latency=40us", environment=where)
        assert link["comm_ns"]["value"] == 40000 and link["comm_ns"]["source"] == "latency=40us", link


def test_plans_for_machines():
    for name in NAMES:
        wanted = document("machine", "show", name)
        plan = document("plan", MODEL, "--machine", name)["machine"]
        assert plan["source"] == f"shipped as {name}"
        assert all(plan[key] == entry["value"] for key, entry in wanted.items() if key in plan and key not in TEXTS)
        rows = document("simulate", MODEL, "--tp", "2", "--machine", name, "--compare", "off,preserve")
        assert len(rows) == 2 and all(row["rates_source"] == plan["source"] and row["step_ns"] > 0 for row in rows), rows
    slow = document("simulate", MODEL, "--tp", "2", "--machine", "a100", "--comm-sim", "latency=1ms", "--compare", "off")[0]
    fast = document("simulate", MODEL, "--tp", "2", "--machine", "a100", "--compare", "off")[0]
    assert slow["step_ns"] > fast["step_ns"] + 1e6
    got = document("tune", MODEL, "--machine", "ascend-910b", "-b", "1")
    assert got["machine"] == "Ascend 910B" and got["ratios"]["way"] == "simulated", got


def test_bases():
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, {"base": "a100", "source": "half an A100", "l2_bytes": 20 << 20})
        got = document("machine", "show", path)
        whole = document("machine", "show", "a100")
        assert got == whole | {"source": "half an A100", "l2_bytes": {"value": 20 << 20, "unit": "bytes", "fitted": False}}
        check = document("machine", "check", path)
        assert check["without_source"] == ["l2_bytes"] and check["numbers"] == len(whole) - len(TEXTS), check
        text = output("machine", "check", path).decode().splitlines()
        assert text[0] == "l2_bytes: no source, and not marked as fitted" and text[-1].endswith("1 without a source"), text
        path = written(folder, {"base": "this", "read_gbs": {"value": 1, "source": "a guess", "fitted": True}})
        assert document("machine", "show", path, "--no-measure")["read_gbs"]["value"] == 1


def test_what_is_not_one():
    refused("machine", says=["machine --help"])
    refused("machine", "shw", says=["'machine shw'", "machine show"])
    refused("machines", says=["machine"])
    refused("machine", "show", says=["machine list"])
    refused("machine", "check", says=["machine list"])
    refused("machine", "show", "ascend-910", says=["ascend-910: No such file", "a100, ascend-910b,", "nearest is ascend-910b"])
    with tempfile.TemporaryDirectory() as folder:
        none = os.path.join(folder, "none.json")
        for command in (("machine", "check", none), ("plan", MODEL, "--machine", none), ("simulate", MODEL, "--machine", none),
                        ("tune", MODEL, "--machine", none)):
            line = refused(*command, says=["none.json: No such file"])
            assert line.startswith(f"prestage: {none}"), line
        refused("machine", "check", folder, says=[folder])
        refused("machine", "check", MODEL, says=[MODEL])
        plain = {key: entry if key in TEXTS else entry["value"] for key, entry in document("machine", "show", "a100").items()}
        assert document("machine", "check", written(folder, plain))["numbers"] == len(plain) - len(TEXTS)
        for changes, says in (({"read_gb": 1}, ["'read_gb'", "'read_gbs'"]), ({"read_gbs": -1}, ["read_gbs", "0.001"]),
                              ({"read_gbs": {"value": 1, "unit": "MB/s"}}, ["read_gbs: unit", "GB/s"]),
                              ({"read_gbs": {"value": 1, "src": ""}}, ["read_gbs: unknown key 'src'", "'source'"]),
                              ({"join": "evnt"}, ["join", "\"event\""]), ({"base": "a10"}, ["base", "a100"]),
                              ({"comm_shape": "flat", "comm_step_ns": 5}, ["comm_step_ns"])):
            path = written(folder, {**plain, **changes})
            for command in (("machine", "check", path), ("plan", MODEL, "--machine", path)):
                assert refused(*command, says=says).startswith(f"prestage: {path}: ")
        for key in ("read_gbs", "name", "threads", "comm_ns", "l2_bytes"):
            refused("machine", "check", written(folder, {k: v for k, v in plain.items() if k != key}), says=[f"'{key}' is missing", "base"])
        for text in ("", "[", "[]", "null", "{\"name\": \"a\", \"name\": \"b\"}", "x" * 100000, "[" * 100000):
            path = written(folder, text)
            assert refused("machine", "check", path).startswith(f"prestage: {path}: ")


main(sys.modules[__name__])
