/** The record of how a choice was sampled: what is read of it, what is refused with which path, and that the wire's schema agrees. */
import { describe, expect, it, test } from 'vitest'
import { samplingRecordSchema } from '#contract/wire/sampling-record.js'
import { isModelledAt, keptAt, parseSampling } from '#formats/rows/sampling-record.js'

type Json = Record<string, unknown>

const tokenIds = Int32Array.of(7, 8, 9)
const record = {
  temperature: 0.5,
  top_p: 0.8,
  top_k: 512,
  min_p: 0,
  logprobs: [-0.25, 0, -3],
  kept: { counts: [2, 0, 3], ids: [7, 1, 4, 9, 2] },
  unmodelled: ['repetition_penalty'],
}
const read = (value: unknown, options: Json = {}) =>
  parseSampling(value as never, 'choice.sampling', { tokenIds, count: 3, ...options })
const problem = (value: unknown, options: Json = {}): unknown => {
  try {
    return read(value, options)
  } catch (error) {
    const { code, message, param } = error as Error & { code: string; param: string }
    return { code, message, param }
  }
}

describe('parseSampling', () => {
  it('reads what the wire sends', () => {
    const sampling = read(samplingRecordSchema.parse(record))
    expect(sampling).toEqual({
      temperature: 0.5,
      topP: 0.8,
      topK: 512,
      minP: 0,
      logprobs: Float32Array.of(-0.25, 0, -3),
      keptFrom: Int32Array.of(0, 2, 2, 5),
      keptIds: Int32Array.of(7, 1, 4, 9, 2),
      unmodelled: ['repetition_penalty'],
    })
  })

  it('is null where there is none, and takes the least that says something', () => {
    expect(read(undefined)).toBeNull()
    expect(read(null)).toBeNull()
    expect(read({ temperature: 2, logprobs: [-1, -1, -1] })).toMatchObject({
      temperature: 2,
      topP: 1,
      topK: 0,
      minP: 0,
      keptFrom: new Int32Array(4),
      unmodelled: [],
    })
    expect(read({ temperature: 2, logprobs: null })).toMatchObject({ temperature: 2, logprobs: null })
    expect(read({ logprobs: [0, 5e-7, 0], top_k: -1 })).toMatchObject({ topK: 0, logprobs: new Float32Array(3) })
  })

  it.each<[string, Json, Json]>([
    ['.temperature', { temperature: -1 }, {}],
    ['.temperature', { temperature: Number.NaN }, {}],
    ['.top_p', { top_p: 1.5 }, {}],
    ['.top_k', { top_k: 1.5 }, {}],
    ['.min_p', { min_p: 'x' }, {}],
    ['.logprobs', { logprobs: [-1] }, {}],
    ['.logprobs', { logprobs: 'none' }, {}],
    ['.logprobs[1]', { logprobs: [-1, 0.1, -1] }, {}],
    ['.logprobs[2]', { logprobs: [-1, -1, Number.NEGATIVE_INFINITY] }, {}],
    ['.kept', { kept: [1] }, {}],
    ['.kept.counts', { kept: { counts: [1], ids: [7] } }, {}],
    ['.kept.counts[0]', { kept: { counts: [513, 0, 0], ids: [] } }, {}],
    ['.kept.counts[1]', { kept: { counts: [0, -1, 1], ids: [9] } }, {}],
    ['.kept.ids', { kept: { counts: [1, 1, 1], ids: [7, 8] } }, {}],
    ['.kept.ids', { kept: { counts: [0, 0, 0], ids: [7] } }, {}],
    ['.kept.ids[1]', { kept: { counts: [2, 0, 0], ids: [7, 10] } }, { vocabularySize: 10 }],
    ['.kept.ids[0]', { kept: { counts: [1, 0, 0], ids: [-7] } }, {}],
    ['.kept', { kept: { counts: [1, 0, 0], ids: [6] } }, {}],
    ['.kept', { kept: { counts: [2, 0, 0], ids: [7, 7] } }, {}],
    ['.kept', {}, { tokenIds: null }],
    ['.unmodelled', { unmodelled: Array(33).fill('x') }, {}],
    ['.unmodelled[0]', { unmodelled: ['x'.repeat(65)] }, {}],
    ['.unmodelled[0]', { unmodelled: [''] }, {}],
  ])('refuses a wrong %s by its path', (path, change, options) => {
    const found = problem({ ...record, ...change }, options)
    expect(found).toMatchObject({ code: 'invalid_sampling', param: `choice.sampling${path}` })
    expect((found as Error).message).toContain(`choice.sampling${path}`)
  })

  it('refuses what is no object', () => {
    expect(problem('plain')).toMatchObject({ code: 'invalid_sampling', param: 'choice.sampling' })
  })
})

test('a token has its set, or all tokens', () => {
  const sampling = read(record)
  if (sampling === null) throw new Error('nothing read')
  expect(keptAt(sampling, 0)).toEqual(Int32Array.of(7, 1))
  expect(keptAt(sampling, 1)).toBeNull()
  expect(keptAt(sampling, 2)).toEqual(Int32Array.of(4, 9, 2))
})

test('a cut that is named means the tokens without a set, anything else that is named means all', () => {
  const modelled = (unmodelled: string[]): boolean[] => {
    const sampling = read({ ...record, unmodelled })
    return [0, 1, 2].map((t) => sampling !== null && isModelledAt(sampling, t))
  }
  expect(modelled([])).toEqual([true, true, true])
  expect(modelled(['top_p'])).toEqual([true, false, true])
  expect(modelled(['xtc_probability', 'min_tokens'])).toEqual([true, false, true])
  expect(modelled(['frequency_penalty'])).toEqual([false, false, false])
  expect(modelled(['top_p', 'frequency_penalty'])).toEqual([false, false, false])
})

test('the schema bounds every list of the record', () => {
  const { counts, ids } = samplingRecordSchema.shape.kept.shape
  const { logprobs, unmodelled } = samplingRecordSchema.shape
  for (const list of [counts, ids, logprobs.unwrap(), unmodelled]) {
    expect(list.safeParse({ length: 1 }).success).toBe(false)
    expect(list.def.checks?.length).toBe(1)
  }
  expect(samplingRecordSchema.safeParse({ ...record, kept: { counts: [513], ids: [] } }).success).toBe(false)
  expect(samplingRecordSchema.safeParse({ ...record, unmodelled: Array(33).fill('x') }).success).toBe(false)
})
