/**
 * How a training session begins: a session of a client on the server, and a run of training in it.
 */
import { AppError } from '#base/errors/errors.js'
import { type Clock, systemClock } from '#base/util/clock.js'
import type { Client } from '#sdk/client/client.js'
import { TrainingSession } from './session.js'
import type { SessionModel, SessionOptions } from './session-options.js'

const DEFAULT_RANK = 8

/** Options that make a new adapter. */
const ADAPTER_OPTIONS = ['rank', 'seed', 'trainMlp', 'trainAttention'] as const

/**
 * Opens a session of a model.
 *
 * @throws {AppError} `option_without_effect` for one that makes a new adapter where there is one; {ApiError} what the server refuses
 */
export async function openSession(
  client: Client,
  model: SessionModel,
  options: SessionOptions = {},
  clock: Clock = systemClock,
): Promise<TrainingSession> {
  const { signal, from = model.step } = options
  const isNew = from === 'base' || from === 0
  const idle = isNew ? undefined : ADAPTER_OPTIONS.find((name) => options[name] !== undefined)
  if (idle !== undefined) {
    const title = typeof from === 'number' ? `step ${from} of model "${model.name}"` : from
    throw new AppError('invalid_request', 'option_without_effect', `${idle} has no effect on the adapter of ${title}`, {
      hint: `leave ${idle} out, or begin anew on the base model: from: 'base'`,
    })
  }
  const call = { signal }
  const opened = await client.loops.open({ tags: [], display_name: model.name.slice(0, 200) }, call)
  const id = { session_id: opened.session_id, model_seq_id: 0, trainyard_model_id: model.id }
  const base = { ...id, base_model: model.baseModel }
  let run: Awaited<ReturnType<typeof client.loops.createRun>>
  if (isNew) run = await client.loops.createRun({ ...base, lora_config: loraOf(options) }, call)
  else if (typeof from === 'number') run = await client.loops.createRun({ ...base, trainyard_step: from }, call)
  else run = await client.loops.loadWeights({ ...base, path: from, optimizer: from.includes('/weights/') }, call)
  await client.loops.result(run.request_id, call)
  const { session_id: clientSessionId } = opened
  return new TrainingSession({ client, model, clock, signal, clientSessionId, id: run.model_id ?? '' })
}

function loraOf({ rank = DEFAULT_RANK, seed, trainMlp = true, trainAttention = true }: SessionOptions) {
  const lora = { rank, train_mlp: trainMlp, train_attn: trainAttention, train_unembed: false }
  return seed === undefined ? lora : { ...lora, seed }
}
