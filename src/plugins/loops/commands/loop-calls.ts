/**
 * What commands ask the server about loops, and what they need of its answers.
 */
import type { List } from '#contract/wire/list.js'
import { pageOf } from '#sdk/client/answers.js'
import type { Client } from '#sdk/client/client.js'
import { anything, type Check, listOf, maybe, number, objectOf, text } from '#sdk/client/shape.js'
import type { CreateLoopRequest, Loop, LoopEventBody } from '../wire.js'

type ShownLoop = Pick<
  Loop,
  'id' | 'model_id' | 'status' | 'phase' | 'step' | 'steps' | 'evaluations' | 'error' | 'created_at'
>

const loop: Check<Loop> = objectOf<ShownLoop>({
  id: text,
  model_id: text,
  status: text,
  phase: maybe(text),
  step: number,
  steps: number,
  evaluations: listOf(
    objectOf<Loop['evaluations'][number]>({
      step: number,
      checkpoint_step: number,
      train_reward: maybe(number),
      valid_reward: number,
    }),
  ),
  error: maybe(objectOf<NonNullable<Loop['error']>>({ code: text, message: text })),
  created_at: text,
})
const event: Check<LoopEventBody> = objectOf<Pick<LoopEventBody, 'id' | 'level' | 'message' | 'data' | 'created_at'>>({
  id: text,
  level: text,
  message: text,
  data: anything,
  created_at: text,
})

const PATH = '/v1/preview/loops'
const pathOf = (id: string): string => `${PATH}/${encodeURIComponent(id)}`

export type LoopCalls = ReturnType<typeof createLoopCalls>

export function createLoopCalls({ http }: Pick<Client, 'http'>, signal: AbortSignal) {
  return {
    create: async (json: CreateLoopRequest): Promise<Loop> =>
      await http.json({ method: 'POST', path: PATH, json, signal, isLong: true }, loop),
    list: async (query: { limit?: number | undefined; after?: string | undefined; model_id?: string | undefined }) =>
      await http.json<List<Loop>>({ method: 'GET', path: PATH, query, signal }, pageOf(loop)),
    get: async (id: string): Promise<Loop> => await http.json({ method: 'GET', path: pathOf(id), signal }, loop),
    events: async (id: string, query: { limit?: number | undefined; after?: string | undefined }) =>
      await http.json<List<LoopEventBody>>(
        { method: 'GET', path: `${pathOf(id)}/events`, query, signal },
        pageOf(event),
      ),
    act: async (id: string, action: 'pause' | 'resume' | 'cancel'): Promise<Loop> =>
      await http.json({ method: 'POST', path: `${pathOf(id)}/${action}`, signal }, loop),
    /** Waits a moment. */
    pause: async (): Promise<void> => await http.sleep(1000, signal),
  }
}
