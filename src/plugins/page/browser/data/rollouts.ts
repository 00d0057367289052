/**
 * What jobs trained on, by the addresses that show it.
 */
import type { ListRolloutGroupsQuery } from '#contract/wire/training/rollouts.js'

/** The API's path of a job, and of what it trained on. */
export function jobApi(id: string, below = ''): string {
  return `/v1/preview/training-jobs/${encodeURIComponent(id)}${below}`
}

/** The page's path of the same. */
export function groupsPath(id: string, below = ''): string {
  return `/jobs/${encodeURIComponent(id)}/groups${below}`
}

/** What of an address chooses groups: its own names are the API's. */
const CHOICES = [
  'sort',
  'min_reward',
  'max_reward',
  'trained',
] as const satisfies readonly (keyof ListRolloutGroupsQuery)[]

/** The API's query of what an address chooses; without a question mark. */
export function choiceOf(query: URLSearchParams): string {
  const chosen = new URLSearchParams()
  for (const name of CHOICES) {
    const value = query.get(name)
    if (value !== null && value !== '') chosen.set(name, value)
  }
  return chosen.toString()
}
