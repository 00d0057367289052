/**
 * How well a grader agrees with people: rows that somebody has scored are graded, and the two lists of scores compared.
 */
import { parseExact } from '#base/json/exact-json.js'
import { isExactNumber, valueOfNumber } from '#base/json/exact-number.js'
import { type Interval, wilsonInterval } from '#base/statistics/interval.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { displayPath } from '#cli/input/input-file.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber } from '#cli/terminal/format.js'
import { type Correlation, pearson, spearman } from '../correlation.js'
import type { Graded } from '../grading/grade.js'

/** An answer with the score that somebody gave it. */
interface ScoredRow {
  /** In the file. */
  readonly line: number
  readonly item: JsonObject
  readonly sample: string | JsonObject
  readonly score: number
}

interface Agreement {
  readonly object: 'grader.agreement'
  readonly rows: number
  /** Rows at which the grader erred: they count as the 0 that they earn. */
  readonly errors: number
  readonly pearson: Correlation | null
  readonly spearman: Correlation | null
  /** Share of rows with the same score; null where scores are not all 0 or 1. */
  readonly same: { readonly value: number; readonly interval: Interval } | null
  /** Of the grader's scores from those of people. */
  readonly mean_difference: number
  /** Where they are farthest apart. */
  readonly farthest: readonly { readonly line: number; readonly score: number; readonly reward: number }[]
}

const MOST_ROWS = 10_000
const LEAST_ROWS = 4
const FARTHEST = 5
const AT_ONCE = 8

/** @throws {UsageError} `input_invalid` with the line */
export function readScoredRows(text: string, path: string): readonly ScoredRow[] {
  const rows = text.split('\n').flatMap((line, i): readonly ScoredRow[] => {
    if (line.trim() === '') return []
    const wrong = (what: string): UsageError =>
      new UsageError('input_invalid', `${displayPath(path)}:${i + 1}: ${what}`, {
        param: '--agreement',
        hint: 'a line is {"item": {"answer": "4"}, "sample": "it is 4", "score": 1}',
      })
    const row = readObject(line)
    if (row === null) throw wrong('is no JSON object')
    const { item = {}, sample, score } = row
    const number = isExactNumber(score) ? valueOfNumber(score) : score
    if (!isJsonObject(item)) throw wrong('"item" must be an object')
    if (typeof sample !== 'string' && !isJsonObject(sample))
      throw wrong('"sample" must be a text, or an answer of chat')
    if (typeof number !== 'number' || !Number.isFinite(number)) throw wrong('"score" must be a number')
    return [{ line: i + 1, item, sample, score: number }]
  })
  if (rows.length >= LEAST_ROWS && rows.length <= MOST_ROWS) return rows
  throw new UsageError(
    'input_invalid',
    `${displayPath(path)} has ${rows.length} rows, expected ${LEAST_ROWS} to ${MOST_ROWS}`,
    {
      param: '--agreement',
    },
  )
}

function readObject(text: string): JsonObject | null {
  try {
    const value = parseExact(text)
    return isJsonObject(value) ? value : null
  } catch {
    return null
  }
}

export async function measureAgreement(
  rows: readonly ScoredRow[],
  gradeRow: (row: ScoredRow) => Promise<Pick<Graded, 'reward' | 'errors'>>,
): Promise<Agreement> {
  const graded = new Array<Pick<Graded, 'reward' | 'errors'>>(rows.length)
  let next = 0
  async function go(): Promise<void> {
    for (let i = next++; i < rows.length; i = next++) graded[i] = await gradeRow(rows[i] as ScoredRow)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, go))
  const [scores, rewards] = [rows.map(({ score }) => score), graded.map(({ reward }) => reward)]
  const isBinary = [...scores, ...rewards].every((each) => each === 0 || each === 1)
  const share = rows.filter(({ score }, i) => score === rewards[i]).length / rows.length
  const differences = rewards.map((reward, i) => reward - (scores[i] ?? 0))
  return {
    object: 'grader.agreement',
    rows: rows.length,
    errors: graded.filter(({ errors }) => errors.length > 0).length,
    pearson: pearson(scores, rewards),
    spearman: spearman(scores, rewards),
    same: isBinary ? { value: share, interval: wilsonInterval(share, rows.length) } : null,
    mean_difference: differences.reduce((sum, each) => sum + each, 0) / rows.length,
    farthest: rows
      .map(({ line, score }, i) => ({ line, score, reward: rewards[i] ?? 0 }))
      .filter(({ score, reward }) => score !== reward)
      .sort((a, b) => Math.abs(b.score - b.reward) - Math.abs(a.score - a.reward))
      .slice(0, FARTHEST),
  }
}

/** For people. */
export function sayAgreement({ rows, errors, ...found }: Agreement): string {
  const say = (name: string, measured: Correlation | null): string => {
    if (measured === null) return `  ${name} none: one side gives every row the same score`
    const { value, interval } = measured
    const ends = interval === null ? '' : `, 95% ${interval.map(formatNumber).join(' to ')}`
    return `  ${name} ${formatNumber(value)}${ends}`
  }
  const farthest = found.farthest.map(
    ({ line, score, reward }) =>
      `  line ${line}: ${formatNumber(score)} by people, ${formatNumber(reward)} by the grader`,
  )
  return [
    `${rows} rows${errors === 0 ? '' : `, ${errors} of which it could not grade`}`,
    say('spearman', found.spearman),
    say('pearson', found.pearson),
    ...(found.same === null ? [] : [say('the same score', found.same)]),
    `  on average ${formatNumber(found.mean_difference)} from people`,
    ...(farthest.length === 0 ? [] : ['Farthest apart:', ...farthest]),
  ].join('\n')
}
