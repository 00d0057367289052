/**
 * Per-token columns of rollouts as they are sent: the text of each token, or its bytes in hex where they are no text,
 * and null where a value is not a finite number.
 */
import { isUtf8 } from 'node:buffer'
import type { RolloutColumn, RolloutsHead } from '#contract/processes/rollouts.js'
import type { RolloutTokens } from '#contract/wire/training/rollouts.js'
import type { NotedTokens, Piece } from './rollouts-file.js'

type Columns = Omit<
  RolloutTokens,
  | 'object'
  | 'group'
  | 'trajectory'
  | 'sequence'
  | 'length'
  | 'from'
  | 'to'
  | 'gradient_step'
  | 'advantage'
  | 'weight'
  | 'clip'
>

export function toTokenColumns(
  { ids, isTrained, columns }: NotedTokens,
  pieces: ReadonlyMap<number, Piece>,
  { low, high }: RolloutsHead['clip'],
): Columns {
  const texts: (string | null)[] = []
  const bytes: (string | null)[] = []
  for (const id of ids) {
    const piece = pieces.get(id)?.bytes ?? new Uint8Array(0)
    const text = textOf(piece)
    texts.push(text)
    bytes.push(text === null ? Buffer.from(piece).toString('hex') : null)
  }
  const read = (name: RolloutColumn): (number | null)[] => {
    const values = columns.get(name)
    return Array.from(ids, (_, t) => finiteOrNull(values?.[t]))
  }
  const ratio = read('ratio')
  return {
    ids: [...ids],
    texts,
    bytes,
    is_control: Array.from(ids, (id) => pieces.get(id)?.isControl === true),
    is_trained: Array.from(isTrained, (bit) => bit === 1),
    sampler_logprob: read('sampler_logprob'),
    old_logprob: read('old_logprob'),
    learner_logprob: read('learner_logprob'),
    ratio,
    is_clipped: ratio.map((value) => value !== null && (value < (low ?? -Infinity) || value > (high ?? Infinity))),
    entropy: read('entropy'),
    reference_logprob: read('reference_logprob'),
    temperature: read('temperature'),
    kept: read('kept'),
  }
}

function textOf(bytes: Uint8Array): string | null {
  return isUtf8(bytes) ? Buffer.from(bytes).toString('utf8') : null
}

function finiteOrNull(value: number | undefined): number | null {
  return value === undefined || !Number.isFinite(value) ? null : value
}
