"""Steps as predicted beside steps as they ran: what bench --predict prints, and what it refuses."""
import csv
import io
import statistics
import sys

from program import document, golden, main, output, refused

MODEL = golden("llama-q8_0")
SHORT = ("-n", "2", "-r", "3")
FEW = ("--batches", "1,2,9", "-d", "8,40", *SHORT)
KEYS = {"rates", "rates_source", "n_threads", "n_ranks", "n_parallel", "n_depth", "policy", "read_gbs", "predicted_ms", "measured_ms",
        "lowest_ms", "highest_ms", "error"}


def near(a, b):
    return abs(a - b) <= 1e-3 * (abs(a) + abs(b)) + 1e-6


def check_rows(got):
    for row in got["rows"]:
        assert row["predicted_ms"] > 0 and row["lowest_ms"] <= row["measured_ms"] <= row["highest_ms"], row
        assert near(1 + row["error"], row["predicted_ms"] / row["measured_ms"]), row
    errors = [abs(row["error"]) for row in got["rows"]]
    assert near(got["median_error"], statistics.median(errors)) and near(got["worst_error"], max(errors)), got


def test_all_of_them():
    got = document("bench", MODEL, "--predict", "-t", "1,2", *FEW)
    assert set(got) == {"model", "rows", "median_error", "worst_error"} and got["model"] == MODEL, got.keys()
    assert all(set(row) == KEYS for row in got["rows"]), got["rows"][0].keys()
    names = [tuple(row[key] for key in ("n_threads", "n_depth", "n_parallel", "policy")) for row in got["rows"]]
    assert names == [(t, d, b, policy) for t in (1, 2) for d in (8, 40) for b in (1, 2, 9)
                     for policy in ("off", "auto")], names
    assert {row["rates_source"] for row in got["rows"]} == {"measured quickly now"}
    assert all("measured quickly now" in row["rates"] for row in got["rows"]), got["rows"][0]
    check_rows(got)


def test_defaults():
    got = document("bench", MODEL, "--predict", "-d", "8", "-r", "1", "-t", "1", "--compare", "off")
    assert [row["n_parallel"] for row in got["rows"]] == [1, 4, 16], got["rows"]
    check_rows(got)


def test_simulated_ranks():
    got = document("bench", golden("smollm-q8_0"), "--predict", "-t", "1", "--ranks-sim", "2", "--comm-sim",
                   "latency=2ms", "-npl", "1", "-d", "8", *SHORT)
    assert [(row["n_ranks"], row["policy"]) for row in got["rows"]] == [(2, "off"), (2, "auto")], got["rows"]
    # Two layers of two sums, and the logits, wait for the link.
    assert all(row["predicted_ms"] > 8 and row["measured_ms"] > 8 for row in got["rows"]), got["rows"]
    check_rows(got)


def test_operators():
    got = document("bench", MODEL, "--predict", "--ops", "-npl", "2", "-d", "40", "-t", "2", "--compare", "off", *SHORT)
    ops = {(op["op"], op["site"]): op for op in got["rows"][0]["ops"]}
    for name in (("linear", "lm_head"), ("gate_up", "mlp.gate_up"), ("attention_partial", "kv"), ("norm_quantise", ""), ("waits", "")):
        assert ops[name]["predicted_us"] > 0 and ops[name]["measured_us"] > 0, (name, ops)
    predicted = sum(op["predicted_us"] for op in ops.values())
    assert near(predicted, got["rows"][0]["predicted_ms"] * 1000), (predicted, got["rows"][0])


def test_tables():
    text = output("bench", MODEL, "--predict", "-t", "1,2", "-npl", "1,2", "-d", "8", *SHORT).decode().splitlines()
    rows = [line for line in text if line.startswith("|") and "%" in line]
    assert len(rows) == 8 and all(len(row.split("|")) == 10 for row in rows), text
    assert sum(line.startswith("# ") and "measured quickly now" in line for line in text) == 2, text
    assert sum(line.startswith("| threads |") for line in text) == 2, text
    assert text[-1].startswith("errors of 8: median ") and ", worst " in text[-1], text
    table = list(csv.DictReader(io.StringIO(output("bench", MODEL, "--predict", "-t", "1", "-npl", "1,2", "-d", "8", *SHORT,
                                                   "-o", "csv").decode())))
    assert [(row["n_parallel"], row["policy"]) for row in table] == [("1", "off"), ("1", "auto"), ("2", "off"),
                                                                     ("2", "auto")], table
    assert all(near(1 + float(row["error"]), float(row["predicted_ms"]) / float(row["measured_ms"])) for row in table)


def test_what_is_refused():
    refused("bench", MODEL, "--predict", "-p", "5", says=("--predict", "-p", "-d"))
    refused("bench", MODEL, "--predict", "-pg", "5,5", says=("--predict", "-pg"))
    refused("bench", MODEL, "--predict", "--streams", "2", says=("--predict", "--streams"))
    refused("bench", MODEL, "--predict", "--static-batch", "2", "--seq", "9", says=("--predict", "--static-batch"))
    refused("bench", MODEL, "--predict", "--memory", "1G", says=("--predict", "memory"))
    refused("bench", MODEL, "--predict", "-n", "0", says=("-n",))
    refused("bench", MODEL, "--predict", "-d", "1000000", *SHORT, says=("at most", "-d"))
    refused("bench", MODEL, "--predict", "--compare", "of", says=("off",))


if __name__ == "__main__":
    main(sys.modules[__name__])
