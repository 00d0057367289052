/** The names of options stand in two places, as plain data and as schemas: they are the same. */
import { expect, test } from 'vitest'
import { DPO_OPTIONS, RL_OPTIONS, SFT_OPTIONS } from '../../../../src/contract/jobs/training.js'
import { dpoOptionsSchema, rlOptionsSchema, sftOptionsSchema } from '../../../../src/contract/wire/training-options.js'

test.each([
  ['rl', RL_OPTIONS, rlOptionsSchema],
  ['sft', SFT_OPTIONS, sftOptionsSchema],
  ['dpo', DPO_OPTIONS, dpoOptionsSchema],
])('of %s', (_, names, schema) => {
  expect(names).toEqual(Object.keys(schema.shape))
})
