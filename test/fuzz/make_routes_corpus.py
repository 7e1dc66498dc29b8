#!/usr/bin/env python3
"""Writes test/fuzz/corpus/routes: small route logs, each good_* or bad_* in one named way.

The files are committed; run this after a change here. `--check` writes nothing and fails when the
folder differs. Written from the description of the format in experts/routes_file.h and not from the
writer. Checksums are zeros: fuzz_routes.c makes them right.
"""
import struct

import corpus_folder

SAME = 0x8000


def call(layer, ids, rows=None, count=None):
    """rows: (sequence, phase, position), None: those of the call before. ids: a list for each row."""
    data = struct.pack("<2H", layer | (SAME if rows is None else 0), len(ids) if count is None else count)
    data += b"".join(struct.pack("<2HI", *row) for row in rows or ())
    return data + b"".join(struct.pack(f"<{len(one)}H", *one) for one in ids)


def block(*calls, size=None, count=None):
    data = b"".join(calls)
    return struct.pack("<2IQ", len(data) if size is None else size, len(calls) if count is None else count, 0) + data


END = struct.pack("<2IQ", 0, 0, 0)
ROWS = [(0, 1, 7), (3, 0, 2**32 - 1)]
FIRST = call(0, [[1, 2], [3, 0]], ROWS)
SECOND = call(1, [[3, 1], [2, 3]])


def log(*blocks, magic=b"PRESTRTE", version=1, layers=2, experts=4, top_k=2, end=END):
    header = struct.pack("<8s4IQQ", magic, version, layers, experts, top_k, 0x0123456789abcdef, 0)
    return header + b"".join(blocks) + end


def cases():
    good = log(block(FIRST, SECOND), block(FIRST))
    yield "good", good
    yield "good_empty", log()
    yield "bad_empty", b""
    yield "bad_magic", log(magic=b"PRESTPST")
    yield "bad_version", log(version=2)
    yield "bad_layers_0", log(layers=0)
    yield "bad_layers_many", log(layers=2**32 - 1)
    yield "bad_experts_0", log(experts=0)
    yield "bad_experts_many", log(experts=2**32 - 1)
    yield "bad_top_k_0", log(top_k=0)
    yield "bad_top_k_many", log(top_k=5)
    yield "bad_header_cut", good[:39]
    yield "bad_no_end", log(block(FIRST), end=b"")
    yield "bad_cut", good[:60] + END
    yield "bad_behind_end", log(block(FIRST), END)
    yield "bad_block_huge", log(block(FIRST, size=2**32 - 1))
    yield "bad_block_past_end", log(block(FIRST, size=len(FIRST) + 17))
    yield "bad_block_no_calls", log(block(FIRST, count=0))
    yield "bad_block_more_calls", log(block(FIRST, count=2))
    yield "bad_block_fewer_calls", log(block(FIRST, SECOND, count=1))
    yield "bad_call_cut", log(block(FIRST[:3]))
    yield "bad_rows_cut", log(block(FIRST[:10]))
    yield "bad_ids_cut", log(block(FIRST[:-1]))
    yield "bad_odd_size", log(block(FIRST, b"\0"))
    yield "bad_layer", log(block(call(2, [[0, 1]], ROWS[:1])))
    yield "bad_no_rows", log(block(call(0, [], [])))
    yield "bad_same_rows_of_none", log(block(SECOND))
    yield "bad_same_rows_of_another_block", log(block(FIRST), block(SECOND))
    yield "bad_same_rows_of_more", log(block(FIRST, call(1, [[3, 1]])))
    yield "bad_row_count", log(block(call(0, [[1, 2]], ROWS[:1], count=65535)))
    yield "bad_phase", log(block(call(0, [[1, 2]], [(0, 2, 0)])))
    yield "bad_id", log(block(call(0, [[1, 4]], ROWS[:1])))
    yield "bad_id_twice", log(block(call(0, [[1, 1]], ROWS[:1])))


if __name__ == "__main__":
    corpus_folder.main(__file__, cases())
