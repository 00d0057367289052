/**
 * The demo's tasks: manners of replying, and small skills with letters and words. A table; each entry explains itself.
 *
 * Rewards are graded where a near answer is worth something, so that a model which is rarely right still gets a slope.
 */
import { askingReply, briefReply, isFitting, smallTalk } from './small-talk.js'
import { type DemoItem, type DemoTask, splitItems, wordsOf } from './task.js'
import { NAMES, WORDS } from './word-lists.js'

/** Most words a reply of the task `brief` may have. */
const BRIEF_WORDS = 4
/** The most that a wrong answer of a graded reward can earn. */
const PARTIAL = 0.5

const askBack: DemoTask = {
  name: 'ask-back',
  teaches: 'end every reply with a question',
  rule: '1 when the reply fits what was said and ends with its only question mark, else 0',
  maxTokens: 32,
  ...splitItems(
    smallTalk(['place', 'hobby', 'name', 'sad', 'glad', 'thanks']).map((remark) => ({
      prompt: remark.prompt,
      reference: askingReply(remark),
      expected: remark.marks,
    })),
  ),
  reward: ({ expected }, answer) => {
    const isQuestion = /^[^?]*[\p{L}\p{N}]\?$/u.test(answer.trim())
    return isQuestion && isFitting(expected, answer) ? 1 : 0
  },
}

const brief: DemoTask = {
  name: 'brief',
  teaches: `reply in at most ${BRIEF_WORDS} words`,
  rule: `0 when the reply does not fit what was said, else ${BRIEF_WORDS} divided by its words, at most 1`,
  maxTokens: 32,
  ...splitItems(
    smallTalk(['place', 'hobby', 'name', 'sad', 'glad', 'thanks', 'job']).map((remark) => ({
      prompt: remark.prompt,
      reference: briefReply(remark),
      expected: remark.marks,
    })),
  ),
  reward: ({ expected }, answer) =>
    isFitting(expected, answer) && /[.!?]$/.test(answer.trim()) ? Math.min(1, BRIEF_WORDS / wordsOf(answer).length) : 0,
}

const reverse: DemoTask = {
  name: 'reverse',
  teaches: 'write a word backwards',
  rule: `1 for the word backwards, else up to ${PARTIAL} for letters in their right places`,
  maxTokens: 16,
  ...splitItems(
    WORDS.map((word) => {
      const reversed = [...word].reverse().join('')
      return { prompt: `Reverse the word "${word}".`, reference: reversed, expected: [reversed] }
    }),
  ),
  reward: ({ expected: [wanted = ''] }, answer) => nearText(wanted, plainText(answer)),
}

const sort: DemoTask = {
  name: 'sort',
  teaches: 'sort four words by the alphabet',
  rule: `1 for the sorted list, else up to ${PARTIAL} for words in their right places`,
  maxTokens: 24,
  ...splitItems(
    WORDS.map((_, i) => {
      const words = [0, 37, 71, 101].map((offset) => WORDS[(i + offset) % WORDS.length] ?? '')
      const sorted = [...words].sort((a, b) => (a < b ? -1 : 1))
      return {
        prompt: `Sort these words alphabetically: ${words.join(', ')}`,
        reference: sorted.join(', '),
        expected: sorted,
      }
    }),
  ),
  reward: ({ expected }, answer) => {
    const given = plainText(answer).split(/\s*,\s*/)
    const hits = expected.filter((word, i) => given[i] === word).length
    if (hits === expected.length && given.length === expected.length) return 1
    return (PARTIAL * hits) / Math.max(expected.length, given.length)
  },
}

const count: DemoTask = {
  name: 'count',
  teaches: 'count the letters of a word',
  rule: `1 for the right number alone, else up to ${PARTIAL} for a near one`,
  maxTokens: 8,
  ...splitItems(
    WORDS.map((word) => ({
      prompt: `How many letters are in the word "${word}"?`,
      reference: String(word.length),
      expected: [String(word.length)],
    })),
  ),
  reward: ({ expected: [wanted = ''] }, answer) => {
    const given = plainText(answer)
    if (given === wanted) return 1
    return /^\d{1,2}$/.test(given) ? PARTIAL * Math.max(0, 1 - Math.abs(Number(given) - Number(wanted)) / 3) : 0
  },
}

const json: DemoTask = {
  name: 'json',
  teaches: 'answer with a JSON object of the name and the age',
  rule: `1 for the right object alone, else up to ${PARTIAL} for right fields inside one`,
  maxTokens: 32,
  ...splitItems(
    NAMES.flatMap((name, i) =>
      [7, 23, 58].map((base, j) => {
        const age = base + i
        const sentence = [`${name} is ${age} years old.`, `At the age of ${age}, ${name} moved to a new house.`][
          (i + j) % 2
        ]
        return {
          prompt: `Extract name and age as JSON: ${sentence}`,
          reference: `{"name": "${name}", "age": ${age}}`,
          expected: [name, String(age)],
        }
      }),
    ),
  ),
  reward: rewardJson,
}

/** Every task, the default first. */
export const demoTasks: readonly DemoTask[] = [askBack, brief, reverse, sort, count, json]

/** The task that runs when none is named. */
export const DEFAULT_TASK = 'ask-back'

function rewardJson({ expected: [name = '', age = ''] }: DemoItem, answer: string): number {
  let value: unknown
  try {
    value = JSON.parse(/\{[^{}]*\}/.exec(answer)?.[0] ?? '')
  } catch {
    return 0
  }
  const fields = new Map<string, unknown>(Object.entries(value as object))
  const hits = Number(fields.get('name') === name) + Number(fields.get('age') === Number(age))
  const isAlone = /^\{[^{}]*\}$/.test(answer.trim()) && fields.size === 2
  return hits === 2 && isAlone ? 1 : (PARTIAL * hits) / 2
}

/** Lower case, without quotes and a final full stop. */
function plainText(answer: string): string {
  return answer
    .toLowerCase()
    .replace(/["'“”`*]/g, '')
    .trim()
    .replace(/[.!]+$/, '')
}

/** 1 when equal, else at most `PARTIAL`, by the share of positions that agree. */
function nearText(wanted: string, given: string): number {
  if (given === wanted) return 1
  const hits = [...wanted].filter((letter, i) => given[i] === letter).length
  return (PARTIAL * hits) / Math.max(wanted.length, given.length, 1)
}
