#!/usr/bin/env python3
"""Splits a GGUF file for tests: split_gguf.py MODEL PARTS FOLDER [--metadata-alone] prints the path of the first part.

Parts are named NAME-0000i-of-0000N.gguf and say so in split.no, split.count and split.tensors.count. The first one
has the metadata; tensors are shared in their order, or with --metadata-alone between the others only.
"""
import argparse
import os
import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9
U16, I32 = 2, 5
ALIGNMENT = 32


class Reader:
    """A cursor over the bytes of a file."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def string(self):
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            kind, count = self.take("IQ")
            for _ in range(count):
                self.skip(kind)
        else:
            self.at += SIZES[kind]


def round_up(value):
    return -(-value // ALIGNMENT) * ALIGNMENT


def read(path):
    """Bytes of the metadata, its count of keys, and tensors as (name, dimensions, type, data)."""
    with open(path, "rb") as file:
        data = file.read()
    reader = Reader(data, 4)
    _, tensor_count, key_count = reader.take("IQQ")
    begin = reader.at
    for _ in range(key_count):
        reader.string()
        reader.skip(reader.take("I"))
    keys = data[begin:reader.at]
    assert b"general.alignment" not in keys
    found = []
    for _ in range(tensor_count):
        name = reader.string()
        dimensions = [reader.take("Q") for _ in range(reader.take("I"))]
        found.append((name, dimensions, *reader.take("IQ")))
    start = round_up(reader.at)
    ends = [start + offset for *_, offset in found[1:]] + [len(data)]
    return keys, key_count, [(name, dimensions, kind, data[start + offset:end])
                             for (name, dimensions, kind, offset), end in zip(found, ends)]


def key(name, kind, form, value):
    return struct.pack("<Q", len(name)) + name + struct.pack("<I" + form, kind, value)


def part(keys, key_count, tensors):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), key_count) + keys
    data = b""
    for name, dimensions, kind, content in tensors:
        head += struct.pack("<Q", len(name)) + name + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, len(data))
        data += content + bytes(round_up(len(content)) - len(content))
    return head + bytes(round_up(len(head)) - len(head)) + data


def split(path, count, folder, metadata_alone=False):
    """Writes the parts and gives their paths."""
    keys, key_count, tensors = read(path)
    shares = count - 1 if metadata_alone else count
    cuts = [len(tensors) * i // shares for i in range(shares + 1)]
    groups = [tensors[a:b] for a, b in zip(cuts, cuts[1:])]
    if metadata_alone:
        groups.insert(0, [])
    paths = []
    for i, group in enumerate(groups):
        own = (key(b"split.no", U16, "H", i) + key(b"split.count", U16, "H", count) +
               key(b"split.tensors.count", I32, "i", len(tensors)))
        name = os.path.basename(path).removesuffix(".gguf")
        paths.append(os.path.join(folder, f"{name}-{i + 1:05}-of-{count:05}.gguf"))
        with open(paths[-1], "wb") as file:
            file.write(part((keys if i == 0 else b"") + own, (key_count if i == 0 else 0) + 3, group))
    return paths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("parts", type=int)
    parser.add_argument("folder")
    parser.add_argument("--metadata-alone", action="store_true")
    given = parser.parse_args()
    print(split(given.model, given.parts, given.folder, given.metadata_alone)[0])
