"""Plan files: written whole, used where they fit, refused with one line elsewhere, never another answer."""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from program import PRESTAGE, WITH_MPI, document, golden, main, output, refused, run

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
        assert lines[0] == "plan_file version=2", lines[0]
        assert lines[1] == f"model fingerprint={got['fingerprint']} layout={got['layout']}", lines[1]
        assert got["fingerprint"] == document("info", MODEL)["fingerprint"]
        assert lines[2].startswith("machine name=") and lines[2].endswith(" threads=3"), lines[2]
        assert lines[3:7] == ["ranks count=1", "policy name=off schedule=serial", "", "rank number=0"], lines[3:7]
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
        assert "\npolicy name=auto schedule=serial\n" in text and " window=barrier}" in text, text[:300]
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
                ("version=2", "version=1", "version 1, this build reads 2"),
                (r"fingerprint=\w", "fingerprint=f", "another model"),
                ("layout=[0-9]+", "layout=999", "layout of weights is 999"),
                (r'name=(".*?"|\w+) threads', 'name="another CPU" threads', "machine is 'another CPU'"),
                ("count=1", "count=2", "for rank 0 of 1 among those for rank 0 of 2"),
                ("rank number=0", "rank number=1", "line 7"),
                ("name=off", "name=preserve", "policy is 'preserve'"),
                ("schedule=serial", "schedule=fused", "schedule is 'fused'"),
                ("rows_max=8 logits_max=8", "rows_max=7 logits_max=7", "no plan for 8 rows"),
                ("policy", "polici", "line 5"),
                (r"vocabulary=\d+", "vocabulary=9", "plan at line 9"),
                (r"kv_group window=0", "kv_group window=256", "kv groups"),
                (r"kv_group window=0", "kv_group window=0\nkv_group window=5", "kv groups"),
                (r" \{group=0 head_dim=\d+\}", " {group=0 head_dim=8}", "plan at line 9")):
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


def answer_of_ranks(ranks, *flags, model=MODEL, more=()):
    got = run("run", model, "-p", "abc", "--raw", "--temp", "0", "-n", "30", "--json", *SIZES, "--tp", str(ranks), *more, *flags)
    assert got.returncode == 0, got
    return json.loads(got.stdout)["tokens"]


def refused_by_ranks(ranks, path, *says, model=MODEL, more=()):
    """One line, whichever rank finds it, besides the one about small machines; and soon."""
    done = run("run", model, "-p", "abc", *SIZES, "--tp", str(ranks), *more, "--plan", path, timeout=30)
    lines = [line for line in done.stderr.decode().splitlines() if not line.endswith(" would fit")]
    assert done.returncode == 2 and done.stdout == b"" and len(lines) == 1, done
    assert all(word in lines[0] for word in (path, *says)), lines
    return lines[0]


def test_ranks():
    with tempfile.TemporaryDirectory() as folder:
        for name, ranks in (("smollm-q8_0", 2), ("smollm-q8_0", 3), ("kmix-k", 4), ("gemma3-q8_0", 2), ("mixtral-q8_0", 2)):
            model = golden(name)
            for more in ((), ("--prefetch", "preserve", "--comm-schedule", "fused")):
                plans = made(folder, *SIZES, "--tp", str(ranks), *more, model=model, name=f"{name}{ranks}{len(more)}")
                assert answer_of_ranks(ranks, "--plan", plans, model=model, more=more) == \
                    answer_of_ranks(ranks, model=model, more=more), (name, ranks, more)
        path = os.path.join(folder, "smollm-q8_030")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert re.findall(r"^rank number=(\d)$", text, re.MULTILINE) == ["0", "1", "2"]
        assert "ranks count=3\npolicy name=auto schedule=auto\n" in text
        assert "prefetch %" in text and " stream=2" in text and "all_reduce" in text and " join=" in text
        plans = made(folder, *SIZES, "--tp", "2", name="for bench")
        assert document("bench", MODEL, "-p", "8", "-n", "4", "-r", "1", "-b", "32", "--ranks-sim", "2", "-t", "1", "--no-ceiling",
                        "--plan", made(folder, "-c", "8", "-b", "32", "-t", "1", "--tp", "2", name="sim"))
        got = document("plan", MODEL, "-o", plans, "--force", "--no-measure", *SIZES, "--tp", "2")
        assert got["ranks"] == 2 and got["policy"] == got["schedule"] == "auto" and got["plans"], got


def test_plans_of_ranks_that_do_not_fit():
    with tempfile.TemporaryDirectory() as folder:
        plans = made(folder, *SIZES, "--tp", "3")
        refused_by_ranks(2, plans, "number of ranks is 3, here it is 2", "--tp 2")
        refused_by_ranks(3, made(folder, *SIZES, "--tp", "2", name="two"), "number of ranks is 2, here it is 3")
        refused("run", MODEL, "-p", "abc", *SIZES, "--plan", plans, says=["number of ranks is 3, here it is 1"])
        refused_by_ranks(3, plans, "policy is 'auto', here it is 'off'", "--prefetch off", more=("--prefetch", "off"))
        refused_by_ranks(3, plans, "schedule is 'auto', here it is 'serial'", more=("--comm-schedule", "serial"))
        refused_by_ranks(3, plans, "another model", model=golden("smollm-q4_1"))
        refused_by_ranks(3, edited(plans, r'name=(".*?"|\w+) threads', 'name="another CPU" threads'), "machine is 'another CPU'")
        refused_by_ranks(3, os.path.join(folder, "none"), "No such file")
        with open(plans, encoding="utf-8") as file:
            head, *ranks = re.split(r"(?m)^(?=rank number=)", file.read())

        def mixed(*parts):
            with open(plans + ".mixed", "w", encoding="utf-8") as file:
                file.write("".join(parts))
            return plans + ".mixed"
        # what is wrong with one rank's plans alone
        for rank in range(3):
            bad = ranks[rank].replace("split=", "splat=", 1)
            refused_by_ranks(3, mixed(head, *ranks[:rank], bad, *ranks[rank + 1:]), "'splat'", "line ")
            gone = re.sub(r"rows_max=8 logits_max=8", "rows_max=7 logits_max=7", ranks[rank])
            refused_by_ranks(3, mixed(head, *ranks[:rank], gone, *ranks[rank + 1:]), "no plan for 8 rows")
            other = ranks[rank].replace("blk.0.attn_q.weight", "blk.0.attn_x.weight")
            refused_by_ranks(3, mixed(head, *ranks[:rank], other, *ranks[rank + 1:]), "attn_x.weight")
        refused_by_ranks(3, mixed(head, *ranks[:2]), "'rank number=2'")
        refused_by_ranks(3, mixed(head, ranks[0], ranks[2], ranks[1]), "number 2; 1 to 1")
        refused_by_ranks(3, mixed(head, ranks[0], ranks[1], ranks[1].replace("number=1", "number=2")), "a plan for rank 1 of 3")
        # each good by itself, not together
        sizes = ("-c", "512", "-b", "64", "-t", "1")
        fused, serial = (made(folder, *sizes, "--tp", "2", "--comm-schedule", how, name=how) for how in ("fused", "serial"))
        with open(fused, encoding="utf-8") as left, open(serial, encoding="utf-8") as right:
            head, first, _ = re.split(r"(?m)^(?=rank number=)", left.read())
            _, _, second = re.split(r"(?m)^(?=rank number=)", right.read())
        done = run("run", MODEL, "-p", "abc", *sizes, "--tp", "2", "--comm-schedule", "fused", "--plan", mixed(head, first, second))
        assert done.returncode == 2 and b"other collectives than those of rank 0" in done.stderr, done
        assert done.stderr.count(b"\n") == 1 + done.stderr.count(b"would fit"), done


def test_hosts_with_different_plan_files():
    if shutil.which("mpirun") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            os.mkdir(os.path.join(folder, name))
            made(os.path.join(folder, name), *SIZES, "--tp", "2", name="plans")
        command = ["-n", "1", "-wdir", os.path.join(folder, "a"), PRESTAGE, "run", MODEL, "-p", "abc", "--raw", "--temp", "0", "-n", "9",
                   *SIZES, "--plan", "plans"]
        other = [os.path.join(folder, "b") if word == os.path.join(folder, "a") else word for word in command]

        def launched():
            return subprocess.run(["mpirun", "--oversubscribe", *command, ":", *other], env={**os.environ, **WITH_MPI},
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        done = launched()
        assert done.returncode == 0 and done.stdout, done
        os.rename(edited(os.path.join(folder, "b", "plans"), r"predicted_ns=\d", "predicted_ns=9"),
                  os.path.join(folder, "b", "plans"))
        done = launched()
        lines = [line for line in done.stderr.decode().splitlines() if line.startswith("prestage: ") and "would fit" not in line]
        assert done.returncode == 2 and len(lines) == 1 and "rank 1 reads another plan file than rank 0" in lines[0], done


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
        for find, replace in ((b"version=2", b"version=7"), (b"split=rows", b"split=rowz"), (b"\nplan ", b"\nplam "),
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
        index = content.index(b"plans\0", 0, 4096)
        with open(bad, "wb") as file:
            file.write(content[:index + 24] + struct.pack("<Q", 0) + content[index + 32:])
        assert answer(bad) == answer(MODEL) and verbose(bad) == ""


def test_compiled_files_carry_plans_of_ranks():
    with tempfile.TemporaryDirectory() as folder:
        plans, path = made(folder, *SIZES, "--tp", "3"), os.path.join(folder, "a.pst")
        output("compile", MODEL, "-o", path, "--plan", plans)
        assert answer_of_ranks(3, model=path) == answer_of_ranks(3)

        def notes(ranks, model=path):
            done = run("run", model, "-p", "abc", "--raw", "-n", "2", "-v", *SIZES, "--tp", str(ranks))
            assert done.returncode == 0, done
            return [line for line in done.stderr.decode().splitlines() if "its plans are" in line]
        assert len(notes(3)) == 3 and all(line.endswith("its plans are used") for line in notes(3)), notes(3)
        assert len(notes(2)) == 2 and all("ranks is 3, here it is 2" in line for line in notes(2)), notes(2)
        # those of one rank alone are damaged: no rank uses its own
        with open(path, "rb") as file:
            content = file.read()
        at = content.index(b"rank number=1\n")
        at = content.index(b"split=rows", at)
        with open(path + ".bad", "wb") as file:
            file.write(content[:at] + b"split=rowz" + content[at + 10:])
        found = notes(3, model=path + ".bad")
        assert len(found) == 3 and all("are not used: " in line for line in found), found
        assert answer_of_ranks(3, model=path + ".bad") == answer_of_ranks(3)
        refused("compile", MODEL, "-o", os.path.join(folder, "b.pst"), "--plan", edited(plans, r"rank number=2", "rank number=7"),
                says=["number 7"])


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
