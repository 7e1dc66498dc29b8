"""Split GGUF files: the same answers as from one file in every command, and what is wrong named by its part."""
import os
import shutil
import sys
import tempfile

from program import document, golden, main, output, refused
from split_gguf import split

NAMES = ("smollm-q8_0", "qwen3moe-q8_0", "mixtral-q8_0")


def answer(path, *flags, **keywords):
    got = document("run", path, "-p", "abc", "--raw", "--temp", "0", "-n", "24", *flags, **keywords)
    return got["tokens"], got["text"]


def test_parts_give_what_one_file_gives():
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            one = golden(name)
            for count, alone in ((2, False), (3, True), (7, False)):
                first = split(one, count, folder, alone)[0]
                assert answer(first) == answer(one), (name, count)
            assert output("tokenize", first, "-p", "some text") == output("tokenize", one, "-p", "some text")
            assert output("plan", first, "--no-measure") == output("plan", one, "--no-measure")
        text = os.path.join(folder, "text")
        with open(text, "w", encoding="ascii") as file:
            file.write("abc def " * 100)
        assert document("perplexity", first, text, "-c", "64")["ppl"] == document("perplexity", one, text, "-c", "64")["ppl"]


def test_on_two_ranks():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("smollm-q8_0", "mixtral-q8_0"):
            first = split(golden(name), 3, folder)[0]
            assert answer(first, "--tp", "2", "-t", "1") == answer(golden(name), "--tp", "2", "-t", "1"), name


def test_what_is_said_of_them():
    with tempfile.TemporaryDirectory() as folder:
        paths = split(golden("qwen3moe-q8_0"), 3, folder)
        left, right = document("info", paths[0]), document("info", golden("qwen3moe-q8_0"))
        assert left["parts"] == 3 and right["parts"] == 1
        assert left["file_bytes"] == sum(os.path.getsize(path) for path in paths)
        assert left["fingerprint"] != right["fingerprint"]
        assert left["tensors"] == right["tensors"] and left["supported"]
        assert b"GGUF 3, 3 parts, " in output("info", paths[0])
        assert b"parts" not in output("info", golden("qwen3moe-q8_0")).split(b"\n")[1]
        with open(paths[2], "rb") as file:
            content = bytearray(file.read())
        content[-64] ^= 1  # of its last tensor, which is short
        with open(paths[2], "wb") as file:
            file.write(content)
        assert document("info", paths[0])["fingerprint"] != left["fingerprint"]


def test_compiled_and_planned():
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            first = split(golden(name), 3, folder)[0]
            plans, path = os.path.join(folder, name + ".plan"), os.path.join(folder, name + ".pst")
            output("plan", first, "-o", plans, "--no-measure", "-t", "1")
            output("compile", first, "-o", path, "--plan", plans)
            assert answer(path) == answer(golden(name)), name
            assert answer(first, "--plan", plans, "-t", "1") == answer(golden(name)), name
            output("compile", "--verify", path)
            left, right = document("info", path), document("info", first)
            assert left["fingerprint"] == right["fingerprint"] and left["parts"] == right["parts"] == 3
            assert left["metadata"] == right["metadata"] and left["tensors"] == right["tensors"]


def test_what_is_wrong_is_named():
    with tempfile.TemporaryDirectory() as folder:
        paths = split(golden("smollm-q8_0"), 3, folder)
        names = [os.path.basename(path) for path in paths]
        for command in (["run", "-p", "x"], ["info"], ["plan"], ["tokenize", "-p", "x"], ["bench"], ["compile", "-o", folder + "/a.pst"]):
            def refuse(path, *words):
                refused(command[0], path, *command[1:], says=[path, *words])
            refuse(paths[1], f"part 2 of 3 of a split file; the first one, {names[0]}, would be right")
            os.rename(paths[1], paths[1] + ".away")
            refuse(paths[0], f"part 2 of 3, {names[1]}: it is missing")
            shutil.copy(paths[2], paths[1])
            refuse(paths[0], f"part 2 of 3, {names[1]}: split.no is 2; 1 would be right")
            with open(paths[1] + ".away", "rb") as whole, open(paths[1], "wb") as file:
                file.write(whole.read()[:-1000])
            refuse(paths[0], f"part 2 of 3, {names[1]}: the file is cut short at byte")
            os.rename(paths[1] + ".away", paths[1])
        other = os.path.join(folder, "other")
        os.mkdir(other)
        shutil.copy(split(golden("qwen2-q8_0"), 3, other)[1], paths[1])
        refused("info", paths[0], says=[paths[0], names[1]])


main(sys.modules[__name__])
