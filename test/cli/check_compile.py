"""Compiled files: the same answers, damage found, what does not fit refused, no half files."""
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

from program import PRESTAGE, document, golden, main, output, refused, run

MODEL = golden("smollm-q8_0")


def compiled(folder, name="smollm-q8_0"):
    path = os.path.join(folder, name + ".pst")
    output("compile", golden(name), "-o", path)
    return path


def changed(path, offset, data):
    """A copy with other bytes at an offset."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    content[offset:offset + len(data)] = data
    with open(path + ".changed", "wb") as file:
        file.write(content)
    return path + ".changed"


def answer(path):
    got = document("run", path, "-p", "abc", "--raw", "--temp", "0", "-n", "24")
    return got["tokens"], got["text"]


def sections(path):
    """Name to (offset, bytes), read from the description of the format."""
    with open(path, "rb") as file:
        page = file.read(4096)
    count, = struct.unpack_from("<I", page, 48)
    found = {}
    for i in range(count):
        name, offset, size, _ = struct.unpack_from("<16sQQQ", page, 56 + 40 * i)
        found[name.rstrip(b"\0").decode()] = (offset, size)
    return found


def test_both_files_give_the_same():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("smollm-q8_0", "kmix-k", "qwen3moe-q8_0", "gemma3-q8_0"):
            path = compiled(folder, name)
            assert answer(path) == answer(golden(name)), name
            for flags in (["tokenize", "-p", "some text"], ["plan", "--no-measure"]):
                assert output(flags[0], path, *flags[1:]) == output(flags[0], golden(name), *flags[1:]), flags
            left, right = document("info", path), document("info", golden(name))
            assert left.pop("compiled") is True and right.pop("compiled") is False
            assert left.pop("file_bytes") == os.path.getsize(path)
            for got in (left, right):
                got.pop("path")
                got.pop("file_bytes", None)
            assert left == right
        text = os.path.join(folder, "text")
        with open(text, "w", encoding="ascii") as file:
            file.write("abc def " * 100)
        left, right = (document("perplexity", path, text, "-c", "64")["ppl"]
                       for path in (MODEL, os.path.join(folder, "smollm-q8_0.pst")))
        assert left == right
        assert document("bench", os.path.join(folder, "kmix-k.pst"), "-p", "8", "-n", "4", "-r", "1", "--no-ceiling")


def test_experts_that_lie_apart_give_the_same_in_every_mode():
    asked = {"weight_prefetch_config": {"enabled": True, "prefetch_ratio": {"moe": {"gate_up": 1}}}}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("qwen3moe-q8_0", "mixtral-q8_0", "qwen3moe-wide-q4_k"):
            path = compiled(folder, name)
            for flags in (("-t", "2", "--additional-config", json.dumps(asked)), ("-t", "1", "--prefetch-threads", "1"),
                          ("-t", "3", "--prefetch", "auto")):
                left, right = (run("run", model, "-p", "abc def", "--raw", "--temp", "0", "-n", "12", "--json", *flags)
                               for model in (path, golden(name)))
                assert left.returncode == right.returncode == 0, (name, flags, left)
                assert json.loads(left.stdout)["tokens"] == json.loads(right.stdout)["tokens"], (name, flags)


def test_what_it_says():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.pst")
        got = document("compile", MODEL, "-o", path)
        assert got == {"gguf": MODEL, "file": path, "bytes": os.path.getsize(path),
                       "fingerprint": document("info", MODEL)["fingerprint"], "layout": got["layout"]}, got
        assert document("compile", "--verify", path) == {"file": path, "weights": 20, "damaged": []}
        assert b"20 weights" in output("compile", "--verify", path)


def test_damage_is_found_and_named():
    with tempfile.TemporaryDirectory() as folder:
        path = compiled(folder)
        places = sections(path)
        table, data = places["weights"], places["data"]
        with open(path, "rb") as file:
            content = file.read()
        for i in range(table[1] // 112):
            at = table[0] + 112 * i
            name = content[at:at + 64].rstrip(b"\0").decode()
            offset, size = struct.unpack_from("<QQ", content, at + 88)
            where = data[0] + offset + (0, size // 2, size - 1)[i % 3]
            bad = changed(path, where, bytes([content[where] ^ 0x10]))
            done = run("compile", "--verify", bad)
            assert done.returncode == 1 and done.stderr == b"", done
            assert done.stdout.decode() == f"{bad}: weight {name} is damaged\n", done
            assert run("compile", "--verify", bad, "--json").returncode == 1
        where = content.index(b"general.name") + 20  # in its value
        done = run("compile", "--verify", changed(path, where + 5, bytes([content[where + 5] ^ 1])))
        assert done.returncode == 1 and b"section gguf-head is damaged" in done.stdout, done
        done = run("compile", "--verify", changed(path, 32, b"\x01\x02\x03"))
        assert done.returncode == 1 and b"header is damaged" in done.stdout, done


def test_damaged_experts_are_named():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("qwen3moe-q8_0", "mixtral-q8_0"):
            path = compiled(folder, name)
            places = sections(path)
            with open(path, "rb") as file:
                content = file.read()
            layers = places["experts"][1] // 32
            assert layers == document("info", path)["hyperparameters"]["layers"]
            for layer in range(layers):
                offset, stride, used, experts = struct.unpack_from("<3QI", content, places["experts"][0] + 32 * layer)
                assert (places["data"][0] + offset) % 4096 == 0 == stride % 4096 and used <= stride
                for expert in range(experts):
                    where = places["data"][0] + offset + expert * stride + (0, used // 2, used - 1)[expert % 3]
                    bad = changed(path, where, bytes([content[where] ^ 1]))
                    done = run("compile", "--verify", bad)
                    assert done.returncode == 1 and done.stdout.decode() == f"{bad}: expert {expert} of blk.{layer} is damaged\n", done
            found = json.loads(run("compile", "--verify", bad, "--json").stdout)["damaged"]
            assert found == [{"part": "expert", "name": f"{expert} of blk.{layer}"}], found
            sums = places["expert-sums"][0]
            done = run("compile", "--verify", changed(path, sums + 8, bytes([content[sums + 8] ^ 1])))
            assert done.stdout.decode() == f"{bad}: section expert-sums is damaged\n{bad}: expert 1 of blk.0 is damaged\n", done


def on_terminal(*arguments):
    """Exit code, stdout, and what a terminal on stderr got."""
    controller, terminal = os.openpty()
    with subprocess.Popen([PRESTAGE, *arguments], stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        written = process.stdout.read()
    shown = b""
    try:
        while block := os.read(controller, 4096):
            shown += block
    except OSError:  # all is read and nobody writes
        pass
    os.close(controller)
    return process.returncode, written, shown


def test_verifying_shows_progress():
    with tempfile.TemporaryDirectory() as folder:
        path = compiled(folder)
        code, written, shown = on_terminal("compile", "--verify", path)
        assert code == 0 and b"20 weights" in written, written
        assert shown.startswith(b"\rreading ") and b" 100 %" in shown and shown.endswith(b"\r\x1b[K"), shown
        code, written, shown = on_terminal("compile", "--verify", "--json", path)
        assert code == 0 and json.loads(written)["damaged"] == [] and b" 100 %" in shown
        assert run("compile", "--verify", path).stderr == b""


def test_verifying_ends_at_an_interrupt():
    with tempfile.TemporaryDirectory() as folder:
        path = compiled(folder)
        for i in range(20):
            with subprocess.Popen([PRESTAGE, "compile", "--verify", path], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as process:
                time.sleep(0.0003 * i)
                process.send_signal(signal.SIGINT)
                written, said = process.communicate()
            # before its handler is there, while it reads, or after
            assert process.returncode in (-signal.SIGINT, 130, 0) and said == b"", (process.returncode, said)
            assert (process.returncode == 0) == (b"as they were written" in written) or process.returncode == 130


def test_what_does_not_fit_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        path = compiled(folder)
        size = os.path.getsize(path)
        layout = document("compile", MODEL, "-o", os.path.join(folder, "b.pst"))["layout"]
        for command in (["run", "-p", "x"], ["info"], ["plan"], ["tokenize", "-p", "x"], ["bench"], ["compile", "--verify"]):
            def refuse(bad, *words):
                refused(command[0], bad, *command[1:], says=[bad, *words])
            refuse(changed(path, 12, struct.pack("<I", layout - 1)),
                   f"compiled with layout {layout - 1}, this build reads {layout}: compile it again")
            refuse(changed(path, 8, struct.pack("<I", 9)), "version 9", "newer")
            refuse(changed(path, 8, struct.pack("<I", 1)), "version 1", "compile it again")
            refuse(changed(path, 56, b"x"), "no section 'gguf-head'")
            cut = path + ".cut"
            for length in (size - 1, size // 2, 4096, 100):
                with open(path, "rb") as whole, open(cut, "wb") as file:
                    file.write(whole.read(length))
                refuse(cut, "cut short")
        refused("compile", "--verify", changed(path, 0, b"X"), says=["no compiled file"])
        refused("compile", "--verify", MODEL, says=["GGUF"])
        refused("compile", path, "-o", os.path.join(folder, "c.pst"), says=["compiled already"])
        place = sections(path)["weights"][0]
        refused("run", changed(path, place + 68, struct.pack("<I", 17)), "-p", "x", says=["17", "compile it again"])


def test_unknown_sections_are_ignored():
    with tempfile.TemporaryDirectory() as folder:
        path = compiled(folder)
        more = struct.pack("<16sQQQ", b"plan", 4096, 10, 0)
        bad = changed(changed(path, 48, struct.pack("<I", 4)), 56 + 3 * 40, more)
        assert answer(bad) == answer(MODEL)


def test_targets():
    with tempfile.TemporaryDirectory() as folder:
        path = compiled(folder)
        refused("compile", MODEL, "-o", path, says=[path, "--force"])
        output("compile", golden("kmix-k"), "-o", path, "--force")
        assert answer(path) == answer(golden("kmix-k"))
        refused("compile", MODEL, says=["-o"])
        refused("compile", path, "--verify", "-o", "x", says=["--verify", "-o"])
        refused("compile", MODEL, "-o", MODEL, "--force", says=["the model itself"])
        refused("compile", MODEL, "-o", os.path.join(folder, "none", "a.pst"), says=["none"])
        refused("compile", MODEL, "-o", folder, "--force", says=[folder])
        refused("compile", MODEL, "-o", "/dev/null", "--force", says=["/dev/null"])
        assert os.listdir(folder) == [os.path.basename(path)]


def test_a_failed_write_leaves_nothing():
    with tempfile.TemporaryDirectory() as folder:
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
        done = subprocess.run([PRESTAGE, "compile", MODEL, "-o", os.path.join(folder, "a.pst")], preexec_fn=limit,
                              restore_signals=False, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 2 and done.stderr.count(b"\n") == 1, done
        assert os.listdir(folder) == []


def test_interrupts_leave_a_whole_file_or_none():
    ends = set()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.pst")
        for i in range(60):
            with subprocess.Popen([PRESTAGE, "compile", MODEL, "-o", path], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE) as process:
                time.sleep(0.0005 * i)
                process.send_signal(signal.SIGINT)
                process.wait()
            ends.add(process.returncode)
            if os.path.exists(path):
                output("compile", "--verify", path)
                os.unlink(path)
            assert os.listdir(folder) == [], os.listdir(folder)
    assert 130 in ends or -signal.SIGINT in ends, ends


main(sys.modules[__name__])
