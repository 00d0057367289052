/**
 * The demo's tasks: two manners of replying, and a skill. A table; each entry explains itself.
 *
 * A manner is a choice among answers that the base model gives anyway, so it is learned in a few steps; a skill takes longer.
 * Rewards are graded where a near answer is worth something, so that a model which is rarely right still gets a slope.
 */
import { askingReply, briefReply, isFitting, smallTalk } from './small-talk.js'
import { type DemoTask, splitItems, wordsOf } from './task.js'
import { WORDS } from './word-lists.js'

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
    isFitting(expected, answer) ? Math.min(1, BRIEF_WORDS / wordsOf(answer).length) : 0,
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

/** Every task, the default first. */
export const demoTasks: readonly DemoTask[] = [askBack, brief, count]

/** The task that runs when none is named. */
export const DEFAULT_TASK = 'ask-back'

/** Lower case, without quotes and a final full stop. */
function plainText(answer: string): string {
  return answer
    .toLowerCase()
    .replace(/["'“”`*]/g, '')
    .trim()
    .replace(/[.!]+$/, '')
}
