#!/usr/bin/env python3
"""Writes test/fuzz/corpus/gguf_split: small split GGUF files, good_* or bad_* in one named way.

The parts of one model stand in one file, one behind the other; test/fuzz/gguf_parts.h cuts them where
the next "GGUF" stands. The files are committed; run this after a change here. `--check` writes nothing
and fails when the folder differs. test/format/test_gguf_split.c says what each bad one must be told.
"""
import struct

import corpus_folder
from make_gguf_corpus import F32, I32, STRING, T_F32, T_Q8_0, U8, U16, U32, U64, gguf, key

ARCHITECTURE = key("general.architecture", STRING, "llama")
A, B, C, D = ("a", [4], T_F32), ("b", [32, 3], T_Q8_0), ("c", [5], T_F32), ("d", [2], T_F32)


def part(number, count, total, tensors, more=(), **changes):
    """number counts from 0; total: tensors of all parts. A key whose value is None is left out."""
    keys = {"split.no": (U16, number), "split.count": (U16, count), "split.tensors.count": (I32, total)}
    own = [key(name, *value) for name, value in keys.items() if value[1] is not None]
    return gguf([*more, *own], tensors, **changes)


def parts(*given, **changes):
    """One list of tensors a part; the first part has the metadata."""
    total = sum(len(tensors) for tensors in given)
    return [part(i, len(given), total, tensors, [ARCHITECTURE] if i == 0 else [], **changes) for i, tensors in enumerate(given)]


def cases():
    first, second = parts([A, B], [C])
    yield "good_two", first + second
    yield "good_three", b"".join(parts([A], [B], [C, D]))
    yield "good_metadata_alone", b"".join(parts([], [A, B], [C]))
    yield "good_empty_part", b"".join(parts([A], [], [B]))
    yield "good_version_2", b"".join(parts([A], [B], version=2))
    yield "good_same_metadata", first + part(1, 2, 3, [C], [ARCHITECTURE])
    yield "good_alignment", first + part(1, 2, 3, [C, ], [key("general.alignment", U32, 64)], alignment=64)
    yield "good_wide_keys", (gguf([ARCHITECTURE, key("split.no", U8, 0), key("split.count", U64, 2), key("split.tensors.count", U64, 1)], [A]) +
                             gguf([key("split.no", U32, 1), key("split.count", U8, 2), key("split.tensors.count", U16, 1)], []))

    three = parts([A], [B], [C])
    yield "bad_last_missing", three[0] + three[1]
    yield "bad_middle_missing", three[0] + three[2]
    yield "bad_all_missing", three[0]
    yield "bad_second_first", three[1] + three[0] + three[2]
    yield "bad_swapped", three[0] + three[2] + three[1]
    yield "bad_too_many", first + second + three[2]
    yield "bad_no_number", part(None, 2, 3, [A, B]) + second
    yield "bad_no_number_in_second", first + part(None, 2, 3, [C])
    yield "bad_no_total", part(0, 2, None, [A, B]) + second
    yield "bad_no_count_in_second", first + gguf([], [C])
    yield "bad_number_type", gguf([key("split.no", F32, 0), key("split.count", U16, 2), key("split.tensors.count", I32, 3)], [A, B]) + second
    yield "bad_number_past_count", part(2, 2, 3, [A, B]) + second
    yield "bad_count_huge", part(0, 1025, 3, [A, B]) + second
    yield "bad_count_differs", first + part(1, 3, 3, [C])
    yield "bad_total_differs", first + part(1, 2, 4, [C])
    yield "bad_total", part(0, 2, 4, [A, B]) + part(1, 2, 4, [C])
    yield "bad_total_negative", part(0, 2, -1, [A, B]) + part(1, 2, -1, [C])
    yield "bad_tensor_twice", b"".join(parts([A, B], [C], [D, A]))
    yield "bad_other_model", first + part(1, 2, 3, [C], [key("general.architecture", STRING, "qwen2")])
    yield "bad_other_model_length", first + part(1, 2, 3, [C], [key("general.architecture", STRING, "llama4")])
    yield "bad_other_key", first + part(1, 2, 3, [C], [key("general.name", STRING, "x")])
    yield "bad_other_type", first + part(1, 2, 3, [C], [key("general.architecture", U32, 1)])
    yield "bad_first_cut", first[:-4] + second
    yield "bad_second_cut", first + second[:-4]
    yield "bad_second_head_cut", first + second[:40]
    yield "bad_second_version", first + second[:4] + struct.pack("<I", 4) + second[8:]


if __name__ == "__main__":
    corpus_folder.main(__file__, cases())
