/**
 * Episodes in which the environment asks the model itself: an address of the server below which it is recorded by token ids,
 * and what was recorded there as a trajectory. Knows the server by its API only.
 */
import { withRecordedSets } from '#base/sampling-record.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import { anything, type Check, maybe, objectOf, text } from '#sdk/client/shape.js'
import { type Choice, type History, type Message, type Tool, Trajectory } from '#sdk/rl/trajectory.js'
import { EnvironmentFailure } from './failures.js'
import type { AskedModel } from './source.js'

const ROLLOUTS = '/v1/preview/rollouts'
/** Of what is recorded, as its trajectory names it. */
const NUMBERS = 'recording/'

export interface RecordedAddress {
  readonly id: string
  /** For clients of OpenAI. */
  readonly baseUrl: string
  readonly apiKey: string
}

interface RecordedPlace {
  readonly run: string
  readonly task: string
  readonly group: string
  /** Whether each `X-Session-ID` is an episode of its own. */
  readonly sessions?: boolean
  readonly maxTurns: number
  readonly expiresInSeconds: number
  readonly signal: AbortSignal
}

interface Opened {
  readonly id: string
  readonly base_url: string
  readonly api_key: string
}
const opened: Check<Opened> = objectOf<Opened>({ id: text, base_url: text, api_key: text })
const ended = objectOf<{ id: string; error: unknown }>({ id: text, error: maybe(anything) })
const read = objectOf<{ trajectory: unknown }>({ trajectory: anything })

/** Opens an address at which the model answers, sampled as it is asked to be. */
export async function openRecorded(model: AskedModel, place: RecordedPlace): Promise<RecordedAddress> {
  const { run, task, group, sessions = false, maxTurns, expiresInSeconds, signal } = place
  const { temperature = 1, body = {} } = model.sampling
  const { top_p, top_k, min_p } = withRecordedSets(body)
  const given = Object.entries({ temperature, top_p, top_k, min_p }).filter(([, value]) => value != null)
  const json = {
    ...{ model: model.name, run: run.slice(0, 256), task: task.slice(0, 512), group: group.slice(0, 256), sessions },
    ...{ sampling: Object.fromEntries(given), max_turns: maxTurns, expires_in_seconds: expiresInSeconds },
  }
  const made = await model.client.http.json({ method: 'POST', path: ROLLOUTS, json, signal }, opened)
  return { id: made.id, baseUrl: made.base_url, apiKey: made.api_key }
}

/**
 * What was recorded at an address, or in one session of it; the server forgets it then, for whoever plays keeps it.
 *
 * @throws {EnvironmentFailure} `env_error` where no answer arrived
 */
export async function takeRecorded(
  { client }: Pick<AskedModel, 'client'>,
  { id }: Pick<RecordedAddress, 'id'>,
  { session, name, signal }: { readonly session?: string; readonly name: string; readonly signal: AbortSignal },
): Promise<Trajectory> {
  const json = session === undefined ? {} : { session }
  const path = `${ROLLOUTS}/${id}/finish`
  const { id: own } = await client.http.json({ method: 'POST', path, json, signal }, ended)
  const { trajectory } = await client.http.json({ method: 'GET', path: `${ROLLOUTS}/${own}`, signal }, read)
  await forgetRecorded({ client }, { id: own }, signal)
  if (isJsonObject(trajectory)) return toTrajectory(trajectory)
  throw new EnvironmentFailure('env_error', `${name} got no answer at the address that it was given`, {
    hint: 'it has to ask at OPENAI_BASE_URL or ANTHROPIC_BASE_URL',
  })
}

export async function forgetRecorded(
  { client }: Pick<AskedModel, 'client'>,
  { id }: Pick<RecordedAddress, 'id'>,
  signal?: AbortSignal,
): Promise<void> {
  await client.http.json(
    { method: 'DELETE', path: `${ROLLOUTS}/${id}`, signal },
    objectOf<{ id: string }>({ id: text }),
  )
}

function toTrajectory(recorded: JsonObject): Trajectory {
  const trajectory = new Trajectory()
  trajectory.histories.length = 0
  const others = Array.isArray(recorded['additional_histories']) ? recorded['additional_histories'] : []
  let version = recorded['initial_policy_version']
  for (const history of [recorded, ...others]) {
    if (!isJsonObject(history)) continue
    const tools = Array.isArray(history['tools']) ? (history['tools'] as readonly Tool[]) : null
    const own: History = { items: [], tools }
    trajectory.histories.push(own)
    const items = Array.isArray(history['messages_and_choices']) ? history['messages_and_choices'] : []
    for (const item of items) {
      if (!isJsonObject(item)) continue
      if (!('message' in item)) {
        own.items.push(item as Message)
        continue
      }
      // calls stand in the text that was sampled, where there are any
      const message = { tool_calls: [], ...(item['message'] as JsonObject) }
      const choice = { ...item, message } as object as Choice
      const answer = { choices: [choice], prompt_token_ids: choice.prompt_token_ids }
      // by which a trajectory knows the step that answered
      const response = { ...answer, system_fingerprint: `model:step${Number(version ?? 0)}` }
      trajectory.record(response as object as ChatResponse, own)
      version = recorded['final_policy_version']
    }
  }
  for (const [key, value] of Object.entries(
    isJsonObject(recorded['metrics'] ?? null) ? (recorded['metrics'] as JsonObject) : {},
  )) {
    if (typeof value !== 'number' || !key.startsWith(NUMBERS)) continue
    trajectory.metrics[key === `${NUMBERS}turns` ? 'turns' : key] = value
  }
  return trajectory
}
