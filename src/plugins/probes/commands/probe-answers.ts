/**
 * What commands say of answers to watched prompts, and how a prompt is named: by its number in the list, or its id.
 */

import { NotFoundError } from '#base/errors/errors.js'
import { command } from '#contract/wire/command-words.js'
import { MAX_PROBES } from '#contract/wire/inference/probe-words.js'
import type { Probe, ProbeAnswer } from '#contract/wire/inference/probes.js'
import type { Client } from '#sdk/client/client.js'

/** An answer as one line. */
export function answerLine(
  answer: Pick<ProbeAnswer, 'status' | 'text' | 'error' | 'finish_reason'> | undefined,
): string {
  if (answer === undefined) return '–'
  if (answer.status === 'queued') return '(waits)'
  if (answer.status === 'failed') return `(failed: ${answer.error ?? ''})`
  const text = (answer.text ?? '').replaceAll(/\s*\n\s*/g, ' ⏎ ')
  return text === '' ? '(nothing)' : answer.finish_reason === 'length' ? `${text} …` : text
}

/** @param named number in the list, from 1, or id or its beginning @throws {NotFoundError} `probe_not_found` */
export async function findProbe(
  client: Client,
  model: { readonly id: string; readonly name: string },
  named: string,
  signal: AbortSignal,
): Promise<Probe> {
  const { data } = await client.probes.list(model.id, { limit: MAX_PROBES }, { signal })
  const place = /^\d{1,2}$/.test(named) ? data[Number(named) - 1] : undefined
  const byId = named.length < 4 ? [] : data.filter(({ id }) => id.startsWith(named.toLowerCase()))
  const found = place ?? (byId.length === 1 ? byId[0] : undefined)
  if (found !== undefined) return found
  throw new NotFoundError('probe_not_found', `no watched prompt "${named}" of ${model.name}`, {
    hint: command`trainyard probes list ${model.name}`,
  })
}

export const PROBE_ARGUMENT = 'number in the list, or id'
