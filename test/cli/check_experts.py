"""prestage experts: counts of real runs, hot sets of them, and pictures; what does not fit is refused."""
import json
import os
import re
import struct
import sys
import tempfile
import xml.etree.ElementTree

from program import complaints, document, golden, main, output, refused, run

MODEL = golden("qwen3moe-q8_0")
SHARED = golden("mixtral-f16")  # which two ranks can share
LAYERS, EXPERTS, TOP_K = 2, 6, 2


class Folder(tempfile.TemporaryDirectory):
    """A folder with a text of some 2,500 tokens in it."""

    def __enter__(self):
        folder = super().__enter__()
        with open(os.path.join(folder, "text"), "w", encoding="ascii") as file:
            file.write(" ".join("abcdefgh"[i * i % 7:i * 3 % 5 + 4] + str(i * i) for i in range(400)))
        return lambda name: os.path.join(folder, name)


def tokens(path):
    """Of a counts file, by its description: prompt and decode tokens, both halves together."""
    with open(path, "rb") as file:
        header = file.read(200)
    assert header[:8] == b"PSCOUNTS"
    of = struct.unpack_from("<4Q", header, 168)
    return of[0] + of[2], of[1] + of[3]


def test_record_counts_every_token():
    with Folder() as path:
        count = len(document("tokenize", MODEL, "-f", path("text"))["tokens"])
        got = document("experts", "record", MODEL, "-f", path("text"), "-c", "100", "-n", "0", "-o", path("a"))
        assert got == {"file": path("a"), "prompt_tokens": count - int(count % 100 == 1), "decode_tokens":
                       int(count % 100 == 1), "layers": LAYERS, "experts": EXPERTS, "top_k": TOP_K}, (got, count)
        assert tokens(path("a")) == (got["prompt_tokens"], got["decode_tokens"])
        # One row at a time is decoding, and neither threads nor batches change what is chosen.
        got = document("experts", "record", MODEL, "-f", path("text"), "-c", "100", "-n", "0", "-b", "1", "-t", "2",
                       "-o", path("b"))
        assert tokens(path("b")) == (0, count), got
        shown = [[layer["uses"] for layer in document("experts", "show", path(name))["layers"]] for name in "ab"]
        assert shown[0] == shown[1]
        pieces = -(-count // 100)
        got = document("experts", "record", MODEL, "-f", path("text"), "-c", "100", "-n", "9", "-o", path("c"))
        # Of nine tokens that are picked eight are read, where no token ends an answer before.
        assert 0 < got["decode_tokens"] <= pieces * 8 + 1 and got["prompt_tokens"] >= count - 1, got


def test_runs_add_to_a_file():
    with Folder() as path:
        args = ["-p", "abc def", "--raw", "--temp", "0", "-n", "12"]
        plain = document("run", MODEL, *args)
        recorded = document("run", MODEL, *args, "--record-experts", path("a"), "--route-log", path("log"))
        assert recorded["tokens"] == plain["tokens"]  # looking changes nothing
        first = tokens(path("a"))
        assert first == (plain["prompt_tokens"], len(plain["tokens"]) - 1), (first, plain)
        output("run", MODEL, *args, "--record-experts", path("a"))
        assert tokens(path("a")) == tuple(2 * count for count in first)
        before = tokens(path("a"))
        output("bench", MODEL, "-p", "8", "-n", "4", "-r", "2", "-t", "1,2", "--no-ceiling", "--record-experts", path("a"))
        after = tokens(path("a"))  # a run to warm up, and two; for each number of threads
        assert (after[0] - before[0], after[1] - before[1]) == (2 * 3 * 8, 2 * 3 * 4), (before, after)
        output("perplexity", MODEL, path("text"), "-c", "64", "--record-experts", path("a"))
        assert tokens(path("a"))[0] > after[0] + 1000
        assert sorted(os.listdir(os.path.dirname(path("a")))) == ["a", "log", "text"]
        logged = document("experts", "show", path("log"))
        assert sum(sum(layer["uses"]) for layer in logged["layers"]) == sum(first) * TOP_K * LAYERS


def test_ranks_count_once():
    with Folder() as path:
        args = ["-p", "abc def", "--raw", "--temp", "0", "-n", "12"]
        for ranks in ("1", "2"):
            got = document("run", SHARED, *args, "--tp", ranks, "--record-experts", path(ranks))
            assert tokens(path(ranks)) == (got["prompt_tokens"], len(got["tokens"]) - 1)


def test_rank_is_what_was_counted():
    with Folder() as path:
        output("experts", "record", MODEL, "-f", path("text"), "-c", "128", "-n", "20", "-o", path("a"),
               "--route-log", path("log"))
        shown = document("experts", "show", path("a"))
        uses = {(layer["layer"], i): count for layer in shown["layers"] for i, count in enumerate(layer["uses"])}
        order = sorted(uses, key=lambda key: (-uses[key], key))
        got = document("experts", "rank", path("a"), "--sizes", "3,7,1,12,3", "-o", path("hot"))
        assert [size["experts"] for size in got["sizes"]] == [1, 3, 7, 12]
        with open(path("hot"), encoding="utf-8") as file:
            hot = json.load(file)
        assert hot["fingerprint"] == document("info", MODEL)["fingerprint"]
        for size in hot["sizes"]:
            chosen = order[:size["experts"]]
            assert size["per_layer"] == [sum(key[0] == layer for key in chosen) for layer in range(LAYERS)]
            assert abs(size["coverage"] - sum(uses[key] for key in chosen) / sum(uses.values())) < 1e-5
            assert size["held_out"] <= size["coverage"] + 1e-9
            for layer in hot["ranking"]:
                ids = layer["ids"][:size["per_layer"][layer["layer"]]]
                assert {(layer["layer"], i) for i in ids} == {key for key in chosen if key[0] == layer["layer"]}
        assert hot["sizes"][-1]["coverage"] == 1
        matrices = [t for t in document("info", MODEL)["tensors"] if "_exps" in t["name"]]
        packed = sum(t["bytes"] for t in matrices) / 2**30
        assert abs(hot["sizes"][-1]["gib"] / packed - 1) < 1e-4, (hot["sizes"], packed)
        # A log of the same run says the same, but for bytes; each phase alone says less.
        other = document("experts", "rank", path("log"), "--sizes", "3,7,1,12", "-o", path("hot2"))
        for left, right in zip(got["sizes"], other["sizes"]):
            assert right.pop("gib") is None and left.pop("gib") > 0 and left == right
        for phase in ("prompt", "decode"):
            output("experts", "rank", path("a"), "--phase", phase, "-o", path(phase))
            with open(path(phase), encoding="utf-8") as file:
                assert json.load(file)["phases"] == phase


def test_what_cannot_be_learnt_does_not_show_held_out():
    with Folder() as path:
        sizes = ["--sizes", "205,668,1393"]  # 5, 16.3 and 34 % of 8 x 512
        for name in ("uniform", "flashnext"):
            output("experts", "synth", name, "--tokens", "3000", "--layers", "8", "-o", path(name))
        for size in document("experts", "rank", path("uniform"), *sizes, "-o", path("a"))["sizes"]:
            share = size["experts"] / (8 * 512)
            assert size["coverage"] > share + 0.01 and abs(size["held_out"] - share) < 0.005, size
        for size in document("experts", "rank", path("flashnext"), *sizes, "-o", path("b"))["sizes"]:
            assert size["held_out"] > 2 * size["experts"] / (8 * 512), size
            assert 0 <= size["coverage"] - size["held_out"] < 0.03, size


def test_simulated_tier():
    link = ["--tier-sim", "latency=10us,bandwidth=13.7GB/s"]
    with Folder() as path:
        args = ["run", MODEL, "-p", "abc def", "--raw", "--temp", "0", "-n", "12"]
        plain = document(*args)
        got = document(*args, "--expert-memory", "1GiB", *link)  # all fit: each is copied once
        assert got["tokens"] == plain["tokens"] and "experts" not in plain
        experts = got["experts"]
        assert experts["tier"] == "dram" and experts["way"] == "simulated: 10 us a read, 13.7 GB/s", experts
        assert experts["kept"] == experts["all"] == LAYERS * EXPERTS and 0 < experts["from"]["dram"] <= experts["all"]
        # A slow link is waited for: 5 ms for each of the reads of an expert.
        slow = document(*args, "--memory", "1GiB", "--tier-sim", "latency=5ms")
        assert slow["tokens"] == plain["tokens"]
        assert slow["experts"]["move_ns"] > 5e6 * slow["experts"]["from"]["dram"] / 2, slow["experts"]
        text = ["perplexity", MODEL, path("text"), "-c", "64"]
        assert document(*text)["ppl"] == document(*text, "--memory", "1GiB", *link)["ppl"]
        rows = document("bench", MODEL, "-p", "8", "-n", "4", "-r", "1", "--no-ceiling", "--expert-memory", "1GiB", *link)
        assert all(row["experts"]["tier"] == "dram" for row in rows), rows
        dense = golden("smollm-q8_0")
        for command, tail in (("run", ["-p", "x", "-n", "1"]), ("bench", ["-p", "8", "-n", "0"]),
                              ("perplexity", [path("text")])):
            refused(command, MODEL, *tail, *link, says=["--tier-sim", "--expert-memory"])
            refused(command, dense, *tail, "--memory", "1GiB", *link, says=["simulated tier", "none"])
            refused(command, MODEL, *tail, "--memory", "1GiB", "--tier-sim", "bandwidth=25GB",
                    says=["--tier-sim", "25GB", "GB/s"])
        refused("experts", "record", MODEL, "-p", "x", "-o", path("none"), *link, says=["--tier-sim"])
        refused("run", SHARED, "-p", "x", "-n", "1", "--tp", "2", "--memory", "1GiB", *link, says=["--tier-sim", "one rank"])


def test_pictures():
    with Folder() as path:
        output("experts", "record", MODEL, "-f", path("text"), "-n", "5", "-o", path("a"))
        output("experts", "rank", path("a"), "-o", path("hot"))
        for name in ("a", "hot"):
            text = output("experts", "show", path(name), "--svg", path("svg")).decode()
            rows = re.findall(r"^ +(\d+) \|([ \u2581-\u2588]+)\|", text, re.MULTILINE)
            assert [(int(row[0]), len(row[1])) for row in rows] == [(layer, EXPERTS) for layer in range(LAYERS)], text
            assert ("entropy" in text) == (name == "a") and "held out" in text
            root = xml.etree.ElementTree.parse(path("svg")).getroot()
            assert root.tag.endswith("svg") and any(child.tag.endswith("polyline") for child in root)
        shown = document("experts", "show", path("a"))
        for layer in shown["layers"]:
            assert 0 < layer["entropy"] <= 1 and 0 <= layer["gini"] < 1 and layer["used"] <= EXPERTS
        shares = [point["coverage"] for point in shown["coverage"]]
        assert shares == sorted(shares) and shares[-1] == 1


def test_few_tokens_are_said():
    with Folder() as path:
        output("experts", "record", MODEL, "-p", "abc", "-n", "0", "-o", path("a"))
        done = run("experts", "rank", path("a"), "--sizes", "12", "-o", path("hot"))
        assert done.returncode == 0 and b"were ever chosen" in done.stderr and b"too few tokens" in done.stderr, done
        assert complaints(done).count("\n") == 2
        refused("experts", "rank", path("a"), "--phase", "decode", "-o", path("b"), says=["decode", "no token"])
        refused("experts", "show", path("a"), "--phase", "decode", says=["decode", "no token"])


def test_what_does_not_fit_is_refused():
    with Folder() as path:
        counts, hot = path("counts"), path("hot")
        output("experts", "record", MODEL, "-p", "abc", "-n", "0", "-o", counts)
        other, dense = golden("qwen3moe-bf16"), golden("smollm-q8_0")
        for command, tail in (("run", ["-p", "x", "-n", "1"]), ("bench", ["-p", "8", "-n", "0"]),
                              ("perplexity", [path("text")])):
            refused(command, other, *tail, "--record-experts", counts, says=[counts, "another model", "fingerprint"])
            refused(command, MODEL, *tail, "--record-experts", path("text"), says=[path("text"), "no counts file"])
            for flag in ("--record-experts", "--route-log"):
                refused(command, dense, *tail, flag, path("none"), says=["no experts"])
                refused(command, MODEL, *tail, flag, path("no/folder"), says=["no/folder"])
                refused(command, MODEL, *tail, flag, os.path.dirname(counts), says=[os.path.dirname(counts)])
            refused(command, MODEL, *tail, "--route-log", MODEL, says=["the model itself"])
        refused("bench", MODEL, "-p", "8", "-t", "1,2", "--route-log", path("none"), says=["--route-log", "threads"])
        refused("bench", SHARED, "-p", "8", "--ranks-sim", "2", "--record-experts", path("none"), says=["--ranks-sim"])
        refused("experts", "record", dense, "-p", "x", "-o", path("none"), says=["no experts"])
        refused("experts", "record", MODEL, "-p", "x", says=["-o"])
        refused("experts", "record", MODEL, "-p", "x", "-o", counts, says=[counts, "--force"])
        refused("experts", "record", MODEL, "-p", "x", "-o", MODEL, "--force", says=["the model itself"])
        refused("experts", "record", MODEL, "-p", "", "-o", path("none"), says=["empty"])
        refused("experts", "record", MODEL, "-p", "x", "-c", "1000", "-n", "100", "-o", path("none"), says=["1100", "1024"])
        output("experts", "record", MODEL, "-p", "abc", "-n", "0", "-o", counts, "--force")
        refused("experts", "rank", counts, says=["-o"])
        refused("experts", "rank", "-o", hot, says=["counts file"])
        refused("experts", "rank", counts, "--sizes", "13", "-o", hot, says=["13", "12"])
        refused("experts", "rank", counts, "--sizes", "0", "-o", hot, says=["--sizes"])
        refused("experts", "rank", counts, "--phase", "both", "-o", hot, says=["both", "decode"])
        refused("experts", "rank", path("text"), "-o", hot, says=[path("text")])
        refused("experts", "rank", path("none"), "-o", hot, says=[path("none")])
        refused("experts", "rank", counts, "-o", counts, "--force", says=[counts])
        refused("experts", "show", says=["hot set"])
        refused("experts", "show", path("text"), says=[path("text"), "no counts file"])
        assert run("experts", "rank", counts, "--sizes", "2", "-o", hot).returncode == 0
        refused("experts", "rank", hot, "-o", path("none"), says=[hot, "is a hot set"])
        refused("experts", "show", hot, "--phase", "decode", says=[hot, "--phase"])
        os.unlink(hot)
        os.mkfifo(path("pipe"))
        for command in (["experts", "rank", path("pipe"), "-o", hot], ["experts", "show", path("pipe")],
                        ["run", MODEL, "-p", "x", "--record-experts", path("pipe")],
                        ["run", MODEL, "-p", "x", "--route-log", path("pipe")]):
            refused(*command, says=[path("pipe")], timeout=60)
        os.unlink(path("pipe"))
        refused("experts", "show", counts, "--svg", path("no/folder"), says=["no/folder"])
        with open(counts, "rb") as file:
            content = bytearray(file.read())
        content[-20] ^= 1
        with open(path("bad"), "wb") as file:
            file.write(content)
        for command in (["experts", "rank", path("bad"), "-o", hot], ["experts", "show", path("bad")],
                        ["run", MODEL, "-p", "x", "--record-experts", path("bad")]):
            refused(*command, says=[path("bad"), "checksum"])
        refused("experts", says=["--help"])
        refused("experts", "rcord", says=["experts rcord", "experts record"])
        assert sorted(os.listdir(os.path.dirname(counts))) == ["bad", "counts", "text"]


main(sys.modules[__name__])
