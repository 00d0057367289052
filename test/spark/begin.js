/**
 * Where a run begins that does not begin from nothing: with the weights of a model, its embedding's dead rows drawn anew.
 */

import { createRng } from '#base/util/rng.js'
import { openWeights } from '#model/weights/base-weights.js'
import { decoderParameters } from '#plugins/torch/parameters.js'
import { initialState } from '../../dist/test/spark/training/full-trainer.js'

/** Rows of one direction, by the cosine with their neighbour. */
const SAME = 0.95
/** Rows that nothing tells apart: so many of one direction are no accident. */
const LEAST_DEAD = 16
/** Rows that are drawn anew are this long, against the mean of the others: they are to be found, and not to be said by chance. */
const NEW_LENGTH = 0.5

/**
 * @param {string} directory a Hugging Face directory of the same shape
 * @param {import('../../src/model/architectures/decoder-config.js').DecoderConfig} config
 * @param {string} seed
 * @param {'adamw' | 'muon'} optimizer whose moments begin at zero
 * @returns {Promise<{ state: import('./training/full-trainer.js').FullTrainingState, redrawn: number[] }>} `redrawn`: ids of tokens
 */
export async function beginFrom(directory, config, seed, optimizer) {
  const state = initialState(config, seed, optimizer)
  const source = await openWeights(directory)
  try {
    for (const { name, parts } of decoderParameters(config)) {
      const data = state.weights.get(name) ?? new Float32Array(0)
      let at = 0
      for (const part of parts) {
        const values = await source.readFloat32(part.name)
        data.set(values, at)
        at += values.length
      }
      if (at !== data.length) throw new Error(`"${directory}" has ${at} elements of "${name}", not ${data.length}`)
    }
  } finally {
    await source.close()
  }
  const embedding = state.weights.get('embedding') ?? new Float32Array(0)
  return { state, redrawn: redrawDead(embedding, config.hiddenSize, seed) }
}

/** @param {Float32Array} embedding changed in place @param {number} width @param {string} seed @returns {number[]} */
function redrawDead(embedding, width, seed) {
  const count = embedding.length / width
  const lengths = Array.from({ length: count }, (_, row) =>
    Math.hypot(...embedding.subarray(row * width, (row + 1) * width)),
  )
  const cosine = (/** @type {number} */ left, /** @type {number} */ right) => {
    let sum = 0
    for (let at = 0; at < width; at++) sum += embedding[left * width + at] * embedding[right * width + at]
    return sum / (lengths[left] * lengths[right])
  }
  /** @type {number[]} */
  let dead = []
  for (let row = 0; row < count && dead.length < LEAST_DEAD; row++) {
    dead = Array.from({ length: count }, (_, other) => other).filter((other) => cosine(row, other) > SAME)
  }
  if (dead.length < LEAST_DEAD) return []
  const alive = lengths.filter((_, row) => !dead.includes(row))
  const length = (NEW_LENGTH * alive.reduce((sum, each) => sum + each, 0)) / alive.length
  const rng = createRng(`dead rows ${seed}`)
  for (const row of dead) {
    for (let at = 0; at < width; at++) embedding[row * width + at] = (rng.normal() * length) / Math.sqrt(width)
  }
  return dead
}
