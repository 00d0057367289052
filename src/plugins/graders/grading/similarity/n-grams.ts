/**
 * `bleu`, `gleu` and `rouge_1` to `rouge_5`, `rouge_l`: how many runs of words a text shares with its reference.
 *
 * BLEU (Papineni et al. 2002) and GLEU (Wu et al. 2016, arXiv:1609.08144) of a sentence as NLTK computes them, words
 * parted at blanks: runs of one to four words of equal weight, a run's length without any match counted as 0.1 (Chen
 * & Cherry 2014, smoothing 1). ROUGE (Lin 2004) as the package rouge-score 0.1.2: F1, lower case, letters a to z and
 * digits only, without stems.
 */
import { comparable, type Work } from './common-length.js'

/** Longest run of BLEU and GLEU. */
const LONGEST = 4
const SMOOTHING = 0.1

export const atBlanks = (text: string): string[] => text.split(/\s+/u).filter(Boolean)

/** How often each run of `size` words comes. */
function countRuns(words: readonly string[], size: number): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (let i = 0; i + size <= words.length; i += 1) {
    // no word holds a blank
    const run = words.slice(i, i + size).join(' ')
    counts.set(run, (counts.get(run) ?? 0) + 1)
  }
  return counts
}

function countShared(words: readonly string[], reference: readonly string[], size: number): number {
  const wanted = countRuns(reference, size)
  let shared = 0
  for (const [run, count] of countRuns(words, size)) shared += Math.min(count, wanted.get(run) ?? 0)
  return shared
}

const runsOf = ({ length }: readonly string[], size: number): number => Math.max(0, length - size + 1)

export function bleu(input: string, reference: string): number {
  const [words, wanted] = [atBlanks(input), atBlanks(reference)]
  if (countShared(words, wanted, 1) === 0) return 0
  let sum = 0
  for (let size = 1; size <= LONGEST; size += 1) {
    const shared = countShared(words, wanted, size)
    sum += Math.log((shared === 0 ? SMOOTHING : shared) / Math.max(1, runsOf(words, size))) / LONGEST
  }
  const brevity = words.length > wanted.length ? 1 : Math.exp(1 - wanted.length / words.length)
  return brevity * Math.exp(sum)
}

export function gleu(input: string, reference: string): number {
  const [words, wanted] = [atBlanks(input), atBlanks(reference)]
  let [shared, runs, wantedRuns] = [0, 0, 0]
  for (let size = 1; size <= LONGEST; size += 1) {
    shared += countShared(words, wanted, size)
    runs += runsOf(words, size)
    wantedRuns += runsOf(wanted, size)
  }
  return shared === 0 ? 0 : shared / Math.max(runs, wantedRuns)
}

const rougeWords = (text: string): string[] =>
  text
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter(Boolean)

export function rouge(input: string, reference: string, size: number): number {
  const [words, wanted] = [rougeWords(input), rougeWords(reference)]
  return f1(countShared(words, wanted, size), runsOf(words, size), runsOf(wanted, size))
}

/** By the longest common subsequence of words. */
export async function rougeL(input: string, reference: string, work: Work): Promise<number> {
  const [words, wanted] = [rougeWords(input), rougeWords(reference)]
  const prepared = comparable(words)
  await work.did(prepared.words * wanted.length)
  return f1(prepared.common(wanted, 0, wanted.length), words.length, wanted.length)
}

function f1(shared: number, count: number, wanted: number): number {
  if (shared === 0) return 0
  const [precision, recall] = [shared / count, shared / wanted]
  return (2 * precision * recall) / (precision + recall)
}
