"""--force-routes, --check-grouped, and the models with experts that bench/make-model.py makes."""
import os
import subprocess
import sys
import tempfile

from program import SOURCE, document, golden, main, output, refused

MODEL = golden("qwen3moe-q8_0")
SHAPE = ("--shape", "moe", "--layers", "2", "--experts", "16", "--top-k", "4", "--expert-ffn", "64", "--dim", "256",
         "--heads", "4", "--kv-heads", "2", "--vocabulary", "400")


def content(path):
    with open(path, "rb") as file:
        return file.read()


def make(path, *arguments):
    subprocess.run([sys.executable, os.path.join(SOURCE, "bench", "make-model.py"), *SHAPE, *arguments, path], check=True,
                   stdout=subprocess.DEVNULL)
    return path


def answer(model, *arguments):
    return output("run", model, "-p", "abcabd", "--raw", "--temp", "0", "-n", "12", "--ignore-eos", *arguments)


def test_made_models_are_computed_alike():
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("Q8_0", "Q4_0", "Q4_K_M", "F16"):
            whole = make(os.path.join(folder, "whole.gguf"), "--type", kind)
            make(os.path.join(folder, "part.gguf"), "--type", kind, "--split", "3")
            info = document("info", whole)
            assert info["architecture"] == "qwen3moe", info
            first = answer(whole)
            assert answer(whole, "--check-grouped", "-t", "2", "-b", "5") == first, kind
            assert answer(os.path.join(folder, "part-00001-of-00003.gguf")) == first, kind


def test_own_routes_change_nothing():
    with tempfile.TemporaryDirectory() as folder:
        routes = os.path.join(folder, "routes")
        first = answer(MODEL, "--route-log", routes)
        assert answer(MODEL, "--force-routes", routes, "--check-grouped") == first


def test_routes_of_a_log_are_taken():
    with tempfile.TemporaryDirectory() as folder:
        routes, other, forced = (os.path.join(folder, name) for name in ("routes", "other", "forced"))
        text = ("--raw", "--temp", "0", "-n", "12", "--ignore-eos")
        output("run", MODEL, "-p", "abcabd", *text, "--route-log", routes)
        output("run", MODEL, "-p", "zyxwvu", *text, "--route-log", other)
        output("run", MODEL, "-p", "zyxwvu", *text, "--route-log", forced, "--force-routes", routes)
        assert content(forced) == content(routes) != content(other)


def test_what_does_not_fit_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        routes = os.path.join(folder, "routes")
        dense = golden("qwen3-q8_0")
        output("experts", "synth", "qwen30", "--tokens", "4", "-o", routes)
        refused("run", MODEL, "-p", "a", "--force-routes", routes, says=[routes, "48 MoE layers"])
        refused("bench", MODEL, "-p", "4", "-n", "0", "--force-routes", MODEL, says=[MODEL])
        refused("run", MODEL, "-p", "a", "--force-routes", os.path.join(folder, "none"), says=["none"])
        refused("run", dense, "-p", "a", "--force-routes", routes, says=["--force-routes", "no experts"])
        refused("perplexity", dense, os.path.join(SOURCE, "README.md"), "-c", "64", "--check-grouped",
                says=["--check-grouped", "no experts"])
        refused("run", golden("mixtral-f16"), "--tp", "2", "-t", "1", "-p", "a", "--check-grouped", says=["one rank"])


main(sys.modules[__name__])
