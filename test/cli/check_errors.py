"""Bad input ends with one line that says what is wrong, nothing on stdout, and exit code 2."""
import os
import sys
import tempfile

from program import COMMANDS, EXPERTS_COMMANDS, MACHINE_COMMANDS, Skip, golden, main, output, refused, run

MODEL = golden("smollm-q8_0")


def test_no_command():
    refused(says=["--help"])


def test_unknown_command_names_the_nearest():
    refused("rnu", says=["'rnu'", "run"])
    refused("tokenise", MODEL, says=["tokenize"])
    refused("--verison", says=["--version"])


def test_unknown_option_names_the_nearest():
    refused("run", MODEL, "-p", "x", "--temperature", "1", says=["--temperature", "--temp"])
    refused("bench", MODEL, "--n-dept=3", "--n-detph", "3", says=["--n-detph", "--n-depth"])
    refused("info", MODEL, "--temp", "1", says=["--temp"])
    for command in COMMANDS + EXPERTS_COMMANDS + MACHINE_COMMANDS:
        refused(*command.split(), MODEL, "--definitely-not", says=["--definitely-not", "nearest"])
        refused(*command.split(), MODEL, "-Z", says=["-Z"])


def test_no_model():
    for command in COMMANDS:
        if command != "tune":  # which needs none
            refused(command, says=[{"overlap": "trace", "explore": "spec"}.get(command, "model")])


def test_values_that_are_missing_or_not_wanted():
    refused("run", MODEL, "-p", says=["-p", "TEXT"])
    refused("run", MODEL, "--predict", says=["--predict"])
    refused("run", MODEL, "-p", "x", "--raw=1", says=["--raw"])
    refused("run", MODEL, "surplus", says=["surplus", "-p"])
    refused("info", MODEL, "surplus", says=["surplus"])


def test_numbers_are_read_strictly():
    for flag, value, words in (
            ("-n", "5x", ["--predict", "'5x'", "-1"]), ("-n", "", ["--predict"]), ("-n", "-2", ["-1"]),
            ("-n", "99999999999999999999", ["2147483647"]), ("-c", "-1", ["--ctx-size"]), ("-c", "1e3", ["'1e3'"]),
            ("-t", "0x2", ["--threads"]), ("-t", "5000", ["4096"]), ("-b", "0", ["--batch-size", "1", "4096"]),
            ("-s", "-1", ["--seed", "0"]), ("-s", " 1", ["--seed"]), ("--temp", "nan", ["--temp"]),
            ("--temp", "inf", ["--temp"]), ("--temp", "-0.1", ["0"]), ("--top-p", "1.5", ["--top-p", "1"]),
            ("--top-p", "0x1p-1", ["--top-p"]), ("--min-p", "a", ["--min-p"]), ("--top-k", "-1", ["--top-k"]),
            ("--logit-bias", "5", ["--logit-bias"]), ("--logit-bias", "x+1", ["--logit-bias"]),
            ("--logit-bias", "5+x", ["--logit-bias"])):
        refused("run", MODEL, "-p", "x", flag, value, says=words)
    for flag, value in (("-p", "1,"), ("-p", ",1"), ("-n", "1,,2"), ("-r", "0"), ("-pg", "5"), ("-pg", "5,6,7"),
                        ("-pg", "0,1"), ("-o", "xml"), ("-t", "1;2"), ("-npl", "0"), ("-npl", "513")):
        refused("bench", MODEL, flag, value, says=[value] if value else [])


def test_kv_types():
    text = os.path.join(os.path.dirname(__file__), "check_errors.py")
    for command, tail in (("run", ["-p", "x"]), ("perplexity", [text]), ("bench", []), ("plan", ["--no-measure"])):
        for flag in ("-ctk", "-ctv", "--cache-type-k"):
            refused(command, MODEL, *tail, flag, "q4_0", says=["--cache-type", "'q4_0'", "f16", "q8_0"])
        refused(command, golden("llama-q8_0"), *tail, "-ctk", "q8_0", says=["Q8_0", "multiple of 32", "24"])
    refused("tokenize", MODEL, "-p", "x", "-ctk", "f16", says=["ctk"])


def test_files_that_are_no_models():
    with tempfile.TemporaryDirectory() as folder:
        empty = os.path.join(folder, "empty.gguf")
        cut = os.path.join(folder, "cut.gguf")
        text = os.path.join(folder, "text.gguf")
        with open(empty, "wb"):
            pass
        with open(MODEL, "rb") as whole, open(cut, "wb") as file:
            file.write(whole.read()[:-1000])
        with open(text, "w", encoding="ascii") as file:
            file.write("not a model\n" * 100)
        for command in COMMANDS:
            tail = ["-p", "x"] if command in ("run", "tokenize") else [text] if command == "perplexity" else []
            for path in (os.path.join(folder, "none.gguf"), folder, empty, cut, text):
                if command in ("bench", "plan", "info") or tail:
                    refused(command, path, *(tail), says=[path])


def test_no_permission():
    if os.geteuid() == 0:
        raise Skip("root may read everything")
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        os.chmod(file.name, 0)
        refused("info", file.name, says=[file.name])


def test_contexts():
    refused("run", MODEL, "-p", "x", "-c", "1025", says=["1025", "1024"])
    refused("bench", MODEL, "-p", "1020", "-n", "0", "-d", "5", says=["1025", "1024"])
    refused("perplexity", MODEL, golden("smollm-q8_0"), "-c", "1025", says=["1025", "1024"])
    refused("plan", MODEL, "--context", "1025", "--no-measure", says=["1025", "1024"])


def test_a_prompt_that_does_not_fit():
    line = refused("run", MODEL, "-p", "a" * 200, "--raw", "-c", "64")
    assert "64" in line and "200" in line or "201" in line, line
    tokens = len(output("tokenize", MODEL, "-p", "b" * 64).splitlines())
    output("run", MODEL, "-p", "b" * 64, "--raw", "-c", str(tokens), "-n", "1", "--temp", "0")
    refused("run", MODEL, "-p", "b" * 64, "--raw", "-c", str(tokens - 1), says=[str(tokens), str(tokens - 1)])


def test_inputs():
    refused("run", MODEL, "-p", "x", "-f", "y", says=["-p", "-f"])
    refused("run", MODEL, "-f", "/nonexistent/file", says=["/nonexistent/file"])
    refused("run", MODEL, "-f", "/", says=["/"])
    refused("run", MODEL, "-p", "x", "--raw", "-sys", "y", says=["template"])
    refused("run", golden("mixtral-q8_0"), "-p", "x", "-sys", "y", says=["template"])
    refused("run", MODEL, stdin=b"a\xffb", says=["byte 1", "UTF-8"])
    refused("run", MODEL, "-sys", b"\xc3", "-p", "x", says=["UTF-8"])
    refused("perplexity", MODEL, says=["text"])
    refused("bench", MODEL, "-p", "0", "-n", "0", says=["no tests"])
    refused("plan", MODEL, "--dot", "--json", says=["--dot", "--json"])
    refused("tokenize", MODEL, "--detokenize", "-p", "1 2 x", says=["'x'"])
    refused("tokenize", MODEL, "--detokenize", "-p", "99999", says=["99999"])
    refused("run", MODEL, "-p", "x", "--logit-bias", "99999+1", says=["99999"])


def test_templates():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "chat.json")
        for text, word in (("{", "line 1"), ("{}", "messages"), ("3", "3"), ("[", "line")):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            refused("tokenize", MODEL, "--template", path, says=[path if text != "3" else path, word][:1])
        with open(path, "w", encoding="ascii") as file:
            file.write('[{"role": "user", "content": "a"}]')
        refused("tokenize", golden("mixtral-q8_0"), "--template", path, says=["template"])
        refused("tokenize", MODEL, "--template", path, "-p", "x", says=["--template"])


def test_more_threads_than_processors_is_a_warning():
    count = len(os.sched_getaffinity(0)) + 1
    done = run("run", MODEL, "-p", "x", "-n", "2", "-t", str(count))
    line = done.stderr.decode()
    assert done.returncode == 0, line
    assert line.startswith("prestage: warning: ") and line.count("\n") == 1 and str(count) in line, line


def test_output_that_cannot_be_written():
    if not os.path.exists("/dev/full"):
        raise Skip("no /dev/full")
    with open("/dev/full", "wb") as full:
        import subprocess
        from program import PRESTAGE
        done = subprocess.run([PRESTAGE, "info", MODEL], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1, done


def test_environment_that_cannot_be():
    for isa in ("abc", "AVX2", "avx512 "):
        refused("run", golden("smollm-q8_0"), "-p", "a", environment={"PS_ISA": isa}, says=[f"PS_ISA={isa}", "avx512"])


main(sys.modules[__name__])
