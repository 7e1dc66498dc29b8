"""What the lints share: the files of the source tree, and one way to report."""
import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77


def root_of(argv):
    """The tree to look at: the first argument."""
    if len(argv) < 2 or not os.path.isdir(argv[1]):
        sys.exit(f"usage: {os.path.basename(argv[0])} SOURCE_FOLDER ...")
    return os.path.abspath(argv[1])


def git_files(root, under):
    """None where git is missing, or the tree is not a clone that this user may read."""
    if not os.path.exists(os.path.join(root, ".git")) or not shutil.which("git"):
        return None
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", under]
    listing = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if listing.returncode != 0:
        return None
    return [os.fsdecode(name) for name in listing.stdout.split(b"\0") if name]


def files(root, *suffixes, under=""):
    """Paths relative to root, sorted: what git tracks or would track; without git, all but build/ and .git/."""
    found = git_files(root, under or ".")
    if found is None:
        found = []
        for folder, below, names in os.walk(os.path.join(root, under)):
            below[:] = [name for name in below if name not in ("build", "__pycache__", ".git")]
            found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    there = {name for name in found if os.path.isfile(os.path.join(root, name))}
    return sorted(name for name in there if not suffixes or name.endswith(suffixes))


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def includes(text):
    """(line number, '<' or '"', path) of each #include."""
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1), match.group(2)


class Report:
    """Collects file:line and what would be right; finish() prints them and ends the program."""

    def __init__(self):
        self.lines = []

    def add(self, name, line, text):
        self.lines.append(f"{name}:{line}: {text}")

    def finish(self, checked):
        for line in self.lines:
            print(line)
        print(f"{checked} checked, {len(self.lines)} wrong")
        if checked == 0:
            print("nothing was checked; is this the source folder?")
        sys.exit(1 if self.lines or checked == 0 else 0)
