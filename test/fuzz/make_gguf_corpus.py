#!/usr/bin/env python3
"""Writes test/fuzz/corpus/gguf: small GGUF files, each good_* or bad_* in one named way.

The files are committed; run this after a change here. `--check` writes nothing and fails when the
folder differs. test/format/test_gguf.c says what each bad file must be told. Written from the
description of the format and not from the reader, so that the two can disagree.
"""
import struct

import corpus_folder

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
LETTERS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}
# Type id: name, columns and bytes of one block. Ids that are left out were removed from the format.
BLOCKS = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1),
    25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18),
}
T_F32, T_F16, T_Q4_0, T_Q8_0, T_Q4_K, T_IQ2_XXS, T_I32, T_Q2_0 = 0, 1, 2, 8, 12, 16, 26, 42


def string(text, length=None):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data) if length is None else length) + data


def scalar(kind, value):
    return string(value) if kind == STRING else struct.pack("<" + LETTERS[kind], value)


def key(name, kind, value):
    return string(name) + struct.pack("<I", kind) + scalar(kind, value)


def array(name, kind, values, count=None):
    head = struct.pack("<IIQ", ARRAY, kind, len(values) if count is None else count)
    return string(name) + head + b"".join(scalar(kind, v) for v in values)


def tensor(name, dims, kind, offset, dim_count=None):
    head = string(name) + struct.pack("<I", len(dims) if dim_count is None else dim_count)
    return head + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)


def tensor_bytes(dims, kind):
    _, columns, size = BLOCKS[kind]
    values = 1
    for d in dims:
        values *= d
    return values // columns * size


def gguf(keys=(), tensors=(), data=None, alignment=32, version=3, magic=b"GGUF", tensor_count=None, key_count=None):
    """tensors: ready entries, or (name, dims, type) laid out in order. data: bytes, or None to fill."""
    entries, offset = [], 0
    for t in tensors:
        if isinstance(t, bytes):
            entries.append(t)
            continue
        offset = -(-offset // alignment) * alignment
        entries.append(tensor(*t, offset))
        offset += tensor_bytes(t[1], t[2])
    counts = (len(entries) if tensor_count is None else tensor_count, len(keys) if key_count is None else key_count)
    out = magic + struct.pack("<IQQ", version, *counts) + b"".join(keys) + b"".join(entries)
    if data is None:
        data = bytes((i * 7 + 1) & 255 for i in range(offset))
    return out + (b"\0" * (-len(out) % alignment) + data if data else b"")


ONE = [("a", [4], T_F32)]  # one good tensor of 16 bytes


def all_values():
    keys = [
        key("general.architecture", STRING, "llama"),
        key("u8", U8, 255), key("i8", I8, -128), key("u16", U16, 65535), key("i16", I16, -32768),
        key("u32", U32, 2**32 - 1), key("i32", I32, -2**31), key("i32.positive", I32, 7),
        key("u64", U64, 2**64 - 1), key("i64", I64, -2**63), key("i64.positive", I64, 2**40),
        key("f32", F32, 1e-5), key("f64", F64, 0.1), key("f64.large", F64, 1e300),
        key("f64.float", F64, float.fromhex("0x1.fffffep127")), key("f64.past", F64, float.fromhex("0x1.ffffffp127")),
        key("int.max", I64, 2**31 - 1), key("int.past", I64, 2**31), key("int.below", I64, -2**31 - 1),
        key("f32.infinite", F32, float("inf")), key("f32.nan", F32, float("nan")),
        key("bool.true", BOOL, 1), key("bool.false", BOOL, 0), key("one", U8, 1),
        key("string", STRING, "gr\u00fc\u00df \"x\"\n"), key("string.empty", STRING, ""),
        key("string.bytes", STRING, b"\xff\x00\x80z"), key("string.long", STRING, "0123456789" * 20),
        array("array.u8", U8, [1, 2, 3]), array("array.i16", I16, [-1, 0, 1]), array("array.u32", U32, range(10)),
        array("array.i64", I64, [-2**40]), array("array.u64", U64, [2**63, 1]), array("array.bool", BOOL, [0, 1, 1]),
        array("array.f32", F32, [0.5, -1.5]), array("array.f64", F64, [0.25, 4.0]), array("array.empty", F32, []), array("array.six", U8, range(6)),
        array("array.string", STRING, ["a", "", "\u0120the", b"\xf0\x9f"]), array("array.string.empty", STRING, []),
    ]
    return gguf(keys, [("token_embd.weight", [32, 3], T_Q4_0), ("output_norm.weight", [5], T_F32),
                       ("odd", [256, 1, 2], T_IQ2_XXS), ("blk.0.attn_q.weight", [256, 2], T_Q4_K),
                       ("ints", [3], T_I32), ("two_bit", [64], T_Q2_0), ("cube", [2, 3, 4, 5], T_F16)])


def cases():
    good = all_values()
    yield "good_all_values", good
    # Each tensor is one block and has its type's name; its size stands in the metadata.
    yield "good_all_types", gguf([key(name, U32, size) for name, _, size in BLOCKS.values()],
                                 [(name, [columns], kind) for kind, (name, columns, _) in BLOCKS.items()])
    yield "good_version_2", gguf([key("k", U32, 1)], ONE, version=2)
    yield "good_no_keys_no_tensors", gguf()
    yield "good_vocabulary_only", gguf([array("tokenizer.ggml.tokens", STRING, [f"t{i}" for i in range(300)])])
    yield "good_alignment_64", gguf([key("general.alignment", U32, 64)], [("a", [3], T_F32), ("b", [3], T_F32)], alignment=64)
    yield "good_alignment_8", gguf([key("general.alignment", U32, 8)], [("a", [3], T_F32), ("b", [3], T_F32)], alignment=8)
    yield "good_alignment_65536", gguf([key("general.alignment", U32, 65536)])
    yield "good_gap", gguf([], [tensor("a", [4], T_F32, 0), tensor("b", [4], T_F32, 64)], data=bytes(80))
    yield "good_split_of_one", gguf([key("split.count", U16, 1)], ONE)
    yield "good_large_tensor", gguf([key("k", U32, 1)], [("a", [1100], T_F32), ("b", [3], T_F32)])
    yield "good_longest_name", gguf([], [("n" * 63, [1], T_F32)])
    yield "good_many", gguf([key(f"key.{i:04}", U16, i) for i in range(1200)], [(f"t{i:04}", [1], T_F32) for i in range(500)])

    # What is no GGUF file that is read here.
    yield "bad_empty", b""
    yield "bad_magic", b"PK\x03\x04" + good[4:200]
    yield "bad_magic_cut", b"GG"
    yield "bad_web_page", b"<!DOCTYPE html><html></html>"
    yield "bad_header_cut", good[:20]
    yield "bad_version_0", gguf(version=0)
    yield "bad_version_1", b"GGUF" + struct.pack("<III", 1, 0, 0) + bytes(12)
    yield "bad_version_4", gguf([], ONE, version=4)
    yield "bad_big_endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0)
    yield "bad_split", gguf([key("split.no", U16, 0), key("split.count", U16, 3)], ONE)
    yield "bad_split_type", gguf([key("split.count", STRING, "3")], ONE)

    # Counts and lengths that lie.
    yield "bad_tensor_count_huge", gguf(tensor_count=2**64 - 1)
    yield "bad_tensor_count_wraps", gguf(tensor_count=2**61 + 1)
    yield "bad_tensor_count_lies", gguf([], ONE, tensor_count=2)
    yield "bad_tensor_count_million", gguf(tensor_count=2**20)
    yield "bad_key_count_huge", gguf(key_count=2**63)
    yield "bad_key_count_lies", gguf([key("a", U8, 1)], [], key_count=2)
    yield "bad_key_count_million", gguf(key_count=2**20)
    yield "bad_key_name_length", gguf([string("key", 2**64 - 1) + bytes(30)])
    yield "bad_key_name_long", gguf([key("k" * 65536, U8, 1)])
    yield "bad_string_past_end", gguf([string("s") + struct.pack("<I", STRING) + string("abc", 4)])
    yield "bad_string_huge", gguf([string("s") + struct.pack("<I", STRING) + string("abc", 2**64 - 8)])
    yield "bad_string_over_limit", gguf([string("s") + struct.pack("<I", STRING) + string("abc", 2**30 + 1)])
    yield "bad_array_count_wraps", gguf([array("x", U64, [1], count=2**61 + 1)])
    yield "bad_array_count_huge", gguf([array("x", U8, [1], count=2**64 - 1)])
    yield "bad_array_past_end", gguf([array("x", U32, [1, 2], count=3)])
    yield "bad_array_billion", gguf([array("x", F64, [1], count=2**30)])
    yield "bad_string_array_count", gguf([array("x", STRING, ["a"], count=2**30)])
    yield "bad_string_array_item", gguf([string("x") + struct.pack("<IIQ", ARRAY, STRING, 2) + string("a") + string("b", 2**63)])
    yield "bad_scalar_cut", gguf([string("abcdef") + struct.pack("<IH", U64, 0)])

    # Metadata that is not allowed.
    yield "bad_value_type", gguf([string("k") + struct.pack("<II", 13, 0)])
    yield "bad_array_type", gguf([string("k") + struct.pack("<IIQ", ARRAY, 99, 0)])
    yield "bad_nested_array", gguf([string("k") + struct.pack("<IIQIQ", ARRAY, ARRAY, 1, U8, 0)])
    yield "bad_bool", gguf([key("k", BOOL, 2)])
    yield "bad_bool_array", gguf([array("k", BOOL, [1, 0, 255])])
    yield "bad_key_empty", gguf([key("", U32, 1)])
    yield "bad_key_nul", gguf([key(b"a\0b", U32, 1)])
    yield "bad_key_control", gguf([key("a\x1b[2J", U32, 1)])
    yield "bad_key_control_c1", gguf([key("a\u009b2J", U32, 1)])
    yield "bad_key_not_utf8", gguf([key(b"ab\xc3(", U32, 1)])
    yield "bad_key_overlong", gguf([key(b"\xc0\xafab", U32, 1)])
    yield "bad_key_surrogate", gguf([key(b"\xed\xa0\x80", U32, 1)])
    yield "bad_key_past_unicode", gguf([key(b"\xf4\x90\x80\x80", U32, 1)])
    yield "bad_key_utf8_cut", gguf([key(b"ab\xe2\x82", U32, 1)])
    yield "bad_key_twice", gguf([key("b", U32, 1), key("a", U32, 1), key("b", U8, 1)])
    yield "bad_alignment_0", gguf([key("general.alignment", U32, 0)], ONE)
    yield "bad_alignment_1", gguf([key("general.alignment", U32, 1)], ONE)
    yield "bad_alignment_48", gguf([key("general.alignment", U32, 48)], ONE)
    yield "bad_alignment_large", gguf([key("general.alignment", U32, 131072)], ONE)
    yield "bad_alignment_type", gguf([key("general.alignment", U64, 32)], ONE)
    yield "bad_alignment_array", gguf([array("general.alignment", U32, [32])], ONE)

    # Tensors.
    def one(name="a", dims=(4,), kind=T_F32, offset=0, data=bytes(64), **more):
        return gguf([], [tensor(name, dims, kind, offset, **more)], data=data)

    yield "bad_name_empty", one(name="")
    yield "bad_name_64", one(name="n" * 64)
    yield "bad_name_nul", one(name=b"a\0b")
    yield "bad_name_not_utf8", one(name=b"a\xff")
    yield "bad_name_past_end", gguf([], [string("abc", 2**40) + bytes(40)])
    yield "bad_name_twice", gguf([], [("a", [4], T_F32), ("b", [4], T_F32), ("a", [2], T_F32)])
    yield "bad_dimensions_0", one(dims=(), data=bytes(96))
    yield "bad_dimensions_5", one(dims=(1, 1, 1, 1, 1))
    yield "bad_dimensions_huge", one(dim_count=2**32 - 1)
    yield "bad_dimension_zero", one(dims=(4, 0))
    yield "bad_dimension_negative", one(dims=(2**64 - 1,))
    yield "bad_dims_2_42_1", one(dims=(2**42 + 1, 2**42 + 1))
    yield "bad_dims_int64_max", one(dims=(2**63 - 1, 2))
    yield "bad_dims_wrap_to_small", one(dims=(2**32, 2**32, 4))
    yield "bad_dims_wrap_to_zero", one(dims=(2**16, 2**16, 2**16, 2**16))
    yield "bad_bytes_wrap", one(dims=(2**62 + 1,), kind=T_F32)
    yield "bad_values_wrap", one(dims=(2**32, 2**32), kind=T_Q4_0)
    yield "bad_row_not_blocks", one(dims=(33,), kind=T_Q4_0)
    yield "bad_row_not_superblocks", one(dims=(128, 2), kind=T_Q4_K, data=bytes(288))
    for kind in (4, 5, 31, 32, 33, 36, 37, 38):
        yield f"bad_type_removed_{kind}", one(kind=kind)
    yield "bad_type_43", one(name="strange.weight", kind=43)
    yield "bad_type_huge", one(kind=2**32 - 1)
    yield "bad_offset_misaligned", one(offset=4)
    yield "bad_offset_past_end", one(offset=1024)
    yield "bad_offset_huge", one(offset=2**64 - 32)
    yield "bad_offset_int64", one(offset=2**63 - 32, data=bytes(64))
    yield "bad_overlap", gguf([], [tensor("a", [16], T_F32, 0), tensor("b", [4], T_F32, 32)], data=bytes(64))
    yield "bad_order", gguf([], [tensor("a", [4], T_F32, 32), tensor("b", [4], T_F32, 0)], data=bytes(64))
    yield "bad_same_bytes", gguf([], [tensor("a", [4], T_F32, 0), tensor("b", [4], T_F32, 0)], data=bytes(64))
    yield "bad_data_cut", gguf([], [("first", [8], T_F32), ("second", [8], T_F32), ("third", [8], T_F32)])[:-40]
    yield "bad_data_one_byte_cut", gguf([], ONE)[:-1]
    yield "bad_data_missing", gguf([], [tensor("a", [4], T_F32, 0)], data=b"")
    yield "bad_table_cut", good[:good.index(b"ints") + 10]
    yield "bad_keys_cut", good[:good.index(b"f64.large") + 9]


if __name__ == "__main__":
    corpus_folder.main(__file__, cases())
