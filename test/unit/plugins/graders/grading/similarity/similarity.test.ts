/**
 * Similarity as the named packages compute it: vectors made once by them (`test/goldens/make_similarity_goldens.py`).
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  SIMILARITY_METRICS,
  type SimilarityMetric,
  similarity,
} from '#plugins/graders/grading/similarity/similarity.js'

interface Vector {
  readonly input: string
  readonly reference: string
  readonly scores: Readonly<Record<SimilarityMetric, number>>
}

const path = new URL('../../../../../fixtures/graders/similarity.json', import.meta.url)
const vectors = JSON.parse(readFileSync(path, 'utf8')) as readonly Vector[]

describe('similarity', () => {
  it.each(SIMILARITY_METRICS)('%s is what its package says', async (metric) => {
    expect(vectors).toHaveLength(22)
    for (const { input, reference, scores } of vectors) {
      expect(await similarity(metric, input, reference), `${input} | ${reference}`).toBeCloseTo(scores[metric], 9)
    }
  })

  it('gives others a turn while long texts are compared', async () => {
    const text = (seed: number, length: number): string =>
      Array.from({ length }, (_, i) => 'abcd'[((seed * (i + 3) ** 3 + i * 5) % 4) & 3]).join('')
    let turns = 0
    let isDone = false
    const count = (): void => {
      turns += 1
      if (!isDone) setImmediate(count)
    }
    setImmediate(count)
    await similarity('fuzzy_match', text(7, 600), `z${text(5, 3000)}`)
    isDone = true
    expect(turns).toBeGreaterThan(1)
  })
})
