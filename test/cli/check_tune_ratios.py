"""`prestage tune MODEL`: ratios that other commands find to be the best, a plan file and a config that run, refusals."""
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from program import PRESTAGE, complaints, document, golden, main, output, refused, run

MODEL = golden("smollm-q8_0")
MOE = golden("qwen3moe-q8_0")
ANSWER = ("-p", "abc", "--raw", "--temp", "0", "-n", "20")
# An accelerator with a stream for prefetches.
STREAM = {"name": "accelerator", "threads": 1, "l2_bytes": 192 << 20, "read_gbs": 1000, "cache_read_gbs": 2500, "fill_gbs": 900,
          "linear_share": 1, "int8_gops": 100000, "f32_gops": 20000, "barrier_ns": 500, "prefetch_stream": True,
          "comm_ns": 2000, "comm_gbs": 5}
SITES = ("attn.qkv", "attn.o", "mlp.gate_up", "mlp.down")


def machine_file(folder, numbers):
    path = os.path.join(folder, "machine.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(numbers, file)
    return path


def config_of(ratios):
    modules = {}
    for site, ratio in ratios.items():
        module, key = site.split(".")
        modules.setdefault(module, {})[key] = ratio
    return {"weight_prefetch_config": {"enabled": True, "prefetch_ratio": modules}}


def simulated_ns(machine, ratios):
    """The last step of one row at 512 tokens, off and with ratios, by the other command."""
    rows = document("simulate", MODEL, "-b", "1", "-c", "512", "--machine", machine, "--compare", "off,ratio",
                    "--additional-config", json.dumps(config_of(ratios)))
    return [row["last_ns"] for row in rows]


def test_simulated_ratios_are_the_best():
    with tempfile.TemporaryDirectory() as folder:
        machine = machine_file(folder, STREAM)
        got = document("tune", MODEL, "--machine", machine)
        ratios = got["ratios"]
        assert (got["machine"], ratios["way"], ratios["objective"], ratios["time_limit_s"]) == ("accelerator", "simulated", "latency", 60)
        assert [row["batch"] for row in ratios["batches"]] == [1, 4, 16, 72, 144]
        assert [bucket["rows"] for bucket in ratios["buckets"]] == [1, 8, 64, 512]
        for row in ratios["batches"]:
            assert row["timed"] and row["tuned"]["gain"] >= 0 and row["tuned"]["gain"] >= row["given"]["gain"], row
            assert row["tuned"]["ns"] <= row["tuned"]["off_ns"] and row["tuned"]["spread"] == 0, row
        first = ratios["batches"][0]
        best = ratios["buckets"][0]["ratios"]
        assert first["pays"] and set(best) == set(SITES) and first["given"]["gain"] < 0, first
        off, tuned = simulated_ns(machine, best)
        assert abs(off - first["tuned"]["off_ns"]) < 1 and abs(tuned - first["tuned"]["ns"]) < 1, (off, tuned, first)
        for site in SITES:  # no other ratio of one site is better
            for parts in range(0, 17, 2):
                assert simulated_ns(machine, {**best, site: parts / 16})[1] > tuned - 1, (site, parts)
        again = document("tune", MODEL, "--machine", machine)
        again["ratios"]["took_s"] = ratios["took_s"]
        assert again == got


def test_objectives_choose_the_config():
    with tempfile.TemporaryDirectory() as folder:
        machine = machine_file(folder, STREAM)
        for objective, index in (("latency", 0), ("throughput", 1)):
            got = document("tune", MODEL, "--machine", machine, "--objective", objective, "-b", "16,4")["ratios"]
            bucket = got["buckets"][index]
            assert got["objective"] == objective and all(bucket["gains"] for bucket in got["buckets"]), got
            config = got["config"]["weight_prefetch_config"]
            wanted = config_of({site: bucket["ratios"].get(site, 0) for site in SITES})["weight_prefetch_config"]
            assert config["enabled"] and config["prefetch_ratio"] == wanted["prefetch_ratio"], config
            assert set(config["min_tokens"].values()) == {bucket["rows_least"]}, config
            assert set(config["max_tokens"].values()) == {bucket["rows"]}, config
            line = output("tune", MODEL, "--machine", machine, "--objective", objective, "-b", "4,16", "--emit", "config").decode()
            assert line.count("\n") == 1 and json.loads(line) == got["config"], line
            # ready to paste
            plan = document("plan", MODEL, "-b", "8" if index == 0 else "64", "--machine", machine, "--additional-config", line)
            assert any(row["taken"] for row in plan["prefetches"]), plan
        text = output("tune", MODEL, "--machine", machine, "-b", "1,144").decode()
        assert "prefetching pays up to a batch of 1, and stops paying at 144" in text, text


def test_what_cannot_gain_is_off():
    with tempfile.TemporaryDirectory() as folder:
        machine = machine_file(folder, {**STREAM, "cache_read_gbs": STREAM["read_gbs"]})
        got = document("tune", MODEL, "--machine", machine)["ratios"]
        assert not any(row["pays"] for row in got["batches"]) and not any(bucket["gains"] for bucket in got["buckets"]), got
        assert all(ratio == 0 for bucket in got["buckets"] for ratio in bucket["ratios"].values()), got
        assert got["config"] == {"weight_prefetch_config": {"enabled": False}}, got
        assert "pays at none of these batches: off is right" in output("tune", MODEL, "--machine", machine).decode()


def test_experts():
    with tempfile.TemporaryDirectory() as folder:
        got = document("tune", MOE, "--machine", machine_file(folder, STREAM), "-b", "1")["ratios"]
        assert set(got["buckets"][0]["ratios"]) == {"attn.qkv", "attn.o", "moe.gate_up"}, got
        assert set(got["config"]["weight_prefetch_config"].get("prefetch_ratio", {"attn": 0, "moe": 0})) == {"attn", "moe"}, got


def test_plan_file_round_trip():
    """For this machine, as if its collectives were slow and its memory, too, so that ratios are found."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--tp", "2", "-t", "1")
        own = document("plan", MODEL, "-t", "1", "--no-measure")["machine"]
        machine = machine_file(folder, {**own, "comm_ns": 50000, "read_gbs": 5, "fill_gbs": 5, "cache_read_gbs": 500})
        path = os.path.join(folder, "tuned.plan")
        got = document("tune", MODEL, "--tp", "2", "--machine", machine, "-o", path)["ratios"]
        assert got["plan_file"] == path and got["batches"][0]["pays"] and not got["batches"][-1]["pays"], got
        with open(path, encoding="utf-8") as file:
            plans = file.read().split("\nplan ")[1:]
        taken = {}
        for plan in plans:
            rows = int(plan.split("rows_max=")[1].split()[0])
            taken[rows] = taken.get(rows, 0) + len([line for line in plan.splitlines() if line.startswith("prefetch ") and
                                                    "reason=ratio_zero" not in line and "reason=no_window" not in line])
        gains = {bucket["rows"]: bucket["gains"] for bucket in got["buckets"]}
        assert gains[1] and not gains[512], gains
        for rows, count in taken.items():  # each bucket has its own ratios; those not looked for are off
            assert (count > 0) == gains.get(rows, False), (rows, count, gains)
        plain = document("run", MODEL, *ANSWER, *flags)["tokens"]
        assert document("run", MODEL, *ANSWER, *flags, "--plan", path)["tokens"] == plain
        assert document("run", MODEL, *ANSWER, *flags, "--plan", path, "--prefetch", "ratio")["tokens"] == plain
        refused("run", MODEL, *ANSWER, *flags, "--plan", path, "--prefetch", "off", says=[path, "policy is 'ratio'"])
        refused("run", MODEL, *ANSWER, "-t", "1", "--plan", path, says=[path, "number of ranks"])
        refused("run", golden("smollm-q4_1"), *ANSWER, *flags, "--plan", path, says=[path, "another model"])
        refused("tune", MODEL, "--machine", machine, "-o", path, says=[path, "--force"])
        refused("tune", MODEL, "--machine", machine, "-o", MODEL, "--force", says=["is the model itself"])


def test_measured_steps():
    """Real steps, whose times are what they are here: shape, bounds of the ratios, and that nothing loses."""
    with tempfile.TemporaryDirectory() as folder:
        where = {"PRESTAGE_CACHE": folder}
        path = os.path.join(folder, "tuned.plan")
        for flags in (("-t", "2"), ("--tp", "2", "-t", "1")):
            start = time.monotonic()
            got = document("tune", MODEL, *flags, "--time-limit", "4", "-b", "80,1,20,70", "-o", path, "--force", environment=where)
            assert time.monotonic() - start < 60
            assert got["read_gbs"] > 0 and [step["policy"] for step in got["steps"]] == ["off", "auto"]
            ratios = got["ratios"]
            assert ratios["way"] == "measured" and ratios["time_limit_s"] == 4 and ratios["plan_file"] == path, ratios
            assert [(row["batch"], row["bucket"]) for row in ratios["batches"]] == [(1, 1), (20, 64), (70, 512), (80, 512)], ratios
            for row in ratios["batches"]:
                bucket = [bucket for bucket in ratios["buckets"] if bucket["rows"] == row["bucket"]][0]
                assert all(0 <= ratio <= 1 for ratio in bucket["ratios"].values()), bucket
                assert bucket["gains"] == any(bucket["ratios"].values()), bucket
                if row["timed"]:
                    assert row["tuned"]["off_ns"] > 0 and row["tuned"]["spread"] > 0, row
                    # batches that share a plan: one gains, and none loses
                    least = -row["tuned"]["spread"] if row["bucket"] == 512 else row["tuned"]["spread"]
                    assert row["tuned"]["gain"] >= least if bucket["gains"] else row["tuned"]["gain"] == 0, row
                assert not row["pays"] or bucket["gains"], row
            plain = document("run", MODEL, *ANSWER, *flags)["tokens"]
            assert document("run", MODEL, *ANSWER, *flags, "--plan", path, environment=where)["tokens"] == plain


def test_one_thread_has_no_window():
    with tempfile.TemporaryDirectory() as folder:
        where = {"PRESTAGE_CACHE": folder}
        text = output("tune", MODEL, "-t", "1", environment=where).decode()
        assert "one thread waits for nobody, so there is no window" in text, text
        got = document("tune", MODEL, "-t", "1", environment=where)["ratios"]
        assert got["way"] == "none" and got["batches"] == [] and got["config"] == {"weight_prefetch_config": {"enabled": False}}, got


def test_compiled_models():
    with tempfile.TemporaryDirectory() as folder:
        machine = machine_file(folder, STREAM)
        compiled, plans = os.path.join(folder, "model.pst"), os.path.join(folder, "own.plan")
        output("plan", MODEL, "-t", "2", "--no-measure", "-o", plans)
        output("compile", MODEL, "--plan", plans, "-o", compiled)
        wanted = document("tune", MODEL, "--machine", machine, "-b", "1")["ratios"]["buckets"]
        assert document("tune", compiled, "--machine", machine, "-b", "1")["ratios"]["buckets"] == wanted
        # its sessions would run those and none of a search
        refused("tune", compiled, "-t", "2", environment={"PRESTAGE_CACHE": folder}, says=[compiled, "plans of its own"])


def test_refusals():
    with tempfile.TemporaryDirectory() as folder:
        machine = machine_file(folder, STREAM)
        for flags, says in ((("--objective", "speed"), ["--objective 'speed'", "latency or throughput"]),
                            (("--time-limit", "0"), ["--time-limit '0'", "from 1 to 86400"]),
                            (("--time-limit", "soon"), ["--time-limit 'soon'"]), (("-b", "0"), ["--batch '0'"]),
                            (("-b", "1,513"), ["--batch '1,513'", "from 1 to 512"]), (("--emit", "plan"), ["--emit 'plan'", "config"]),
                            (("--emit", "config", "--json"), ["--emit and --json"]),
                            (("--machine", machine, "--ranks-sim", "2"), ["--ranks-sim", "--tp"])):
            refused("tune", MODEL, *flags, says=says)
        for flags in (("--objective", "latency"), ("--emit", "config"), ("--machine", machine), ("--time-limit", "5"), ("-b", "4")):
            refused("tune", *flags, says=["no model given"])
        refused("tune", os.path.join(folder, "none.gguf"), "--machine", machine, says=["none.gguf"])
        refused("tune", MODEL, "--machine", os.path.join(folder, "none.json"), says=["none.json"])


def test_latency_is_held_against_a_config():
    """In turns of 5 controls, one in 32 steps each: eight of those without any prefetch are 1280 steps."""
    config = json.dumps({"weight_prefetch_config": {"enabled": True, "max_prefetch_bytes": 64}})
    flags = ("bench", MODEL, "-t", "2", "-p", "0", "-n", "400", "-r", "4", "--no-ceiling", "--additional-config", config, "--ops", "--json")
    for objective, warned in (((), False), (("--objective", "throughput"), False), (("--objective", "latency"), True)):
        done = run(*flags, *objective)
        lines = [line for line in complaints(done).splitlines() if not line.endswith("would be right") or "--objective" in line]
        assert done.returncode == 0, done
        site = [site for site in json.loads(done.stdout)[0]["prefetch"] if site["site"] == "all" and site["steps"] == "decode"][0]
        assert site["controls"] >= 8, site
        if warned and site["gain_lower"] <= 0:
            assert len(lines) == 1 and "does not make decoding faster" in lines[0] and f"{site['controls']} controls" in lines[0], lines
        else:
            assert not lines, (lines, site)
    refused("run", MODEL, *ANSWER, "--objective", "speed", says=["--objective 'speed'", "latency or throughput"])


def test_interrupt():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tuned.plan")
        for flags in (("-t", "2"), ("--tp", "2", "-t", "1")):
            process = subprocess.Popen([PRESTAGE, "tune", MODEL, *flags, "-o", path], env={**os.environ, "PRESTAGE_CACHE": folder},
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(4)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
            lines = [line for line in errors.decode().splitlines() if not line.endswith(("would fit", "would be right"))]
            assert process.returncode == 130 and out == b"" and not lines, (process.returncode, out, errors)
            assert os.listdir(folder) == []


def pasted(text):
    """The weight_prefetch_config of a line --additional-config '{...}'."""
    line = next(line for line in text.splitlines() if line.startswith("--additional-config "))
    return json.loads(shlex.split(line)[1])["weight_prefetch_config"]


def predicted(text):
    """ms of the step and of off, the gain over it, ms with the default ratios, and the gain over that."""
    found = re.search(r"a step of ([\d.]+) ms; ([\d.-]+) % less than off \(([\d.]+) ms\), ([\d.-]+) % less than with the default ratios "
                      r"\(([\d.]+) ms\)", text)
    step, over_off, off, over_given, given = (float(number) for number in found.groups())
    return step, off, over_off, given, over_given


def test_options_of_vllm_ascend():
    flags = ("tune", "--machine", "ascend-910b", "--model", "qwen3-32b", "--max-num-seqs", "72", "--emit", "vllm-ascend")
    text = output(*flags).decode()
    config = pasted(text)
    assert config["enabled"] and set(config) == {"enabled", "prefetch_ratio"}, config
    assert {module: set(ratios) for module, ratios in config["prefetch_ratio"].items()} == {"attn": {"qkv", "o"}, "mlp": {"gate_up", "down"}}
    assert all(0 < ratio <= 1 for ratios in config["prefetch_ratio"].values() for ratio in ratios.values()), config
    assert "export VLLM_ASCEND_ENABLE_FLASHCOMM1=1" in text  # its mlp module asks for it
    assert "--tensor-parallel-size 4 --max-num-seqs 72" in text and "4 x Ascend 910B (assumed; --tp says otherwise)" in text
    step, off, over_off, given, over_given = predicted(text)
    assert step < off and step <= given, text
    assert abs(over_off - 100 * (1 - step / off)) < 0.02 and abs(over_given - 100 * (1 - step / given)) < 0.02, text
    # Given as the ratios to compare with, what was pasted takes the time that was predicted.
    ratios = {f"{module}.{site}": ratio for module, sites in config["prefetch_ratio"].items() for site, ratio in sites.items()}
    again = output(*flags, "--additional-config", json.dumps(config_of(ratios))).decode()
    assert abs(predicted(again)[3] - step) / step < 1e-3, (text, again)


def test_options_of_vllm_ascend_for_experts():
    text = output("tune", "--machine", "ascend-910b", "--model", "qwen3-235b-a22b", "--max-num-seqs", "144", "--tp", "16", "--emit",
                  "vllm-ascend").decode()
    ratios = pasted(text)["prefetch_ratio"]
    assert set(ratios) == {"attn", "moe"} and "FLASHCOMM" not in text and "assumed" not in text, text


def test_bad_emits():
    at = ("tune", "qwen3-32b", "--machine", "ascend-910b")
    refused(*at, "--emit", "vllm", says=("--emit 'vllm'", "config or vllm-ascend"))
    refused(*at, "--emit", "vllm-ascend", "--json", says=("--emit and --json",))
    refused(*at, "--max-num-seqs", "8", "--batch", "8", says=("--max-num-seqs and --batch",))
    refused("tune", MODEL, "--emit", "vllm-ascend", says=("--machine ascend-910b",))
    refused(*at, "--weight-bits", "5", says=("4, 8 or 16",))


main(sys.modules[__name__])
