/**
 * A copy of the built-in model in which one sign has the row of another: a base model that cannot tell them apart.
 */
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sparkDirectory } from '#model/built-in/spark.js'
import { loadTextModel } from '#model/text/text-model.js'

/** @returns the folder; `sign` and `other` are tokens of the built-in model */
export async function modelWithLostSign(folder: string, sign: string, other: string): Promise<string> {
  const path = join(folder, 'lost-sign')
  await cp(sparkDirectory(), path, { recursive: true })
  const { tokenizer } = await loadTextModel(path)
  const [to, from] = [sign, other].map((token) => tokenizer.encode(token)[0] ?? -1)
  if (to === undefined || from === undefined) throw new Error('no such tokens')
  const file = join(path, 'model.safetensors')
  const bytes = await readFile(file)
  const headerBytes = Number(bytes.readBigUInt64LE(0))
  const header = JSON.parse(bytes.toString('utf8', 8, 8 + headerBytes)) as Record<
    string,
    { readonly shape: readonly number[]; readonly data_offsets: readonly [number, number] }
  >
  const embedding = header['model.embed_tokens.weight']
  if (embedding === undefined) throw new Error('no embedding')
  const [start, end] = embedding.data_offsets
  const rowBytes = (end - start) / (embedding.shape[0] ?? 1)
  const rowAt = (id: number): number => 8 + headerBytes + start + id * rowBytes
  bytes.copy(bytes, rowAt(to), rowAt(from), rowAt(from) + rowBytes)
  await writeFile(file, bytes)
  return path
}
