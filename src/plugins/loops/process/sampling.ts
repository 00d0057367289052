/**
 * Answers of one checkpoint to rows, by seeds: asked again they are the same.
 */
import { withRecordedSets } from '#base/sampling-record.js'
import type { ChatRequestBody } from '#contract/wire/chat-completions.js'
import type { Model } from '#contract/wire/models.js'
import type { Client } from '#sdk/client/client.js'
import { inferenceName } from '#sdk/client/inference-name.js'
import { DEFAULT_CONCURRENCY, gather, group } from '#sdk/rl/gather.js'
import { Trajectory, type TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { LoopSpec } from '../loop-service.js'
import type { LoopRow } from './rows.js'

/** A busy server answers later: what one step lacks another process would have. */
const RETRIES = 6

export interface Asked {
  readonly row: LoopRow
  readonly seed: number
}

/** A group a row, `answers` trajectories each; a row that cannot be answered leaves an exception. */
export async function sample(
  {
    client,
    model,
    step,
    spec,
  }: {
    readonly client: Client
    readonly model: Model
    /** The checkpoint. */
    readonly step: number
    readonly spec: Pick<LoopSpec, 'sampling' | 'responseFormat'>
  },
  asked: readonly Asked[],
  answers: number,
): Promise<readonly TrajectoryGroup[]> {
  const name = inferenceName(model, step)
  const plans = asked.map(({ row, seed }) =>
    group(1, async () => {
      const format = row.responseFormat ?? spec.responseFormat
      const response = await client.chat.create({
        model: name,
        messages: [...row.messages],
        ...(row.tools === null ? {} : { tools: [...row.tools] }),
        temperature: 1,
        ...(format === null ? {} : { response_format: format as ChatRequestBody['response_format'] }),
        ...withRecordedSets(spec.sampling as Partial<ChatRequestBody>),
        n: answers,
        seed,
        logprobs: true,
        return_token_ids: true,
      })
      return response.choices.map((choice) => {
        const trajectory = new Trajectory(row.messages, row.tools === null ? {} : { tools: row.tools })
        trajectory.record({ ...response, choices: [choice] })
        return trajectory
      })
    }),
  )
  const concurrency = Math.max(1, Math.floor(DEFAULT_CONCURRENCY / answers))
  return await gather(plans, { concurrency, retries: RETRIES })
}
