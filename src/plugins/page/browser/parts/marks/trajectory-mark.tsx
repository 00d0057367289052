/**
 * The mark on a trajectory that a job trained on.
 */
import type { JSX } from 'preact'
import type { List } from '#contract/wire/list.js'
import type { Model } from '#contract/wire/models.js'
import type { Mark } from '#contract/wire/training/marks.js'
import type { RolloutTrajectory } from '#contract/wire/training/rollouts.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { hrefOf } from '../../data/address.js'
import { ask } from '../../data/client.js'
import { useLoad } from '../../data/load.js'
import { contentOf, type Judgement, marksApi } from '../../data/marks.js'
import { modelPath } from '../../data/match.js'
import { jobApi } from '../../data/rollouts.js'
import { Block } from '../block.js'
import { MarkForm } from './mark-form.js'

interface Found {
  readonly model: Model
  readonly mark: Mark | null
}

export function TrajectoryMark(props: {
  /** The API's path of the trajectory. */
  readonly path: string
  readonly trajectory: RolloutTrajectory
}): JSX.Element {
  const { path, trajectory } = props
  const { training_job_id: jobId, group, index } = trajectory
  const found = useLoad(`mark of ${path}`, async (signal): Promise<Found> => {
    const { model_id: modelId } = await ask<TrainingJob>(jobApi(jobId), { signal })
    const query = `?training_job_id=${encodeURIComponent(jobId)}&group=${group}&trajectory=${index}&limit=1`
    const [model, marks] = await Promise.all([
      ask<Model>(`/v1/preview/models/${encodeURIComponent(modelId)}`, { signal }),
      ask<List<Mark>>(marksApi(modelId, query), { signal }),
    ])
    return { model, mark: marks.data[0] ?? null }
  })
  const messages = trajectory.histories[0]?.messages ?? []
  const last = messages.findLast(({ message, is_sampled: isSampled }) => isSampled || message['role'] === 'assistant')
  const others = Array.from({ length: trajectory.group_size }, (_, other) => other).filter((other) => other !== index)

  async function save({ mark, edited, note, pair }: Judgement): Promise<void> {
    const json = { mark, edited, note, pair_with: pair === null ? null : Number(pair) }
    await ask<Mark>(`${path}/mark`, { method: 'PUT', json })
    found.reload()
  }

  return (
    <section class="card" aria-labelledby="mark">
      <h2 id="mark">Mark</h2>
      <Block of={found} height="5rem">
        {({ model, mark }) => (
          <MarkForm
            key={mark?.updated_at ?? ''}
            mark={mark === null ? null : { ...mark, pair: mark.pair_with === null ? null : String(mark.pair_with) }}
            answer={contentOf(last?.message)}
            others={others.map((other) => ({ value: String(other), title: `trajectory ${other}` }))}
            onSave={save}
            onDelete={async () => {
              if (mark !== null) await ask(marksApi(model.id, `/${encodeURIComponent(mark.id)}`), { method: 'DELETE' })
              found.reload()
            }}
          >
            <a class="push small" href={hrefOf(modelPath(model, '/marks'))}>
              Marks of {model.name}
            </a>
          </MarkForm>
        )}
      </Block>
    </section>
  )
}
