/**
 * How alike two texts are, from 0 to 1, by the metrics of `text_similarity`. Which numbers the hosted service
 * computes is published for none of them: each is here what the named package computes, see the files beside this
 * one.
 */
import { createWork, type Work } from './common-length.js'
import { fuzzyMatch } from './fuzzy.js'
import { meteor } from './meteor.js'
import { bleu, gleu, rouge, rougeL } from './n-grams.js'

type Metric = (input: string, reference: string, work: Work) => number | Promise<number>

const METRICS = {
  fuzzy_match: fuzzyMatch,
  bleu,
  gleu,
  meteor,
  rouge_1: (input, reference) => rouge(input, reference, 1),
  rouge_2: (input, reference) => rouge(input, reference, 2),
  rouge_3: (input, reference) => rouge(input, reference, 3),
  rouge_4: (input, reference) => rouge(input, reference, 4),
  rouge_5: (input, reference) => rouge(input, reference, 5),
  rouge_l: rougeL,
} as const satisfies Readonly<Record<string, Metric>>

export type SimilarityMetric = keyof typeof METRICS
export const SIMILARITY_METRICS = Object.keys(METRICS) as readonly SimilarityMetric[]

/**
 * Longest text that is compared, UTF-16 units: what compares parts of texts takes the third power of their length at
 * worst.
 */
export const LONGEST_TEXT = 8192

export async function similarity(metric: SimilarityMetric, input: string, reference: string): Promise<number> {
  return await METRICS[metric](input, reference, createWork())
}
