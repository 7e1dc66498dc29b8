"""What the checks of the command line share: running the program, models, and one way to report."""
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback

PRESTAGE = os.path.abspath(sys.argv[1])
SOURCE = os.path.abspath(sys.argv[2])
COMMANDS = ("run", "info", "tokenize", "perplexity", "bench", "plan", "compile", "overlap", "simulate", "tune", "explore")
MACHINE_COMMANDS = ("machine list", "machine show", "machine check")
EXPERTS_COMMANDS = ("experts record", "experts rank", "experts show", "experts replay", "experts synth")  # of two words


# Open MPI lets root run when it is told so, and keeps some of its memory, which a sanitizer would report.
NO_LEAKS = {"ASAN_OPTIONS": ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "detect_leaks=0")))}
WITH_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **NO_LEAKS}

# Nothing of this machine is kept there, so that no result depends on whether it was tuned.
EMPTY = tempfile.TemporaryDirectory()


class Skip(Exception):
    """The check cannot run here; says why."""


def golden(name):
    """A tiny model that is committed."""
    return os.path.join(SOURCE, "test", "fixtures", "golden", name + ".gguf")


def real(name):
    """A model of the cache."""
    cache = os.environ.get("PRESTAGE_CACHE")
    if not cache:
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "prestage")
    path = os.path.join(cache, "models", name)
    if not os.path.exists(path):
        raise Skip(f"{name} is not in the cache ({cache}/models)")
    return path


def run(*arguments, stdin=b"", environment=None, timeout=300):
    """The finished process; its stdin is never a terminal."""
    return subprocess.run([PRESTAGE, *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "PRESTAGE_CACHE": EMPTY.name, **(environment or {})}, timeout=timeout, check=False)


def complaints(done):
    """What a finished process says on stderr, but that this machine is small."""
    small = re.compile(r" would fit$|may use \d+ CPUs?: -t \d+ would be right$|fewer of either would be right$")
    return "".join(line for line in done.stderr.decode().splitlines(keepends=True) if not small.search(line))


def output(*arguments, **keywords):
    """stdout of a run that has to succeed and say nothing on stderr but that this machine is small."""
    done = run(*arguments, **keywords)
    assert done.returncode == 0, f"{arguments}: exit {done.returncode}, {done.stderr!r}"
    assert not complaints(done), f"{arguments}: stderr {done.stderr!r}"
    return done.stdout


def document(*arguments, **keywords):
    """The one JSON document on stdout."""
    return json.loads(output(*arguments, "--json", **keywords))


def refused(*arguments, says=(), code=2, **keywords):
    """A run that has to fail with exactly one line, which holds all of `says`."""
    done = run(*arguments, **keywords)
    line = complaints(done)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}, {line!r}"
    assert done.stdout == b"", f"{arguments}: stdout {done.stdout!r}"
    assert line.startswith("prestage: ") and line.endswith("\n") and line.count("\n") == 1, f"{arguments}: {line!r}"
    for word in says:
        assert word in line, f"{arguments}: {word!r} is not in {line!r}"
    return line


def main(module):
    """Runs every function of the module that is named test_*, and ends the program."""
    passed, skipped, failed = 0, [], 0
    for name, function in list(vars(module).items()):
        if not name.startswith("test_"):
            continue
        try:
            function()
            passed += 1
        except Skip as reason:
            skipped.append(f"{name}: {reason}")
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"FAILED {name}")
            traceback.print_exc(file=sys.stdout)
    for line in skipped:
        print(f"skipped {line}")
    print(f"{passed} passed, {len(skipped)} skipped, {failed} failed")
    sys.exit(1 if failed else 77 if skipped and not passed else 0)
