"""Plan files: written whole, used where they fit, refused with one line elsewhere, never another answer."""
import os
import re
import struct
import sys
import tempfile

from program import document, golden, main, output, refused, run

MODEL = golden("smollm-q8_0")
SIZES = ("-c", "512", "-b", "32", "-t", "1")


def made(folder, *flags, model=MODEL, name="a.plans"):
    path = os.path.join(folder, name)
    output("plan", model, "-o", path, "--no-measure", *(flags or SIZES))
    return path


def edited(path, pattern, replacement):
    """A copy with one place changed."""
    with open(path, encoding="utf-8") as file:
        text, count = re.subn(pattern, replacement, file.read(), count=1)
    assert count == 1, pattern
    with open(path + ".edited", "w", encoding="utf-8") as file:
        file.write(text)
    return path + ".edited"


def answer(path, *flags, sizes=SIZES):
    got = document("run", path, "-p", "abc", "--raw", "--temp", "0", "-n", "40", *sizes, *flags)
    return got["tokens"], got["text"]


def verbose(path, *flags, sizes=SIZES):
    """The line about plans that -v writes, "" when there is none."""
    done = run("run", path, "-p", "abc", "--raw", "-n", "2", "-v", *sizes, *flags)
    assert done.returncode == 0, done
    return "".join(line for line in done.stderr.decode().splitlines() if "its plans are" in line)


def test_the_same_answers():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("smollm-q8_0", "kmix-k", "qwen3moe-q8_0", "gemma3-q8_0"):
            plans = made(folder, model=golden(name), name=name)
            assert answer(golden(name), "--plan", plans) == answer(golden(name)), name
        text = os.path.join(folder, "text")
        with open(text, "w", encoding="ascii") as file:
            file.write("abc def " * 400)
        plans = os.path.join(folder, "smollm-q8_0")
        left, right = (document("perplexity", MODEL, text, *SIZES, *more)["ppl"] for more in ((), ("--plan", plans)))
        assert left == right
        plans = made(folder, "-c", "12", "-b", "8", "-t", "1", name="bench")
        assert document("bench", MODEL, "-p", "8", "-n", "4", "-pg", "8,4", "-r", "1", "-b", "8", "-t", "1", "--no-ceiling",
                        "--plan", plans)


def test_plans_for_other_machines_give_the_same_answers():
    with tempfile.TemporaryDirectory() as folder:
        for threads in ("2", "3", "7"):
            plans = made(folder, *SIZES[:-1], threads, name="for" + threads)
            plans = edited(plans, r"threads=\d+", "threads=1")
            assert answer(MODEL, "--plan", plans) == answer(MODEL), threads


def test_what_it_says():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.plans")
        got = document("plan", MODEL, "-o", path, "--no-measure", "-c", "1000", "-b", "100", "-t", "3")
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        assert lines[0] == "plan_file version=1", lines[0]
        assert lines[1] == f"model fingerprint={got['fingerprint']} layout={got['layout']}", lines[1]
        assert got["fingerprint"] == document("info", MODEL)["fingerprint"]
        assert lines[2].startswith("machine name=") and lines[2].endswith(" threads=3"), lines[2]
        assert lines[3:6] == ["ranks count=1 rank=0", "policy name=off", ""], lines[3:6]
        buckets = [(1, 1, 1000), (8, 8, 1000), (64, 64, 1000), (100, 64, 1000)]
        assert [tuple(plan.values()) for plan in got["plans"]] == buckets, got["plans"]
        heads = [tuple(map(int, re.match(r"plan rows_max=(\d+) logits_max=(\d+) context_max=(\d+) ", line).groups()))
                 for line in lines if line.startswith("plan ")]
        assert heads == buckets, heads
        assert b"4 plans for 3 threads" in output("plan", MODEL, "-o", path, "--force", "--no-measure", "-c", "1000",
                                                  "-b", "100", "-t", "3")
        # the defaults are those of run
        output("plan", MODEL, "-o", path, "--force", "--no-measure", "-t", "1")
        assert answer(MODEL, "--plan", path, sizes=("-t", "1")) == answer(MODEL, sizes=("-t", "1"))


def test_plans_bring_their_prefetches():
    """What fires by default is what the plans say."""
    sizes = ("-c", "512", "-b", "32", "-t", "2")
    with tempfile.TemporaryDirectory() as folder:
        plans = made(folder, *sizes, "--prefetch", "auto")
        with open(plans, encoding="utf-8") as file:
            text = file.read()
        assert "\npolicy name=auto\n" in text and " window=barrier}" in text, text[:300]
        assert answer(MODEL, "--plan", plans, sizes=sizes) == answer(MODEL, sizes=sizes)
        for more, fires in ((("--plan", plans), True), (("--prefetch", "auto"), True), ((), False), (("--prefetch", "off"), False)):
            row = document("bench", MODEL, "-p", "0", "-n", "512", "-r", "1", "-t", "2", "-b", "32", "--no-ceiling", *more)[0]
            assert ("prefetch" in row) == fires, (more, row)
        refused("run", MODEL, "-p", "abc", "--plan", plans, *sizes, "--prefetch", "off", says=["'auto', here it is 'off'"])


def test_plans_that_do_not_fit_are_refused():
    with tempfile.TemporaryDirectory() as folder:
        plans = made(folder)

        def refuse(path, *says, sizes=SIZES, model=MODEL):
            return refused("run", model, "-p", "abc", "--plan", path, *sizes, says=[path, *says])
        right = f"prestage plan {MODEL} -o "
        refuse(plans, "number of threads is 1, here it is 2", right, "-t 2 ", "makes one that fits", sizes=("-c", "512", "-b", "32", "-t", "2"))
        refuse(plans, "no plan for 1 rows at a context of 600", right, "-c 600 -b 32", sizes=("-c", "600", "-b", "32", "-t", "1"))
        refuse(plans, "no plan for 33 rows at a context of 512", right, "-b 33", sizes=("-c", "512", "-b", "33", "-t", "1"))
        refuse(plans, "another model", model=golden("kmix-k"))
        for pattern, replacement, says in (
                ("version=1", "version=2", "version 2, this build reads 1"),
                (r"fingerprint=\w", "fingerprint=f", "another model"),
                ("layout=[0-9]+", "layout=999", "layout of weights is 999"),
                (r'name=(".*?"|\w+) threads', 'name="another CPU" threads', "machine is 'another CPU'"),
                ("count=1", "count=2", "number of ranks is 2"),
                ("count=1 rank=0", "count=2 rank=1", "number of ranks is 2"),
                ("name=off", "name=preserve", "policy is 'preserve'"),
                ("rows_max=8 logits_max=8", "rows_max=7 logits_max=7", "no plan for 8 rows"),
                ("policy", "polici", "line 5"),
                (r"vocabulary=\d+", "vocabulary=9", "plan at line 7"),
                (r"kv_group window=0", "kv_group window=256", "kv groups"),
                (r"kv_group window=0", "kv_group window=0\nkv_group window=5", "kv groups"),
                (r" \{group=0 head_dim=\d+\}", " {group=0 head_dim=8}", "plan at line 7")):
            refuse(edited(plans, pattern, replacement), says)
        refused("run", MODEL, "-p", "abc", "--plan", plans, *SIZES, "--prefetch", "auto", says=["'off', here it is 'auto'", "--prefetch auto"])
        with open(plans, encoding="utf-8") as file:
            text = file.read()

        def everywhere(find, replace):
            assert find in text, find
            with open(plans + ".edited", "w", encoding="utf-8") as file:
                file.write(text.replace(find, replace))
            return plans + ".edited"
        refuse(everywhere("blk.0.attn_q.weight", "blk.0.attn_x.weight"), "attn_x.weight")
        refuse(everywhere("%blk.0.attn_norm.weight", "%blk.1.attn_norm.weigh"), "blk.1.attn_norm.weigh")
        refuse(everywhere("%blk.0.kv", "%blk.9.kv"), "blk.9.kv")
        refuse(everywhere("= weight Q8_0", "= weight Q4_0"), "Q4_0")
        # whole plans of another model under this model's head
        other = made(folder, model=golden("kmix-k"), name="other")
        with open(other, encoding="utf-8") as file:
            body = file.read().split("\n\n", 1)[1]
        with open(other, "w", encoding="utf-8") as file:
            file.write(text.split("\n\n", 1)[0] + "\n\n" + body)
        refuse(other)
        for size in (0, 30, 150, len(text) // 2):
            with open(plans + ".edited", "w", encoding="utf-8") as file:
                file.write(text[:size])
            refuse(plans + ".edited")
        refuse(folder, "a folder; a plan file")
        refuse(os.path.join(folder, "none"), "No such file")
        refuse("/dev/null", "no regular file")
        refused("bench", MODEL, "-p", "8", "-n", "0", "-t", "1", "--no-ceiling", "--plan", plans, says=["no plan for 1 rows"])


def test_targets():
    with tempfile.TemporaryDirectory() as folder:
        path = made(folder)
        refused("plan", MODEL, "-o", path, says=[path, "--force"])
        output("plan", MODEL, "-o", path, "--force", "--no-measure", "-t", "2")
        refused("plan", MODEL, "-o", MODEL, "--force", says=["the model itself"])
        refused("plan", MODEL, "-o", path, "--dot", "--force", says=["--dot", "-o"])
        refused("plan", MODEL, "-o", os.path.join(folder, "none", "a"), "--no-measure", says=["none"])
        refused("plan", MODEL, "-o", folder, "--force", says=[folder, "no regular file"])
        refused("plan", MODEL, "-o", "/dev/null", "--force", says=["/dev/null"])
        refused("plan", MODEL, "-o", os.path.join(folder, "b"), "-c", "99999999", "--no-measure", says=["99999999"])
        assert os.listdir(folder) == ["a.plans"]


def test_compiled_files_carry_plans():
    with tempfile.TemporaryDirectory() as folder:
        plans, path = made(folder), os.path.join(folder, "a.pst")
        output("compile", MODEL, "-o", path, "--plan", plans)
        output("compile", "--verify", path)
        with open(plans, "rb") as left, open(path, "rb") as right:
            text, content = left.read(), right.read()
        assert content.count(text) == 1
        assert answer(path) == answer(MODEL)
        assert verbose(path).endswith("its plans are used")
        assert "threads is 1, here it is 2" in verbose(path, sizes=("-c", "512", "-b", "32", "-t", "2"))
        assert "no plan for 1 rows at a context of 64" in verbose(path, sizes=("-c", "64", "-b", "32", "-t", "1"))
        assert verbose(path, "--plan", plans) == "" and verbose(MODEL) == ""
        # a file of plans of this model comes before those inside, one of another is refused
        refused("run", path, "-p", "x", "--plan", made(folder, model=golden("kmix-k"), name="other"), *SIZES,
                says=["another model"])
        # damage: found by --verify, and no reason not to run
        for find, replace in ((b"version=1", b"version=7"), (b"split=rows", b"split=rowz"), (b"\nplan ", b"\nplam "),
                              (b"attn_q.weight", b"attn_x.weight")):
            where = content.index(text) + text.index(find)
            bad = os.path.join(folder, "bad.pst")
            with open(bad, "wb") as file:
                file.write(content[:where] + replace + content[where + len(find):])
            done = run("compile", "--verify", bad)
            assert done.returncode == 1 and done.stdout.decode() == f"{bad}: section plans is damaged\n", done
            assert answer(bad) == answer(MODEL)
            assert "are not used: " in verbose(bad)
        # a section of no bytes is none
        index = 56 + 3 * 40
        assert content[index:index + 6] == b"plans\0"
        with open(bad, "wb") as file:
            file.write(content[:index + 24] + struct.pack("<Q", 0) + content[index + 32:])
        assert answer(bad) == answer(MODEL) and verbose(bad) == ""


def test_compiling_with_plans_that_do_not_fit():
    with tempfile.TemporaryDirectory() as folder:
        plans, path = made(folder), os.path.join(folder, "a.pst")

        def refuse(plan, *says, model=MODEL):
            refused("compile", model, "-o", path, "--plan", plan, says=[plan, *says])
            assert not os.path.exists(path)
        refuse(plans, "another model", model=golden("kmix-k"))
        refuse(edited(plans, "layout=[0-9]+", "layout=999"), "layout of weights is 999")
        refuse(edited(plans, "split=", "splat="), "line ")
        refuse(MODEL, "line 1")
        refuse(os.path.join(folder, "none"), "No such file")
        refused("compile", "--verify", MODEL, "--plan", plans, says=["--verify", "--plan"])
        # for which machine they are does not matter here
        output("compile", MODEL, "-o", path, "--plan", edited(plans, r'name=(".*?"|\w+) threads', 'name=other threads'))
        assert "machine is 'other'" in verbose(path)


main(sys.modules[__name__])
