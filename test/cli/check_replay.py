"""prestage experts replay and synth: logs of made routes and what policies hit of them; what is wrong is refused."""
import os
import sys
import tempfile
import xml.etree.ElementTree

from program import document, golden, main, output, refused

SMALL = ("--layers", "4", "--tokens", "60")


def hits(got):
    """{(policy, experts): share} of decoding."""
    return {(r["policy"], r["experts"]): r["decode"]["hit_share"] for r in got["results"]}


def test_log_and_generator_agree():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        more = (*SMALL, "--streams", "3", "--sharing", "topic", "--prompt-tokens", "20", "-s", "5")
        got = document("experts", "synth", "qwen30", "-o", log, *more)
        assert got == {"file": log, "setting": "qwen30", "tokens": 180, "calls": 4 * 41, "layers": 4, "experts": 128,
                       "top_k": 6}, got
        sizes = ("--sizes", "40,16.3%,512")
        made = document("experts", "replay", "--synth", "qwen30", *more, *sizes)
        read = document("experts", "replay", log, *sizes)
        assert {**made, "source": log} == read
        assert read["learn_steps"] == 20 and read["steps"] == 21
        assert read["phases"][1]["tokens"] == 63 and read["phases"][1]["pairs"] == 63 * 4 * 6
        assert len(read["results"]) == 6 * 3
        share = hits(read)
        for policy in ("auto", "lru", "lfu", "hotset", "heat"):
            assert 0 < share[policy, 83] <= share["belady", 83] < share["belady", 512] == 1
        for r in read["results"]:
            assert sum(r["decode"][where] for where in ("pinned", "cached", "missed")) == read["phases"][1]["distinct"]
        whole = document("experts", "replay", log, "--learn", "0", "--policies", "lru", "--sizes", "512", "--expert-bytes", "1000")
        assert whole["steps"] == 41 and whole["phases"][0]["tokens"] == 60
        decode = whole["results"][0]["decode"]
        assert decode["read_bytes"] == 1000 * decode["missed"]


def test_table_and_picture():
    with tempfile.TemporaryDirectory() as folder:
        svg = os.path.join(folder, "a.svg")
        text = output("experts", "replay", "--synth", "flashnext", *SMALL, "--sizes", "34%,4.4%", "--policies", "belady,auto",
                      "--svg", svg).decode()
        rows = [[word.strip() for word in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")][2:]
        assert [row[:2] for row in rows] == [["belady", "696"], ["belady", "90"], ["auto", "696"], ["auto", "90"]], text
        drawn = xml.etree.ElementTree.parse(svg).getroot()
        lines = [e.get("points").split() for e in drawn.iter() if e.tag.endswith("polyline")]
        assert len(lines) == 2 and all(len(points) == 2 for points in lines)
        for points in lines:
            (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in points)
            assert x0 < x1 and y0 > y1


def test_routes_of_a_run_replay():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        output("run", golden("qwen3moe-q8_0"), "-p", "abc def", "--raw", "--temp", "0", "-n", "12", "--route-log", log)
        got = document("experts", "replay", log, "--sizes", "4,12", "--policies", "lru,belady", "--learn", "0")
        assert (got["layers"], got["experts"], got["top_k"]) == (2, 6, 2)
        share = hits(got)
        assert share["lru", 4] <= share["belady", 4] <= share["belady", 12] == 1


def test_refusals():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        output("experts", "synth", "uniform", *SMALL, "-o", log)
        refused("experts", "synth", "uniform", "-o", log, says=[log, "--force"])
        output("experts", "synth", "uniform", *SMALL, "-o", log, "--force")
        refused("experts", "synth", "unifrom", "-o", log + "2", says=["unifrom", "uniform"])
        refused("experts", "synth", "-o", log, says=["qwen30"])
        refused("experts", "synth", "uniform", says=["-o"])
        refused("experts", "synth", "uniform", "-o", os.path.join(folder, "no/x"), says=["no/x"])
        refused("experts", "synth", "uniform", "--top-k", "64", "--experts", "9", "-o", log, "--force", says=["64", "9"])
        refused("experts", "synth", "uniform", "--prompt-tokens", "256", "-o", log, "--force", says=["256", "255"])
        refused("experts", "replay", says=["--synth"])
        refused("experts", "replay", log, "--synth", "uniform", says=["--synth"])
        refused("experts", "replay", log, "--tokens", "3", says=[log, "--synth"])
        refused("experts", "replay", golden("qwen3moe-q8_0"), says=["no route log"])
        refused("experts", "replay", folder, says=[folder])
        refused("experts", "replay", os.path.join(folder, "none"), says=["none"])
        for sizes in ("", "0", "19", "2049", "101%", "x", "5.5", "100,", "nan", "1e3"):
            refused("experts", "replay", log, "--sizes", sizes, says=["20", "2048"])
        refused("experts", "replay", log, "--policies", "lru,best", says=["best", "belady"])
        refused("experts", "replay", log, "--learn", "60", says=["60", "none is left"])
        refused("experts", "replay", log, "--learn", "0", says=["hot set"])
        refused("experts", "replay", log, "--sharing", "all", says=[log, "--synth"])
        refused("experts", "replay", "--synth", "uniform", "--sharing", "all", says=["all", "copies"])
        refused("experts", "replay", log, "--svg", os.path.join(folder, "no/x"), says=["no/x"])
        with open(log, "rb") as file:
            content = bytearray(file.read())
        content[1000] ^= 1
        for bad, says in ((content, "checksum"), (content[:-1], "truncated"), (b"", "no route log")):
            with open(log, "wb") as file:
                file.write(bad)
            refused("experts", "replay", log, says=[log, says])
        assert os.listdir(folder) == ["log"]


main(sys.modules[__name__])
