"""--memory: what is measured stays below it, from the first instant on, most of it is used, and answers are the same."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from program import EMPTY, PRESTAGE, SOURCE, Skip, complaints, document, golden, main, output, refused

MIB = 1 << 20
with open(PRESTAGE, "rb") as program:
    SANITIZED = re.search(rb"__[at]san_init", program.read()) is not None  # whose memory is another
TOKENS = 600 if SANITIZED else 4200  # of the longest prompt: in these models a letter is a token
FOLDER = tempfile.TemporaryDirectory(prefix="prestage-memory-")  # some 700 MB
SHAPE = ("--type", "Q8_0", "--experts", "32", "--top-k", "4", "--layers", "8", "--dim", "512", "--heads", "8", "--kv-heads",
         "2", "--expert-ffn", "384", "--vocabulary", "8192", "--ffn", "512")


def path(name):
    return os.path.join(FOLDER.name, name)


def make(name, *shape):
    subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "bench", "make-model.py"), *shape, path(name)], check=True,
                   stdout=subprocess.DEVNULL)


def models():
    """The same model, 170 MB, 153 MiB of it experts, in every kind of file."""
    if not os.path.exists(path("text")):
        make("model.gguf", *SHAPE)
        output("compile", path("model.gguf"), "-o", path("model.pst"), "--force")
        make("parts.gguf", *SHAPE, "--split", "3")
        with open(path("text"), "w", encoding="ascii") as file:
            file.write("".join("abcdefgh ijklmnop"[i * i % 7 + i % 11] for i in range(1, TOKENS)))
    return path("model.gguf"), path("model.pst"), path("parts-00001-of-00003.gguf")


class Run:
    """A run of the program, and the most memory that it had at any time."""

    def __init__(self, *arguments, memory, wrapper=()):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            start = time.monotonic()
            process = subprocess.Popen([*wrapper, PRESTAGE, *arguments, "--memory", f"{memory:.0f}MiB"], stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=err, env={**os.environ, "PRESTAGE_CACHE": EMPTY.name})
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = self.code = os.waitstatus_to_exitcode(status)
            self.seconds = time.monotonic() - start
            self.peak = usage.ru_maxrss / 1024
            out.seek(0)
            err.seek(0)
            self.out, self.stderr = out.read().decode(errors="replace"), err.read()
            self.err = complaints(self)

    def answer(self):
        """What the run computed; a bench says nothing of it."""
        assert self.code == 0, (self.code, self.err)
        result = json.loads(self.out)
        return result["tokens"] if "tokens" in result else result["ppl"] if "ppl" in result else None


def commands(model):
    return {
        "run": ("run", model, "-f", path("short"), "--raw", "--temp", "0", "-n", "8", "-c", "1000", "-t", "2", "--json"),
        "bench": ("bench", model, "-p", "500", "-n", "8", "-r", "1", "-t", "2", "-o", "json"),
        "perplexity": ("perplexity", model, path("short"), "-c", "250", "-t", "2", "--json"),
    }


def needed(*arguments):
    """MiB below which a run is refused, by the refusal."""
    line = refused(*arguments, "--memory", "1MiB", says=["1 MiB of memory", "weights", "KV cache"])
    return int(re.search(r"the model needs (\d+) MiB", line).group(1))


def test_measured_memory_stays_below():
    files = models()
    with open(path("text"), encoding="ascii") as file, open(path("short"), "w", encoding="ascii") as short:
        short.write(file.read(900))
    right = {name: Run(*line, memory=4096).answer() for name, line in commands(files[0]).items()}
    assert right["run"] and right["perplexity"] > 0
    for model in files:
        for name, line in commands(model).items():
            least = needed(*line)
            for extra in (1, 80, 170) if SANITIZED else (1, 3, 25, 80, 140, 170):
                memory = least + extra
                got = Run(*line, memory=memory)
                assert got.code == 0, (model, name, memory, got.err)
                assert name == "bench" or got.answer() == right[name], (model, name, memory)
                assert SANITIZED or got.peak <= memory * 1.02, (model, name, memory, got.peak)
                # What there is is used: all but what the shorter steps of these runs do not touch.
                if name == "run" and 100 <= memory <= least + 140:
                    assert SANITIZED or got.peak >= memory * 0.92, (model, memory, got.peak)


def test_below_the_floor_nothing_is_loaded():
    for model in models():
        line = ("run", model, "-p", "a", "--raw", "-n", "1", "-c", "1000", "-t", "2")
        least = needed(*line)
        got = Run(*line, memory=least - 2)
        assert got.code == 2 and got.out == "" and got.err.count("\n") == 1, (got.code, got.err)
        for word in ("of the process", "weights that every token reads", "KV cache and workspaces", "experts at least"):
            assert word in got.err, got.err
        assert SANITIZED or got.peak < 24, got.peak
        # The context that it names is the longest that would do.
        long = (*line[:-4], "-c", "30000", "-t", "2")
        got = Run(*long, memory=least + 20)
        context = int(re.search(r"a context of (\d+) tokens would leave room, this one has 30000", got.err).group(1))
        assert got.code == 2 and 1000 < context < 30000, got.err
        right = Run(*long[:-4], "-c", str(context), "-t", "2", memory=least + 20)
        assert SANITIZED or (right.code == 0 and right.peak <= 1.02 * (least + 20)), (right.err, right.peak)
        assert Run(*long[:-4], "-c", str(context + 2048), "-t", "2", memory=least + 20).code == 2
        # Without experts there is nothing to leave out.
    refused("run", golden("llama-q8_0"), "-p", "a", "-n", "1", "--memory", "2MiB", says=["the model needs", "which every token"])


def test_enough_for_all():
    for model in models():
        line = ("run", model, "-p", "abc", "--raw", "--temp", "0", "-n", "6", "-c", "500")
        whole = document(*line)
        roomy = document(*line, "--memory", "1GiB")
        assert "experts" in document(*line, "--memory", "100MiB")
        assert "experts" not in roomy and roomy["tokens"] == whole["tokens"]
        assert "all kept" in output("plan", model, "--memory", "1GiB").decode()
    assert document("run", golden("llama-q8_0"), "-p", "abc", "--temp", "0", "-n", "4", "--memory", "1GiB")["tokens"]


def test_hot_sets():
    for model in models():
        output("experts", "record", model, "-f", path("text"), "-c", "500", "-n", "0", "-o", path("counts"), "--force")
        output("experts", "rank", path("counts"), "--sizes", "20,100,200", "-o", path("hot"), "--force")
        line = ("run", model, "-p", "abc", "--raw", "--temp", "0", "-n", "20", "--hot-set", path("hot"))
        right = document(*line[:-2])["tokens"]
        least = needed(*line, "-c", "500")
        for name in ("hotset", "auto", "heat"):
            got = document(*line, "-c", "500", "--memory", f"{least + 30}MiB", "--expert-policy", name)  # as many as fit
            assert got["tokens"] == right, name
            assert name != "hotset" or got["experts"]["from"]["pinned"] > 0, got["experts"]
        many = (*line, "--hot-experts", "100", "--expert-policy", "hotset", "--memory", f"{least + 70}MiB")
        assert document(*many, "-c", "500")["experts"]["from"]["pinned"] > 0
        # Too many: what they need, what there is, and the context that would do; or cut.
        said = refused(*many, "-c", "30000", says=["with those that are hot", "--hot-cut"])
        context = re.search(r"a context of (\d+) tokens would leave room", said).group(1)
        assert SANITIZED or document(*many, "-c", context)["tokens"] == right
        refused(*line, "--hot-experts", "200", "-c", "500", "--memory", f"{least + 30}MiB", says=["no context is so short"])
        refused(*line, "--hot-experts", "200", "-c", "500", "--expert-memory", "30MiB", says=["30.0 MiB for experts", "with 200"])
        cut = document(*line, "--hot-experts", "200", "--hot-cut", "--expert-policy", "hotset", "-c", "500",
                       "--memory", f"{least + 30}MiB")
        assert cut["tokens"] == right and cut["experts"]["from"]["pinned"] > 0
        got = Run(*line, "--hot-experts", "200", "--hot-cut", "-c", "500", "--json", memory=least + 30)  # inside the limit
        assert got.answer() == right and (SANITIZED or got.peak <= 1.02 * (least + 30)), got.peak


def test_what_would_change_nothing_is_refused():
    moe = ("run", golden("qwen3moe-q8_0"), "-p", "a", "-n", "1")
    refused(*moe, "--expert-policy", "lru", says=["--expert-policy lru without a limit"])
    refused(*moe, "--memory", "1GiB", "--hot-experts", "3", says=["--hot-experts without a set"])
    refused(*moe, "--memory", "1GiB", "--hot-cut", says=["--hot-cut without a set"])
    refused(*moe, "--memory", "1GiB", "--expert-policy", "hotset", says=["hotset without a set"])
    refused(*moe, "--memory", "1GiB", "--expert-policy", "lfu", "--hot-set", "x", says=["which takes no set"])
    refused(*moe, "--memory", "1GiB", "--memory-utilization", "0.5", says=["one of them"])
    refused("run", golden("llama-q8_0"), "-p", "a", "--expert-memory", "1MiB", says=["the model has none"])


def test_prompts_and_threads_at_the_floor():
    model = models()[1]
    with open(path("text"), encoding="ascii") as file:
        text = file.read()
    for length in (1, 17, 513) if SANITIZED else (1, 2, 17, 513, 4096):
        with open(path("prompt"), "w", encoding="ascii") as file:
            file.write(text[:length])
        line = ("run", model, "-f", path("prompt"), "--raw", "--temp", "0", "-n", "3", "-c", "4200", "--json")
        least = needed(*line, "-t", "8") + 1
        right = Run(*line, memory=4096).answer()
        for threads in (1, 2, 3, 8) if length < 1000 else (2,):
            got = Run(*line, "-t", str(threads), memory=least)
            assert got.answer() == right, (length, threads)
            assert SANITIZED or got.peak <= 1.02 * least, (length, threads, got.peak, least)


def test_all_experts_of_a_layer():
    """A token takes all of them: the floor is two layers."""
    make("all.gguf", "--type", "Q4_0", "--experts", "4", "--top-k", "4", "--layers", "5", "--dim", "256", "--heads", "4",
         "--kv-heads", "2", "--expert-ffn", "512", "--vocabulary", "1000", "--ffn", "256")
    line = ("run", path("all.gguf"), "-p", "abcdef", "--raw", "--temp", "0", "-n", "12", "-c", "100")
    right = document(*line)["tokens"]
    said = refused(*line, "--expert-memory", "1MiB", says=["at least would be right"])
    least = float(re.search(r"([\d.]+) MiB at least", said).group(1)) + 0.05
    got = document(*line, "--expert-memory", f"{int(least * 1024)}KiB")
    assert got["tokens"] == right and got["experts"]["kept"] == 8 and got["experts"]["from"]["disk"] > 0


def test_experts_of_two_sizes():
    """Layers whose experts are larger than others: each size has its part of the budget, and none empties the other's."""
    make("mixed.gguf", "--type", "Q4_K_M", "--experts", "16", "--top-k", "3", "--layers", "8", "--dim", "512", "--heads", "8",
         "--kv-heads", "2", "--expert-ffn", "512", "--vocabulary", "2000", "--ffn", "512")
    output("compile", path("mixed.gguf"), "-o", path("mixed.pst"))
    for model in (path("mixed.gguf"), path("mixed.pst")):
        line = ("run", model, "-p", "abcdef" * 20, "--raw", "--temp", "0", "-n", "24", "-c", "500")
        right = document(*line)["tokens"]
        least = needed(*line)
        kept = []
        for extra in (2, 12, 24):
            got = document(*line, "--memory", f"{least + extra}MiB")
            assert got["tokens"] == right and got["experts"]["slot_bytes"] <= got["experts"]["budget_bytes"]
            assert got["experts"]["slot_bytes"] > got["experts"]["budget_bytes"] - 2 * MIB, got["experts"]  # an expert of each
            kept.append(got["experts"]["kept"])
        assert 12 <= kept[0] < kept[1] < kept[2] < 128, kept


def cgroup(limit_bytes):
    """A folder of a new cgroup in one with that limit, and the words that start a program in it."""
    for parent, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = os.path.join(parent, f"prestage-test-{os.getpid()}")
        inner = os.path.join(folder, "inner")
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            with open(os.path.join(folder, limit), "w", encoding="ascii") as file:
                file.write(str(limit_bytes))
            os.mkdir(inner)
            return inner, ("sh", "-c", f'echo $$ > {inner}/cgroup.procs && exec "$@"', "sh")
        except OSError:
            os.rmdir(folder)
    raise Skip("no cgroup with a memory limit can be made here")


def test_utilization_of_a_cgroup():
    if SANITIZED:
        raise Skip("a sanitizer's memory does not fit into the limit")
    model = models()[1]
    line = ("-p", "abc", "--raw", "--temp", "0", "-n", "6", "-c", "500", "-t", "2", "--json")
    right = document("run", model, *line)["tokens"]
    folder, wrapper = cgroup(150 * MIB)
    try:
        for share in (0.5, 0.9):
            time.sleep(0.5)  # the memory of the run before, which io_uring has held, goes a little later
            done = subprocess.run([*wrapper, PRESTAGE, "run", model, *line, "--memory-utilization", str(share)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=120)
            assert done.returncode == 0, (share, done.returncode, done.stderr)
            got = json.loads(done.stdout)
            # Of what the limit leaves; experts get that but for what the others take.
            assert got["tokens"] == right and got["experts"]["budget_bytes"] < share * 150 * MIB
            assert got["experts"]["budget_bytes"] > (share * 150 - 50) * MIB, got["experts"]
        done = subprocess.run([*wrapper, PRESTAGE, "run", model, *line, "--memory", "170MiB"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, timeout=120)  # more than there is
        assert done.returncode == 1 and "are free" in complaints(done) and complaints(done).count("\n") == 1, done
    finally:
        time.sleep(0.1)
        os.rmdir(folder)
        os.rmdir(os.path.dirname(folder))


def test_interrupts():
    for model in models():
        for seconds in (0.02, 0.05, 0.1, 0.3, 1.0):
            with subprocess.Popen([PRESTAGE, "run", model, "-p", "abc", "--raw", "-n", "-1", "-c", "4000", "--ignore-eos",
                                   "--memory", "110MiB"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as process:
                time.sleep(seconds)
                process.send_signal(signal.SIGINT)
                err = process.communicate(timeout=60)[1]
            assert process.returncode in (130, -signal.SIGINT), (process.returncode, err)  # before its handler is there


def test_file_is_spoilt_while_it_runs():
    for name in ("gguf", "pst"):
        for is_cut in (False, True) if name == "gguf" else (False,):  # a compiled file is mapped
            with open(models()[name == "pst"], "rb") as file, open(path("spoilt"), "wb") as copy:
                copy.write(file.read())
            with subprocess.Popen([PRESTAGE, "run", path("spoilt"), "-p", "abc", "--raw", "-n", "-1", "-c", "4000",
                                   "--ignore-eos", "--memory", "110MiB"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as process:
                process.stdout.read(1)
                size = os.path.getsize(path("spoilt"))
                with open(path("spoilt"), "r+b") as file:
                    if is_cut:
                        file.truncate(size // 2)
                    else:
                        file.seek(size - MIB)
                        file.write(bytes(MIB))
                err = process.communicate(timeout=60)[1].decode()
            lines = [line for line in err.splitlines() if "expert" in line]
            assert process.returncode == 2 and len(lines) == 1, (process.returncode, err)
            for word in ("_exps", path("spoilt"), " bytes at ", "the file "):
                assert word in lines[0], err


main(sys.modules[__name__])
