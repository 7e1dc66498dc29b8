"""A committed corpus that a script makes; for make_*_corpus.py of this folder."""
import pathlib
import sys


def main(script, cases):
    """cases: pairs of a file's name and its bytes. Writes the folder of `script` (its path), or checks it with --check."""
    path = pathlib.Path(script)
    folder = path.parent / "corpus" / path.stem.removeprefix("make_").removesuffix("_corpus")
    wanted = dict(cases)
    present = {p.name: p.read_bytes() for p in folder.glob("*")}
    if "--check" in sys.argv:
        differing = sorted(n for n in wanted.keys() | present.keys() if wanted.get(n) != present.get(n))
        sys.exit(f"run test/fuzz/{path.name}: {differing}" if differing else 0)
    folder.mkdir(parents=True, exist_ok=True)
    for name in present.keys() - wanted.keys():
        (folder / name).unlink()
    for name, data in wanted.items():
        (folder / name).write_bytes(data)
