/**
 * What a step says to the prompts that are watched, with what the base model did not say marked; nothing where none is.
 */
import type { JSX } from 'preact'
import { MAX_PROBES } from '#contract/wire/inference/probe-words.js'
import type { Probe } from '#contract/wire/inference/probes.js'
import type { List } from '#contract/wire/list.js'
import { ask } from '../../data/client.js'
import { useLoad } from '../../data/load.js'
import { Difference } from '../difference.js'
import { Asked } from '../pairs.js'

export function SaidAtStep({ modelId, step }: { readonly modelId: string; readonly step: number }): JSX.Element | null {
  const steps = step === 0 ? '0' : `0,${step}`
  const path = `/v1/preview/models/${encodeURIComponent(modelId)}/probes?steps=${steps}&limit=${MAX_PROBES}`
  const probes = useLoad(path, (signal) => ask<List<Probe>>(path, { signal }), { topics: ['probe'], modelId })
  if (probes.data === null || probes.data.data.length === 0) return null
  return (
    <div class="stack" aria-busy={probes.isOld}>
      <h3>Watched</h3>
      <ul class="plain said-here">
        {probes.data.data.map(({ id, messages, answers }) => {
          const said = answers.find((answer) => answer.step === step && answer.status === 'answered')?.text ?? null
          const base = answers.find((answer) => answer.step === 0 && answer.status === 'answered')?.text ?? null
          return (
            <li key={id} class="stack">
              <Asked messages={messages.slice(-1)} />
              {said === null ? (
                <p class="soft">{probes.isOld ? '…' : 'This step did not answer it.'}</p>
              ) : step === 0 || base === null ? (
                <p class="raw">{said}</p>
              ) : (
                <Difference text={said} from={base} />
              )}
            </li>
          )
        })}
      </ul>
    </div>
  )
}
