/**
 * Rows of other commands where trajectory groups are expected: prompts, conversations, preferences, forms of other trainers. A list of what
 * a group lacks would not explain them. Both sides of HTTP say it in the same sentence.
 */
import type { JsonObject } from '#base/util/json.js'
import type { RowProblem } from '../row-forms.js'
import { nameOf } from './convert-rows.js'
import { has } from './row-parts.js'

/** What a row is that is no trajectory group; null for a group, and for what nobody knows. */
export function findForeignGroup(row: JsonObject): RowProblem | null {
  if (has(row, 'trajectories')) return null
  if (has(row, 'chosen') && has(row, 'rejected')) {
    return {
      problem: 'is a preference, expected trajectory groups',
      hint: 'preferences train with trainyard train dpo',
    }
  }
  const form = nameOf(row, 'prompt')
  if (form === null && !has(row, 'prompt') && !has(row, 'messages')) return null
  return {
    problem: `is ${form ?? 'a prompt'}, expected trajectory groups: answers to it with their rewards`,
    hint: 'trainyard rollout <model> --prompts <file> --reward <reward> --out groups.jsonl makes groups of what it asks; answers to learn as they are train with trainyard train sft',
  }
}
