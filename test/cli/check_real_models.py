"""Real models of the cache: known tokens and perplexities, and Ctrl-C in the middle of an answer."""
import json
import os
import signal
import subprocess
import sys

from program import PRESTAGE, Skip, document, main, output, real

SMOLLM = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Another engine's greedy tokens after "The capital of France is", where its two best are far apart.
GREEDY = ((SMOLLM, [7042, 30, 198, 198, 504]),
          ("gemma3-270m-q4_k_m.gguf", [506, 5279, 529, 506]),
          ("sns2-0.5b-q4.gguf", [12095]))
# Its perplexity of a text that Debian has, in windows of 512 tokens.
TEXT = "/usr/share/common-licenses/GPL-3"
TEXT_BYTES = 35149
PERPLEXITY = ((SMOLLM, 18.3541), ("gemma3-270m-q4_k_m.gguf", 13.9247), ("sns2-0.5b-q4.gguf", 5.3322))


def each(pairs):
    """Those whose model is there."""
    found = []
    for name, value in pairs:
        try:
            found.append((real(name), value))
        except Skip as reason:
            print(f"skipped {reason}")
    if not found:
        raise Skip("no model of the cache")
    return found


def test_greedy_tokens():
    for path, tokens in each(GREEDY):
        got = document("run", path, "-p", "The capital of France is", "--raw", "--temp", "0", "-n", str(len(tokens)))
        assert got["tokens"] == tokens, (path, got)


def test_streamed_text_is_the_text():
    path = real(SMOLLM)
    flags = ("run", path, "-p", "Say hello in Japanese and in Greek.", "--temp", "0", "-n", "60")
    assert output(*flags).decode() == document(*flags)["text"]


def test_perplexity():
    if not os.path.exists(TEXT) or os.path.getsize(TEXT) != TEXT_BYTES:
        raise Skip(f"{TEXT} is not there, or not the one of {TEXT_BYTES} bytes")
    for path, expected in each(PERPLEXITY):
        got = document("perplexity", path, TEXT, "-c", "512", timeout=500)
        print(f"{os.path.basename(path)}: {got['ppl']:.4f}, expected {expected}")
        assert abs(got["ppl"] / expected - 1) < 0.005, (path, got)


def test_perplexity_of_kv_types():
    if not os.path.exists(TEXT):
        raise Skip(f"{TEXT} is not there")
    path = real(SMOLLM)
    exact, rounded = (document("perplexity", path, TEXT, "-c", "512", "-ctk", kind, "-ctv", kind, timeout=500)["ppl"]
                      for kind in ("f16", "q8_0"))
    print(f"f16 {exact:.4f}, q8_0 {rounded:.4f}")
    assert exact != rounded and abs(rounded / exact - 1) < 0.005, (exact, rounded)


def interrupt(*flags):
    path = real(SMOLLM)
    flags = ("run", path, "-p", "Tell me a very long story about the sea.", "--temp", "0", "--ignore-eos", *flags)
    with subprocess.Popen([PRESTAGE, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            first = b"" if "--json" in flags else process.stdout.read(1)
            if "--json" in flags:
                try:
                    process.wait(3)
                except subprocess.TimeoutExpired:
                    pass
            process.send_signal(signal.SIGINT)
            rest, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130 and err == b"", (process.returncode, err)
    return first + rest


def test_an_interrupt_keeps_what_there_is():
    text = interrupt().decode()
    assert len(text) >= 1, text
    got = json.loads(interrupt("--json"))
    assert got["finish_reason"] == "cancelled" and got["tokens"], got


main(sys.modules[__name__])
