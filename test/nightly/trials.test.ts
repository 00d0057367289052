/**
 * Every deployment trial whole: the package installed from the registry as users do it, and those trials that take a minute too. Each day's
 * short ones are in `test/e2e/deployment`. Skipped one by one where a right or a tool is missing.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { attempt, installPackage } from '../deployment/kit.js'
import { TRIALS } from '../deployment/list.js'

/** SQLite is compiled where its binary cannot be fetched: a minute or two, on a busy machine far more. */
const INSTALL_MS = 90 * 60_000

interface Trial {
  readonly name: string
  run(kit: object): Promise<void>
}

let installed: { readonly root: string; remove(): void } | undefined
beforeAll(async () => {
  installed = await installPackage({ isWhole: true })
}, INSTALL_MS)
afterAll(() => installed?.remove())

test.for(TRIALS as readonly Trial[])('$name', { timeout: 20 * 60_000 }, async (trial, { skip }) => {
  const { state, why } = await attempt(trial, installed?.root ?? '')
  if (state === 'skipped') skip(why)
  expect(state, why).toBe('passed')
})
