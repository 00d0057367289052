import { expect, it } from 'vitest'
import { fromErrorMessage, toErrorMessage } from '#base/errors/error-message.js'
import { AppError, CheckpointError } from '#base/errors/errors.js'

const sent = (error: unknown, unexpected = {}): AppError =>
  fromErrorMessage(structuredClone(toErrorMessage(error, unexpected)))

it('keeps what is meant to be read: category, code, words, param, hint and facts', () => {
  const options = { param: 'a.b', hint: 'do this', details: { reason: 'checkpoint_corrupt' } }
  const error = new CheckpointError('checkpoint_corrupt', 'the checkpoint is damaged', options)
  expect(sent(error, { code: 'plan_failed' })).toMatchObject({
    category: 'internal',
    code: 'checkpoint_corrupt',
    message: 'the checkpoint is damaged',
    ...options,
  })
  const plain = sent(new AppError('not_found', 'x', 'y'))
  expect([plain.param, plain.hint, plain.details, plain.cause]).toEqual([undefined, undefined, undefined, undefined])
})

it('makes an internal error of anything else, under the code and the words of who sends it', () => {
  expect(sent(new Error('lost'), { code: 'export_failed' })).toMatchObject({
    category: 'internal',
    code: 'export_failed',
    message: 'lost',
  })
  expect(sent('a text', { message: 'it failed' })).toMatchObject({ code: 'internal_error', message: 'it failed' })
})

it("keeps the system's code of what is behind an error, for who knows what it means", () => {
  const full = Object.assign(new Error('ENOSPC: write'), { code: 'ENOSPC' })
  expect(sent(full).cause).toMatchObject({ message: 'Error: ENOSPC: write', code: 'ENOSPC' })
  expect(sent(new Error('outer', { cause: full })).cause).toMatchObject({ code: 'ENOSPC' })
  expect(sent(new AppError('internal', 'x', 'y', { cause: full })).cause).toMatchObject({ code: 'ENOSPC' })
})
