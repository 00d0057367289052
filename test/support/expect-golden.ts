/**
 * Text compared with a file under `test/goldens/`; `UPDATE_GOLDEN=1` rewrites the file, and the diff is then reviewed.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect } from 'vitest'

/** Asserts that `text` is the golden `name` (path below `test/goldens/`). */
export function expectGolden(name: string, text: string): void {
  const path = join(import.meta.dirname, '..', 'goldens', name)
  if (process.env['UPDATE_GOLDEN'] === '1') {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  expect(text).toBe(readFileSync(path, 'utf8'))
}
