"""Writes float8.json: the value of every E4M3 byte, and a weight [6, 10] quantized in blocks of 4 x 4, by ml_dtypes and numpy."""

import json
import pathlib

import ml_dtypes
import numpy

every = numpy.arange(256, dtype=numpy.uint8).view(ml_dtypes.float8_e4m3fn).astype(numpy.float32)
rows, columns, block = 6, 10, 4
weight = numpy.random.default_rng(7).standard_normal((rows, columns)).astype(numpy.float32) * 0.1
scale = numpy.zeros((-(-rows // block), -(-columns // block)), numpy.float32)
stored = numpy.zeros((rows, columns), numpy.uint8)
dequantized = numpy.zeros((rows, columns), numpy.float32)
for r in range(scale.shape[0]):
    for c in range(scale.shape[1]):
        part = numpy.s_[r * block : (r + 1) * block, c * block : (c + 1) * block]
        scale[r, c] = numpy.float32(numpy.abs(weight[part]).max() / 448)
        small = (weight[part] / scale[r, c]).astype(ml_dtypes.float8_e4m3fn)
        stored[part] = small.view(numpy.uint8)
        dequantized[part] = small.astype(numpy.float32) * scale[r, c]
golden = {
    "made_with": f"ml_dtypes {ml_dtypes.__version__}, numpy {numpy.__version__}",
    "values": [None if numpy.isnan(value) else float(value) for value in every],
    "block": [block, block],
    "bytes": stored.flatten().tolist(),
    "scale": scale.flatten().tolist(),
    "dequantized": dequantized.flatten().tolist(),
}
lines = [f"  {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in golden.items()]
pathlib.Path(__file__).with_name("float8.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
