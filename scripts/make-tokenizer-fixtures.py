#!/usr/bin/env python3
"""Writes test/text/fixtures/tokenizer-bpe.json and tokenizer-spm.json.

Oracles: Hugging Face `tokenizers` (its own regex engine and its own merging) for byte-level BPE, and
`sentencepiece` for the other kind. Both vocabularies are trained here, on text made here, so the
fixtures hold nothing that anybody else wrote. The word patterns below are those of the
tokenizer.json files of the models that each name stands for, in the spelling used there.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3
    /tmp/venv/bin/python scripts/make-tokenizer-fixtures.py

--random N puts N random texts in place of 24, for a wider comparison that is not committed.

Format. BPE: `vocab` (texts in id order), `merges`, `texts`, and per `pre`: `words` (for each text
the byte lengths of its words) and, for some, `ids`. SPM: `vocab`, `scores`, `types`, `unk`, `texts`, `ids`
without a space prefix, `ids_prefixed` (null where a user-defined token occurs: SentencePiece puts a
prefix at the start only). The second model has no byte tokens.
"""

import argparse
import io
import json
import pathlib
import random

import sentencepiece
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "test/text/fixtures"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LLAMA3 = (
    CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|"
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?|"
)
CASED_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Letters that have case, as the model lists them: hexadecimal code points and ranges.
DEEPSEEK_LETTERS = """
41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f
386 388-38a 38c 38e-3a1 3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd
1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a 1e00-1f15 1f18-1f1d 1f20-1f45
1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4
1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115
2119-211d 2124 2126 2128 212a-212d 212f-2134 2139 213c-213f 2145-2149 214e 2183 2184
2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2 2cf3 a640-a66d a680-a69b a722-a76f a771-a787
a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f 104b0-104d3
104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943
""".split()
DEEPSEEK_LETTERS = "".join(
    "-".join(chr(int(end, 16)) for end in item.split("-")) for item in DEEPSEEK_LETTERS
)

BEHAVIOURS = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
    "llama-bpe": [LLAMA3],
    "glm4": [LLAMA3],
    "qwen2": [LLAMA3.replace("{1,3}", "")],
    "qwen35": [
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "bailingmoe": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
        r"\s*[\r\n]|\s+(?!\S)|\s+"
    ],
    "seed-coder": [
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
    "gpt-4o": [CASED + r"\p{N}{1,3}" + CASED_TAIL],
    "tekken": [CASED.replace(CONTRACTIONS + "?", "") + r"\p{N}" + CASED_TAIL],
    "deepseek-llm": [
        r"[\r\n]",
        rf"\s?[{DEEPSEEK_LETTERS}]+",
        r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
        r"\s+\z",
        "[一-龥ࠀ-一가-\ud7ff]+",
        r"\p{N}+",
    ],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
        r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
}
WHOLE_WORDS = {"llama-bpe", "tekken"}
WITH_IDS = {"llama-bpe", "glm4", "smollm"}  # cut and merging are independent; words are kept for all

TEXTS = [
    "",
    " ",
    "   ",
    "a",
    "Hello, world! It's 12:30.",
    "  two leading, three trailing   ",
    "can't CAN'T we'll WE'LL I'm I'M they've they'Ve he'd you're 'S 's' ''s '\u017f",
    "0 12 345 6789 1234567890123 3.14e-10 0x1F 1,000,000 ½ ² Ⅷ ٣٤٥ १२३४",
    "naïve café œuvre Straße ÅNGSTRÖM e\u0301 vs \u00e9, İstanbul, ǅ ﬁ",
    "Съешь же ещё этих мягких булок",
    "مرحبا بالعالم العربيّة ١٢٣",
    "שָׁלוֹם עולם",
    "สวัสดีชาวโลก ทดสอบ",
    "नमस्ते दुनिया हिन्दी क्षत्रिय",
    "中文分词测试,没有空格。日本語テスト カタカナ 한국어 시험「引用」２０２６年",
    "👩\u200d👩\u200d👧\u200d👦 🇫🇷🇩🇪 🤷🏽\u200d♀️ ☃️ 1️⃣",
    "Tab\there\t\tand\nnew\n\nlines\r\nCRLF\r\n\r\nend \n \n  x\n   ",
    " \n\n \n a\n\n\n\n  b\r\r\nc \t \r",
    "for (int i = 0; i < n; i++) {\n\tx[i] += 1; // end\n}\n",
    "#include <stdio.h>\n\nint main(void)\n{\n    return printf(\"%d\\n\", 42);\n}\n",
    "def f(x):\n    if x:\n        return x['key']  # don't\n\n\n",
    "https://example.org/a_b-c?d=1&e=%20#frag user@example.com /usr/lib C:\\Temp\\x",
    "HTTPServerError camelCase PascalCase SCREAMING_SNAKE kebab-case XMLHttpRequest's IDs'",
    "!!!???...,,,;;;---___***```~~~^^^|||$$$++<<==>>",
    "$5 +3 <a href='x'>b</a> |c| ^d~ `e` {f} [g] @h #i &j *k (l) m;n:o",
    "nbsp\u00a0ideographic\u3000em\u2003line\u2028para\u2029nel\u0085vt\x0bff\x0cogham\u1680mvs\u180ezwsp\u200bbom\ufeff",
    "a\u00a0\u00a0b \u00a0c\u00a0 d \u3000\n\u3000 e",
    "\x00\x01\x1f\x7f\u0080\u009f",
    "ａｂｃ ＡＢＣ １２３ ！？、。・ ‘q’ “q” … — –",
    "ЖШ жш Жш жШ ΑΒΓ αβγ ς ᏣᎳᎩ ცხა ʰʷ ªº ꟸ",
    "x" * 70,
    "ab" * 40,
    " " * 33 + "x" + "\n" * 9 + "y" + "\t" * 5,
    "1" * 25 + "٣" * 7,
    "。" * 9 + "文" * 20 + "か" * 6 + "가" * 6,
    "a'b 'c d' 'ta 'llama 'RE're",
    "e\u0301\u0301\u0301 \u0301x 1\u0301 !\u0301 \n\u0301",
]

# Characters that the patterns treat differently, often enough side by side to meet every border.
ODD = (
    list(" \n\r\t'.,!-_/$+^`~\"<>[]()0123456789aAbBsStTrReEvVmMlLdDxyz")
    + [" ", " ", "\n", "'", "  ", "'s", "'LL"]
    + list("éÉßǅʰªжЖςΣ文字かカ가ひ\u0301\u093f\u0e31\u05b8ع١३½²Ⅷ。、‘“…—「￥€№☃")
    + ["\u00a0", "\u3000", "\u2028", "\u0085", "\u180e", "\u200b", "\u200d", "👩", "🏽", "𝔘", "𐐷", "𐳂", "\u017f"]
)

SYLLABLES = "ka re to mi su lan der ing est on the and 的 是 不 で す про ст на कर ता".split()


def training_lines(rng):
    """Lines whose frequent pairs cross every kind of border, so that a wrong cut changes ids."""
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(60)]
    for word in list(words[:20]):
        words += [word.capitalize(), word.upper()]
    joints = [" ", " ", " ", ", ", ". ", "'s ", "n't ", "\n", "\n\n", "  ", "    ", " = ", "/", "_", "-", "1", "12", "2026 "]
    for _ in range(700):
        yield "".join(rng.choice(words) + rng.choice(joints) for _ in range(rng.randint(2, 8)))
    for text in TEXTS:
        yield text[:200]
    for _ in range(200):
        yield "".join(rng.choices("0123456789'. \n", k=12))


def random_texts(rng, count):
    return ["".join(rng.choices(ODD, k=rng.randint(1, 40))) for _ in range(count)]


def make_bpe(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        max_token_length=12,
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_lines(random.Random(1)), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [" ".join(merge) for merge in model["merges"]]
    vocab = sorted(model["vocab"], key=model["vocab"].get)
    behaviours = []
    for pre, patterns in BEHAVIOURS.items():
        splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
        cutter = pre_tokenizers.Sequence(splits)
        oracle = Tokenizer(
            models.BPE(
                vocab=model["vocab"],
                merges=[tuple(merge) for merge in model["merges"]],
                ignore_merges=pre in WHOLE_WORDS,
            )
        )
        oracle.pre_tokenizer = pre_tokenizers.Sequence(
            splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        words = [[len(word.encode()) for word, _ in cutter.pre_tokenize_str(t)] for t in texts]
        for text, lengths in zip(texts, words):
            assert sum(lengths) == len(text.encode()), (pre, text)
        ids = [oracle.encode(text, add_special_tokens=False).ids for text in texts]
        behaviours.append({"pre": pre, "words": words})
        if pre in WITH_IDS:
            behaviours[-1]["ids"] = ids
    return {"vocab": vocab, "merges": merges, "texts": texts, "behaviours": behaviours}


def piece_type(processor, index):
    if processor.is_unknown(index):
        return 2
    if processor.is_control(index):
        return 3
    if processor.is_byte(index):
        return 6
    if processor.is_unused(index):
        return 5
    return 4 if processor.id_to_piece(index) in USER_DEFINED else 1


USER_DEFINED = ["\n\n", "\n\n\n", "<tag>", "</tag>"]


def make_spm(texts, byte_fallback):
    model = io.BytesIO()
    lines = [line for text in training_lines(random.Random(2)) for line in text.split("\n") if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=860 if byte_fallback else 604,
        byte_fallback=byte_fallback,
        character_coverage=0.98,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        user_defined_symbols=USER_DEFINED,
        num_threads=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = range(processor.get_piece_size())
    plain = [not any(symbol in text for symbol in USER_DEFINED) for text in texts]
    return {
        "byte_fallback": byte_fallback,
        "vocab": [processor.id_to_piece(i) for i in pieces],
        "scores": [processor.get_score(i) for i in pieces],
        "types": [piece_type(processor, i) for i in pieces],
        "bos": processor.bos_id(),
        "eos": processor.eos_id(),
        "unk": processor.unk_id(),
        "texts": texts,
        "ids": [processor.encode(text) for text in texts],
        "ids_prefixed": [
            processor.encode(" " + text) if text and ok else None for text, ok in zip(texts, plain)
        ],
    }


def lines_of(value):
    """JSON with one line for each member, so that a change shows as a readable difference."""
    dump = lambda v: json.dumps(v, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, dict):
        return "{" + ",\n".join(f"{dump(k)}:{lines_of(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ",\n".join(map(lines_of, value)) + "]"
    return dump(value)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int, default=24)
    count = parser.parse_args().random
    texts = TEXTS + random_texts(random.Random(3), count)
    spm = [text for text in texts + ["<tag>a</tag>", "x\n\ny\n\n\n\nz", "▁a ▁"] if "\0" not in text]
    bpe = make_bpe(texts)
    (FIXTURES / "tokenizer-bpe.json").write_text(lines_of(bpe) + "\n", encoding="utf-8")
    both = {"models": [make_spm(spm, True), make_spm(spm, False)]}
    (FIXTURES / "tokenizer-spm.json").write_text(lines_of(both) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
