/**
 * Writes a Q8_0 copy of a GGUF file, so that llama.cpp and our int8 read the same numbers at the same width.
 *
 * Metadata is copied byte for byte; matrices are dequantized and quantized again, vectors become F32.
 * Source of the layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; a Q8_0 block is a float16 scale and 32 signed bytes.
 */
import { closeSync, existsSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { dequantizeGguf } from '../../../dist/src/model/weights/gguf/dequantize.js'
import { readGgufMetadata } from '../../../dist/src/model/weights/gguf-metadata.js'
import { numberToHalf } from '../../../dist/src/numerics/tensor/half.js'

const ALIGNMENT = 32
const TYPE_F32 = 0
const TYPE_Q8_0 = 8

/** Makes `target` from `source` unless it exists. */
export async function ensureQ8Gguf(source, target) {
  if (existsSync(target)) return target
  const bytes = readFileSync(source)
  const { tensors } = await readGgufMetadata(source)
  const table = []
  let offset = 0
  for (const tensor of tensors) {
    const count = tensor.shape.reduce((a, b) => a * b, 1)
    const isMatrix = tensor.shape.length === 2 && tensor.shape[1] % 32 === 0
    const sizeBytes = isMatrix ? (count / 32) * 34 : count * 4
    table.push({ ...tensor, count, isMatrix, newOffset: offset, newSize: sizeBytes })
    offset = Math.ceil((offset + sizeBytes) / ALIGNMENT) * ALIGNMENT
  }
  const head = Buffer.concat([bytes.subarray(0, startOfTable(bytes, tensors[0].name)), ...table.map(tableRow)])
  const dataStart = Math.ceil(head.length / ALIGNMENT) * ALIGNMENT
  const partial = `${target}.partial`
  const file = openSync(partial, 'w')
  writeSync(file, head, 0, head.length, 0)
  for (const tensor of table) {
    const raw = bytes.subarray(tensor.offsetBytes, tensor.offsetBytes + tensor.sizeBytes)
    const values = dequantizeGguf(tensor.type.name ?? tensor.type, raw, tensor.count)
    const out = tensor.isMatrix ? quantizeQ8(values) : Buffer.from(values.buffer, values.byteOffset, values.byteLength)
    writeSync(file, out, 0, out.length, dataStart + tensor.newOffset)
  }
  closeSync(file)
  renameSync(partial, target)
  return target
}

/** The table starts with the first tensor's length-prefixed name, whose last occurrence before the data it is. */
function startOfTable(bytes, firstName) {
  const name = Buffer.from(firstName)
  const prefix = Buffer.alloc(8)
  prefix.writeBigUInt64LE(BigInt(name.length))
  const at = bytes.indexOf(Buffer.concat([prefix, name]))
  if (at < 0) throw new Error('GGUF file has no tensor table')
  return at
}

function tableRow({ name, shape, isMatrix, newOffset }) {
  const text = Buffer.from(name)
  const row = Buffer.alloc(8 + text.length + 4 + 8 * shape.length + 4 + 8)
  let at = Number(row.writeBigUInt64LE(BigInt(text.length), 0))
  at += text.copy(row, at)
  at = row.writeUInt32LE(shape.length, at)
  for (const size of [...shape].reverse()) at = row.writeBigUInt64LE(BigInt(size), at)
  at = row.writeUInt32LE(isMatrix ? TYPE_Q8_0 : TYPE_F32, at)
  row.writeBigUInt64LE(BigInt(newOffset), at)
  return row
}

function quantizeQ8(values) {
  const out = Buffer.alloc((values.length / 32) * 34)
  for (let block = 0; block * 32 < values.length; block++) {
    let extreme = 0
    for (let i = 0; i < 32; i++) extreme = Math.max(extreme, Math.abs(values[block * 32 + i]))
    const scale = extreme / 127
    out.writeUInt16LE(numberToHalf(scale), block * 34)
    for (let i = 0; i < 32; i++) {
      out.writeInt8(scale === 0 ? 0 : Math.round(values[block * 32 + i] / scale), block * 34 + 2 + i)
    }
  }
  return out
}
