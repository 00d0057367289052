/**
 * Handlers of rollouts, and of what stands below their addresses.
 */
import { Readable } from 'node:stream'
import type { RequestContext } from '#service/http/environment.js'
import { sendFile } from '#service/http/file-answer.js'
import { idempotencyKey } from '#service/http/headers.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import { createDoors } from './doors.js'
import type { DoorKey, recordingEndpoints } from './endpoints.js'
import { createRolloutService } from './rollouts.js'
import type { RecordingStarted } from './start.js'

interface DoorCall {
  readonly c: RequestContext
  readonly params: { readonly token: string }
  body(): Promise<object>
}

export function recordingHandlers({
  context,
  app,
  started,
}: PluginService<RecordingStarted>): PluginHandlers<typeof recordingEndpoints> {
  const rollouts = createRolloutService(context, { chat: app.services.chat, ended: started.noteEnd })
  const doors = createDoors(context, { ask: started.ask, admission: app.admission })
  const recorded =
    (path: string) =>
    ({ c, params, body }: DoorCall) =>
      doors.record(c, params.token, { path, body })
  const passed =
    (path: string) =>
    ({ c, params, body }: DoorCall) =>
      doors.pass(c, params.token, { path, body })
  const below = {
    'POST /r/{token}/v1/chat/completions': recorded('/v1/chat/completions'),
    'POST /r/{token}/v1/completions': recorded('/v1/completions'),
    'POST /r/{token}/v1/responses': recorded('/v1/responses'),
    'POST /r/{token}/v1/messages': recorded('/v1/messages'),
    'POST /r/{token}/inference/v1/generate': recorded('/inference/v1/generate'),
    'POST /r/{token}/v1/messages/count_tokens': passed('/v1/messages/count_tokens'),
    'POST /r/{token}/v1/responses/input_tokens': passed('/v1/responses/input_tokens'),
    'POST /r/{token}/tokenize': passed('/tokenize'),
    'GET /r/{token}/v1/models': ({ c, params }: DoorCall) => doors.describe(c, params.token, true),
    'GET /r/{token}/v1/models/{+model}': ({ c, params }: DoorCall) => doors.describe(c, params.token, false),
  } satisfies Record<DoorKey, (call: DoorCall) => Promise<Response>>
  return {
    ...below,
    'POST /v1/preview/rollouts': async ({ principal, body, c }) =>
      rollouts.create(principal, await body(), { origin: app.publicAddress.of(c), idempotencyKey: idempotencyKey(c) }),
    'GET /v1/preview/rollouts': ({ principal, query }) => rollouts.list(principal, query()),
    'GET /v1/preview/rollout-groups': async ({ principal, query, c }) => {
      const lines = await rollouts.groups(principal, query())
      return sendFile(c, Readable.from(toBytes(lines)), { 'content-type': 'application/jsonl' })
    },
    'GET /v1/preview/rollouts/{rollout_id}': ({ principal, params }) => rollouts.get(principal, params.rollout_id),
    'POST /v1/preview/rollouts/{rollout_id}/finish': async ({ principal, params, body }) =>
      rollouts.finish(principal, params.rollout_id, await body()),
    'DELETE /v1/preview/rollouts/{rollout_id}': async ({ principal, params }) => {
      await rollouts.delete(principal, params.rollout_id)
      return { id: params.rollout_id, object: 'rollout', deleted: true }
    },
  }
}

async function* toBytes(lines: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const line of lines) yield Buffer.from(line)
}
