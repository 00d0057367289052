/**
 * What losses of a job on examples say of whole answers: when it was cut, when examples are used up, and when nothing is said.
 */
import { describe, expect, test } from 'vitest'
import { diagnoseJob, NO_NUMBERS } from '../../../../../src/contract/jobs/diagnosis/diagnose.js'

const said = (fit: Record<string, number>) => diagnoseJob({ ...NO_NUMBERS, facts: { fit } })

describe('a job that was cut', () => {
  test('says what its loss means for whole answers', () => {
    const [only, ...others] = said({ answer_tokens: 11, trained: 0.2, held_out: 0.165, held_out_before: 0.21 })
    expect(others).toEqual([])
    expect(only).toEqual({
      name: 'cut_while_learning',
      says: 'the held-out loss still fell when the passes were over (from 0.21 to 0.17): whole answers of 11 tokens come out as shown in about 16 of 100',
      next: 'the same train sft again goes on from here',
    })
  })
  test('reads the rows it trained on where none are held out', () => {
    const [only] = said({ answer_tokens: 8, trained: 0.5, trained_before: 0.9 })
    expect(only?.says).toContain('the loss still fell when the passes were over (from 0.9 to 0.5)')
    expect(only?.says).toContain('about 2 of 100')
  })
})

describe('examples that are used up', () => {
  test('ask for more different ones where those are known by heart', () => {
    const [only] = said({ answer_tokens: 4, trained: 0.01, held_out: 0.6, held_out_before: 0.6 })
    expect(only?.name).toBe('examples_used_up')
    expect(only?.says).toContain('while those it trained on are at 0.01')
    expect(only?.next).toContain('more different examples')
  })
  test('ask for prompts that hold the answer where the trained ones are no better', () => {
    const [only] = said({ answer_tokens: 4, trained: 0.58, held_out: 0.6, held_out_before: 0.6 })
    expect(only?.next).toContain('what its answer follows from')
  })
})

test.each([
  ['a loss that fell to nearly nothing', { answer_tokens: 5, held_out: 0.001, held_out_before: 0.01, trained: 0.001 }],
  ['a loss that stands at nearly nothing', { answer_tokens: 5, held_out: 0.01, held_out_before: 0.01, trained: 0.01 }],
  [
    'texts, of which none comes out as written',
    { answer_tokens: 200, held_out: 1.2, held_out_before: 1.4, trained: 1 },
  ],
  ['a job without steps', { answer_tokens: 5 }],
])('nothing is said of %s', (_, fit) => {
  expect(said(fit)).toEqual([])
})
