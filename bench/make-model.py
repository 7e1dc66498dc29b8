#!/usr/bin/env python3
"""Writes a GGUF model of random weights in a chosen shape and type, for measuring speed.

    bench/make-model.py --type Q4_0 OUT.gguf                    1.28 billion parameters, a Llama
    bench/make-model.py --type Q8_0 --layers 120 --dim 576 --ffn 1536 --heads 9 --kv-heads 3 \\
        --vocabulary 49152 OUT.gguf                             SmolLM2-135M's layers, four times as many

Types: F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, Q4_K_M. With Q4_K and Q5_K the embedding, which is the
output too, is Q6_K, as in the files that people use; with Q4_K_M also attn_v and ffn_down of the first and last eighth of
the layers, and of every third one between. Scales are such that activations keep a sane size; the text that such a
model writes means nothing. Standard library only; a seed makes the file the same everywhere.
"""
import argparse
import random
import struct

# name: (GGUF id, columns of a block, bytes of a block)
TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
}
FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q4_K": 14, "Q4_K_M": 15,
              "Q5_K": 17, "Q6_K": 18}
# Where f16 scales stand in a block, and what makes the weights' deviation 1 when every other byte is uniform.
SCALES = {
    "Q4_0": [(0, 1 / 4.6)], "Q4_1": [(0, 1 / 4.6), (2, -7.5 / 4.6)], "Q5_0": [(0, 1 / 9.2)],
    "Q5_1": [(0, 1 / 9.2), (2, -15.5 / 9.2)], "Q8_0": [(0, 1 / 74)],
    "Q4_K": [(0, 1 / 170), (2, 7.5 / 170)], "Q5_K": [(0, 1 / 340), (2, 15.5 / 340)], "Q6_K": [(208, 1 / 1360)],
}
ALIGNMENT = 32
CHUNK_BLOCKS = 1 << 16


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(item):
    if isinstance(item, bool):
        return 7, struct.pack("<?", item)
    if isinstance(item, int):
        return 4, struct.pack("<I", item)
    if isinstance(item, float):
        return 6, struct.pack("<f", item)
    if isinstance(item, str):
        return 8, string(item)
    kind = value(item[0])[0]
    return 9, struct.pack("<IQ", kind, len(item)) + b"".join(value(i)[1] for i in item)


def byte_texts():
    """The 256 printable stand-ins of byte-level BPE."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in kept else chr(next(others)) for b in range(256)]


def random_tensor(kind, count, deviation, rng, out):
    _, columns, size = TYPES[kind]
    blocks = count // columns
    while blocks > 0:
        n = min(blocks, CHUNK_BLOCKS)
        blocks -= n
        if kind == "F32":
            out.write(struct.pack("<f", 1.0) * n)
        elif kind == "F16":
            data = bytearray(rng.randbytes(2 * n))
            # sign and mantissa stay random, the exponent is that of the deviation
            exponent = struct.unpack("<H", struct.pack("<e", deviation))[0] & 0x7C00
            data[1::2] = bytes((b & 0x83) | exponent >> 8 for b in data[1::2])
            out.write(data)
        else:
            data = bytearray(rng.randbytes(size * n))
            for offset, factor in SCALES[kind]:
                low, high = struct.pack("<e", factor * deviation)
                data[offset::size] = bytes([low]) * n
                data[offset + 1::size] = bytes([high]) * n
            out.write(data)


def tensor_type(a, name, layer):
    if a.type == "Q4_K_M":
        eighth = a.layers // 8
        is_wide = layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2
        return "Q6_K" if is_wide and name in ("attn_v", "ffn_down") else "Q4_K"
    return a.type


def tensors(a):
    """(name, dimensions, type, deviation)"""
    head = a.dim // a.heads
    embedding = "Q6_K" if a.type in ("Q4_K", "Q5_K", "Q4_K_M") else a.type
    yield "token_embd.weight", (a.dim, a.vocabulary), embedding, 0.02
    for i in range(a.layers):
        deviation = 1 / a.dim ** 0.5
        for name, inputs, outputs in (
                ("attn_q", a.dim, a.dim), ("attn_k", a.dim, a.kv_heads * head), ("attn_v", a.dim, a.kv_heads * head),
                ("attn_output", a.dim, a.dim), ("ffn_gate", a.dim, a.ffn), ("ffn_up", a.dim, a.ffn),
                ("ffn_down", a.ffn, a.dim)):
            yield f"blk.{i}.{name}.weight", (inputs, outputs), tensor_type(a, name, i), deviation
        yield f"blk.{i}.attn_norm.weight", (a.dim,), "F32", 1
        yield f"blk.{i}.ffn_norm.weight", (a.dim,), "F32", 1
    yield "output_norm.weight", (a.dim,), "F32", 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", choices=sorted(SCALES) + ["F16", "Q4_K_M"], default="Q8_0")
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--ffn", type=int, default=8192)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--context", type=int, default=32768)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("out")
    a = parser.parse_args()

    tokens = byte_texts()
    tokens += [f"<t{i}>" for i in range(len(tokens), a.vocabulary)]
    keys = {
        "general.architecture": "llama", "general.name": f"random {a.type}", "general.file_type": FILE_TYPES[a.type],
        "general.alignment": ALIGNMENT, "llama.context_length": a.context, "llama.embedding_length": a.dim,
        "llama.block_count": a.layers, "llama.feed_forward_length": a.ffn, "llama.attention.head_count": a.heads,
        "llama.attention.head_count_kv": a.kv_heads, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 500000.0, "llama.rope.dimension_count": a.dim // a.heads,
        "llama.vocab_size": a.vocabulary,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * a.vocabulary, "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": a.vocabulary - 2, "tokenizer.ggml.eos_token_id": a.vocabulary - 1,
        "tokenizer.ggml.add_bos_token": False,
    }
    tokens[256] = "ab"  # what the one merge makes
    table = list(tensors(a))
    header = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(table), len(keys)))
    for key, item in keys.items():
        kind, data = value(item)
        if key == "tokenizer.ggml.token_type":
            data = struct.pack("<IQ", 5, len(item)) + struct.pack(f"<{len(item)}i", *item)
        header += string(key) + struct.pack("<I", kind) + data
    offset = 0
    for name, dimensions, kind, _ in table:
        count = 1
        for d in dimensions:
            count *= d
        _, columns, size = TYPES[kind]
        if dimensions[0] % columns:
            parser.error(f"{name}: rows of {dimensions[0]} are no multiple of {columns}, as {kind} needs")
        header += string(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions,
                                             TYPES[kind][0], offset)
        offset += (count // columns * size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    rng = random.Random(a.seed)
    with open(a.out, "wb") as out:
        out.write(header)
        for _, dimensions, kind, deviation in table:
            out.write(b"\0" * (-out.tell() % ALIGNMENT))
            count = 1
            for d in dimensions:
                count *= d
            random_tensor(kind, count, deviation, rng, out)
        out.write(b"\0" * (-out.tell() % ALIGNMENT))
        print(f"{a.out}: {a.type}, {out.tell() / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
