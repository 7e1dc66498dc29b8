"""Models that ranks share: the same answers however they were started, and one line when something is wrong with them.

A rank that is killed, stopped or interrupted ends the job within ten seconds, and leaves no process behind.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from program import NO_LEAKS, PRESTAGE, WITH_MPI, Skip, document, golden, main, output, run

MODEL = golden("smollm-q8_0")
ANSWER = ("-p", "abc", "--raw", "--temp", "0", "-n", "40")
# Long enough to be hit in the middle: five collectives of 2 ms a token.
SLOW = ("run", MODEL, "-p", "abc", "--raw", "--temp", "0", "-n", "900", "--ignore-eos", "--comm-sim", "latency=2ms")


def tokens(path, *flags):
    return document("run", path, *ANSWER, *flags)["tokens"]


# ---- processes

def descendants(pid):
    """Processes that it has started, and those that they have."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parents.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
        except OSError:
            pass  # it has ended
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def is_rank(pid):
    try:
        return os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(PRESTAGE)
    except OSError:
        return False


class Job:
    """A job that is in the middle of an answer."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env={**os.environ, **WITH_MPI}, start_new_session=True)
        os.read(self.process.stdout.fileno(), 1)  # a token has come
        self.all = descendants(self.process.pid)
        self.ranks = sorted(pid for pid in [self.process.pid, *self.all] if is_rank(pid))
        assert len(self.ranks) == 2, self.ranks
        self.start = time.monotonic()

    def end(self, limit=10):
        """The exit code and stderr, when all have ended in time."""
        try:
            _, errors = self.process.communicate(timeout=20)
            seconds = time.monotonic() - self.start
            assert seconds < limit, f"{seconds:.1f} s"
            for _ in range(20):
                left = [pid for pid in self.all if is_alive(pid)]
                if not left:
                    break
                time.sleep(0.1)
            assert not left, f"left behind: {left}"
            return self.process.returncode, errors.decode()
        finally:
            for pid in [self.process.pid, *self.all]:
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)


def ours(errors):
    """The lines that are not mpirun's, nor say that this machine is small."""
    return [line for line in errors.splitlines()
            if line.startswith("prestage: ") and not line.startswith("prestage: warning: ")]


def refused(*arguments, says=(), **keywords):
    """A run that has to fail with exactly one line, whatever the number of ranks, which holds all of `says`."""
    done = run(*arguments, **keywords)
    lines = ours(done.stderr.decode())
    assert done.returncode == 2 and len(lines) == 1 and done.stdout == b"", f"{arguments}: {done}"
    for word in says:
        assert word in lines[0], f"{arguments}: {word!r} is not in {lines[0]!r}"
    return lines[0]


# ---- without a launcher

def test_the_same_answer():
    for name in ("qwen2-f32", "llama-f16", "qwen3-f16"):
        alone = tokens(golden(name))
        for ranks in ("1", "2", "3"):
            assert tokens(golden(name), "--tp", ranks) == alone, (name, ranks)
    first = tokens(MODEL, "--tp", "3")
    for flags in (("-t", "2"), ("-b", "1"), ("--prefetch", "off"), ("--prefetch", "preserve"), ("--comm-schedule", "fused"),
                  ("--comm-sim", "latency=50us,bandwidth=1Gbps"), ("--tensor-parallel-size", "3"), ("--sequence-parallel",),
                  ("--sequence-parallel", "-b", "2", "--comm-sim", "latency=50us,bandwidth=1Gbps")):
        assert tokens(MODEL, "--tp", "3", *flags) == first, flags
    for name in ("mixtral-q8_0", "gemma3-q8_0"):
        assert tokens(golden(name), "--tp", "2", "--sequence-parallel") == tokens(golden(name), "--tp", "2"), name


def test_the_best_logits_alone_give_the_same_tokens():
    same = (("--repeat-penalty", "1", "--repeat-last-n", "8"), ("--sequence-parallel",), ("--logit-bias", "5+0"))  # the last asks for all
    for sampling in (("--temp", "0"), ("--seed", "5"), ("--seed", "6", "--top-k", "9", "--temp", "2", "--top-p", "0.9", "--min-p", "0")):
        for name, ranks in ((MODEL, "3"), (golden("gemma3-q8_0"), "2")):
            def answer(*more):
                return document("run", name, "-p", "abc", "--raw", "-n", "30", "--tp", ranks, *sampling, *more)["tokens"]
            first = answer()
            for more in same:
                assert answer(*more) == first, (name, sampling, more)
    for flags, says in (((), "40 best"), (("--temp", "0"), "1 best"), (("--ignore-eos",), None), (("--top-k", "0"), None),
                        (("--presence-penalty", "0.5"), None), (("--top-k", "100"), None), (("--tp", "1"), None)):
        shown = run("run", MODEL, "-p", "abc", "-n", "2", "--tp", "2", *flags, "--stats").stderr.decode()
        lines = [line for line in shown.splitlines() if line.startswith("logits")]
        assert len(lines) == (says is not None) and (says is None or says in lines[0]), (flags, shown)
    rows = document("bench", MODEL, "-p", "0", "-n", "4", "-r", "1", "--no-ceiling", "--tp", "2", "--compare", "off,auto")
    assert [row["best_logits"] for row in rows] == [1, 1], rows
    steps = document("plan", MODEL, "--tp", "2", "--no-measure")["steps"]
    assert steps[-1]["op"] == "all_gather_best", steps[-1]


def test_sequence_parallel():
    for ranks, collectives in (("1", set()), ("2", {"reduce_scatter", "all_gather_rows", "all_gather_best"})):
        steps = document("plan", MODEL, "--tp", ranks, "--sequence-parallel", "--no-measure")["steps"]
        assert {step["op"] for step in steps if step["stream"] == 1} == collectives, (ranks, steps)
    own = [step for step in steps if step["output"] and step["output"]["shape"][0] == "1O"]
    assert {"add", "norm_quantise", "own_rows"} <= {step["op"] for step in own}, own
    for command in (("run", MODEL, "-p", "x", "--comm-schedule", "fused"), ("bench", MODEL, "--compare", "off,off+fused"),
                    ("plan", MODEL, "--no-measure", "--comm-schedule", "fused"),
                    ("simulate", MODEL, "--no-measure", "--compare", "auto+fused")):
        refused(*command, "--tp", "2", "--sequence-parallel", says=["--comm-schedule fused with --sequence-parallel"])
    assert document("simulate", MODEL, "--no-measure", "--tp", "2", "--sequence-parallel")
    assert document("bench", MODEL, "-p", "16", "-n", "4", "-r", "1", "--no-ceiling", "--ranks-sim", "3", "--sequence-parallel")


def test_commands_that_ranks_share():
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"the quick brown fox jumps over the lazy dog. " * 20)
        file.flush()
        left, right = (document("perplexity", golden("qwen2-f32"), file.name, "-c", "64", *more)["ppl"]
                       for more in ((), ("--tp", "2")))
        assert abs(left / right - 1) < 1e-3, (left, right)
    rows = document("bench", MODEL, "-p", "16", "-n", "4", "-r", "1", "--no-ceiling", "--tp", "2")
    assert rows, rows
    assert document("bench", MODEL, "-p", "16", "-n", "4", "-r", "1", "--no-ceiling", "--ranks-sim", "3")
    assert output("run", MODEL, "-p", "abc", "-n", "0", "--tp", "2") == b""


def test_an_answer_without_a_terminal_and_its_exit_code():
    done = run("run", MODEL, *ANSWER, "--tp", "2")
    assert done.returncode == 0 and not ours(done.stderr.decode()) and done.stdout, done
    assert done.stdout == run("run", MODEL, *ANSWER, "--tp", "2", "-t", "1").stdout


def test_options():
    refused("run", MODEL, "-p", "x", "--tp", "4", says=["4 ranks", "1 to 3"])
    refused("bench", MODEL, "--ranks-sim", "4", says=["4 ranks", "1 to 3"])
    for value in ("0", "65", "-1", "x", "2.0", ""):
        refused("run", MODEL, "-p", "x", "--tp", value, says=["--tensor-parallel-size", "1 to 64"])
    refused("bench", MODEL, "--ranks-sim", "2", "--tp", "2", says=["--ranks-sim"])
    for command in (("run", MODEL, "-p", "x"), ("bench", MODEL), ("run", MODEL, "-p", "x", "--tp", "1")):
        refused(*command, "--comm-sim", "latency=2us", says=["--comm-sim", "--tensor-parallel-size N"])
    for link in ("latency=2", "latency=", "latncy=2us", "bandwidth=2", "latency=2us,latency=3us", "", "latency=-1us",
                 "latency=11s", "latency=1us;bandwidth=1Gbps", "bandwidth=0Gbps", "latency=nanus"):
        refused("run", MODEL, "-p", "x", "--tp", "2", "--comm-sim", link, says=["latency" if "lat" in link else "band"])
    refused("run", MODEL, "-p", "x", "--tp", "2", "--prefetch", "of", says=["--prefetch", "off, preserve, auto or ratio"])
    refused("run", MODEL, "-p", "x", "--tp", "2", "--comm-schedule", "x", says=["--comm-schedule", "serial, fused or auto"])
    refused("tokenize", MODEL, "-p", "x", "--tp", "2", says=["--tp"])


def test_what_fails_on_all_ranks_or_on_one_is_said_once():
    with tempfile.TemporaryDirectory() as folder:
        none = os.path.join(folder, "none.gguf")
        line = refused("run", none, "-p", "x", "--tp", "2", says=[none])
        assert line.count(none) == 1, line
        refused("run", MODEL, "-p", "x " * 2000, "--raw", "--tp", "2", says=["1024"])
        refused("run", MODEL, "-p", "x", "-c", "1025", "--tp", "2", says=["1025"])
        refused("run", MODEL, "-p", "x", "--tp", "2", "--plan", none + ".plans", says=[none + ".plans", "No such file"])
        # Rank 1's part starts in the middle of a group of rows, which only it finds out.
        compiled = os.path.join(folder, "a.pst")
        output("compile", golden("llama-f16"), "-o", compiled)
        refused("run", compiled, "-p", "x", "--tp", "2", says=[compiled, "row 24", "GGUF file would be right"])


def test_a_compiled_file_gives_the_same_answer():
    with tempfile.TemporaryDirectory() as folder:
        compiled = os.path.join(folder, "a.pst")
        output("compile", MODEL, "-o", compiled)
        assert tokens(compiled, "--tp", "3") == tokens(MODEL, "--tp", "3")


def test_a_rank_that_is_killed():
    job = Job(PRESTAGE, *SLOW, "--tp", "2")
    os.kill(job.ranks[1], signal.SIGKILL)
    code, errors = job.end()
    assert code == 1 and len(ours(errors)) == 1, (code, errors)
    assert "rank 1" in errors and "signal 9" in errors, errors


def test_rank_0_that_is_killed_takes_the_others_along():
    job = Job(PRESTAGE, *SLOW, "--tp", "2")
    os.kill(job.process.pid, signal.SIGKILL)
    code, errors = job.end()
    assert code == -signal.SIGKILL and not ours(errors), (code, errors)


def test_a_rank_that_is_stopped():
    job = Job(PRESTAGE, *SLOW, "--tp", "2")
    os.kill(job.ranks[1], signal.SIGSTOP)
    code, errors = job.end()
    assert code == 1 and len(ours(errors)) == 1, (code, errors)
    assert "rank 1 has not come" in errors, errors


def test_ctrl_c():
    job = Job(PRESTAGE, *SLOW, "--tp", "2")
    os.killpg(job.process.pid, signal.SIGINT)
    code, errors = job.end()
    assert code == 130 and not ours(errors), (code, errors)


# ---- launchers

def mpirun(count=2):
    """The command that starts so many ranks here."""
    path = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if path is None:
        raise Skip("no mpirun")
    version = subprocess.run([path, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout
    if b"Open MPI" not in version and b"OpenRTE" not in version:
        raise Skip("mpirun is not Open MPI's")
    return (path, "--oversubscribe", "-n", str(count))


def launched(*command, count=2, program=PRESTAGE):
    return subprocess.run([*mpirun(count), program, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, **WITH_MPI}, timeout=60, check=False)


def expect_one_line(done, *says, code=2):
    lines = ours(done.stderr.decode())
    assert done.returncode == code and len(lines) == 1 and done.stdout == b"", done
    for word in says:
        assert word in lines[0], (word, lines)


def test_mpirun_gives_the_same_answer():
    for name in ("smollm-q8_0", "mixtral-q8_0"):
        path = golden(name)
        forked = tokens(path, "--tp", "2")
        for flags in ((), ("--tp", "2"), ("--prefetch", "off"), ("--sequence-parallel",)):
            done = launched("run", path, *ANSWER, "--json", *flags)
            assert done.returncode == 0 and not ours(done.stderr.decode()), done
            assert json.loads(done.stdout)["tokens"] == forked, (done, forked)


def test_mpirun_and_options():
    expect_one_line(launched("run", MODEL, "-p", "x", "--tp", "3"), "3", "mpirun started 2 ranks")
    expect_one_line(launched("run", MODEL, "-p", "x", "--definitely"), "--definitely")
    expect_one_line(launched("bench", MODEL, "--ranks-sim", "2"), "--ranks-sim")
    expect_one_line(launched("run", MODEL, "-p", "x", "--comm-sim", "latncy=1us"), "latncy")
    expect_one_line(launched("run", MODEL, "-p", "x", count=4), "4 ranks", "1 to 3")
    expect_one_line(launched("run", MODEL + ".none", "-p", "x"), MODEL + ".none")


def test_options_of_one_rank_alone():
    def both(first, second):
        *start, _ = mpirun()
        command = [*start, "1", PRESTAGE, *first, ":", "-n", "1", PRESTAGE, *second]
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, **WITH_MPI}, timeout=60, check=False)
    run_it = ("run", MODEL, "-p", "abc", "-n", "4")
    expect_one_line(both(run_it, ("run", MODEL, "--definitely")), "--definitely")
    expect_one_line(both(("run", MODEL, "--definitely"), run_it), "--definitely")
    expect_one_line(both((*run_it, "--comm-sim", "latency=1ms"), run_it), "rank 1", "--comm-sim=none", "--comm-sim=latency=1ms")
    # What rank 0 tells the others anyway may differ.
    done = both(run_it, (*run_it, "-t", "1", "-c", "77", "-b", "3", "--prefetch", "off"))
    assert done.returncode == 0 and done.stdout and not ours(done.stderr.decode()), done


def test_output_that_nobody_takes():
    for command in (("run", MODEL, "-p", "abc", "-n", "8"), ("bench", MODEL, "-p", "0", "-n", "8", "-r", "1", "--no-ceiling")):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([PRESTAGE, *command, "--tp", "2"], stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, timeout=60, check=False)
        lines = ours(done.stderr.decode())
        assert done.returncode == 1 and len(lines) == 1 and "stdout" in lines[0], done
        job = subprocess.Popen([PRESTAGE, *command, "--tp", "2"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        job.stdout.close()
        _, errors = job.communicate(timeout=20)
        assert job.returncode != 0 and not ours(errors.decode()), (job.returncode, errors)


def test_too_few_cpus_are_named_with_the_flag_that_helps():
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    try:
        forked = run("run", MODEL, "-p", "abc", "-n", "1", "--tp", "2", "-t", "1").stderr.decode()
    finally:
        os.sched_setaffinity(0, cpus)
    assert "2 ranks with -t 1 share 1 CPU" in forked and "ranks up to 1 would fit" in forked, forked
    if len(cpus) > 1:
        bound = launched("run", MODEL, "-p", "abc", "-n", "1", "-t", str(len(cpus))).stderr.decode()
        assert "would fit" in bound or "--bind-to none or --map-by slot:PE=" in bound, bound


def test_ranks_with_other_files():
    def wrapped(*models):
        """A program whose ranks open different files."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "wrapper")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nif [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then m="{models[0]}"; else m="{models[1]}"; fi\n'
                           f'exec "{PRESTAGE}" run "$m" -p abc -n 4\n')
            os.chmod(path, 0o755)
            return launched(program=path)
    expect_one_line(wrapped(MODEL, golden("smollm-q4_1")), "rank 1 has another model file than rank 0")
    expect_one_line(wrapped(MODEL, MODEL + ".none"), MODEL + ".none")
    expect_one_line(wrapped(MODEL + ".none", MODEL), MODEL + ".none")
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy.gguf")
        shutil.copy(MODEL, copy)
        done = wrapped(MODEL, copy)
        assert done.returncode == 0 and done.stdout, done


def test_the_options_of_rank_0_hold_for_all():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "wrapper")
        for rank in ("0", "1"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nif [ "$OMPI_COMM_WORLD_RANK" = {rank} ]; then f=--sequence-parallel; fi\n'
                           f'exec "{PRESTAGE}" run "{MODEL}" {" ".join(ANSWER)} --json $f\n')
            os.chmod(path, 0o755)
            done = launched(program=path)
            assert done.returncode == 0 and json.loads(done.stdout)["tokens"] == tokens(MODEL, "--tp", "2"), done


def test_a_rank_of_mpirun_that_is_killed_or_stopped():
    for rank, number, lines in ((1, signal.SIGKILL, None), (0, signal.SIGKILL, None), (1, signal.SIGSTOP, 1)):
        job = Job(*mpirun(), PRESTAGE, *SLOW)
        with open(f"/proc/{job.ranks[0]}/environ", "rb") as file:
            first = 0 if b"OMPI_COMM_WORLD_RANK=0" in file.read().split(b"\0") else 1
        os.kill(job.ranks[rank ^ first], number)
        code, errors = job.end(limit=14)  # mpirun takes about three seconds to end a process that is stopped
        assert code != 0, (rank, number, errors)
        # mpirun names the rank that was killed, and may end the other one before it has said so.
        assert len(ours(errors)) == lines if lines is not None else len(ours(errors)) <= 1, (rank, number, errors)


def test_ctrl_c_of_mpirun():
    job = Job(*mpirun(), PRESTAGE, *SLOW)
    os.kill(job.process.pid, signal.SIGINT)
    code, errors = job.end()
    assert code != 0 and not ours(errors), (code, errors)


def test_other_launchers():
    for environment, name in (({"PMI_SIZE": "2", "PMI_RANK": "0"}, "MPICH"), ({"MPI_LOCALNRANKS": "4"}, "Intel MPI"),
                              ({"SLURM_STEP_NUM_TASKS": "8"}, "srun")):
        for flags in ((), ("--tp", "2")):
            refused("run", MODEL, "-p", "x", *flags, environment=environment, says=[name, "Open MPI", "several ranks"])
    # mpirun of Open MPI, but another build of it
    refused("run", MODEL, "-p", "x", environment={"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", **NO_LEAKS},
            says=["OMPI_COMM_WORLD_SIZE=2", "job of one"])
    # A batch job of one task, and a shell in an allocation of several.
    for environment in ({"PMI_SIZE": "1"}, {"SLURM_STEP_NUM_TASKS": "1"}, {"SLURM_NTASKS": "8"}):
        assert run("run", MODEL, *ANSWER, environment=environment).returncode == 0, environment


main(sys.modules[__name__])
