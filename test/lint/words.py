#!/usr/bin/env python3
"""Small rules on text: paths, spaces, characters, names, lengths, links.

usage: words.py SOURCE_FOLDER
"""
import os
import re
import sys

import tree

LINES_MAX = 800
C_FILES = (".c", ".h", ".inc", ".def")
TEXT_FILES = C_FILES + (".md", ".py", ".sh", ".cmake", ".txt", ".json", ".in", ".1", "Makefile", ".ci/run", ".clang-tidy")
# Data that tests read as it is: spaces and characters in it are the point.
DATA = re.compile(r"^(data/|test/(fuzz/corpus|fixtures)/|test/[a-z]+/fixtures/)")
# A home or a mount of the machine that something was written on.
MACHINE_PATH = re.compile(r"(?<![\w.$}~])/(?:home|root|Users|work|mnt|media)/[\w.]")


def check_lines(name, text, report):
    is_c = name.endswith(C_FILES)
    for number, line in enumerate(text.split("\n"), 1):
        if MACHINE_PATH.search(line):
            report.add(name, number, "a path of one machine; use a relative one or an environment variable")
        if line.endswith((" ", "\t", "\r")):
            report.add(name, number, "space at the end of the line")
        if is_c and "\t" in line:
            report.add(name, number, "a tab; indent by four spaces, write \\t in strings")
        if is_c and not line.isascii():
            report.add(name, number, "a non-ASCII character; write \\u or \\x escapes in strings, words in comments")
    if text and not text.endswith("\n"):
        report.add(name, text.count("\n") + 1, "no newline at the end of the file")


def first_comment(text):
    """The comment at the top of a C file as one line."""
    lines = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        lines.append(line[2:].strip())
    return " ".join(lines)


def check_source(name, text, seen, report):
    base = os.path.basename(name)
    if base.endswith((".c", ".h")):
        if base in seen:
            report.add(name, 1, f"{seen[base]} has the same file name; names are unique under src/")
        seen.setdefault(base, name)
    if not first_comment(text):
        report.add(name, 1, "the file does not open with a // comment that says what it holds")
    lines = text.count("\n")
    if lines > LINES_MAX and "longer than" not in first_comment(text).lower():
        report.add(name, lines, f"{lines} lines; split it, or say in its first comment why it is 'longer than "
                   f"{LINES_MAX} lines'")


def check_links(root, name, text, report):
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:|#", target):
                continue
            path = os.path.join(root, os.path.dirname(name), target.split("#")[0])
            if not os.path.exists(path):
                report.add(name, number, f"the link {target} leads nowhere")


def main():
    root = tree.root_of(sys.argv)
    report = tree.Report()
    seen = {}
    names = [name for name in tree.files(root, *TEXT_FILES) if not DATA.match(name)]
    for name in names:
        text = tree.read(root, name)
        check_lines(name, text, report)
        if name.startswith("src/") and name.endswith(C_FILES):
            check_source(name, text, seen, report)
        if name.endswith(".md"):
            check_links(root, name, text, report)
    report.finish(len(names))


main()
