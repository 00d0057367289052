"""
Regenerates test/fixtures/gguf/: quantized blocks with the values the PyPI package `gguf` reads from them, and a small whole
model written by that package.

    python3 -m venv .cache/gguf-venv
    .cache/gguf-venv/bin/pip install gguf==0.19.0
    .cache/gguf-venv/bin/python test/support/model/gguf-goldens.py

<TYPE>.blocks holds random blocks (every bit pattern of the codes; scales are finite), <TYPE>.values their float32 values.
tiny-llama.gguf has the query and key rows interleaved as llama.cpp's converter does it; tiny-llama.values holds the
tensors in Hugging Face's order, one after another in the order of their names in the file.
"""
import os
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFValueType, GGUFWriter
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES

OUT = os.path.join(os.path.dirname(__file__), '..', '..', 'fixtures', 'gguf')
rng = np.random.default_rng(20240607)  # types that came later are drawn last: the others keep their bytes

# Byte positions of the float16 scales in a block.
HALF_AT = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}

LATER_HALF_AT = {T.Q2_K: [80, 82], T.Q3_K: [108], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: []}


def random_halves(count):
    """Finite float16 of all magnitudes, subnormals and both zeros among them."""
    bits = rng.integers(0, 1 << 16, count, dtype=np.uint16)
    bits[(bits & 0x7C00) == 0x7C00] &= 0x83FF
    bits[:2] = [0x0000, 0x8000]
    return bits.view(np.float16)


def write_kinds(half_at):
    for kind, positions in half_at.items():
        length, size = GGML_QUANT_SIZES[kind]
        count = 2048 // length if length == 32 else 6
        blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
        for at in positions:
            blocks[:, at:at + 2] = random_halves(count).reshape(-1, 1).view(np.uint8)
        if kind == T.MXFP4:
            # every exponent whose largest value is finite
            blocks[:, 0] = np.linspace(0, 251, count).astype(np.uint8)
        save(kind.name, blocks, quants.dequantize(blocks, kind))


def write_blocks():
    write_kinds(HALF_AT)
    halves = random_halves(512)
    save('F16', halves.view(np.uint8), halves.astype(np.float32))
    bf16 = rng.integers(0, 1 << 16, 512, dtype=np.uint16)
    bf16[(bf16 & 0x7F80) == 0x7F80] &= 0x807F
    save('BF16', bf16.view(np.uint8), quants.dequantize(bf16.view(np.uint8), T.BF16))
    floats = rng.standard_normal(256).astype(np.float32)
    save('F32', floats.view(np.uint8), floats)


def save(name, blocks, values):
    assert np.isfinite(values).all() and values.dtype == np.float32
    blocks.tofile(os.path.join(OUT, f'{name}.blocks'))
    values.tofile(os.path.join(OUT, f'{name}.values'))


def permute(weights, heads):
    """`LlamaModel.permute` of llama.cpp's convert_hf_to_gguf.py."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def llama3_divisors(theta, head_size, factor, low, high, original):
    """The tensor rope_freqs.weight, as `LlamaModel.generate_extra_tensors` of convert_hf_to_gguf.py makes it."""
    frequencies = 1.0 / (theta ** (np.arange(0, head_size, 2, dtype=np.float64) / head_size))
    divisors = []
    for frequency in frequencies:
        wavelength = 2 * np.pi / frequency
        if wavelength < original / high:
            divisors.append(1)
        elif wavelength > original / low:
            divisors.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, dtype=np.float32)


def write_model():
    hidden, heads, kv_heads, head_size, mlp, vocabulary = 32, 2, 1, 16, 64, 12
    writer = GGUFWriter(os.path.join(OUT, 'tiny-llama.gguf'), 'llama')
    writer.add_context_length(128)
    writer.add_block_count(1)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(mlp)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(500000.0)
    writer.add_rope_dimension_count(head_size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model('gpt2')
    writer.add_token_list([f'token {i} \u0120\u00fc\U0001f642' for i in range(vocabulary)])
    writer.add_token_scores([-0.5 * i for i in range(vocabulary)])
    writer.add_token_types([1] * vocabulary)
    writer.add_uint8('test.uint8', 255)
    writer.add_int8('test.int8', -128)
    writer.add_uint16('test.uint16', 65535)
    writer.add_int16('test.int16', -32768)
    writer.add_uint32('test.uint32', 4294967295)
    writer.add_int32('test.int32', -2147483648)
    writer.add_float32('test.float32', 0.15625)
    writer.add_bool('test.bool', True)
    writer.add_string('test.string', 'gr\u00fc\u00df dich \U0001f642')
    writer.add_uint64('test.uint64', 2**63 + 1)
    writer.add_int64('test.int64', -(2**53))
    writer.add_float64('test.float64', 0.1)
    writer.add_array('test.array', [True, False])
    writer.add_key_value('test.nested', [[1, 2], [3]], GGUFValueType.ARRAY, GGUFValueType.ARRAY)
    sizes = {
        'token_embd.weight': (vocabulary, hidden),
        'blk.0.attn_norm.weight': (hidden,),
        'blk.0.attn_q.weight': (heads * head_size, hidden),
        'blk.0.attn_k.weight': (kv_heads * head_size, hidden),
        'blk.0.attn_v.weight': (kv_heads * head_size, hidden),
        'blk.0.attn_output.weight': (hidden, heads * head_size),
        'blk.0.ffn_norm.weight': (hidden,),
        'blk.0.ffn_gate.weight': (mlp, hidden),
        'blk.0.ffn_up.weight': (mlp, hidden),
        'blk.0.ffn_down.weight': (hidden, mlp),
        'output_norm.weight': (hidden,),
    }
    writer.add_tensor('rope_freqs.weight', llama3_divisors(500000.0, head_size, 8.0, 1.0, 4.0, 8192))
    expected = []
    for name, shape in sizes.items():
        values = rng.standard_normal(shape).astype(np.float32)
        kind = {'blk.0.attn_q.weight': T.Q8_0, 'blk.0.ffn_down.weight': T.Q4_0, 'blk.0.ffn_up.weight': T.Q5_1}.get(name)
        if kind is None:
            kind = T.F32 if len(shape) == 1 else T.F16
        # Rows move whole, so quantizing before or after the permutation is the same.
        stored = quants.quantize(values, kind)
        expected.append(quants.dequantize(stored, kind).reshape(shape))
        if 'attn_q' in name or 'attn_k' in name:
            stored = permute(stored, heads if 'attn_q' in name else kv_heads)
        writer.add_tensor(name, stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    np.concatenate([values.ravel() for values in expected]).astype(np.float32).tofile(os.path.join(OUT, 'tiny-llama.values'))


os.makedirs(OUT, exist_ok=True)
write_blocks()
write_model()
write_kinds(LATER_HALF_AT)
