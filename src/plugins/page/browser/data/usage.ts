/**
 * Rows of usage, added up by one of their names. Pure.
 */
import type { UsageRow } from '#contract/wire/access/usage.js'

export const USAGE_GROUPS = ['day', 'model', 'project'] as const
export type UsageGroup = (typeof USAGE_GROUPS)[number]

export interface UsageSum extends Omit<UsageRow, 'day' | 'model' | 'project'> {
  readonly name: string
}

/** Sums by name: days from the newest, names by what was computed for them. */
export function addUpUsage(rows: readonly UsageRow[], group: UsageGroup): readonly UsageSum[] {
  const sums = new Map<string, UsageSum>()
  for (const row of rows) {
    const before = sums.get(row[group])
    sums.set(row[group], {
      name: row[group],
      requests: row.requests + (before?.requests ?? 0),
      prompt_tokens: row.prompt_tokens + (before?.prompt_tokens ?? 0),
      cached_tokens: row.cached_tokens + (before?.cached_tokens ?? 0),
      completion_tokens: row.completion_tokens + (before?.completion_tokens ?? 0),
      training_seconds: row.training_seconds + (before?.training_seconds ?? 0),
    })
  }
  const tokensOf = (sum: UsageSum): number => sum.prompt_tokens + sum.completion_tokens
  return [...sums.values()].sort((a, b) =>
    group === 'day'
      ? b.name.localeCompare(a.name)
      : tokensOf(b) - tokensOf(a) || b.training_seconds - a.training_seconds || a.name.localeCompare(b.name),
  )
}

/** The first of so many days of UTC that end today, `YYYY-MM-DD`. */
export function firstDay(days: number, atMs: number): string {
  return new Date(atMs - (days - 1) * 86_400_000).toISOString().slice(0, 10)
}
