"""Measuring the machine once: what it prints and keeps, who uses it, and what a bad file does."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from program import PRESTAGE, WITH_MPI, document, golden, main, output, refused, run

MODEL = golden("smollm-q8_0")
ANSWER = ("-p", "abc", "--raw", "--temp", "0", "-n", "20")


def cache():
    """A cache folder of its own, and the environment that names it."""
    folder = tempfile.TemporaryDirectory()
    return folder, {"PRESTAGE_CACHE": folder.name}


def sources(where, *flags):
    """Who says that its rates come from where: plan, simulate, bench."""
    plan = document("plan", MODEL, "-t", "1", *flags, environment=where)["machine"]["source"]
    simulate = document("simulate", MODEL, "-t", "1", *flags, environment=where)[0]["rates_source"]
    bench = document("bench", MODEL, "-p", "0", "-n", "2", "-r", "1", "--no-ceiling", "-t", "1", *flags,
                     environment=where)[0]["rates_source"]
    return plan, simulate, bench


def check_numbers(got):
    for key in ("read_gbs", "cache_read_gbs", "fill_gbs", "int8_gops", "f32_gops", "q4_0_gops", "q6_k_gops", "attention_gops",
                "worker_read_gbs", "kv_gbs", "vector_gbs", "step_ns"):
        assert got[key] > 0, got
    ways = [(fill["primitive"], fill["paced"]) for fill in got["fills"]]
    assert ways == [("loads", False)] + [(f"prefetcht{i}", paced) for i in range(3) for paced in (False, True)], ways
    assert got["fills"][0]["kept"] == 1 and all(0 <= fill["kept"] <= 1 for fill in got["fills"])


def test_one_rank():
    folder, where = cache()
    with folder:
        assert sources(where) == ("measured quickly now", "measured quickly now", "defaults")
        got = document("tune", MODEL, "-t", "1", environment=where)
        check_numbers(got)
        assert got["threads"] == got["ranks"] == 1 and got["collectives"] == [] and got["comm"] == "none", got
        assert [step["policy"] for step in got["steps"]] == ["off", "auto"] and got["steps"][0]["step_ns"] > 0
        assert os.listdir(folder.name) == [os.path.basename(got["file"])]
        assert got["rates_source"].startswith("tuned 20")
        assert set(sources(where)) == {got["rates_source"]}
        # not those of one thread
        assert document("plan", MODEL, "-t", "3", environment=where)["machine"]["source"] == "measured quickly now"
        assert document("plan", MODEL, "-t", "1", "--no-measure", environment=where)["machine"]["source"] == "defaults"
        head = output("plan", MODEL, "-t", "1", environment=where).decode().splitlines()[0]
        assert f"1 thread, {got['rates_source']}: read " in head, head
        text = output("tune", "-t", "1", environment=where).decode()
        assert "| loads      | back to back |" in text and got["file"] in text, text
        assert os.listdir(folder.name) == [os.path.basename(got["file"])]  # replaced


def test_ranks():
    folder, where = cache()
    with folder:
        plain = document("run", MODEL, *ANSWER, "--tp", "2", "-t", "1", environment=where)["tokens"]
        got = document("tune", "--tp", "2", "-t", "1", environment={**where})
        check_numbers(got)
        sizes = [collective["bytes"] for collective in got["collectives"]]
        assert got["ranks"] == 2 and got["comm"] == "local" and sizes == sorted(sizes) and len(sizes) >= 8, got
        assert all(collective["ns"] > 0 for collective in got["collectives"])
        assert set(sources(where, "--tp", "2")) == {got["rates_source"]}
        assert document("run", MODEL, *ANSWER, "--tp", "2", "-t", "1", environment=where)["tokens"] == plain
        # another link is another key
        link = ("--comm-sim", "latency=200us")
        assert sources(where, "--tp", "2", *link)[2] == "measured quickly now"
        slow = document("tune", "--tp", "2", "-t", "1", *link, environment=where)
        assert slow["comm_ns"] > 200e3 and len(os.listdir(folder.name)) == 2, slow
        assert sources(where, "--tp", "2", *link)[2] == slow["rates_source"]
        assert document("tune", "--ranks-sim", "3", "-t", "1", environment=where)["comm"] == "self"


def test_mpirun():
    if shutil.which("mpirun") is None:
        return
    folder, where = cache()
    with folder:
        done = subprocess.run(["mpirun", "--oversubscribe", "-n", "2", PRESTAGE, "tune", "--json", "-t", "1"], check=False,
                              env={**os.environ, **WITH_MPI, **where}, stdout=subprocess.PIPE, timeout=120)
        got = json.loads(done.stdout)
        assert done.returncode == 0 and got["comm"] == "mpi" and got["ranks"] == 2 and os.path.exists(got["file"]), done


def test_bad_files():
    folder, where = cache()
    with folder:
        flags = ("-t", "1", "--tp", "2")
        path = document("tune", *flags, environment=where)["file"]
        with open(path, encoding="utf-8") as file:
            good = file.read()
        tokens = document("run", MODEL, *ANSWER, *flags, environment=where)["tokens"]
        for bad in ("", "{", "[]", "null", good[:len(good) // 2], good.replace('"fill_gbs": ', '"fill_gbs": -'),
                    good.replace('"prestage_tune": 2', '"prestage_tune": 1'), good.replace('"isa": "', '"isa": "x'),
                    good.replace('"way"', '"weigh"'), "x" * (2 << 20), "[" * 100000):
            assert bad != good
            with open(path, "w", encoding="utf-8") as file:
                file.write(bad)
            done = run("run", MODEL, *ANSWER, *flags, "--json", environment=where)
            lines = [line for line in done.stderr.decode().splitlines() if not line.endswith(" would fit")]
            assert done.returncode == 0 and json.loads(done.stdout)["tokens"] == tokens, done
            assert len(lines) == 1 and lines[0].startswith(f"prestage: warning: {path}: ") and "prestage tune" in lines[0], lines
            # one that was named has to be right
            done = run("run", MODEL, *ANSWER, *flags, "--machine", path, environment=where)
            lines = [line for line in done.stderr.decode().splitlines() if not line.endswith(" would fit")]
            assert done.returncode == 2 and done.stdout == b"" and len(lines) == 1 and path in lines[0], done
        with open(path, "w", encoding="utf-8") as file:
            file.write(good)
        refused("run", MODEL, *ANSWER, "-t", "1", "--machine", path, environment=where, says=[path, "ranks is 2, here it is 1"])
        refused("run", MODEL, *ANSWER, "--machine", folder.name + "/none", says=["No such file"])
        assert document("run", MODEL, *ANSWER, *flags, "--machine", path)["tokens"] == tokens
        # for planning it may be another machine's
        assert document("plan", MODEL, "-t", "7", "--machine", path)["machine"]["threads"] == 1
        refused("plan", MODEL, "--machine", MODEL, says=[MODEL])


def test_targets():
    folder, where = cache()
    with folder:
        path = os.path.join(folder.name, "new", "a.json")
        got = document("tune", "-t", "1", "-o", path, environment=where)
        assert got["file"] == path and os.listdir(folder.name) == ["new"]
        refused("tune", "-t", "1", "-o", path, says=[path, "--force"])
        output("tune", "-t", "1", "-o", path, "--force", environment=where)
        refused("tune", "-o", folder.name, "--force", says=[folder.name])
        refused("tune", "-t", "1", environment={"PRESTAGE_CACHE": "", "XDG_CACHE_HOME": "", "HOME": ""}, says=["PRESTAGE_CACHE"])
        refused("tune", os.path.join(folder.name, "none.gguf"), "-t", "1", environment=where, says=["none.gguf"])
        refused("tune", "--tp", "2", "--ranks-sim", "2", says=["--ranks-sim"])
        refused("tune", "--tp", "2", "-o", path, says=[path, "--force"])
        assert os.listdir(folder.name) == ["new"]


def test_interrupt():
    folder, where = cache()
    with folder:
        for flags in ((), ("--tp", "2", "--comm-sim", "latency=50ms")):
            process = subprocess.Popen([PRESTAGE, "tune", "-t", "1", *flags], env={**os.environ, **where},
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
            assert process.returncode == 130 and out == errors == b"", (process.returncode, out, errors)
            assert os.listdir(folder.name) == []


main(sys.modules[__name__])
