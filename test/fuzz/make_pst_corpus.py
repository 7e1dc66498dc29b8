#!/usr/bin/env python3
"""Writes test/fuzz/corpus/pst: small compiled files, each good_* or bad_* in one named way.

The files are committed; run this after a change here. `--check` writes nothing and fails when the
folder differs. test/format/test_pst.c says what each bad file must be told. Written from the
description of the format in format/pst.h and not from the writer, so that the two can disagree.
Checksums are zeros: opening does not read them.
"""
import pathlib
import re
import struct

import corpus_folder

LAYOUT_H = pathlib.Path(__file__).parent.parent.parent / "src" / "base" / "layout.h"
LAYOUT = int(re.search(r"#define PS_LAYOUT_VERSION (\d+)", LAYOUT_H.read_text(encoding="ascii")).group(1))

PAGE, LINE = 4096, 64
F32, Q8_0 = 0, 8


def round_up(value, unit):
    return (value + unit - 1) // unit * unit


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def tensor(name, dims, kind, offset):
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


# A norm, and a matrix of 16 rows of 32 columns; a tensor that no graph reads.
HEAD = (struct.pack("<4sIQQ", b"GGUF", 3, 3, 1) + string("general.architecture") + struct.pack("<I", 8) + string("llama") +
        tensor("a.weight", [4], F32, 0) + tensor("b.weight", [32, 16], Q8_0, 32) + tensor("unused", [8], F32, 576))
GGUF_BYTES = round_up(len(HEAD), 32) + 576 + 32

# Two experts of three matrices, 544 bytes each, in records of 1696 bytes; a fourth tensor like them, and a norm.
NAMES = [f"blk.0.ffn_{name}_exps.weight" for name in ("down", "extra", "gate", "up")]
EXPERTS_HEAD = (struct.pack("<4sIQQ", b"GGUF", 3, 5, 1) + string("general.architecture") + struct.pack("<I", 8) + string("llama") +
                b"".join(tensor(name, [32, 16, 2], Q8_0, 1088 * i) for i, name in enumerate(NAMES)) + tensor("norm", [4], F32, 4352))
# The same tensors as HEAD has, in the heads of two parts.
PART_KEYS = b"".join(string(name) + struct.pack("<IH", 2, value) for name, value in
                     (("split.no", 0), ("split.count", 2), ("split.tensors.count", 3)))
SPLIT_HEAD = (struct.pack("<4sIQQ", b"GGUF", 3, 2, 3) + PART_KEYS + tensor("a.weight", [4], F32, 0) + tensor("b.weight", [32, 16], Q8_0, 32) +
              struct.pack("<4sIQQ", b"GGUF", 3, 1, 3) + PART_KEYS.replace(b"split.no" + bytes([2, 0, 0, 0, 0]), b"split.no" + bytes([2, 0, 0, 0, 1])) +
              tensor("unused", [8], F32, 0))


def entry(name, kind, outputs, inputs, offset, size, is_vector=0, experts=0, stack=0):
    name = name if isinstance(name, bytes) else name.encode()
    return struct.pack("<64s6I3Q", name, kind, outputs, inputs, experts, is_vector, stack, offset, size, 0)


def matrix(name, offset, size=1088, experts=2, stack=1, is_vector=0):
    return entry(NAMES[name], Q8_0, 16, 32, offset, size, is_vector, experts, stack)


def stack_entry(offset=0, stride=4096, record=1696, experts=2):
    return struct.pack("<3Q2I", offset, stride, record, experts, 0)


A = entry("a.weight", F32, 1, 4, 0, 16, is_vector=1)
B = entry("b.weight", Q8_0, 16, 32, 64, 544)


def pst(entries=(A, B), head=HEAD, data=bytes(608), more=(), skip=(), magic=b"PRESTPST", version=2, layout=LAYOUT,
        file_bytes=None, gguf_bytes=GGUF_BYTES, count=None, data_shift=0, stacks=None, sums=None, **places):
    """places: name of a section with _ for -, and its (offset, bytes). stacks, sums: contents of their sections."""
    table = b"".join(entries)
    table_at = round_up(PAGE + len(head), LINE)
    stacks_at = round_up(table_at + len(table), LINE)
    sums_at = stacks_at + len(stacks or b"")
    data_at = round_up(sums_at + len(sums or b""), PAGE) + data_shift
    found = {"gguf-head": (PAGE, len(head)), "weights": (table_at, len(table)), "data": (data_at, len(data))}
    found.update({name: (at, len(content)) for name, at, content in (("experts", stacks_at, stacks), ("expert-sums", sums_at, sums))
                  if content is not None})
    found.update({name.replace("_", "-"): place for name, place in places.items()})
    listed = [(name.encode(), *place) for name, place in found.items() if name not in skip] + list(more)
    size = data_at + len(data)
    header = struct.pack("<8sIIQQQQII", magic, version, layout, size if file_bytes is None else file_bytes, gguf_bytes,
                         0x0123456789abcdef, 0, len(listed) if count is None else count, 0)
    header += b"".join(struct.pack("<16sQQQ", name, offset, length, 0) for name, offset, length in listed)
    content = bytearray(size)
    for at, part in ((0, header), (PAGE, head), (table_at, table), (stacks_at, stacks or b""), (sums_at, sums or b""),
                     (data_at, data)):
        content[at:at + len(part)] = part
    return bytes(content)


def moe(weights, stacks=(stack_entry(),), data=bytes(4096 + 1696), sums=bytes(16), **more):
    """A file of experts alone."""
    return pst(entries=weights, head=EXPERTS_HEAD, data=data, stacks=b"".join(stacks), sums=sums,
               gguf_bytes=round_up(len(EXPERTS_HEAD), 32) + 4368, **more)


def expert_cases():
    down, gate, up = matrix(0, 1152), matrix(2, 0), matrix(3, 576)
    all_three = [down, gate, up]
    norm = entry("norm", F32, 1, 4, 0, 16, is_vector=1)
    yield "good_experts", moe(all_three)
    yield "good_experts_behind_weights", moe([matrix(0, 4096 + 1152), matrix(2, 4096), matrix(3, 4096 + 576), norm],
                                             [stack_entry(4096)], bytes(8192 + 1696))
    yield "good_experts_two_layers", moe([matrix(0, 0), matrix(2, 8192, stack=2)], [stack_entry(), stack_entry(8192, record=544)],
                                         bytes(12288 + 544), bytes(32))
    yield "good_experts_alone", moe([matrix(0, 0, stack=0)], [], sums=b"")
    yield "good_experts_unused", moe([])
    yield "good_split_head", pst(head=SPLIT_HEAD, gguf_bytes=len(SPLIT_HEAD) + 700)
    yield "bad_split_head", pst(head=SPLIT_HEAD[:-1], gguf_bytes=len(SPLIT_HEAD) + 700)
    yield "bad_stack_number", moe([matrix(0, 0, stack=2)])
    yield "bad_stack_experts", moe([matrix(0, 0, 1632, experts=3)])
    yield "bad_stack_no_experts", moe([matrix(0, 0, 544, experts=0)])
    yield "bad_stack_four", moe([down, matrix(1, 1152), gate, up], [stack_entry(record=4096)], bytes(8192)).replace(
        matrix(1, 1152), matrix(1, 1728))
    yield "bad_stack_outside", moe([matrix(0, 1216), gate, up])
    yield "bad_stack_far_outside", moe([matrix(0, 2**64 - 64), gate, up])
    yield "bad_stack_before", moe([matrix(0, 0)], [stack_entry(4096)], bytes(8192 + 1696))
    yield "bad_stack_overlap", moe([matrix(0, 1088), gate, up])
    yield "bad_stack_same_place", moe([matrix(0, 0), matrix(2, 0)])
    yield "bad_stack_misaligned", moe([matrix(0, 32)])
    yield "bad_stack_vector", moe([entry("norm", F32, 1, 4, 0, 16, is_vector=1, experts=2, stack=1)])
    yield "bad_experts_bytes", moe([matrix(0, 0, 1087)])
    yield "bad_records_none", moe([], [stack_entry(experts=0)])
    yield "bad_records_empty", moe([], [stack_entry(record=0)])
    yield "bad_records_stride", moe([], [stack_entry(stride=2048)])
    yield "bad_records_stride_0", moe([], [stack_entry(stride=0)])
    yield "bad_records_larger_than_stride", moe([], [stack_entry(record=4097)])
    yield "bad_records_offset", moe([], [stack_entry(64)])
    yield "bad_records_past_end", moe([], data=bytes(4096 + 1695))
    yield "bad_records_far_past_end", moe([], [stack_entry(2**64 - 4096)])
    yield "bad_records_wrap", moe([], [stack_entry(stride=2**63, experts=3)], sums=bytes(24))
    yield "bad_records_many", moe([], [stack_entry(experts=2**32 - 1)])
    yield "bad_records_overlap", moe([], [stack_entry(), stack_entry(4096)], bytes(8192 + 1696), bytes(32))
    yield "bad_records_order", moe([], [stack_entry(8192), stack_entry()], bytes(12288 + 1696), bytes(32))
    yield "bad_records_in_weights", moe([norm])
    yield "bad_stacks_bytes", moe([], [stack_entry(), b"x"])
    yield "bad_sums_missing", moe([], sums=None)
    yield "bad_sums_few", moe([], sums=bytes(8))
    yield "bad_sums_many", moe([], sums=bytes(24))
    yield "bad_sums_bytes", moe([], sums=bytes(17))


def cases():
    yield from expert_cases()
    good = pst()
    yield "good", good
    yield "good_unknown_section", pst(more=[(b"plan", 4096, 3)])
    yield "good_no_weights", pst(entries=[])
    yield "good_gap", pst(entries=[A, entry("b.weight", Q8_0, 16, 32, 128, 544)], data=bytes(672))
    yield "bad_empty", b""
    yield "bad_magic", pst(magic=b"PRESTAGE")
    yield "bad_gguf", HEAD
    yield "bad_header_cut", good[:1000]
    yield "bad_version_newer", pst(version=3)
    yield "bad_version_older", pst(version=1)
    yield "bad_version_0", pst(version=0)
    yield "bad_layout", pst(layout=LAYOUT - 1)
    yield "bad_cut", good[:-1]
    yield "bad_longer", good + b"\0"
    yield "bad_section_count", pst(count=65)
    yield "bad_section_name", pst(more=[(b"x" * 16, 0, 0)])
    yield "bad_section_no_name", pst(more=[(b"", 0, 0)])
    yield "bad_section_twice", pst(more=[(b"data", 0, 0)])
    yield "bad_section_past_end", pst(more=[(b"plan", len(good) - 1, 2)])
    yield "bad_section_wraps", pst(more=[(b"plan", 16, 2**64 - 8)])
    for name in ("gguf-head", "weights", "data"):
        yield f"bad_no_{name}", pst(skip=[name])
    yield "bad_head_cut", pst(gguf_head=(PAGE, len(HEAD) - 4))
    yield "bad_head_bytes", pst(gguf_bytes=GGUF_BYTES - 1)
    yield "bad_head_huge", pst(gguf_bytes=2**63)
    yield "bad_head_small", pst(gguf_bytes=8)
    yield "bad_table_bytes", pst(weights=(round_up(PAGE + len(HEAD), LINE), 111))
    yield "bad_data_place", pst(data_shift=64)
    yield "bad_name_no_end", pst(entries=[entry(b"n" * 64, F32, 1, 4, 0, 16, is_vector=1)])
    yield "bad_name_unknown", pst(entries=[entry("c.weight", F32, 1, 4, 0, 16, is_vector=1)])
    yield "bad_name_twice", pst(entries=[A, entry("a.weight", F32, 1, 4, 64, 16, is_vector=1)])
    yield "bad_order", pst(entries=[entry("b.weight", Q8_0, 16, 32, 0, 544), entry("a.weight", F32, 1, 4, 576, 16, is_vector=1)])
    yield "bad_type", pst(entries=[A, entry("b.weight", F32, 16, 32, 64, 544)])
    yield "bad_vector_flag", pst(entries=[entry("a.weight", F32, 1, 4, 0, 16, is_vector=2)])
    yield "bad_vector_type", pst(entries=[A, entry("b.weight", Q8_0, 16, 32, 64, 544, is_vector=1)])
    yield "bad_vector_bytes", pst(entries=[entry("a.weight", F32, 1, 4, 0, 20, is_vector=1)])
    yield "bad_offset_misaligned", pst(entries=[A, entry("b.weight", Q8_0, 16, 32, 32, 544)])
    yield "bad_offset_huge", pst(entries=[A, entry("b.weight", Q8_0, 16, 32, 2**64 - 64, 544)])
    yield "bad_overlap", pst(entries=[A, entry("b.weight", Q8_0, 16, 32, 0, 544)])
    yield "bad_bytes_past_end", pst(entries=[A, entry("b.weight", Q8_0, 16, 32, 64, 545)])
    yield "bad_bytes_huge", pst(entries=[A, entry("b.weight", Q8_0, 16, 32, 64, 2**64 - 64)])


if __name__ == "__main__":
    corpus_folder.main(__file__, cases())
