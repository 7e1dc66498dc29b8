#!/usr/bin/env python3
"""Writes a GGUF model of random weights in a chosen shape and type, for measuring speed.

    bench/make-model.py --type Q4_0 OUT.gguf                    1.28 billion parameters, a Llama
    bench/make-model.py --type Q8_0 --layers 120 --dim 576 --ffn 1536 --heads 9 --kv-heads 3 \\
        --vocabulary 49152 OUT.gguf                             SmolLM2-135M's layers, four times as many
    bench/make-model.py --shape moe OUT.gguf                    3.98 GB, 24 layers of 128 experts top-8, a Qwen3-MoE
    bench/make-model.py --shape flash-next --layers 8 --type Q4_0 --split 4 OUT.gguf
                                                                11.5 GB, layers of 512 experts top-10, dim 2560,
                                                                in OUT-00001-of-00004.gguf and its three siblings

With --experts the model is a Qwen3-MoE: every layer has a router (F32) and so many experts of --expert-ffn columns, of
which a row takes --top-k. --shape is a set of defaults, which other options change.

Types: F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, Q4_K_M. With Q4_K and Q5_K the embedding, which is the
output too, is Q6_K, as in the files that people use; with Q4_K_M also attn_v and ffn_down of the first and last eighth of
the layers, and of every third one between. Rows that do not fill blocks of 256 take Q5_0, Q5_1 or Q8_0 instead of Q4_K,
Q5_K and Q6_K, as the same tools do it. Scales are such that activations keep a sane size; the text that such a
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
POOL_CHUNKS = 32
# What a K type becomes where rows are no multiple of its 256 columns.
NARROW = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
SHAPES = {
    "llama": {},
    "moe": {"type": "Q8_0", "experts": 128, "top_k": 8, "expert_ffn": 384, "layers": 24, "dim": 1024, "heads": 16,
            "kv_heads": 4, "vocabulary": 49152},
    "flash-next": {"type": "Q4_0", "experts": 512, "top_k": 10, "expert_ffn": 640, "layers": 48, "dim": 2560,
                   "heads": 20, "kv_heads": 4, "vocabulary": 49152},
}


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


def random_blocks(kind, n, deviation, rng):
    size = TYPES[kind][2]
    if kind == "F32":
        if deviation == 1:
            return struct.pack("<f", 1.0) * n
        return struct.pack(f"<{n}f", *(rng.gauss(0, deviation) for _ in range(n)))
    data = bytearray(rng.randbytes(size * n))
    if kind == "F16":
        # sign and mantissa stay random, the exponent is that of the deviation
        exponent = struct.unpack("<H", struct.pack("<e", deviation))[0] & 0x7C00
        data[1::2] = bytes((b & 0x83) | exponent >> 8 for b in data[1::2])
        return data
    for offset, factor in SCALES[kind]:
        low, high = struct.pack("<e", factor * deviation)
        data[offset::size] = bytes([low]) * n
        data[offset + 1::size] = bytes([high]) * n
    return data


class Writer:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.pools = {}

    def write_tensor(self, out, kind, dimensions, deviation):
        _, columns, size = TYPES[kind]
        blocks = elements(dimensions) // columns
        is_pooled = len(dimensions) == 3 or (kind == "F32" and len(dimensions) == 2)
        while blocks > 0:
            n = min(blocks, CHUNK_BLOCKS)
            blocks -= n
            out.write(self.pooled(kind, n * size, deviation) if is_pooled else
                      random_blocks(kind, n, deviation, self.rng))

    def pooled(self, kind, count, deviation):
        """For experts and routers, which are many bytes: pieces of a pool, from random blocks of it on, so that no two are alike."""
        size = TYPES[kind][2]
        if (kind, deviation) not in self.pools:
            self.pools[kind, deviation] = memoryview(
                b"".join(random_blocks(kind, CHUNK_BLOCKS, deviation, self.rng) for _ in range(POOL_CHUNKS)))
        pool = self.pools[kind, deviation]
        first = self.rng.randrange(0, (len(pool) - count) // size + 1) * size
        return pool[first:first + count]


def elements(dimensions):
    count = 1
    for d in dimensions:
        count *= d
    return count


def tensor_type(a, name, layer, columns):
    kind = a.type
    if kind == "Q4_K_M":
        eighth = a.layers // 8
        is_wide = layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2
        kind = "Q6_K" if is_wide and name in ("attn_v", "ffn_down", "ffn_down_exps") else "Q4_K"
    return NARROW.get(kind, kind) if columns % TYPES[kind][1] else kind


def matrices(a):
    """(name, dimensions) of one layer."""
    head = a.dim // a.heads
    yield "attn_q", (a.dim, a.dim)
    yield "attn_k", (a.dim, a.kv_heads * head)
    yield "attn_v", (a.dim, a.kv_heads * head)
    yield "attn_output", (a.dim, a.dim)
    if a.experts:
        yield "ffn_gate_exps", (a.dim, a.expert_ffn, a.experts)
        yield "ffn_up_exps", (a.dim, a.expert_ffn, a.experts)
        yield "ffn_down_exps", (a.expert_ffn, a.dim, a.experts)
    else:
        yield "ffn_gate", (a.dim, a.ffn)
        yield "ffn_up", (a.dim, a.ffn)
        yield "ffn_down", (a.ffn, a.dim)


def tensors(a):
    """(name, dimensions, type, deviation)"""
    embedding = "Q6_K" if a.type in ("Q4_K", "Q5_K", "Q4_K_M") else a.type
    if a.dim % TYPES[embedding][1]:
        embedding = NARROW.get(embedding, embedding)
    deviation = 1 / a.dim ** 0.5
    # Where tokens choose experts, the residual stream has to tell tokens apart: what layers add, which is much the same for
    # all tokens of random weights, is small beside the embedding.
    yield "token_embd.weight", (a.dim, a.vocabulary), embedding, 4 if a.experts else 0.02
    for i in range(a.layers):
        for name, dimensions in matrices(a):
            yield f"blk.{i}.{name}.weight", dimensions, tensor_type(a, name, i, dimensions[0]), deviation
        yield f"blk.{i}.attn_norm.weight", (a.dim,), "F32", 1
        yield f"blk.{i}.ffn_norm.weight", (a.dim,), "F32", 1
        if a.experts:
            yield f"blk.{i}.attn_q_norm.weight", (a.dim // a.heads,), "F32", 1
            yield f"blk.{i}.attn_k_norm.weight", (a.dim // a.heads,), "F32", 1
            yield f"blk.{i}.ffn_gate_inp.weight", (a.dim, a.experts), "F32", deviation
    yield "output_norm.weight", (a.dim,), "F32", 1


def model_keys(a):
    name = "qwen3moe" if a.experts else "llama"
    tokens = byte_texts()
    tokens += [f"<t{i}>" for i in range(len(tokens), a.vocabulary)]
    tokens[256] = "ab"  # what the one merge makes
    keys = {
        "general.architecture": name, "general.name": f"random {a.type}", "general.file_type": FILE_TYPES[a.type],
        "general.alignment": ALIGNMENT, f"{name}.context_length": a.context, f"{name}.embedding_length": a.dim,
        f"{name}.block_count": a.layers, f"{name}.feed_forward_length": a.ffn, f"{name}.attention.head_count": a.heads,
        f"{name}.attention.head_count_kv": a.kv_heads, f"{name}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{name}.rope.freq_base": 500000.0, f"{name}.rope.dimension_count": a.dim // a.heads,
        f"{name}.vocab_size": a.vocabulary,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * a.vocabulary, "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": a.vocabulary - 2, "tokenizer.ggml.eos_token_id": a.vocabulary - 1,
        "tokenizer.ggml.add_bos_token": False,
    }
    if a.experts:
        keys |= {f"{name}.attention.key_length": a.dim // a.heads, f"{name}.attention.value_length": a.dim // a.heads,
                 f"{name}.expert_count": a.experts, f"{name}.expert_used_count": a.top_k,
                 f"{name}.expert_feed_forward_length": a.expert_ffn, "tokenizer.ggml.pre": "qwen2"}
    return keys


def tensor_bytes(dimensions, kind):
    _, columns, size = TYPES[kind]
    return (elements(dimensions) // columns * size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def parts(table, count):
    """`count` pieces of the table, in order, of about as many bytes and at least one tensor each."""
    total = sum(tensor_bytes(t[1], t[2]) for t in table)
    piece, done = [], 0
    for i, tensor in enumerate(table):
        piece.append(tensor)
        done += tensor_bytes(tensor[1], tensor[2])
        if count > 1 and (done >= total / count or len(table) - i == count):
            yield piece
            total -= done
            count -= 1
            piece, done = [], 0
    yield piece


def header(keys, table, split):
    """split: (number of the file from 0, files, tensors of all), or None."""
    data = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(table), len(keys) + (3 if split else 0)))
    for key, item in keys.items():
        kind, bytes_ = value(item)
        if key == "tokenizer.ggml.token_type":
            bytes_ = struct.pack("<IQ", 5, len(item)) + struct.pack(f"<{len(item)}i", *item)
        data += string(key) + struct.pack("<I", kind) + bytes_
    if split:
        data += string("split.no") + struct.pack("<IH", 2, split[0])
        data += string("split.count") + struct.pack("<IH", 2, split[1])
        data += string("split.tensors.count") + struct.pack("<Ii", 5, split[2])
    offset = 0
    for name, dimensions, kind, _ in table:
        data += string(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, TYPES[kind][0],
                                           offset)
        offset += tensor_bytes(dimensions, kind)
    return data


def write_file(path, head, table, writer):
    with open(path, "wb") as out:
        out.write(head)
        for _, dimensions, kind, deviation in table:
            out.write(b"\0" * (-out.tell() % ALIGNMENT))
            writer.write_tensor(out, kind, dimensions, deviation)
        out.write(b"\0" * (-out.tell() % ALIGNMENT))
        print(f"{path}: {out.tell() / 1e9:.2f} GB")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="llama")
    parser.add_argument("--type", choices=sorted(SCALES) + ["F16", "Q4_K_M"], default="Q8_0")
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--ffn", type=int, default=8192)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--context", type=int, default=32768)
    parser.add_argument("--experts", type=int, default=0, help="of every layer; 0: a dense model")
    parser.add_argument("--top-k", type=int, default=8)
    parser.add_argument("--expert-ffn", type=int, default=768)
    parser.add_argument("--split", type=int, default=1, metavar="N", help="write N files, named as parts of one model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("out")
    parser.set_defaults(**SHAPES[parser.parse_args().shape])
    a = parser.parse_args()
    if a.experts and not 0 < a.top_k <= a.experts:
        parser.error(f"--top-k {a.top_k}: 1 to {a.experts} of the experts are taken")
    for name, dimensions, kind, _ in tensors(a):
        if dimensions[0] % TYPES[kind][1]:
            parser.error(f"{name}: rows of {dimensions[0]} are no multiple of {TYPES[kind][1]}, as {kind} needs")
    if not 0 < a.split <= len(list(tensors(a))):
        parser.error(f"--split {a.split}: 1 to {len(list(tensors(a)))} files, one a tensor at most")
    return a


def main():
    a = parse()
    table = list(tensors(a))
    writer = Writer(a.seed)
    if a.split == 1:
        write_file(a.out, header(model_keys(a), table, None), table, writer)
        return
    for i, part in enumerate(parts(table, a.split)):
        keys = model_keys(a) if i == 0 else {}
        write_file(f"{a.out.removesuffix('.gguf')}-{i + 1:05}-of-{a.split:05}.gguf",
                   header(keys, part, (i, a.split, len(table))), part, writer)


if __name__ == "__main__":
    main()
