/**
 * Bytes of files in several arrays, compared with the same bytes in one.
 */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { bodyOf, chunksOf, collectContent, copyOf, sha256Of, sizeOf } from '#base/util/file-content.js'
import { createRng } from '#base/util/rng.js'
import { decodeSafetensors, encodeSafetensors, safetensorsPieces } from '#model/weights/safetensors.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

const MIB = 1024 ** 2
const rng = createRng('file content')

function randomBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  for (let i = 0; i < length; i += 1) bytes[i] = Math.floor(rng.uniform() * 256)
  return bytes
}

/** Cut anywhere, empty pieces included. */
function cut(bytes: Uint8Array): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let start = 0; start < bytes.length; ) {
    const end = Math.min(bytes.length, start + Math.floor(rng.uniform() * 40))
    pieces.push(bytes.subarray(start, end))
    start = end
  }
  return pieces
}

it('is the same bytes, whatever arrays hold them', () => {
  for (let round = 0; round < 200; round += 1) {
    const bytes = randomBytes(Math.floor(rng.uniform() * 300))
    const pieces = cut(bytes)
    const offset = Math.floor(rng.uniform() * 320)
    const length = Math.floor(rng.uniform() * 320)
    expect(sizeOf(pieces)).toBe(bytes.length)
    expect(sha256Of(pieces)).toBe(createHash('sha256').update(bytes).digest('hex'))
    expect(copyOf(pieces)).toEqual(bytes)
    expect(copyOf(pieces, offset, length)).toEqual(bytes.slice(offset, offset + length))
    const chunks = [...chunksOf(pieces, 17)]
    expect(copyOf(chunks)).toEqual(bytes)
    for (const chunk of chunks) expect(chunk.length).toBeLessThanOrEqual(17)
  }
})

it('is copied out of a Buffer, too, whose own slices are views', () => {
  const buffer = Buffer.from('a file in the pool of buffers')
  const copy = copyOf(buffer, 2, 4)
  buffer.fill(0)
  expect([Buffer.from(copy).toString(), copy.byteOffset, copy.buffer.byteLength]).toEqual(['file', 0, 4])
})

it('comes from a stream as one array, or as several where it is large', async () => {
  async function* stream(count: number): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < count; i += 1) yield new Uint8Array(MIB).fill(i)
  }
  expect(await collectContent(stream(0))).toEqual(new Uint8Array(0))
  const small = await collectContent(stream(3))
  expect(small).toBeInstanceOf(Uint8Array)
  const large = await collectContent(stream(130))
  expect(large).toBeInstanceOf(Array)
  expect(sizeOf(large)).toBe(130 * MIB)
  expect([0, 63, 64, 129].map((i) => copyOf(large, i * MIB + 5, 1)[0])).toEqual([0, 63, 64, 129])
})

it('is sent whole each time that it is sent', async () => {
  const received: string[] = []
  const server = createServer(async (request, response) => {
    const hash = createHash('sha256')
    for await (const part of request) hash.update(part as Buffer)
    received.push(hash.digest('hex'))
    response.end()
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const small = [new Uint8Array(10).fill(1), new Uint8Array(20).fill(2)]
    const large = [new Uint8Array(3 * MIB).fill(3), new Uint8Array(100).fill(4), new Uint8Array(2 * MIB + 1).fill(5)]
    for (const content of [small, large]) {
      for (let count = 0; count < 2; count += 1) {
        await (await fetch(url, { method: 'PUT', ...bodyOf(content) })).text()
      }
    }
    expect(received).toEqual([small, small, large, large].map(sha256Of))
  } finally {
    await new Promise((closed) => server.close(closed))
  }
})

it('holds tensors that are read back bit for bit, wherever the arrays end', () => {
  const values = Float32Array.from({ length: 100 }, () => rng.uniform())
  const tensors = new Map([
    ['b', float32Tensor(values, [10, 10])],
    ['a', float32Tensor(values.subarray(3, 10), [7])],
  ])
  const whole = encodeSafetensors(tensors, { k: 'v' })
  expect(copyOf(safetensorsPieces(tensors, { k: 'v' }))).toEqual(whole)
  for (let round = 0; round < 20; round += 1) expect(decodeSafetensors(cut(whole))).toEqual(decodeSafetensors(whole))
})
