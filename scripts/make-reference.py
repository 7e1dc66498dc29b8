#!/usr/bin/env python3
"""Writes test/fixtures/reference/MODEL.txt: what llama.cpp continues prompts with, greedily, and by how much.

    scripts/make-reference.py LLAMA_SERVER MODEL.gguf NAME

LLAMA_SERVER is the program of that name, built from llama.cpp release 11434 (bench/build-llama.cpp.sh builds its
neighbours; add the target llama-server). One line a token of an answer, after one line a prompt:

    prompt ID ID ...
    token ID GAP      GAP: the lead of this token's log-probability over the next best one's
"""
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

PROMPTS = [
    "The capital of France is",
    "Once upon a time, a small robot",
    "1, 2, 3, 5, 8, 13,",
    "def fibonacci(n):\n",
    "Die Hauptstadt von Deutschland ist",
    "Water boils at a temperature of",
]
TOKENS = 64
PORT = 18439


def post(path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def wait_until_ready(server):
    for _ in range(300):
        if server.poll() is not None:
            sys.exit("llama-server ended")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    sys.exit("llama-server does not get ready")


def main():
    program, model, name = sys.argv[1:]
    out = Path(__file__).resolve().parent.parent / "test/fixtures/reference" / f"{name}.txt"
    out.parent.mkdir(parents=True, exist_ok=True)
    server = subprocess.Popen([program, "-m", model, "-t", "1", "-c", "2048", "-np", "1", "-fa", "off", "--port",
                               str(PORT), "--host", "127.0.0.1", "--no-webui"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(server)
        lines = []
        for prompt in PROMPTS:
            ids = post("/tokenize", {"content": prompt, "add_special": True, "parse_special": False})["tokens"]
            answer = post("/completion", {"prompt": ids, "n_predict": TOKENS, "temperature": 0, "n_probs": 4,
                                          "cache_prompt": False, "ignore_eos": False})
            lines.append("prompt " + " ".join(map(str, ids)))
            for step in answer["completion_probabilities"]:
                others = [p["logprob"] for p in step["top_logprobs"] if p["id"] != step["id"]]
                lines.append(f"token {step['id']} {step['logprob'] - max(others):.4f}")
        out.write_text(f"# {Path(model).name}, llama.cpp release 11434, 1 thread, KV f16, flash attention off\n"
                       + "\n".join(lines) + "\n")
        print(out)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
