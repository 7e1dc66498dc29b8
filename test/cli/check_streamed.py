"""Experts streamed from a split file and from a compiled one: the tokens of resident runs, also where hints are timed."""
import os
import subprocess
import sys
import tempfile

from program import SOURCE, document, main, output, refused

SHAPE = "--experts 64 --top-k 4 --expert-ffn 512 --dim 512 --layers 3 --heads 4 --kv-heads 2 --vocabulary 2048 --type Q8_0".split()
# Caches so small that the weights which stay in memory are large, and hints of prefetching are timed with them.
SMALL_CACHES = {"HWLOC_SYNTHETIC": "pack:1 l3:1(size=65536) l2:1 core:2 pu:1", "HWLOC_THISSYSTEM": "1"}


def tokens(path, *flags):
    return document("run", path, "-p", "abc", "--raw", "--temp", "0", "-n", "6", "-t", "1", *flags, environment=SMALL_CACHES)["tokens"]


def test_streamed_is_resident():
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "m.gguf")
        subprocess.run([sys.executable, os.path.join(SOURCE, "bench", "make-model.py"), *SHAPE, "--split", "3", made],
                       stdout=subprocess.DEVNULL, check=True)
        first, compiled = os.path.join(folder, "m-00001-of-00003.gguf"), os.path.join(folder, "m.pst")
        output("compile", first, "-o", compiled, "-t", "1")
        wanted = tokens(first)
        assert tokens(compiled) == wanted
        for path in (first, compiled):
            for budget in ("8MiB", "40MiB", "200MiB"):
                assert tokens(path, "--expert-memory", budget) == wanted, (path, budget)
        last = os.path.join(folder, "m-00003-of-00003.gguf")
        os.rename(last, last + ".away")
        refused("run", first, "-p", "x", "--expert-memory", "8MiB", says=["part 3 of 3", "m-00003-of-00003.gguf: it is missing"])


main(sys.modules[__name__])
