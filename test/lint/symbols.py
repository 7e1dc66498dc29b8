#!/usr/bin/env python3
"""Every external symbol that the static libraries define starts with ps_.

usage: symbols.py SOURCE_FOLDER LIBRARY.a...
"""
import subprocess
import sys

import tree


def main():
    tree.root_of(sys.argv)
    report = tree.Report()
    checked = 0
    for library in sys.argv[2:]:
        listing = subprocess.run(["nm", "--extern-only", "--defined-only", library],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        member = library
        for line in listing.stdout.splitlines():
            if line.endswith(".o:"):
                member = line[:-3]
                continue
            fields = line.split(None, 3)
            if len(fields) < 3:
                continue
            checked += 1
            if not fields[2].startswith("ps_"):
                report.add(member, 1, f"{fields[2]} leaves the file; make it static, or give it the prefix ps_")
    report.finish(checked)


main()
