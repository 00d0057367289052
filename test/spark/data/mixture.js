/**
 * The training mixture as packed token rows on disk, and its reader.
 *
 * `train-<length>.bin` is a plain sequence of rows of `length` tokens: `length` token ids (uint16, little-endian), then `length`
 * flags (uint8): LOSS where the token is trained on, START where a sequence begins, REAL where it is no padding. Attention must
 * not cross a START. `manifest.json` has sizes, tokens by source and the SHA-256 of every file. Same seed, same bytes.
 */
import { createHash } from 'node:crypto'
import { closeSync, mkdirSync, openSync, readFileSync, readSync, renameSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createRng } from '#base/util/rng.js'
import { ABILITIES } from '../abilities/index.js'
import { TEXT_SOURCES } from '../text/documents.js'
import { chatSegments } from '../text-model/chat-template.js'
import { heldOutRows, trainingConversation } from './conversations.js'

/** @typedef {import('../../../src/model/text/tokenizer.js').Tokenizer} Tokenizer */
/** @typedef {{ ids: number[], mask: number[] }} Sequence `mask` is 1 where trained */
/** @typedef {{ ids: Uint16Array, flags: Uint8Array }} PackedTokens one row */

export const LOSS = 1
export const START = 2
export const REAL = 4

/** Rows that are filled at the same time; more means less padding. */
const OPEN_ROWS = 64

/** Ids and mask of a conversation, as `renderWithMask` gives them. @param {Tokenizer} tokenizer @param {Parameters<typeof chatSegments>[0]} conversation */
export function encodeConversation(tokenizer, conversation) {
  /** @type {Sequence} */
  const sequence = { ids: [], mask: [] }
  for (const { text, isTrained } of chatSegments(conversation)) {
    for (const id of tokenizer.encode(text, { parseSpecial: true })) {
      sequence.ids.push(id)
      sequence.mask.push(isTrained ? 1 : 0)
    }
  }
  return sequence
}

/** Ids of a document and the token that ends it, all trained. @param {Tokenizer} tokenizer @param {string} text */
export function encodeDocument(tokenizer, text) {
  const ids = [...tokenizer.encode(text), tokenizer.tokenToId('<|endoftext|>') ?? 0]
  return { ids, mask: ids.map(() => 1) }
}

/**
 * Sequences without end, each from the source that is furthest behind its share of the tokens.
 *
 * @param {Tokenizer} tokenizer
 * @param {string} seed
 * @param {{ emphasis?: Record<string, number>, style?: import('../abilities/define.js').Style,
 *   abilities?: readonly import('../abilities/define.js').Ability[] }} [options] `emphasis`: factors on the shares of sources
 * @returns {Generator<{ source: string, sequence: Sequence }>}
 */
export function* mixtureSequences(tokenizer, seed, { emphasis = {}, style, abilities = ABILITIES } = {}) {
  const rng = createRng(`mixture ${seed}`)
  const sources = [
    ...abilities.map((ability) => ({
      name: ability.name,
      share: ability.share * (emphasis[ability.name] ?? 1),
      draw: () => encodeConversation(tokenizer, trainingConversation(rng, ability, { style, abilities })),
    })),
    ...TEXT_SOURCES.map(({ name, share, generate }) => ({
      name,
      share: share * (emphasis[name] ?? 1),
      draw: () => encodeDocument(tokenizer, generate(rng, 'train')),
    })),
  ]
  const unknown = Object.keys(emphasis).filter((name) => sources.every((source) => source.name !== name))
  if (unknown.length > 0) throw new Error(`no source is called ${unknown.join(', ')}`)
  const written = sources.map(() => 0)
  for (;;) {
    let at = 0
    for (const [index, { share }] of sources.entries()) {
      if (written[index] / share < written[at] / sources[at].share) at = index
    }
    const sequence = sources[at].draw()
    written[at] += sequence.ids.length
    yield { source: sources[at].name, sequence }
  }
}

/**
 * Packs sequences into rows: each goes into the open row with the least room that still fits it.
 *
 * @param {{ rowLength: number, paddingId: number }} options
 * @returns {{ add: (sequence: Sequence) => PackedTokens[], finish: () => PackedTokens[] }} `add` takes sequences of at most the
 *   row length and gives the rows that are done
 */
export function createPacker({ rowLength, paddingId }) {
  const newRow = () => ({ ids: new Uint16Array(rowLength).fill(paddingId), flags: new Uint8Array(rowLength), used: 0 })
  const open = [newRow()]
  return {
    add({ ids, mask }) {
      /** @type {PackedTokens[]} */
      const done = []
      let row = open
        .filter(({ used }) => used + ids.length <= rowLength)
        .sort((left, right) => right.used - left.used)[0]
      if (row === undefined) {
        if (open.length === OPEN_ROWS) {
          const fullest = open.reduce((best, other, index) => (other.used > open[best].used ? index : best), 0)
          done.push(...open.splice(fullest, 1))
        }
        row = newRow()
        open.push(row)
      }
      for (let at = 0; at < ids.length; at++) {
        row.ids[row.used + at] = ids[at]
        row.flags[row.used + at] = REAL | (mask[at] === 1 ? LOSS : 0) | (at === 0 ? START : 0)
      }
      row.used += ids.length
      if (row.used === rowLength) done.push(...open.splice(open.indexOf(row), 1))
      return done
    },
    finish: () => open.filter(({ used }) => used > 0),
  }
}

/** A row as bytes. @param {PackedTokens} row */
export function rowBytes({ ids, flags }) {
  const bytes = new Uint8Array(3 * ids.length)
  const view = new DataView(bytes.buffer)
  for (const [index, id] of ids.entries()) view.setUint16(2 * index, id, true)
  bytes.set(flags, 2 * ids.length)
  return bytes
}

/**
 * Writes `train-<length>.bin` for every row length, `held-out/<source>.bin` with the rows that evaluation asks, and
 * `manifest.json`.
 *
 * @param {string} directory made if missing; files in it are replaced
 * @param {{ tokenizer: Tokenizer, tokens: number, rowLengths: readonly number[], seed: string, heldOutCount: number,
 *   emphasis?: Record<string, number>, style?: import('../abilities/define.js').Style,
 *   abilities?: readonly import('../abilities/define.js').Ability[], onProgress?: (tokens: number) => void }} options `tokens` is a lower bound: the last rows are finished; `rowLengths` rise,
 *   and a sequence goes into the shortest rows that hold it: attention costs the square of a row's length
 */
export function writeMixture(
  directory,
  { tokenizer, tokens, rowLengths, seed, heldOutCount, emphasis, style, abilities = ABILITIES, onProgress },
) {
  mkdirSync(join(directory, 'held-out'), { recursive: true })
  const paddingId = tokenizer.tokenToId('<|endoftext|>') ?? 0
  const longest = Math.max(...rowLengths)
  /** @type {Record<string, { sequences: number, tokens: number, trained: number }>} */
  const sources = {}
  let total = 0
  const outputs = rowLengths.map((rowLength) => ({
    rowLength,
    packer: createPacker({ rowLength, paddingId }),
    file: createRowFile(join(directory, `train-${rowLength}.bin`)),
    tokens: 0,
  }))
  for (const { source, sequence } of mixtureSequences(tokenizer, seed, { emphasis, style, abilities })) {
    if (total >= tokens) break
    const output = outputs.find(({ rowLength }) => sequence.ids.length <= rowLength)
    if (output === undefined) continue
    sources[source] ??= { sequences: 0, tokens: 0, trained: 0 }
    sources[source].sequences++
    sources[source].tokens += sequence.ids.length
    sources[source].trained += sequence.mask.reduce((sum, bit) => sum + bit, 0)
    total += sequence.ids.length
    output.tokens += sequence.ids.length
    if (sources[source].sequences % 1000 === 0) onProgress?.(total)
    output.file.write(output.packer.add(sequence))
  }
  const train = outputs.map(({ rowLength, packer, file, tokens }) => {
    file.write(packer.finish())
    return { file: `train-${rowLength}.bin`, rowLength, tokens, ...file.close() }
  })
  const heldOut = Object.fromEntries(
    heldOutSources(tokenizer, heldOutCount, abilities).map(({ name, sequences }) => {
      const packer = createPacker({ rowLength: longest, paddingId })
      const file = createRowFile(join(directory, 'held-out', `${name}.bin`))
      for (const sequence of sequences) if (sequence.ids.length <= longest) file.write(packer.add(sequence))
      file.write(packer.finish())
      return [name, { rowLength: longest, ...file.close() }]
    }),
  )
  const manifest = {
    format: 2,
    seed,
    vocabularySize: tokenizer.vocabularySize,
    tokens: total,
    train,
    sources,
    heldOut,
  }
  writeFileSync(join(directory, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  return manifest
}

/**
 * Held-out sequences of every source.
 *
 * @param {Tokenizer} tokenizer
 * @param {number} count
 * @param {readonly import('../abilities/define.js').Ability[]} abilities
 */
function heldOutSources(tokenizer, count, abilities) {
  return [
    ...abilities.map((ability) => ({
      name: ability.name,
      sequences: heldOutRows(ability, count).map((row) => encodeConversation(tokenizer, row)),
    })),
    ...TEXT_SOURCES.map(({ name, generate }) => {
      const rng = createRng(`held-out ${name}`)
      return {
        name,
        sequences: Array.from({ length: count }, () => encodeDocument(tokenizer, generate(rng, 'heldOut'))),
      }
    }),
  ]
}

/** A file of rows, written beside its place and renamed by `close`. @param {string} path */
function createRowFile(path) {
  const hash = createHash('sha256')
  const file = openSync(`${path}.partial`, 'w')
  let count = 0
  return {
    /** @param {readonly PackedTokens[]} rows */
    write(rows) {
      for (const row of rows) {
        const bytes = rowBytes(row)
        hash.update(bytes)
        writeSync(file, bytes)
        count++
      }
    },
    close() {
      closeSync(file)
      renameSync(`${path}.partial`, path)
      return { rows: count, sha256: hash.digest('hex') }
    },
  }
}

/** `manifest.json` of a mixture. @param {string} directory */
export const readManifest = (directory) => JSON.parse(readFileSync(join(directory, 'manifest.json'), 'utf8'))

/**
 * Opens a file of rows for random access.
 *
 * @param {string} path
 * @param {number} rowLength from the manifest
 * @returns {{ read: (index: number) => PackedTokens, close: () => void }}
 */
export function openRows(path, rowLength) {
  const file = openSync(path, 'r')
  return {
    read(index) {
      const bytes = new Uint8Array(3 * rowLength)
      const size = readSync(file, bytes, 0, bytes.length, index * bytes.length)
      if (size !== bytes.length) throw new Error(`file "${path}" has no row ${index}`)
      const view = new DataView(bytes.buffer)
      const ids = Uint16Array.from({ length: rowLength }, (_, at) => view.getUint16(2 * at, true))
      return { ids, flags: bytes.slice(2 * rowLength) }
    },
    close: () => closeSync(file),
  }
}
