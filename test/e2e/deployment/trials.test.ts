/**
 * The deployment trials of `test/deployment` that take seconds, from the packed tarball; `node test/deployment/trials.js` runs all. Those behind
 * proxies and in 512 MB have tests of their own beside this one. Skipped one by one where a right or a tool is missing.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { attempt, installPackage } from '../../deployment/kit.js'
import { TRIALS } from '../../deployment/list.js'

interface Trial {
  readonly name: string
  readonly isLong?: boolean
  run(kit: object): Promise<void>
}

let installed: { readonly root: string; remove(): void }
beforeAll(async () => {
  installed = await installPackage()
})
afterAll(() => installed.remove())

const trials = TRIALS as readonly Trial[]

test('there are twenty trials', () => {
  expect(new Set(trials.map(({ name }) => name)).size).toBe(20)
})

describe('deployment', () => {
  test.for(trials.filter(({ isLong }) => isLong !== true))('$name', async (trial, { skip }) => {
    const { state, why } = await attempt(trial, installed.root, { isShort: true })
    if (state === 'skipped') skip(why)
    expect(state, why).toBe('passed')
  })
})
