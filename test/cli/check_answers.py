"""`run` on tiny models: the answer alone on stdout, the same by every way in, exact in JSON."""
import signal
import subprocess
import sys
import tempfile
import time

from program import PRESTAGE, document, golden, main, output, run

MODEL = golden("smollm-q8_0")
GREEDY = ("--temp", "0", "-n", "20")


def answer(*arguments, **keywords):
    return document("run", MODEL, *GREEDY, *arguments, **keywords)


def test_json_holds_what_is_promised():
    got = answer("-p", "hello", "--raw")
    assert set(got) >= {"prompt_tokens", "tokens", "text", "finish_reason", "timings"}, got
    assert set(got["timings"]) >= {"load_ms", "ttft_ms", "prompt_tps", "decode_tps"}, got
    assert got["finish_reason"] == "length" and len(got["tokens"]) == 20, got
    assert got["prompt_tokens"] == len(output("tokenize", MODEL, "-p", "hello").splitlines()), got
    assert all(value > 0 for value in got["timings"].values()), got


def test_stdin_file_and_flag_are_equal():
    text = "a prompt\nof two lines \n"
    expected = answer("-p", text)
    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        ways = [answer("-f", file.name), answer(stdin=text.encode()), answer("-f", "-", stdin=text.encode())]
    for way in ways:
        assert way["tokens"] == expected["tokens"], (way, expected)
        assert way["prompt_tokens"] == expected["prompt_tokens"], (way, expected)


def test_stdout_is_the_answer_alone():
    for name in ("smollm-q8_0", "gemma3-q8_0", "qwen3-f16"):
        arguments = ("run", golden(name), "-p", "some text", *GREEDY)
        plain = output(*arguments)
        ids = document(*arguments)["tokens"]
        pieces = [output("tokenize", golden(name), "--detokenize", "-p", str(id)) for id in ids]
        assert plain == b"".join(pieces), (plain, pieces)
        text = document(*arguments)["text"]
        assert text.replace("\ufffd", "") == plain.decode("utf-8", errors="ignore"), (plain, text)


def test_template_and_raw_differ():
    chat, raw = answer("-p", "hello"), answer("-p", "hello", "--raw")
    assert chat["prompt_tokens"] > raw["prompt_tokens"], (chat, raw)
    system = answer("-p", "hello", "-sys", "be brief")
    assert system["prompt_tokens"] > chat["prompt_tokens"], (chat, system)
    assert answer("-p", "hello", "--system-prompt", "be brief")["tokens"] == system["tokens"]


def test_run_and_tokenize_use_one_template():
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(b'[{"role": "system", "content": "s"}, {"role": "user", "content": "a <|im_end|> b"}]')
        file.flush()
        tokens = document("tokenize", MODEL, "--template", file.name)["tokens"]
    assert answer("-p", "a <|im_end|> b", "-sys", "s")["prompt_tokens"] == len(tokens)


def test_nothing_to_generate():
    got = answer("-p", "hello", "-n", "0")
    assert got["tokens"] == [] and got["text"] == "" and got["finish_reason"] == "length", got
    assert got["timings"]["prompt_tps"] > 0 and got["timings"]["decode_tps"] is None, got
    assert output("run", MODEL, "-p", "hello", "-n", "0") == b""


def test_the_context_ends_an_answer():
    got = document("run", MODEL, "-p", "hello", "--raw", "-c", "40", "--temp", "0", "--ignore-eos")
    # The last token is chosen from the last position and does not have to be in the context itself.
    assert got["prompt_tokens"] + len(got["tokens"]) == 41 and got["finish_reason"] == "length", got


def test_an_end_token_stops():
    free = document("run", MODEL, "-p", "hello", "--raw", "-n", "5", "--temp", "0")
    eos = document("info", MODEL)["tokenizer"]["eos"]
    stopped = document("run", MODEL, "-p", "hello", "--raw", "-n", "5", "--temp", "0", "--logit-bias", f"{eos}+1000")
    assert stopped["finish_reason"] == "stop" and stopped["tokens"] == [], stopped
    on = document("run", MODEL, "-p", "hello", "--raw", "-n", "5", "--temp", "0", "--logit-bias", f"{eos}+1000",
                  "--ignore-eos")
    assert on["finish_reason"] == "length" and eos not in on["tokens"], on
    banned = document("run", MODEL, "-p", "hello", "--raw", "-n", "5", "--temp", "0", "--logit-bias",
                      f"{free['tokens'][0]}-inf")
    assert banned["tokens"][0] != free["tokens"][0], (free, banned)


def test_tokens_do_not_depend_on_threads_or_batches():
    expected = answer("-p", "one two three four")["tokens"]
    for flags in (("-t", "1"), ("-t", "2"), ("-b", "1"), ("-b", "3"), ("-b", "512")):
        assert answer("-p", "one two three four", *flags)["tokens"] == expected, flags


def test_seeds():
    flags = ("run", MODEL, "-p", "hello", "-n", "30", "--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0",
             "--ignore-eos")
    first = document(*flags, "-s", "7")["tokens"]
    assert document(*flags, "--seed", "7")["tokens"] == first
    assert document(*flags, "-s", "8")["tokens"] != first


def test_stats_go_to_stderr():
    done = run("run", MODEL, "-p", "hello", *GREEDY, "--stats")
    assert done.returncode == 0 and done.stdout == output("run", MODEL, "-p", "hello", *GREEDY), done
    for word in (b"load", b"prompt", b"decode", b"MB/tok", b"GB/s"):
        assert word in done.stderr, (word, done.stderr)


def interrupted(arguments, stdin):
    """Ends a command half a second after its start."""
    with subprocess.Popen([PRESTAGE, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, (arguments, process.returncode, out, err)
    assert out == b"" and err == b"", (arguments, out, err)


def test_interrupts():
    interrupted(("bench", MODEL, "-p", "0", "-n", "900", "-r", "1000", "--no-ceiling"), subprocess.DEVNULL)
    interrupted(("bench", MODEL, "-p", "900", "-n", "0", "-r", "1000", "--json"), subprocess.DEVNULL)
    interrupted(("run", MODEL), subprocess.PIPE)


main(sys.modules[__name__])
