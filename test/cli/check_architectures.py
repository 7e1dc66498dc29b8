"""Architectures without weights are planned, simulated and shown; what needs weights says so; what is planned for
other machines does not run."""
import json
import os
import sys
import tempfile

from program import SOURCE, document, golden, main, output, refused

MODEL = golden("smollm-q8_0")
FOLDER = os.path.join(SOURCE, "data", "models")
NAMES = sorted(name[:-len(".json")] for name in os.listdir(FOLDER))
SHAPE = ("--no-measure", "-t", "1")


def test_each_is_shown():
    assert len(NAMES) >= 9
    for name in NAMES:
        with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as file:
            config = json.load(file)
        got = document("info", name)
        shape = got["hyperparameters"]
        assert got["source"] == config["source"] and got["has_weights"] is False
        assert shape["layers"] == config["num_hidden_layers"] and shape["dimension"] == config["hidden_size"], got
        assert shape["kv_heads"] == config["num_key_value_heads"], got
        assert got["weight_bytes"] >= 2 * got["parameters"], got  # vectors have four bytes a value
        text = output("info", name).decode()
        assert config["source"] in text and "none; in BF16" in text, text


def test_plans():
    for name in NAMES:
        got = document("plan", name, "--tp", "4", "-c", "2048", "--weight-bits", "8", "--kv-bits", "8", *SHAPE)
        types = {value["dtype"] for step in got["steps"] for value in step["inputs"] if len(value["shape"]) > 1
                 and value["kind"] == "weight" and value["shape"][0] > 1}
        assert types == {"I8"}, (name, types)
    config = os.path.join(FOLDER, "qwen2-7b.json")
    halves = [sum(site["bytes"] for site in document("plan", config, "--weight-bits", bits, *SHAPE)["sites"])
              for bits in ("4", "8", "16")]
    assert halves[2] == 2 * halves[1] == 4 * halves[0], halves


def test_simulations():
    rows = document("simulate", "llama3-8b", "--tp", "2", "--compare", "off,auto", "--weight-bits", "8", *SHAPE)
    assert [row["policy"] for row in rows] == ["off", "auto"] and rows[0]["step_ns"] > 0, rows


def test_ranks_beyond_heads():
    refused("plan", "llama3-8b", "--tp", "128", *SHAPE, says=["llama3-8b", "32 query heads"])
    refused("plan", "llama3-8b", "--tp", "257", *SHAPE, says=["--tensor-parallel-size", "256"])
    refused("plan", "llama3-8b", "--tp", "8", "--context-shards", "3", *SHAPE, says=["a divisor of the 8 ranks"])
    text = output("plan", "llama3-8b", "--tp", "128", "--context-shards", "4", "-c", "16384", *SHAPE).decode()
    assert "ranks=128" in text and "%blk.0.attn_q.weight = weight BF16 [128, 4096]" in text, text[:2000]
    assert "%blk.0.attn_output.weight = weight BF16 [4096, 32]" in text
    assert "ranks=4 context_shards=4" in text


def test_what_needs_weights_says_so():
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(FOLDER, "qwen2-7b.json")
        made = os.path.join(folder, "made")
        for command in (("run", "-p", "x"), ("bench",), ("perplexity", os.path.join(SOURCE, "README.md")), ("tokenize", "-p", "x"),
                        ("compile", "-o", made), ("tune",), ("experts record", "-p", "x", "-o", made)):
            for name in ("llama3-70b", config):
                words = command[0].split()
                refused(*words, name, *command[1:], says=[name + " is an architecture without weights; info, plan, "
                                                          "simulate, explore and tune --machine take it"])
        refused("plan", "llama3-70b", "-o", made, *SHAPE, says=["llama3-70b", "without -o"])
        assert not os.listdir(folder)


def test_wrong_names():
    for command in ("plan", "info"):
        line = refused(command, "lama3-8b", says=["the nearest is llama3-8b of"])
        assert all(name in line for name in NAMES), line
    refused("plan", "./llama3-8b", says=["./llama3-8b"])
    refused("plan", MODEL, "--weight-bits", "8", *SHAPE, says=["those of a file have types of their own"])
    for bits in ("3", "5", "32"):
        refused("plan", "llama3-8b", "--weight-bits", bits, *SHAPE, says=["16"])
        refused("plan", "llama3-8b", "--kv-bits", bits, *SHAPE, says=["16"])


def test_bad_configurations():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        for text, words in (('{"model_type": "bert"}', ["'bert'", "llama", "qwen3_moe"]), ("{", ["line 1"]),
                            ('{"model_type": "llama", "hidden_size": "a"}', ["hidden_size"])):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            for command in ("plan", "simulate", "info"):
                refused(command, path, says=[path] + words)


def test_plans_for_other_machines_do_not_run():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "plans")
        sizes = ("-c", "512", "-b", "64", "-t", "1")
        output("plan", MODEL, "-o", path, *sizes, "--no-measure")
        with open(path, encoding="utf-8") as file:
            good = file.read()
        attention = next(line for line in good.splitlines() if " = attention " in line)
        for find, put, words in (("%blk.0.attn_q.weight = weight Q8_0", "%blk.0.attn_q.weight = weight I8", ["is I8", "planning"]),
                                 (attention, attention.replace("site=kv", "site=kv context_shards=2"), ["context_shards=2"]),
                                 ("%blk.0.kv = kv F16", "%blk.0.kv = kv I8", ["kv I8"])):
            assert find in good
            with open(path, "w", encoding="utf-8") as file:
                file.write(good.replace(find, put))
            refused("run", MODEL, "-p", "x", "-n", "1", "--plan", path, *sizes, says=words)


main(sys.modules[__name__])
