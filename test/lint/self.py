#!/usr/bin/env python3
"""Proves that the lints can fail: each is run on a small tree with known faults and must name them all.

usage: self.py [CC]
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = "/home" + "/someone/x"

LAYERS = "base ->\nhw -> base\ntext -> base plan/plan.h\nplan -> base\n"
GOOD = {
    "src/LAYERS.txt": LAYERS.replace("text -> base plan/plan.h\nplan -> base\n", "plan -> base\ntext -> base plan/plan.h\n"),
    "src/base/a.h": "// base/a.h - a number.\n#ifndef A\n#define A\n#include <stdint.h>\nint32_t ps_a(void);\n#endif\n",
    "src/base/a.c": '// base/a.c - a number.\n#include "base/a.h"\n\nint32_t ps_a(void)\n{\n    return 1;\n}\n',
    "src/plan/plan.h": "// plan/plan.h - nothing.\n",
    "src/plan/verify.h": "// plan/verify.h - nothing.\n",
    "src/text/t.c": '// text/t.c - a part of a folder may be named.\n#include "plan/plan.h"\n\nstatic int x;\n',
    "README.md": "[there](src/base/a.h), [web](https://example.org)\n",
}
# lint: [(file, text, what the lint must print)]
BAD = {
    "layers.py": [
        ("src/LAYERS.txt", LAYERS, "src/LAYERS.txt:3: text -> plan/plan.h"),
        ("src/base/b.c", '// b.\n#include "hw/h.h"\n', "src/base/b.c:2:"),
        ("src/base/b.c", '// b.\n#include "a.h"\n', "src/base/b.c:2:"),
        ("src/base/b.c", "// b.\n#include <hwloc.h>\n", "src/base/b.c:2: <hwloc.h> belongs to hw"),
        ("src/base/b.c", "// b.\n\n#include <zlib.h>\n", "src/base/b.c:3: <zlib.h> has no owner"),
        ("src/text/u.c", '// u.\n#include "plan/verify.h"\n', "src/text/u.c:2:"),
        ("src/odd/o.c", "// o.\n", "src/odd/o.c:1: src/LAYERS.txt has no line for odd"),
    ],
    "headers.py": [
        ("src/base/b.h", "// b.\n#ifndef B\n#define B\nsize_t ps_b(void);\n#endif\n", "src/base/b.h:4:"),
        ("src/base/b.h", "// b.\ntypedef struct ps_b { int x; } ps_b;\n", "src/base/b.h:"),
        ("include/prestage/b.h", "// b.\n#ifndef B\n#define B\nint ps_new(int new);\n#endif\n", "as c++"),
    ],
    "words.py": [
        ("src/base/b.c", f'// b.\nstatic const char *x = "{HOME}";\n', "src/base/b.c:2: a path"),
        ("src/base/b.c", "// b. \n", "src/base/b.c:1: space"),
        ("src/base/b.c", "// b.\n\tint x;\n", "src/base/b.c:2: a tab"),
        ("src/base/b.c", "// b \u2013 dash.\n", "src/base/b.c:1: a non-ASCII"),
        ("src/base/b.c", "// b.", "src/base/b.c:1: no newline"),
        ("src/base/b.c", "int x;\n", "src/base/b.c:1: the file does not open"),
        ("src/base/b.c", "// b.\n" + "//\n" * 801, "src/base/b.c:802: 802 lines"),
        ("src/plan/a.c", "// a.\n", "has the same file name"),
        ("docs/d.md", "x\n[y](none.md)\n", "docs/d.md:2: the link none.md"),
    ],
}


def write(root, files):
    for name, text in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def run(lint, root, *arguments):
    result = subprocess.run([sys.executable, "-B", os.path.join(HERE, lint), root, *arguments], check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode, result.stdout


def check_symbols(cc, wrong):
    for text, code in (("int ps_a;\nstatic int b;\nint *ps_c(void)\n{\n    return &b;\n}\n", 0), ("int loose;\n", 1)):
        with tempfile.TemporaryDirectory() as root:
            write(root, {"x.c": text})
            path = os.path.join(root, "x")
            subprocess.run([cc, "-c", path + ".c", "-o", path + ".o"], check=True)
            subprocess.run(["ar", "rc", path + ".a", path + ".o"], check=True)
            found, output = run("symbols.py", root, path + ".a")
            if found != code or (code and "loose" not in output):
                wrong.append(f"symbols.py: exit {found}, expected {code}: {output}")
    return 2


def main():
    cc = sys.argv[1] if len(sys.argv) > 1 else "cc"
    wrong = []
    count = check_symbols(cc, wrong)
    for lint, cases in BAD.items():
        with tempfile.TemporaryDirectory() as root:
            write(root, GOOD)
            code, output = run(lint, root)
            if code != 0:
                wrong.append(f"{lint} on a tree without faults: exit {code}: {output}")
        for name, text, expected in cases:
            if expected == "as c++" and not shutil.which("c++"):
                continue
            count += 1
            with tempfile.TemporaryDirectory() as root:
                write(root, {**GOOD, name: text})
                code, output = run(lint, root)
                if code != 1 or expected not in output:
                    wrong.append(f"{lint} did not say '{expected}' (exit {code}): {output}")
    print("\n".join(wrong))
    print(f"{count} checked, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


main()
