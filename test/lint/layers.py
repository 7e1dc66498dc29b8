#!/usr/bin/env python3
"""Includes under src/ obey src/LAYERS.txt, and each foreign header has one owner file a folder.

usage: layers.py SOURCE_FOLDER
"""
import re
import sys

import tree

# Which folders may include a foreign header; each of them in one file only.
OWNERS = {
    "hwloc.h": ["hw"],
    "xxhash.h": ["base"],
    "pcre2.h": ["text"],
    "utf8proc.h": ["text"],
    "jansson.h": ["text", "engine", "cli"],
    "liburing.h": ["io"],
    "mpi.h": ["comm"],
    "microhttpd.h": ["serve"],
    "histedit.h": ["cli"],
    "editline/readline.h": ["cli"],
}
# The C library and Linux: anyone may include them.
SYSTEM = set("""assert ctype errno fcntl float inttypes limits locale math poll pthread sched setjmp signal stdalign
stdarg stdatomic stdbool stddef stdint stdio stdlib string strings termios time unistd wchar wctype dirent getopt
immintrin emmintrin cpuid netdb fnmatch glob dlfcn ftw libgen""".split())
SYSTEM_FOLDERS = ("sys/", "linux/", "netinet/", "arpa/", "net/")


def read_layers(root, report):
    """folder -> allowed names, in order; an arrow points to lines above only, so there is no cycle."""
    allowed = {}
    for number, line in enumerate(tree.read(root, "src/LAYERS.txt").split("\n"), 1):
        match = re.match(r"([a-z]+) *->(.*)$", line)
        if not match:
            continue
        names = match.group(2).split()
        for name in names:
            if name.split("/")[0] not in allowed:
                report.add("src/LAYERS.txt", number, f"{match.group(1)} -> {name}: name only folders of lines above")
        allowed[match.group(1)] = names
    return allowed


def check_own(name, folder, line, path, allowed, report):
    target = path.split("/")[0]
    if "/" not in path:
        report.add(name, line, f'"{path}": write the path from src/, such as "{folder}/{path}"')
    elif target == "prestage":
        report.add(name, line, f'"{path}": public headers are included as <{path}>')
    elif target != folder and target not in allowed[folder] and path not in allowed[folder]:
        may = " ".join([folder] + allowed[folder])
        report.add(name, line, f'"{path}": {folder}/ may include {may} (src/LAYERS.txt)')
    elif path.endswith("_internal.h") and target != folder:
        report.add(name, line, f'"{path}" is for files of {target}/ only')


def check_foreign(name, folder, line, path, owners, report):
    if path.startswith(("prestage/",) + SYSTEM_FOLDERS) or path.removesuffix(".h") in SYSTEM:
        return
    if path not in OWNERS:
        report.add(name, line, f"<{path}> has no owner; a new dependency enters OWNERS in test/lint/layers.py")
    elif folder not in OWNERS[path]:
        report.add(name, line, f"<{path}> belongs to {', '.join(OWNERS[path])}")
    elif owners.setdefault((path, folder), name) != name:
        report.add(name, line, f"<{path}> is included by {owners[path, folder]} already; one file a folder")


def main():
    root = tree.root_of(sys.argv)
    report = tree.Report()
    allowed = read_layers(root, report)
    owners = {}
    names = tree.files(root, ".c", ".h", ".inc", ".def", under="src")
    for name in names:
        folder = name.split("/")[1]
        if folder not in allowed:
            report.add(name, 1, f"src/LAYERS.txt has no line for {folder}")
            continue
        for line, kind, path in tree.includes(tree.read(root, name)):
            if kind == '"':
                check_own(name, folder, line, path, allowed, report)
            else:
                check_foreign(name, folder, line, path, owners, report)
    report.finish(len(names))


main()
