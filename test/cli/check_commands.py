"""Help, version, tokenize, info, perplexity, bench and plan on tiny models: what their JSON and tables hold."""
import csv
import glob
import io
import os
import re
import sys
import tempfile

from program import COMMANDS, EXPERTS_COMMANDS, MACHINE_COMMANDS, SOURCE, document, golden, main, output

MODEL = golden("smollm-q8_0")
MODELS = sorted(glob.glob(golden("*")))


def test_help_and_version():
    text = output("--help").decode()
    assert all(re.search(rf"^  {name} ", text, re.MULTILINE) for name in COMMANDS), text
    for group, commands in (("experts", EXPERTS_COMMANDS), ("machine", MACHINE_COMMANDS)):
        text = output(group, "--help").decode()
        assert all(re.search(rf"^  {name} ", text, re.MULTILINE) for name in commands), text
    for command in COMMANDS + EXPERTS_COMMANDS + MACHINE_COMMANDS:
        text = output(*command.split(), "--help").decode()
        assert text.startswith(f"usage: prestage {command} ") and "--json" in text, text
        assert max(map(len, text.splitlines())) <= 100, text
        assert output(*command.split(), MODEL, "-h") == text.encode()
    text = output("--version").decode()
    assert text.startswith("prestage ") and "CPU features:" in text and "ISA in use: " in text, text
    assert "ISA in use: ref" in output("--version", environment={"PS_ISA": "ref"}).decode()


def test_tokens_come_back_as_text():
    for path in MODELS:
        for text in ("abc", " a  b\n\tc ", "gr\u00fc\u00dfe \u6c34 \U0001f600", "<|im_end|> is text"):
            ids = document("tokenize", path, "--raw", "-p", text)["tokens"]
            back = output("tokenize", path, "--detokenize", "-p", " ".join(map(str, ids)))
            assert back.decode() == text, (path, text, ids, back)
            again = document("tokenize", path, "--detokenize", stdin=str(ids).encode())
            assert again == {"tokens": ids, "text": text}, again


def test_specials_are_text_unless_asked_for():
    end = document("info", MODEL)["tokenizer"]["eos"]
    text = output("tokenize", MODEL, "--detokenize", "--special", "-p", str(end)).decode()
    assert len(text) > 3 and output("tokenize", MODEL, "--detokenize", "-p", str(end)) == b""
    assert end not in document("tokenize", MODEL, "-p", f"a {text} b")["tokens"]
    assert end in document("tokenize", MODEL, "--special", "-p", f"a {text} b")["tokens"]


def test_bos_as_the_model_asks():
    path = golden("gemma3-q8_0")
    bos = document("info", path)["tokenizer"]["bos"]
    ids = document("tokenize", path, "-p", "abc")["tokens"]
    assert ids == [bos] + document("tokenize", path, "--raw", "-p", "abc")["tokens"], ids
    assert output("tokenize", path, "-p", "abc").decode().split()[0] == str(bos)
    assert document("tokenize", path, "--raw", "-p", "")["tokens"] == []


def test_templates():
    with tempfile.NamedTemporaryFile() as file:
        def render(text, *flags):
            file.seek(0)
            file.truncate()
            file.write(text)
            file.flush()
            return output("tokenize", MODEL, "--template", file.name, *flags).decode()
        messages = b'[{"role": "user", "content": "two words"}]'
        text = render(messages)
        assert "two words" in text, text
        assert render(b'{"messages": ' + messages + b"}") == text
        bare = render(b'{"messages": ' + messages + b', "add_generation_prompt": false}')
        assert text.startswith(bare) and len(bare) < len(text), (bare, text)
        render(messages)
        got = document("tokenize", MODEL, "--template", file.name)
        assert got["text"] == text and got["tokens"], got


def test_info_of_every_model():
    for path in MODELS:
        got = document("info", path)
        assert got["supported"] is True and got["unsupported"] == [], got
        assert got["file_bytes"] == os.path.getsize(path)
        assert sum(kind["tensors"] for kind in got["types"]) == len(got["tensors"])
        assert sum(kind["bytes"] for kind in got["types"]) == sum(tensor["bytes"] for tensor in got["tensors"])
        assert got["metadata"]["general.architecture"] == f'string "{got["architecture"]}"', got["metadata"]
        assert got["hyperparameters"]["context_tokens"] == 1024
        text = output("info", path, "--tensors", "--metadata").decode()
        assert all(tensor["name"] in text for tensor in got["tensors"]) and all(key in text for key in got["metadata"])


def patched(path, old, new):
    """A copy of a model with some bytes replaced by as many others."""
    assert len(old) == len(new)
    with open(path, "rb") as file:
        data = file.read()
    assert old in data, (path, old)
    return data.replace(old, new)


def test_info_of_what_cannot_run():
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        # The length of a string stands before it: only the architecture's value itself is meant.
        file.write(patched(golden("llama-q8_0"), b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0lxama"))
        file.flush()
        got = document("info", file.name)
        assert got["architecture"] == "lxama" and got["supported"] is False, got
        assert any("lxama" in reason for reason in got["unsupported"]), got
        text = output("info", file.name).decode()
        assert re.search(r"^runs here +no$", text, re.MULTILINE), text


def test_perplexity():
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"the quick brown fox jumps over the lazy dog. " * 20)
        file.flush()
        for path in (MODEL, golden("gemma3-q8_0")):
            count = len(document("tokenize", path, "-f", file.name)["tokens"])
            got = document("perplexity", path, file.name, "-c", "32")
            assert got["windows"] == count // 32 and got["tokens"] == got["windows"] * 15, got
            assert 1 < got["ppl"] < 1e6, got
            # Neither threads nor the cut into steps may change a bit.
            for flags in (("-b", "1"), ("-b", "5"), ("-t", "1")):
                assert document("perplexity", path, file.name, "-c", "32", *flags) == got, flags
            text = output("perplexity", path, "-f", file.name, "-c", "32").decode()
            assert abs(float(text.split()[1]) / got["ppl"] - 1) < 1e-5, (text, got)


def test_bench_json():
    rows = document("bench", MODEL, "-p", "8,4", "-n", "3", "-pg", "4,2", "-d", "0,16", "-r", "2", "-t", "1,2")
    seen = [(row["n_threads"], row["n_depth"], row["n_prompt"], row["n_gen"]) for row in rows]
    expected = [(threads, depth, *test) for threads in (1, 2) for depth in (0, 16)
                for test in ((8, 0), (4, 0), (0, 3), (4, 2))]
    assert seen == expected, seen
    for row in rows:
        assert row["avg_ts"] > 0 and row["stddev_ts"] >= 0 and row["policy"] == "off" and len(row["samples_ts"]) == 2
        decodes = row["n_prompt"] == 0
        for field in ("bytes_per_token", "barriers", "gbs", "ceiling_gbs", "share"):
            assert (field in row) == decodes, (field, row)
        assert "ops" not in row, row
        if decodes:
            assert abs(row["gbs"] - row["avg_ts"] * row["bytes_per_token"] / 1e9) < 1e-5 * row["gbs"] + 1e-12, row
            assert abs(row["share"] - row["gbs"] / row["ceiling_gbs"]) < 1e-5 * row["share"], row


def test_bench_of_many_sequences():
    rows = document("bench", MODEL, "-p", "4", "-n", "3", "-d", "2", "-npl", "1,3", "-r", "1")
    seen = [(row["n_parallel"], row["n_prompt"], row["n_gen"]) for row in rows]
    assert seen == [(1, 4, 0), (1, 0, 3), (3, 4, 0), (3, 0, 3)], seen
    assert rows[3]["bytes_per_token"] < 0.6 * rows[1]["bytes_per_token"], rows  # a step reads the weights once
    for row in (rows[1], rows[3]):
        bytes_per_s = row["avg_ts"] * row["bytes_per_token"]
        assert abs(row["gbs"] - bytes_per_s / 1e9) < 1e-5 * row["gbs"] + 1e-12, row


def test_bench_of_a_static_batch():
    row, = document("bench", MODEL, "--static-batch", "100", "--seq", "9", "-r", "2")
    assert (row["n_parallel"], row["n_prompt"], row["n_gen"]) == (100, 6, 3), row
    for ts, prompt, gen in zip(row["samples_ts"], row["samples_prompt_ms"], row["samples_gen_ms"]):
        assert abs(900 * 1e3 / (prompt + gen) / ts - 1) < 1e-3, row
    assert b"prompts " in output("bench", MODEL, "--static-batch", "2", "--seq", "9", "-r", "1")


def test_bench_at_a_depth_that_windows_have_passed():
    row, = document("bench", golden("gemma3-q8_0"), "-p", "0", "-n", "70", "-d", "40", "-r", "2", "--no-ceiling")
    assert row["avg_ts"] > 0, row


def test_bench_without_a_ceiling():
    rows = document("bench", MODEL, "-p", "0", "-n", "3", "-r", "1", "--no-ceiling")
    assert len(rows) == 1 and "gbs" in rows[0] and "ceiling_gbs" not in rows[0] and "share" not in rows[0], rows


def test_bench_tables():
    flags = ("bench", MODEL, "-p", "4", "-n", "3", "-d", "2", "-r", "1", "--no-ceiling", "-o")
    rates, *lines = output(*flags, "md").decode().splitlines()
    assert rates.startswith("# ") and "defaults: read " in rates, rates
    assert len(lines) == 4 and len({line.count("|") for line in lines}) == 1, lines
    assert "pp4 @ d2" in lines[2] and "tg3 @ d2" in lines[3], lines
    rows = list(csv.DictReader(io.StringIO(output(*flags, "csv").decode())))
    assert [(row["n_prompt"], row["n_gen"], row["n_depth"]) for row in rows] == [("4", "0", "2"), ("0", "3", "2")], rows
    assert all(None not in row and float(row["avg_ts"]) > 0 for row in rows), rows


def test_bench_names_the_kv_types():
    flags = ("bench", MODEL, "-p", "4", "-n", "0", "-r", "1", "--no-ceiling")
    row, = document(*flags)
    assert (row["type_k"], row["type_v"]) == ("f16", "f16"), row
    row, = document(*flags, "-ctk", "q8_0")
    assert (row["type_k"], row["type_v"]) == ("q8_0", "f16"), row
    row, = csv.DictReader(io.StringIO(output(*flags, "-ctv", "q8_0", "-o", "csv").decode()))
    assert (row["type_k"], row["type_v"]) == ("f16", "q8_0"), row
    assert b"pp4 kv f16/q8_0" in output(*flags, "-ctv", "q8_0")


def plan_of_decoding(path):
    return document("plan", path, "--no-measure", "--batch", "1", "--context", "64", "-t", "1")


def test_bench_counts_the_barriers_of_the_plan():
    for path in (MODEL, golden("qwen3moe-q8_0")):
        row, = document("bench", path, "-p", "0", "-n", "3", "-r", "1", "-t", "1", "--no-ceiling")
        assert row["barriers"] == plan_of_decoding(path)["barriers"] > 0, row


def check_ops(row):
    """Times and shares of the operators add up to a step, and the last line is their sum."""
    *ops, every = row["ops"]
    assert [op["op"] for op in ops[-2:]] == ["end", "rest"] and every["op"] == "all", row
    assert len({(op["op"], op["site"]) for op in ops}) == len(ops), row
    for field in ("count", "barriers", "wait_us", "weight_bytes", "kv_bytes"):
        assert abs(sum(op[field] for op in ops) - every[field]) <= 1e-4 * every[field], (field, row)
    assert abs(sum(op["work_us"] + op["wait_us"] for op in ops) / row["step_us"] - 1) < 1e-3, row
    assert abs(sum(op["share"] for op in ops) - 1) < 1e-3 and abs(every["share"] - 1) < 1e-5, row
    assert all(op["work_us"] >= 0 and op["wait_us"] >= 0 for op in ops), row
    for op in ops:
        assert ("gbs" in op) == (op["weight_bytes"] + op["kv_bytes"] > 0 and op["work_us"] > 0), op
        assert ("ceiling_share" in op) == ("gbs" in op), op


def test_bench_ops_json():
    for path in (MODEL, golden("qwen3moe-q8_0")):
        rows = document("bench", path, "-p", "12", "-n", "4", "-d", "5", "-b", "8", "-r", "2", "-t", "1,2", "--ops")
        assert [(row["n_threads"], row["n_prompt"], row["n_gen"]) for row in rows] == \
            [(threads, *test) for threads in (1, 2) for test in ((12, 0), (0, 4))], rows
        steps = plan_of_decoding(path)["steps"]
        for row in rows:
            check_ops(row)
            # The depth and the warm-up do not count: 12 tokens in steps of 8, or 4 steps of one, twice.
            decodes = row["n_gen"] > 0
            assert (row["steps"], row["step_rows"]) == ((8, 8) if decodes else (4, 24)), row
            assert row["ceiling_gbs"] > 0 and ("share" in row) == decodes, row
            if decodes:
                every = row["ops"][-1]
                assert every["count"] == len(steps) and every["barriers"] == row["barriers"], row
                assert every["weight_bytes"] <= row["bytes_per_token"] and every["kv_bytes"] > 0, row
                assert row["step_us"] * row["steps"] <= 1e6 * sum(4 / speed for speed in row["samples_ts"]), row


def test_bench_ops_tables():
    flags = ("bench", MODEL, "-p", "4", "-n", "3", "-r", "1", "-t", "1", "--ops")
    text = output(*flags, "-o", "md").decode().partition("\n")[2]  # behind the line of rates
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    assert len(blocks) == 8 and all(len({line.count("|") for line in block}) == 1 for block in blocks), text
    assert "pp4" in blocks[0][2] and "tg3" in blocks[4][2], text
    for operators, caption, linears in (blocks[1:4], blocks[5:8]):
        assert "operator" in operators[0] and "lm_head" in "".join(operators) and operators[-1].startswith("| all "), text
        assert "by rates" in caption[1] and "stalled off" in linears[0], text
        assert {line.split()[1] for line in linears[2:]} == {"attn.qkv", "attn.o", "mlp.gate_up", "mlp.down", "lm_head"}, text
    rows = list(csv.DictReader(io.StringIO(output(*flags, "-o", "csv").decode())))
    assert all(None not in row and None not in row.values() and float(row["work_us"]) >= 0 for row in rows), rows
    for test in (("4", "0"), ("0", "3")):
        ops = [row["op"] for row in rows if (row["n_prompt"], row["n_gen"]) == test]
        assert "linear" in ops and ops[-3:] == ["end", "rest", "all"], (test, ops)


def test_plan():
    got = document("plan", MODEL, "--no-measure", "--batch", "4", "--context", "512", "-t", "2")
    assert got["steps"] and {"windows", "sites"} <= set(got) and got["rows_max"] == 4 and got["context_max"] == 512
    assert output("plan", MODEL, "--no-measure", "--dot").decode().startswith("digraph ")
    text = output("plan", MODEL, "--no-measure").decode()
    assert "plan rows_max=1 " in text, text[:400]


def test_manual_names_every_option():
    with open(os.path.join(SOURCE, "man", "prestage.1"), encoding="utf-8") as file:
        manual = file.read().replace("\\", "")
    for command in COMMANDS + EXPERTS_COMMANDS + MACHINE_COMMANDS:
        assert command in manual
        for name in re.findall(r"(?<![\w-])(--?[a-z][a-z-]+)", output(*command.split(), "--help").decode().split("\n\n", 2)[2]):
            assert name in manual, f"{name} of {command} is not in man/prestage.1"


main(sys.modules[__name__])
