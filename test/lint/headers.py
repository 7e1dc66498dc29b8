#!/usr/bin/env python3
"""Each header compiles alone as C11, and each public one as C++ too.

usage: headers.py SOURCE_FOLDER [CC [CXX]]     without a C++ compiler the public ones are C only
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

import tree

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-unused-function"]
ISA = {
    "src/kernels/avx2/": "-mavx2 -mfma -mf16c -mbmi2".split(),
    "src/kernels/avx512/": "-mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni".split(),
}


def compile_alone(root, name, command):
    """Twice in one unit, so that a missing include guard is found too."""
    path = os.path.join(root, name)
    unit = f'#include "{path}"\n#include "{path}"\n'
    flags = next((flags for folder, flags in ISA.items() if name.startswith(folder)), [])
    run = subprocess.run(command + WARNINGS + flags + ["-fsyntax-only", "-I", os.path.join(root, "include"), "-I",
                         os.path.join(root, "src"), "-I", os.path.join(root, "test"), f'-DPS_SOURCE_DIR="{root}"', "-"],
                         input=unit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return name, run.returncode, run.stdout


def main():
    root = tree.root_of(sys.argv)
    cc = sys.argv[2] if len(sys.argv) > 2 else "cc"
    cxx = sys.argv[3] if len(sys.argv) > 3 else shutil.which("c++")
    report = tree.Report()
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in tree.files(root, ".h"):
            if not name.startswith(("src/", "include/", "test/", "bench/")):
                continue
            dialects = [[cc, "-x", "c", "-std=c11", "-D_GNU_SOURCE"]]
            if name.startswith("include/"):
                dialects = [[cc, "-x", "c", "-std=c11"]]
                if cxx:
                    dialects.append([cxx, "-x", "c++", "-std=c++17"])
            for command in dialects:
                jobs.append((command[2], pool.submit(compile_alone, root, name, command)))
    for dialect, job in jobs:
        name, code, output = job.result()
        if code != 0:
            line = re.search(re.escape(name) + r":(\d+)", output)
            first = re.search(r"(?:error|fatal error): (.*)", output)
            report.add(name, line.group(1) if line else 1, f"does not compile alone as {dialect}: "
                       f"{first.group(1) if first else output.strip()}; include what it uses")
    report.finish(len(jobs))


main()
