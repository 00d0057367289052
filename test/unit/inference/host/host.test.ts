/**
 * What a host says of a model that it could not load.
 */
import { expect, it } from 'vitest'
import { WeightsError } from '#base/errors/errors.js'
import { toLoadError } from '#inference/host/host.js'

it.each(['ENOSPC', 'EDQUOT'])('no room for the prepared weights, %s: a full disk and what to do', (code) => {
  const error = Object.assign(new Error(`${code}: write`), { code, syscall: 'write' })
  expect(toLoadError(error)).toMatchObject({
    category: 'unavailable',
    code: 'disk_full',
    message: 'its prepared weights cannot be written: the disk is full',
    hint: expect.stringContaining('free some space on the disk of the data directory'),
  })
})

it('passes on what is meant to be read, and says of the rest what is known', () => {
  const unreadable = new WeightsError('no_weights', 'there are none', { hint: 'give another folder' })
  expect(toLoadError(unreadable)).toMatchObject({ code: 'no_weights', hint: 'give another folder' })
  expect(toLoadError(new Error('lost'))).toMatchObject({
    code: 'internal_error',
    message: 'model could not be loaded: lost',
  })
})
