#!/usr/bin/env python3
"""Writes test/fuzz/corpus/follow: what a rank 0 may send, each good_* or bad_* in one named way.

The files are committed; run this after a change here. `--check` writes nothing and fails when the
folder differs. test/engine/test_follow.c says what each bad file must be told, and
test/engine/scripted_rank0.h how a file is read. The model is smollm-q8_0 of the golden files.
"""
import struct

import corpus_folder

STOP, OPEN, CLOSE, SESSION, END, STEP = range(6)
VOCABULARY, CONTEXT = 272, 64
NO_BLOCK = 2**32 - 1


def message(data, length=None):
    return struct.pack("<I", len(data) if length is None else length) + data


def command(word, behind=b"", session=0, program=0, size=None):
    return message(struct.pack("<4I", word, session, program, len(behind) if size is None else size) + behind)


def opened(threads=1):
    return command(OPEN, struct.pack("<I", threads))


def session(number=0, context=CONTEXT, sequences=2, rows=16, kv_tokens=0, k=0, v=0, prefetch=0, ratio=0.0, schedule=0,
            by_rows=0, check=0, path=b"", cut=None, **more):
    """As ps_session_options lies in memory, and the name of a plan file behind it."""
    options = struct.pack("<3I4xQQ3I4x5dQ6II", context, sequences, rows, kv_tokens, 0, k, v, prefetch, *[ratio] * 5, 0, *[0] * 6,
                          schedule)
    options += struct.pack("<IB3xIQB7x", 0, by_rows, 0, 0, check) + path
    return command(SESSION, options[:cut], session=number, **more)


def step(rows, blocks=(), number=0, program=0, row_count=None, block_count=None, session=0, size=None, cut=None):
    """rows: (sequence, position, token, wants_logits). blocks: (sequence, group, index, block, copy_from)."""
    data = struct.pack("<QII", number, len(rows) if row_count is None else row_count,
                       len(blocks) if block_count is None else block_count)
    data += b"".join(struct.pack("<IIiI", *row) for row in rows) + b"".join(struct.pack("<5I", *block) for block in blocks)
    return command(STEP, data[:cut], session=session, program=program, size=size)


ROW = (0, 0, 5, 1)
BLOCK = (0, 0, 0, 0, NO_BLOCK)
READY = opened() + session()


def rates(*values):
    return struct.pack("<I8d", 2**32 - 1, *values)


def cases():
    first = step([ROW], [BLOCK])
    yield "good_stop", b""
    yield "good_open", opened() + command(CLOSE) + opened() + command(CLOSE)
    yield "good_steps", READY + first + step([(0, 1, 6, 1)], number=1) + command(END) + command(CLOSE)
    yield "good_sessions", READY + session(63) + step([ROW], [BLOCK], session=63) + command(END, session=63) + first + command(CLOSE)
    yield "good_defaults", opened() + session(context=0, sequences=0, rows=0) + first + command(CLOSE)
    yield "good_number", READY + step([ROW], [BLOCK], number=2**64 - 1) + command(CLOSE)
    yield "bad_stop_open", opened()
    yield "bad_short", message(b"\x01\0\0\0")
    yield "bad_no_command", message(b"")
    yield "bad_claimed", message(b"", length=2**32 - 2)
    yield "bad_size", command(OPEN, struct.pack("<I", 1), size=8)
    yield "bad_word", command(6)
    yield "bad_word_later", READY + command(2**32 - 1)
    yield "bad_open_bytes", command(OPEN, b"\x01")
    yield "bad_open_twice", opened() + opened()
    yield "bad_threads", opened(2**32 - 1) + session()
    yield "bad_close_first", command(CLOSE)
    yield "bad_session_first", session()
    yield "bad_session_number", opened() + session(64)
    yield "bad_session_twice", READY + session()
    yield "bad_session_bytes", opened() + session(cut=47)
    yield "bad_plan_path", opened() + session(path=b"a")
    yield "bad_ratio", opened() + session(ratio=float("nan"))
    yield "bad_flag", opened() + session(by_rows=2)
    yield "bad_check", opened() + session(check=1)
    yield "bad_context", opened() + session(context=1025)
    yield "bad_sequences", opened() + session(sequences=65537)
    yield "bad_batch_rows", opened() + session(rows=4097)
    yield "bad_k_type", opened() + session(k=2)
    yield "bad_v_type", opened() + session(v=2**32 - 1)
    yield "bad_prefetch", opened() + session(prefetch=99)
    yield "bad_schedule", opened() + session(schedule=2**31)
    yield "bad_end", opened() + command(END)
    yield "bad_end_number", READY + command(END, session=2**32 - 1)
    yield "bad_step_first", opened() + first
    yield "bad_step_session", READY + step([ROW], [BLOCK], session=64)
    yield "bad_step_program", READY + step([ROW], [BLOCK], program=24)
    yield "bad_step_cut", READY + step([ROW], cut=15)
    yield "bad_step_rows_missing", READY + step([ROW], row_count=2)
    yield "bad_step_rows_huge", READY + step([ROW], row_count=2**32 - 1)
    yield "bad_step_blocks_huge", READY + step([ROW], [BLOCK], block_count=2**32 - 1)
    yield "bad_step_no_rows", READY + step([])
    yield "bad_step_many_rows", READY + step([(0, i, 5, 0) for i in range(9)], [BLOCK])
    yield "bad_sequence", READY + step([(2, 0, 5, 1)], [BLOCK])
    yield "bad_token", READY + step([(0, 0, VOCABULARY, 1)], [BLOCK])
    yield "bad_token_negative", READY + step([(0, 0, -1, 1)], [BLOCK])
    yield "bad_position", READY + step([(0, CONTEXT, 5, 1)], [BLOCK])
    yield "bad_position_order", READY + step([ROW, (0, 2, 5, 1)], [BLOCK], program=3)
    yield "bad_rows_apart", READY + step([ROW, (1, 0, 5, 1), (0, 1, 5, 1)], [BLOCK, (1, 0, 0, 1, NO_BLOCK)], program=3)
    yield "bad_no_block", READY + step([ROW])
    yield "bad_block_sequence", READY + step([ROW], [(2, 0, 0, 0, NO_BLOCK)])
    yield "bad_block_group", READY + step([ROW], [(0, 1, 0, 0, NO_BLOCK)])
    yield "bad_block_index", READY + step([ROW], [(0, 0, 2, 0, NO_BLOCK)])
    yield "bad_block_number", READY + step([ROW], [(0, 0, 0, 2**31, NO_BLOCK)])
    yield "bad_block_copy", READY + step([ROW], [(0, 0, 0, 0, 2**31)])
    yield "bad_rate_nan", rates(*[10] * 7, float("nan")) + READY
    yield "bad_rate_negative", rates(-1, *[10] * 7) + READY
    yield "bad_rate_huge", rates(*[10] * 6, 1e300, 10) + READY


if __name__ == "__main__":
    corpus_folder.main(__file__, cases())
