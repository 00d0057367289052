/**
 * What was found about the last jobs of a model, in the server's words, each with the buttons that do what it says.
 */

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { go, hrefOf } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { deedsOf, type FoundDeed, newestFindings } from '../data/findings.js'
import { plural } from '../data/format.js'
import { missingScope } from '../data/session.js'
import { Failure } from './block.js'
import { Prose } from './prose.js'

/** Shown at once. */
const FIRST = 3

export function Findings(props: { readonly jobs: readonly TrainingJob[]; readonly model: Model }): JSX.Element | null {
  const { model } = props
  const found = newestFindings(props.jobs)
  const [isWhole, setIsWhole] = useState(false)
  const [problem, setProblem] = useState<ApiError | null>(null)
  const missing = missingScope('write')
  if (found.length === 0) return null

  async function begin({ path, from = 0 }: FoundDeed): Promise<void> {
    setProblem(null)
    try {
      const [own, name] = [`${model.project}/${model.name}`, `${model.name}-from-step${from}`]
      const made = await ask<Model>('/v1/preview/models', {
        json: { project: model.project, name, from_checkpoint: `${own}:step${from}`, return_existing: true },
      })
      go(
        path.replace(
          new URLSearchParams({ m: own }).toString(),
          new URLSearchParams({ m: `${made.project}/${made.name}` }).toString(),
        ),
      )
    } catch (raw) {
      setProblem(toApiError(raw))
    }
  }
  return (
    <section class="warnings open findings" aria-labelledby="findings">
      <h2 id="findings">What was found</h2>
      <ul class="plain stack">
        {found.slice(0, isWhole ? found.length : FIRST).map((each) => (
          <li key={each.kind} class="stack">
            <p>
              <a href={hrefOf(`/jobs/${each.job.id}`)}>
                {each.job.step === null ? `job, ${each.job.status}` : `step ${each.job.step}`}
              </a>
              : <Prose text={each.sentence} />
              {each.jobs > 1 && <span class="soft"> (said of {plural(each.jobs, 'job')})</span>}
            </p>
            <p class="row">
              {deedsOf(each, model).map((deed) =>
                deed.from === undefined ? (
                  <a key={deed.title} class="button" href={hrefOf(deed.path)}>
                    {deed.title}
                  </a>
                ) : (
                  <button
                    key={deed.title}
                    type="button"
                    disabled={missing !== null}
                    title={missing ?? undefined}
                    onClick={() => void begin(deed)}
                  >
                    {deed.title}
                  </button>
                ),
              )}
            </p>
          </li>
        ))}
      </ul>
      {problem !== null && <Failure error={problem} />}
      {found.length > FIRST && !isWhole && (
        <p>
          <button type="button" class="link" onClick={() => setIsWhole(true)}>
            {plural(found.length - FIRST, 'other')}
          </button>
        </p>
      )}
    </section>
  )
}
