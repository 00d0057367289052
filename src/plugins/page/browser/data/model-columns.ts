/**
 * Columns and groups of the list of models: numbers that were measured, options that differ, words of notes. Pure.
 */
import type { ListedModel } from '#contract/wire/models.js'
import { formatNumber } from './format.js'

/** Options that are columns by themselves, at most: more is what comparing is for. */
export const MOST_OPTIONS = 8

/** Names of numbers that some model has. */
export function metricsOf(models: readonly ListedModel[]): readonly string[] {
  return [...new Set(models.flatMap(({ summary }) => Object.keys(summary?.metrics ?? {})))].sort()
}

/** Names of options whose values are not the same in all models that have a job. */
export function differingOptions(models: readonly ListedModel[]): readonly string[] {
  const options = models.flatMap(({ summary }) => (summary?.options == null ? [] : [summary.options]))
  const names = [...new Set(options.flatMap((each) => Object.keys(each)))].sort()
  return names.filter((name) => new Set(options.map((each) => JSON.stringify(each[name] ?? null))).size > 1)
}

export function optionText({ summary }: ListedModel, name: string): string {
  const value = summary?.options?.[name]
  if (value === undefined || value === null) return '–'
  if (typeof value === 'number') return formatNumber(value)
  return typeof value === 'string' ? value : JSON.stringify(value)
}

export interface ModelGroup {
  /** Null: all in one. */
  readonly name: string | null
  readonly models: readonly ListedModel[]
}

/** @param by `base`, `tag`, or the name of an option; null: no groups. A model of several tags is in each. */
export function groupModels(models: readonly ListedModel[], by: string | null): readonly ModelGroup[] {
  if (by === null) return [{ name: null, models }]
  const groups = new Map<string, ListedModel[]>()
  for (const model of models) {
    for (const name of namesOf(model, by)) {
      const known = groups.get(name)
      if (known === undefined) groups.set(name, [model])
      else known.push(model)
    }
  }
  return [...groups]
    .sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }))
    .map(([name, each]) => ({ name, models: each }))
}

function namesOf(model: ListedModel, by: string): readonly string[] {
  if (by === 'base') return [model.base_model]
  const tags = model.summary?.tags ?? []
  if (by === 'tag') return tags.length === 0 ? ['without a tag'] : tags
  return [`${by} ${optionText(model, by)}`]
}
