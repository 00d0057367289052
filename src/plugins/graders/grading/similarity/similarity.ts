/**
 * How alike two texts are, from 0 to 1, by the metrics of `text_similarity`. Which numbers the hosted service
 * computes is published for none of them: each is here what the named package computes, see the files beside this
 * one.
 */
import { createWork, type Work } from './common-length.js'
import { fuzzyMatch } from './fuzzy.js'
import { atBlanks, bleu, gleu, rouge, rougeL } from './n-grams.js'
import { stem } from './stem.js'

/**
 * `meteor` (Banerjee & Lavie 2005) as NLTK computes it, with α 0.9, β 3, γ 0.5: words are matched as they are, then
 * by their stems. NLTK's third stage, synonyms of WordNet, needs a data set that is not here, and is left out.
 */
const [ALPHA, BETA, GAMMA] = [0.9, 3, 0.5]

interface Place {
  readonly at: number
  readonly word: string
}

function meteor(input: string, reference: string): number {
  const [words, wanted] = [toPlaces(input), toPlaces(reference)]
  const exact = match(words, wanted)
  const stems = match(exact.words.map(toStem), exact.wanted.map(toStem))
  const pairs = [...exact.pairs, ...stems.pairs].sort(([a], [b]) => a - b)
  if (pairs.length === 0) return 0
  const [precision, recall] = [pairs.length / words.length, pairs.length / wanted.length]
  const mean = (precision * recall) / (ALPHA * precision + (1 - ALPHA) * recall)
  const penalty = GAMMA * (countChunks(pairs) / pairs.length) ** BETA
  return (1 - penalty) * mean
}

const toPlaces = (text: string): Place[] => atBlanks(text).map((word, at) => ({ at, word: word.toLowerCase() }))
const toStem = ({ at, word }: Place): Place => ({ at, word: stem(word) })

/** From the last word on, each with the last equal one of the reference that is free. */
function match(words: readonly Place[], wanted: readonly Place[]) {
  const free = new Map<string, Place[]>()
  for (const place of wanted) {
    const places = free.get(place.word)
    if (places === undefined) free.set(place.word, [place])
    else places.push(place)
  }
  const pairs: (readonly [number, number])[] = []
  const used = new Set<Place>()
  const left = words.toReversed().filter((word) => {
    const partner = free.get(word.word)?.pop()
    if (partner === undefined) return true
    pairs.push([word.at, partner.at])
    used.add(partner)
    return false
  })
  return { pairs, words: left.toReversed(), wanted: wanted.filter((place) => !used.has(place)) }
}

/** Runs of pairs that follow each other in both texts. */
function countChunks(pairs: readonly (readonly [number, number])[]): number {
  let chunks = 1
  for (let i = 1; i < pairs.length; i += 1) {
    const [[a, b], [c, d]] = [pairs[i - 1] as readonly [number, number], pairs[i] as readonly [number, number]]
    if (c !== a + 1 || d !== b + 1) chunks += 1
  }
  return chunks
}

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
