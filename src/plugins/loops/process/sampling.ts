/**
 * Answers of one checkpoint to rows, by seeds: asked again they are the same.
 */
import { withRecordedSets } from '#base/sampling-record.js'
import type { ChatRequestBody } from '#contract/wire/chat-completions.js'
import type { Model } from '#contract/wire/models.js'
import { DEFAULT_CONCURRENCY, gather, group } from '#plugins/rl-library/gather.js'
import type { Client } from '#sdk/client/client.js'
import { inferenceName } from '#sdk/client/inference-name.js'
import { Trajectory, type TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { LoopSpec } from '../loop-service.js'
import { type AskTool, createDrops, DroppedError, playEpisode } from './episodes.js'
import { type LoopRow, seedOf } from './rows.js'

/** A busy server answers later: what one step lacks another process would have. */
const RETRIES = 6

interface Sampling {
  readonly client: Client
  readonly model: Model
  /** The checkpoint. */
  readonly step: number
  readonly spec: Pick<LoopSpec, 'sampling' | 'responseFormat' | 'tools' | 'maxEpisodeSteps'>
  readonly callTool: AskTool
}

export interface Asked {
  readonly row: LoopRow
  readonly seed: number
}

/**
 * A group a row, `answers` trajectories each; a row that cannot be answered leaves an exception, and so does an episode
 * whose tools gave no answer.
 */
export async function sample(
  { client, model, step, spec, callTool }: Sampling,
  asked: readonly Asked[],
  answers: number,
): Promise<readonly TrajectoryGroup[]> {
  const name = inferenceName(model, step)
  const bodyOf = (row: LoopRow) => {
    const format = row.responseFormat ?? spec.responseFormat
    return {
      model: name,
      temperature: 1,
      ...(format === null ? {} : { response_format: format as ChatRequestBody['response_format'] }),
      ...withRecordedSets(spec.sampling as Partial<ChatRequestBody>),
      logprobs: true,
      return_token_ids: true,
    }
  }
  const { tools = [], maxEpisodeSteps: mostSteps = 1 } = spec
  const drops = createDrops(asked.length)
  const plans = asked.map(({ row, seed }, g) =>
    tools.length === 0
      ? group(1, async () => {
          const response = await client.chat.create({
            ...bodyOf(row),
            messages: [...row.messages],
            ...(row.tools === null ? {} : { tools: [...row.tools] }),
            n: answers,
            seed,
          })
          return response.choices.map((choice) => {
            const trajectory = new Trajectory(row.messages, row.tools === null ? {} : { tools: row.tools })
            trajectory.record({ ...response, choices: [choice] })
            return trajectory
          })
        })
      : group(answers, async (index) => {
          try {
            const chat = (more: object) => client.chat.create({ ...bodyOf(row), ...more } as ChatRequestBody)
            const own = seedOf(seed, 'answer', index)
            return await playEpisode({ row, tools, seed: own, mostSteps, chat, ask: callTool })
          } catch (error) {
            if (!(error instanceof DroppedError)) throw error
            drops.note(g, error)
            return []
          }
        }),
  )
  const each = tools.length === 0 ? answers : 1
  const concurrency = Math.max(1, Math.floor(DEFAULT_CONCURRENCY / each))
  return drops.addTo(await gather(plans, { concurrency, retries: RETRIES }))
}
