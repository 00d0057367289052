/**
 * The demo's tasks: two manners of replying. A table; each entry explains itself.
 *
 * A manner is a choice among answers that the base model gives anyway, so it is learned in a few steps. A skill is not: to count
 * the letters of a word rose from 0.736 to 0.757 in 21 jobs.
 */
import { askingReply, briefReply, isFitting, smallTalk } from './small-talk.js'
import { type DemoTask, splitItems, wordsOf } from './task.js'

/** Most words a reply of the task `brief` may have. */
const BRIEF_WORDS = 4

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

/** Every task, the default first. */
export const demoTasks: readonly DemoTask[] = [askBack, brief]

/** The task that runs when none is named. */
export const DEFAULT_TASK = 'ask-back'
