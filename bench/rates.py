"""Rates of prestage and its peers, one process a measurement; for the scripts of this folder."""
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRESTAGE = ROOT / "build/release/prestage"
CACHE = Path(os.environ.get("PRESTAGE_CACHE") or
             Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prestage")
LLAMA_VERSION = "11434"


def output(command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr[-2000:]}")
    return result.stdout


def made(name, *shape):
    """The path of a model of random weights in the cache folder; shape: words of bench/make-model.py."""
    path = CACHE / "models" / f"{name}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        output([ROOT / "bench/make-model.py", *shape, part])
        part.rename(path)
    return path


def made_smol(kind, layers):
    """The same of SmolLM2-135M's shape, which has 30 layers."""
    return made(f"smol-{kind.lower()}-{layers}", "--type", kind, "--dim", "576", "--ffn", "1536", "--heads", "9",
                "--kv-heads", "3", "--vocabulary", "49152", "--layers", layers)


def llama_cpp(folder=None):
    """The folder of llama.cpp's programs, built when no other is given."""
    return Path(folder or output([ROOT / "bench/build-llama.cpp.sh"]).strip())


def prestage(model, threads, prompt=0, generate=0, depth=0, parallel=1, ceiling=False, extra=(), program=PRESTAGE):
    """The one row of `prestage bench`."""
    rows = json.loads(output([program, "bench", "-m", model, "-t", threads, "-p", prompt, "-n", generate, "-d", depth,
                              "-npl", parallel, "-r", 1, "-o", "json", *([] if ceiling else ["--no-ceiling"]), *extra]))
    assert len(rows) == 1, rows
    return rows[0]


def llama_bench(program, model, threads, prompt=0, generate=0, depth=0, extra=()):
    """Tokens a second of llama-bench."""
    rows = json.loads(output([program, "-m", model, "-t", threads, "-p", prompt, "-n", generate, "-d", depth, "-r", 1,
                              "-o", "json", *extra]))
    assert len(rows) == 1, rows
    return rows[0]["avg_ts"]


def ik_bench(program, model, threads, prompt=0, generate=0, depth=0):
    """Tokens a second of ik_llama.cpp's llama-bench with weights repacked at start; -gp is its word for a depth."""
    test = ["-p", 0, "-n", 0, "-gp", f"{depth},{generate}"] if depth else ["-p", prompt, "-n", generate]
    rows = json.loads(output([program, "-m", model, "-t", threads, *test, "-r", 1, "-o", "json", "-rtr", 1]))
    assert len(rows) == 1, rows
    return rows[0]["avg_ts"]


def batched_bench(program, model, threads, prompt, generate, parallel):
    """Tokens a second that `parallel` sequences generate together."""
    text = output([program, "-m", model, "-t", threads, "-tb", threads, "-c", parallel * (prompt + generate + 64),
                   "-npp", prompt, "-ntg", generate, "-npl", parallel, "--output-format", "jsonl"])
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert len(rows) == 1, text
    return rows[0]["speed_tg"]


def spread(values):
    """median (smallest to largest)"""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
