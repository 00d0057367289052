/**
 * A temporary directory per test, deleted after it; again when a child that ends still wrote into it.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Creates the directory; call it inside a test. */
export async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))
  return directory
}
