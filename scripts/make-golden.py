#!/usr/bin/env python3
"""Makes test/fixtures/golden: tiny random models of every architecture, and what they must compute.

    python3 -m venv ~/.cache/prestage/venv-golden
    ~/.cache/prestage/venv-golden/bin/pip install 'gguf==0.19.0' 'mlx[cpu]==0.32.4' 'mlx-lm==0.32.2'
    ~/.cache/prestage/venv-golden/bin/python scripts/make-golden.py [--only NAME] [--keep-prompts]

Needed only when a model is added here; the files are committed. Each model is a complete GGUF file
(weights, hyperparameters, tokenizer). Beside NAME.gguf stands NAME.golden with the logits that
mlx-lm gives for a prompt, from the same weights after dequantising them, and the eight tokens that
greedy decoding continues with. There are two sets of logits:

exact    float32 throughout. A correct engine differs by rounding of sums, float16 KV and, for
         quantised weights, activations quantised to 8 bits.
rounded  the same model with KV rounded to float16 and the inputs of quantised weights rounded as
         base/layout.h says (scale amax / 127 for 32 columns). This is what an engine should be close
         to; it is off only where a sum in another order tips a rounding.

NAME.golden, little endian:
    char  magic[8]              "PSGOLD2\n"
    u32   prompt_count          tokens of the prompt
    u32   position_count        positions of the prompt whose logits follow
    u32   vocabulary
    u32   greedy_count          tokens of the continuation
    f32   noise                 the largest difference between exact and rounded
    f32   margin                the smallest lead of a greedy token over the next best, in both sets
    u32   prompt[prompt_count]
    u32   positions[position_count]    ascending; the last is prompt_count - 1
    u32   greedy[greedy_count]
    f32   exact[position_count][vocabulary]
    f32   rounded[position_count][vocabulary]

Weights are normal numbers, scaled so that attention is peaked and logits spread over several units.
A model of experts also gets a prompt whose router is never near a tie: there the choice of experts
is a step, and no bound on logits would hold.
"""
import argparse
import importlib
import struct
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import mlx.core as mx
import mlx.nn as nn
import numpy as np
from gguf import GGMLQuantizationType as Type
from mlx.utils import tree_flatten

PROMPT_TOKENS = 40
POSITIONS = [0, 1, 15, 31, 38, 39]
GREEDY_TOKENS = 8
ROUTING_WEIGHT = 4  # a router's tie costs more than a near miss of two tokens


# ---------------------------------------------------------------------------------------------- models
@dataclass
class Spec:
    name: str
    architecture: str  # of the GGUF file
    module: str        # of mlx_lm.models
    args: dict         # of the module's ModelArgs
    tokenizer: str     # "bpe:<pre>" or "spm"
    keys: dict = field(default_factory=dict)     # further metadata of the GGUF file
    variants: dict = field(default_factory=dict)  # suffix -> function from a tensor's name to its type
    prompts: int = 256  # tried, to find one without near ties
    router_gain: float = 3.0


def all_of(quantised):
    """Every matrix in one type; vectors and routers stay F32, as quantisers leave them."""
    return lambda name: quantised


def k_mixture(name):
    """One layer with as many block formats as it has matrices."""
    table = {"attn_q": Type.Q4_K, "attn_k": Type.Q5_K, "attn_v": Type.Q6_K, "attn_output": Type.Q4_0,
             "ffn_gate": Type.Q5_0, "ffn_up": Type.Q5_1, "ffn_down": Type.Q4_1, "token_embd": Type.Q6_K}
    return next(value for key, value in table.items() if key in name)


VOCABULARY = 272
LLAMA3_SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 32}


def common(**more):
    return dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                intermediate_size=96, rms_norm_eps=1e-5, vocab_size=VOCABULARY, rope_theta=10000.0,
                max_position_embeddings=1024) | more


SPECS = [
    # Heads that are wider than dim / heads, Llama 3.1's frequency factors, an output matrix of its own.
    Spec("llama", "llama", "llama",
         common(head_dim=24, rope_scaling=LLAMA3_SCALING, tie_word_embeddings=False), "bpe:llama-bpe",
         variants={"f16": all_of(Type.F16), "q8_0": all_of(Type.Q8_0)}),
    # SmolLM2's nine heads over three, which no power of two divides; tied.
    Spec("smollm", "llama", "llama",
         common(hidden_size=96, num_attention_heads=9, num_key_value_heads=3, head_dim=32,
                rope_theta=100000.0, tie_word_embeddings=True), "bpe:smollm",
         variants={"q8_0": all_of(Type.Q8_0), "q4_1": all_of(Type.Q4_1)}),
    Spec("kmix", "llama", "llama",
         common(hidden_size=256, num_hidden_layers=1, intermediate_size=256, tie_word_embeddings=True),
         "bpe:llama-bpe", variants={"k": k_mixture}),
    Spec("mixtral", "llama", "mixtral",
         common(intermediate_size=64, num_local_experts=4, num_experts_per_tok=2, rope_theta=1e6,
                tie_word_embeddings=False), "spm",
         variants={"f16": all_of(Type.F16), "q8_0": all_of(Type.Q8_0)}, prompts=1024),
    Spec("qwen2", "qwen2", "qwen2", common(rope_theta=1e6, tie_word_embeddings=True), "bpe:qwen2",
         variants={"f32": all_of(Type.F32), "q8_0": all_of(Type.Q8_0)}),
    Spec("qwen3", "qwen3", "qwen3", common(head_dim=32, rope_theta=1e6, tie_word_embeddings=True),
         "bpe:qwen2", variants={"f16": all_of(Type.F16), "q8_0": all_of(Type.Q8_0)}),
    Spec("qwen3moe", "qwen3moe", "qwen3_moe",
         common(head_dim=32, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True, rope_theta=1e6,
                tie_word_embeddings=True), "bpe:qwen2",
         variants={"bf16": all_of(Type.BF16), "q8_0": all_of(Type.Q8_0)}, prompts=512, router_gain=1.5),
    Spec("qwen3moe-wide", "qwen3moe", "qwen3_moe",
         common(hidden_size=256, num_hidden_layers=1, head_dim=64, num_key_value_heads=1, num_experts=3,
                num_experts_per_tok=2, moe_intermediate_size=256, decoder_sparse_step=1,
                mlp_only_layers=[], norm_topk_prob=True, rope_theta=1e6, tie_word_embeddings=True),
         "bpe:qwen2", variants={"q4_k": all_of(Type.Q4_K)}),
    # A window smaller than the prompt, and six layers, the last of which sees everything; the scaling
    # of long contexts touches that one alone. dim 64: mlx-lm rounds sqrt(dim) to bfloat16.
    Spec("gemma3", "gemma3", "gemma3_text",
         common(num_hidden_layers=6, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
                intermediate_size=64, query_pre_attn_scalar=32, rms_norm_eps=1e-6, rope_theta=1e6,
                sliding_window=12, sliding_window_pattern=6,
                rope_scaling={"rope_type": "linear", "factor": 8.0}), "spm",
         keys={"attention.sliding_window": 12, "rope.scaling.type": "linear",
               "rope.scaling.factor": 8.0},
         variants={"bf16": all_of(Type.BF16), "q8_0": all_of(Type.Q8_0)}),
]


# ------------------------------------------------------------------------------------------- tensors
def head_dim(args):
    return args.get("head_dim") or args["hidden_size"] // args["num_attention_heads"]


def is_tied(spec):
    return spec.args.get("tie_word_embeddings", True)


def norms(spec):
    """Norms of a layer that are as wide as the model: GGUF name -> mlx-lm name."""
    if spec.architecture == "gemma3":
        return {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
                "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
    return {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def expert_names(spec):
    block = "block_sparse_moe" if spec.module == "mixtral" else "mlp"
    return {"ffn_gate_inp": f"{block}.gate", "ffn_gate_exps": f"{block}.switch_mlp.gate_proj",
            "ffn_up_exps": f"{block}.switch_mlp.up_proj", "ffn_down_exps": f"{block}.switch_mlp.down_proj"}


def layer_tensors(spec):
    """(GGUF name, mlx-lm name, shape with the outputs before the inputs, gain) of one layer."""
    a = spec.args
    dim, heads, kv_heads, hd = a["hidden_size"], a["num_attention_heads"], a["num_key_value_heads"], head_dim(a)
    for name, theirs in norms(spec).items():
        # Gemma's blocks have to outweigh its scaled embeddings, or every token follows itself.
        yield f"{name}.weight", f"{theirs}.weight", (dim,), 8.0 if name.startswith("post") else 1.0
    for letter, rows, gain in (("q", heads * hd, 1.2), ("k", kv_heads * hd, 1.2), ("v", kv_heads * hd, 1.0)):
        yield f"attn_{letter}.weight", f"self_attn.{letter}_proj.weight", (rows, dim), gain
        if spec.architecture == "qwen2":
            yield f"attn_{letter}.bias", f"self_attn.{letter}_proj.bias", (rows,), 0.5
    yield "attn_output.weight", "self_attn.o_proj.weight", (dim, heads * hd), 1.5
    if spec.architecture.startswith("qwen3") or spec.architecture == "gemma3":
        for letter in "qk":
            yield f"attn_{letter}_norm.weight", f"self_attn.{letter}_norm.weight", (hd,), 1.2

    experts = a.get("num_experts") or a.get("num_local_experts")
    if experts:
        ffn = a.get("moe_intermediate_size") or a["intermediate_size"]
        names = expert_names(spec)
        yield "ffn_gate_inp.weight", names["ffn_gate_inp"] + ".weight", (experts, dim), spec.router_gain
        yield "ffn_gate_exps.weight", names["ffn_gate_exps"] + ".weight", (experts, ffn, dim), 1.5
        yield "ffn_up_exps.weight", names["ffn_up_exps"] + ".weight", (experts, ffn, dim), 1.5
        yield "ffn_down_exps.weight", names["ffn_down_exps"] + ".weight", (experts, dim, ffn), 1.5
    else:
        ffn = a["intermediate_size"]
        yield "ffn_gate.weight", "mlp.gate_proj.weight", (ffn, dim), 1.5
        yield "ffn_up.weight", "mlp.up_proj.weight", (ffn, dim), 1.5
        yield "ffn_down.weight", "mlp.down_proj.weight", (dim, ffn), 1.5


def make_weights(spec, rng):
    """GGUF name -> (mlx-lm name, float32 array), rows in mlx-lm's order, norms as they multiply."""
    dim = spec.args["hidden_size"]
    spread = 3.0 / np.sqrt(dim)  # so that logits have a standard deviation of 3
    weights = {"token_embd.weight": ("model.embed_tokens.weight", rng.normal(0, spread, (VOCABULARY, dim)))}
    for layer in range(spec.args["num_hidden_layers"]):
        for name, theirs, shape, gain in layer_tensors(spec):
            if "norm" in name:
                value = gain * (1 + 0.1 * rng.normal(size=shape))
            elif name.endswith(".bias"):
                value = gain * rng.normal(size=shape)
            else:
                value = gain / np.sqrt(shape[-1]) * rng.normal(size=shape)
            weights[f"blk.{layer}.{name}"] = (f"model.layers.{layer}.{theirs}", value)
    weights["output_norm.weight"] = ("model.norm.weight", 1 + 0.1 * rng.normal(size=dim))
    if not is_tied(spec):
        weights["output.weight"] = ("lm_head.weight", rng.normal(0, spread, (VOCABULARY, dim)))
    return {name: (theirs, value.astype(np.float32)) for name, (theirs, value) in weights.items()}


def to_gguf_rows(spec, name, value):
    """Llama's converters reorder rows of q and k so that RoPE turns neighbours, not halves, of a head."""
    for letter, heads in (("q", "num_attention_heads"), ("k", "num_key_value_heads")):
        if spec.architecture == "llama" and f"attn_{letter}.weight" in name:
            count = spec.args[heads]
            halves = value.reshape(count, 2, head_dim(spec.args) // 2, *value.shape[1:])
            return halves.swapaxes(1, 2).reshape(value.shape)
    return value


def rope_factors(args):
    """What Llama 3.1 divides its frequencies by: 1 for short waves, `factor` for long ones."""
    scaling, dims = args["rope_scaling"], head_dim(args)
    waves = 2 * np.pi * args["rope_theta"] ** (np.arange(0, dims, 2) / dims)
    context, low, high = (scaling[k] for k in ("original_max_position_embeddings", "low_freq_factor",
                                               "high_freq_factor"))
    smooth = np.clip((context / waves - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / scaling["factor"] + smooth)).astype(np.float32)


# ----------------------------------------------------------------------------------------- quantising
def quantise(value, kind):
    """The bytes of an array, rows along the last axis."""
    own = {Type.Q4_K: quantise_q4_k, Type.Q5_K: quantise_q5_k, Type.Q6_K: quantise_q6_k}
    if kind in own:
        blocks = own[kind](value.reshape(-1, 256).astype(np.float32))
        return np.ascontiguousarray(blocks).reshape(*value.shape[:-1], -1)
    return gguf.quants.quantize(value, kind)


def f16_bytes(value):
    return value.astype(np.float16).view(np.uint8).reshape(len(value), 2)


def quantise_with_minimum(rows, levels):
    """Blocks of 32 as scale * q - minimum, scales and minimums in 6 bits; q [n, 8, 32]."""
    x = rows.reshape(len(rows), 8, 32)
    low = np.minimum(x.min(axis=2), 0)
    scale = (x.max(axis=2) - low) / levels
    d = (scale.max(axis=1, keepdims=True) / 63).astype(np.float16)
    dmin = (-low.min(axis=1, keepdims=True) / 63).astype(np.float16)
    d32, dmin32 = (np.maximum(v.astype(np.float32), 1e-12) for v in (d, dmin))
    scale6 = np.clip(np.round(scale / d32), 0, 63).astype(np.uint8)
    min6 = np.clip(np.round(-low / dmin32), 0, 63).astype(np.uint8)
    step = np.maximum(d32 * scale6, 1e-12)[..., None]
    q = np.clip(np.round((x + (dmin32 * min6)[..., None]) / step), 0, levels).astype(np.uint8)
    packed = np.zeros((len(rows), 12), np.uint8)
    packed[:, 0:4] = scale6[:, 0:4] | (scale6[:, 4:8] >> 4 << 6)
    packed[:, 4:8] = min6[:, 0:4] | (min6[:, 4:8] >> 4 << 6)
    packed[:, 8:12] = scale6[:, 4:8] & 15 | (min6[:, 4:8] & 15) << 4
    return np.concatenate([f16_bytes(d), f16_bytes(dmin), packed], axis=1), q


def low_nibbles(q):
    """q [n, 8, 32] -> [n, 128]: blocks 2c and 2c + 1 share bytes."""
    return (q[:, 0::2] & 15 | (q[:, 1::2] & 15) << 4).reshape(len(q), 128)


def quantise_q4_k(rows):
    head, q = quantise_with_minimum(rows, 15)
    return np.concatenate([head, low_nibbles(q)], axis=1)


def quantise_q5_k(rows):
    head, q = quantise_with_minimum(rows, 31)
    bits = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    high = np.bitwise_or.reduce(q >> 4 << bits, axis=1)
    return np.concatenate([head, high, low_nibbles(q)], axis=1)


def quantise_q6_k(rows):
    x = rows.reshape(len(rows), 16, 16)
    scale = np.abs(x).max(axis=2) / 31
    d = (scale.max(axis=1, keepdims=True) / 127).astype(np.float16)
    d32 = np.maximum(d.astype(np.float32), 1e-12)
    scale8 = np.clip(np.round(scale / d32), 1, 127).astype(np.int8)
    q = np.clip(np.round(x / (d32 * scale8)[..., None]), -32, 31).astype(np.int8) + 32
    q = q.astype(np.uint8).reshape(len(rows), 2, 4, 32)  # half, quarter, column
    low = np.concatenate([q[:, :, 0] & 15 | (q[:, :, 2] & 15) << 4, q[:, :, 1] & 15 | (q[:, :, 3] & 15) << 4],
                         axis=2)
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    high = np.bitwise_or.reduce(q >> 4 << shifts, axis=2)
    return np.concatenate([low.reshape(len(rows), 128), high.reshape(len(rows), 64),
                           scale8.view(np.uint8), f16_bytes(d)], axis=1)


# ------------------------------------------------------------------------------------------ tokenizers
MERGES = ["t h", "th e", "i n", "a n", "Ġ t", "Ġ the", "e r"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PIECES = ["▁", "th", "▁th", "the", "▁the", "in", "an", "er", "▁a"]
CHATML = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
          "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def byte_symbols():
    """The letter that byte-level BPE writes for each byte: itself when printable, else from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    letters = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    return [letters[b] for b in range(256)]


def pad(tokens, types):
    while len(tokens) < VOCABULARY:
        tokens.append(f"<|unused_{len(tokens)}|>")
        types.append(gguf.TokenType.UNUSED)


def add_tokenizer(writer, spec):
    if spec.tokenizer == "spm":
        tokens, types = ["<pad>", "<eos>", "<bos>", "<unk>"], [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.UNKNOWN]
        tokens += [f"<0x{b:02X}>" for b in range(256)] + PIECES
        types += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * len(PIECES)
        pad(tokens, types)
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([0.0] * 260 + [-1.0 - i for i in range(len(tokens) - 260)])
        ids = {"bos": 2, "eos": 1, "unk": 3, "pad": 0}
    else:
        tokens = byte_symbols() + [m.replace(" ", "") for m in MERGES] + SPECIAL
        types = [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIAL)) + [gguf.TokenType.CONTROL] * len(SPECIAL)
        first = len(tokens) - len(SPECIAL)
        pad(tokens, types)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(spec.tokenizer.split(":")[1])
        writer.add_token_merges(MERGES)
        writer.add_chat_template(CHATML)
        ids = {"bos": first, "eos": first + 2}
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for name, value in ids.items():
        getattr(writer, f"add_{name}_token_id")(value)
    writer.add_add_bos_token(spec.tokenizer == "spm")
    writer.add_add_space_prefix(False)


def plain_tokens(spec):
    """Ids of single printable letters that no merge takes: the tokens of a prompt follow from its text."""
    letters = [c for c in range(0x21, 0x7F) if chr(c) not in "".join(MERGES + PIECES)]
    return np.array(letters) + (4 if spec.tokenizer == "spm" else 0)


# ------------------------------------------------------------------------------------------- the file
def write_gguf(path, spec, file_tensors):
    a = spec.args
    writer = gguf.GGUFWriter(path, spec.architecture)
    writer.add_name(f"golden {path.stem}")
    writer.add_block_count(a["num_hidden_layers"])
    writer.add_context_length(a["max_position_embeddings"])
    writer.add_embedding_length(a["hidden_size"])
    writer.add_feed_forward_length(a["intermediate_size"])
    writer.add_head_count(a["num_attention_heads"])
    writer.add_head_count_kv(a["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(a["rms_norm_eps"])
    writer.add_rope_freq_base(a["rope_theta"])
    writer.add_vocab_size(VOCABULARY)
    if "head_dim" in a:
        writer.add_key_length(a["head_dim"])
        writer.add_value_length(a["head_dim"])
        writer.add_rope_dimension_count(a["head_dim"])
    if "num_experts_per_tok" in a:
        writer.add_expert_count(a.get("num_experts") or a["num_local_experts"])
        writer.add_expert_used_count(a["num_experts_per_tok"])
    if "moe_intermediate_size" in a:
        writer.add_expert_feed_forward_length(a["moe_intermediate_size"])
    for key, value in spec.keys.items():
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        add(f"{spec.architecture}.{key}", value)
    add_tokenizer(writer, spec)
    for name, (data, kind) in file_tensors.items():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def pack(spec, weights, kind_of):
    """Tensors for the file, and what they are worth: (name -> (bytes, type)), (mlx name -> float32)."""
    stored, worth = {}, {}
    if spec.args.get("rope_scaling") == LLAMA3_SCALING:
        stored["rope_freqs.weight"] = (rope_factors(spec.args), Type.F32)
    for name, (theirs, value) in weights.items():
        is_matrix = value.ndim > 1 and "ffn_gate_inp" not in name
        kind = kind_of(name) if is_matrix else Type.F32
        stored[name] = (quantise(to_gguf_rows(spec, name, value), kind), kind)
        exact = gguf.quants.dequantize(quantise(value, kind), kind).astype(np.float32).reshape(value.shape)
        # Gemma's own norms multiply by 1 + weight; files hold the sum.
        worth[theirs] = exact - 1 if spec.architecture == "gemma3" and "norm" in name else exact
    return stored, worth


# --------------------------------------------------------------------------------------- the reference
def load_reference(spec, worth):
    module = importlib.import_module(f"mlx_lm.models.{spec.module}")
    model = module.Model(module.ModelArgs.from_dict(spec.args | {"model_type": spec.module}))
    loaded = {name: mx.array(value) for name, value in worth.items()}
    if spec.architecture == "gemma3":
        loaded = model.sanitize(loaded)  # ties the output
    model.load_weights(list(loaded.items()), strict=True)
    assert {name for name, _ in tree_flatten(model.parameters())} >= set(loaded)
    model.eval()
    return model


class RouterTap(nn.Module):
    """Stands in for a router and keeps its logits."""

    def __init__(self, inner, seen):
        super().__init__()
        self.inner, self.seen = inner, seen

    def __call__(self, x):
        y = self.inner(x)
        self.seen.append(np.array(y))  # [prompts, tokens, experts]
        return y


def tap_routers(spec, model):
    seen = []
    for layer in model.layers if "num_experts_per_tok" in spec.args else []:
        block = layer.block_sparse_moe if spec.module == "mixtral" else layer.mlp
        block.gate = RouterTap(block.gate, seen)
    return seen


def router_margin(spec, exact, seen):
    """For each prompt, the smallest lead, in `seen`, of the experts that `exact` chose over the others."""
    if not seen:
        return np.inf
    margins = []
    for logits, other in zip(exact, seen):
        order = np.argsort(logits, axis=-1)
        ranked = np.take_along_axis(other, order, axis=-1)  # the chosen ones last
        k = spec.args["num_experts_per_tok"]
        margins.append((ranked[..., -k:].min(axis=-1) - ranked[..., :-k].max(axis=-1)).min(axis=1))
    return np.min(margins, axis=0)


class NoisyLinear(nn.Module):
    """A linear whose input is rounded as an engine for quantised weights rounds it."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __call__(self, x, *rest, **more):
        blocks = x.reshape(*x.shape[:-1], -1, 32)
        d = mx.maximum(mx.abs(blocks).max(axis=-1, keepdims=True) / 127, 1e-30)
        return self.inner((mx.round(blocks / d) * d).reshape(x.shape), *rest, **more)


# The end of a linear's name in mlx-lm -> its name in GGUF.
LINEARS = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
           "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down", "lm_head": "output"}


def load_noisy(spec, worth, kind_of):
    """The reference with activations rounded before every quantised linear."""
    model = load_reference(spec, worth)
    for path, child in list(model.named_modules()):
        *folders, leaf = path.split(".")
        if leaf not in LINEARS or kind_of(LINEARS[leaf]) in (Type.F32, Type.F16, Type.BF16):
            continue
        parent = model
        for part in folders:
            parent = parent[int(part)] if isinstance(parent, list) else getattr(parent, part)
        setattr(parent, leaf, NoisyLinear(child))
    if is_tied(spec) and kind_of("token_embd") not in (Type.F32, Type.F16, Type.BF16):
        table = model.model.embed_tokens
        # setattr would put the module where the method hides it.
        object.__setattr__(table, "as_linear", NoisyLinear(table.as_linear))
    return model


@contextmanager
def float16_kv(spec):
    """Keys and values go through float16 as an engine's cache keeps them."""
    module = importlib.import_module(f"mlx_lm.models.{spec.module}")
    plain = module.scaled_dot_product_attention

    def rounded(q, k, v, *rest, **more):
        k, v = (x.astype(mx.float16).astype(mx.float32) for x in (k, v))
        return plain(q, k, v, *rest, **more)

    module.scaled_dot_product_attention = rounded
    try:
        yield
    finally:
        module.scaled_dot_product_attention = plain


def lead(logits, tokens):
    """By how much each token beats the best of the others. logits [..., vocabulary], tokens [...]."""
    own = np.take_along_axis(logits, tokens[..., None], axis=-1)
    others = logits.copy()
    np.put_along_axis(others, tokens[..., None], -np.inf, axis=-1)
    return own[..., 0] - others.max(axis=-1)


def continue_greedily(model, prompts):
    """Each prompt with the tokens that follow it."""
    tokens = prompts
    for _ in range(GREEDY_TOKENS):
        last = np.array(model(mx.array(tokens))[:, -1])
        tokens = np.concatenate([tokens, last.argmax(axis=1, keepdims=True)], axis=1)
    return tokens


@dataclass
class Golden:
    prompt: np.ndarray
    greedy: np.ndarray
    exact: np.ndarray  # [position, VOCABULARY]
    rounded: np.ndarray
    margin: float
    routing: float


def choose_prompt(spec, prompts, model, noisy):
    """The prompt, of many, whose greedy continuation and routing are clearest, with and without noise."""
    tokens = continue_greedily(model, prompts)
    fed, greedy = tokens[:, :-1], tokens[:, PROMPT_TOKENS:]
    seen, seen_noisy = tap_routers(spec, model), tap_routers(spec, noisy)
    exact = np.array(model(mx.array(fed)))
    with float16_kv(spec):
        rounded = np.array(noisy(mx.array(fed)))
    margin = np.minimum(*(lead(x[:, PROMPT_TOKENS - 1:], greedy).min(axis=1) for x in (exact, rounded)))
    routing = np.minimum(router_margin(spec, seen, seen), router_margin(spec, seen, seen_noisy))
    is_plain = (greedy.max(axis=1) < 256) & np.array([len(set(row)) >= 6 for row in greedy])
    best = np.argmax(np.where(is_plain, np.minimum(margin, ROUTING_WEIGHT * routing), -np.inf))
    assert is_plain[best], "every continuation repeats itself"
    return Golden(prompts[best], greedy[best], exact[best, POSITIONS], rounded[best, POSITIONS],
                  float(margin[best]), float(np.broadcast_to(routing, margin.shape)[best]))


def prompts_for(spec, path, keep):
    """Random prompts to choose from, or the one that an existing file has: [prompts, PROMPT_TOKENS]."""
    if keep:
        return np.frombuffer(path.read_bytes(), "<u4", PROMPT_TOKENS, offset=32)[None].astype(np.int64)
    prompts = np.random.default_rng(1).choice(plain_tokens(spec), (spec.prompts, PROMPT_TOKENS))
    if spec.tokenizer == "spm":
        prompts[:, 0] = 2
    return prompts


def write_golden(path, golden):
    noise = np.abs(golden.exact - golden.rounded).max()
    with open(path, "wb") as file:
        file.write(b"PSGOLD2\n")
        file.write(struct.pack("<4I2f", PROMPT_TOKENS, len(POSITIONS), VOCABULARY, GREEDY_TOKENS, noise,
                               golden.margin))
        for values in (golden.prompt, POSITIONS, golden.greedy):
            file.write(np.asarray(values, "<u4").tobytes())
        for values in (golden.exact, golden.rounded):
            file.write(values.astype("<f4").tobytes())
    print(f"{path.stem:20} spread {golden.exact.std():.2f}  noise {noise:.4f}  margins: greedy"
          f" {golden.margin:.3f}, router {golden.routing:.3f}", flush=True)


def make(spec, out, keep_prompts):
    weights = make_weights(spec, np.random.default_rng(list(spec.name.encode())))
    for suffix, kind_of in spec.variants.items():
        path = out / f"{spec.name}-{suffix}.gguf"
        stored, worth = pack(spec, weights, kind_of)
        write_gguf(path, spec, stored)
        prompts = prompts_for(spec, path.with_suffix(".golden"), keep_prompts)
        golden = choose_prompt(spec, prompts, load_reference(spec, worth), load_noisy(spec, worth, kind_of))
        write_golden(path.with_suffix(".golden"), golden)


def main():
    parser = argparse.ArgumentParser(description="makes the golden fixtures; see the head of this file")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "test/fixtures/golden")
    parser.add_argument("--only", help="one model, by name")
    parser.add_argument("--keep-prompts", action="store_true",
                        help="take the prompts of the files that are there instead of looking for good ones")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    mx.set_default_device(mx.cpu)
    for spec in SPECS:
        if options.only in (None, spec.name):
            make(spec, options.out, options.keep_prompts)


if __name__ == "__main__":
    main()
