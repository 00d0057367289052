/**
 * Which files a next command means: those beside the prompts that were measured, by the names people give them; a name in angle
 * brackets where there is none, so that a line that is pasted says what is missing.
 */
import { readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Of rows to train on, and of right answers, in the order of preference. */
const NAMES = { training: ['train', 'training', 'prompts'], examples: ['examples', 'train', 'training'] } as const
const FORM = /\.(?:jsonl|ndjson|json|csv|tsv|parquet)(?:\.gz)?$/i
/** Entries of a folder that are looked at. */
const MOST_ENTRIES = 10_000

export interface LikelyFiles {
  /** Prompts to train on. */
  readonly training: string
  /** Right answers. */
  readonly examples: string
}

/** @param prompts the file of held-out prompts; `-` for standard input */
export async function findLikelyFiles(prompts: string): Promise<LikelyFiles> {
  const folder = prompts === '-' ? null : dirname(prompts)
  const entries = folder === null ? [] : await readdir(folder).catch(() => [])
  const files = entries
    .slice(0, MOST_ENTRIES)
    .filter((name) => FORM.test(name))
    .sort()
  const find = (names: readonly string[]): string | null => {
    for (const name of names) {
      const found = files.find((file) => file.replace(FORM, '').toLowerCase() === name)
      if (found !== undefined) return join(folder ?? '', found)
    }
    return null
  }
  return {
    training: find(NAMES.training) ?? '<prompts to train on>',
    examples: find(NAMES.examples) ?? '<right answers>',
  }
}
