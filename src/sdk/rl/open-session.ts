/**
 * How a training session begins: a session of a client on the server, and a run of training in it.
 */
import { type Clock, systemClock } from '#base/util/clock.js'
import type { Client } from '#sdk/client/client.js'
import { TrainingSession } from './session.js'
import type { SessionModel, SessionOptions } from './session-options.js'

const DEFAULT_RANK = 8

/** Opens a session of a model. @throws {ApiError} what the server refuses */
export async function openSession(
  client: Client,
  model: SessionModel,
  options: SessionOptions = {},
  clock: Clock = systemClock,
): Promise<TrainingSession> {
  const { signal, from = 'base' } = options
  const call = { signal }
  const opened = await client.tinker.open({ tags: [], display_name: model.name.slice(0, 200) }, call)
  const common = { session_id: opened.session_id, model_seq_id: 0, trainyard_model_id: model.id }
  const run =
    from === 'base'
      ? await client.tinker.createRun(
          {
            ...common,
            base_model: model.baseModel,
            lora_config: {
              rank: options.rank ?? DEFAULT_RANK,
              ...(options.seed === undefined ? {} : { seed: options.seed }),
              train_mlp: options.trainMlp ?? true,
              train_attn: options.trainAttention ?? true,
              train_unembed: false,
            },
          },
          call,
        )
      : await client.tinker.loadWeights({ ...common, path: from, optimizer: from.includes('/weights/') }, call)
  await client.tinker.result(run.request_id, call)
  return new TrainingSession({
    client,
    model,
    clock,
    signal,
    clientSessionId: opened.session_id,
    id: run.model_id ?? '',
  })
}
