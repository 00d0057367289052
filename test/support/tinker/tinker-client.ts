/**
 * The Tinker API as tests speak it: requests of training as protobuf, results by long poll. Written from the field numbers of the
 * client `tinker` 0.38.0; answers are read by the tests' own protobuf reader.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'
import { messagesAt, readMessage, textsAt } from '../protobuf-reader.js'
import type { TestService } from '../service/create-test-service.js'

/** A row with what its loss takes; numbers become float32, `target_tokens` int64. */
export interface Datum {
  readonly tokens: readonly number[]
  readonly inputs: Readonly<Record<string, readonly number[]>>
}

export interface LossCall {
  readonly loss: string
  readonly data: readonly Datum[]
  readonly config?: Readonly<Record<string, number>>
  readonly isForwardOnly?: boolean
}

export interface LossAnswer {
  readonly logprobs: readonly (readonly number[])[]
  readonly loss: number
}

/** Bytes of a `ForwardBackwardRequest`. */
export function encodeLossCall(modelId: string, seqId: number, call: LossCall): Uint8Array {
  const request = new ProtobufWriter().string(1, modelId).integer(2, seqId)
  for (const { tokens, inputs } of call.data) {
    const text = new ProtobufWriter().bytes(1, bytesOf(Int32Array.from(tokens)))
    const datum = new ProtobufWriter().message(1, new ProtobufWriter().message(1, text))
    for (const [name, values] of Object.entries(inputs)) {
      const isInteger = name === 'target_tokens'
      const data = isInteger ? BigInt64Array.from(values, BigInt) : Float32Array.from(values)
      const tensor = new ProtobufWriter()
        .bytes(1, bytesOf(data))
        .integer(3, isInteger ? 2 : 1)
        .integers(4, [values.length])
      datum.message(2, new ProtobufWriter().string(1, name).message(2, tensor))
    }
    request.message(3, datum)
  }
  request.string(4, call.loss)
  if (call.isForwardOnly === true) request.integer(6, 1)
  for (const [name, value] of Object.entries(call.config ?? {})) {
    request.message(7, new ProtobufWriter().string(1, name).message(2, new ProtobufWriter().double(1, value)))
  }
  return request.finish()
}

/** Reads a `ForwardBackwardOutput`. */
export function decodeLossAnswer(bytes: Uint8Array): LossAnswer {
  const output = readMessage(bytes)
  const [record] = messagesAt(output, 2)
  const [field] = record === undefined ? [] : messagesAt(record, 2)
  const [tensor] = field === undefined ? [] : messagesAt(field, 2)
  if (tensor === undefined) throw new Error('the output has no log-probabilities')
  const data = new Float32Array(new Uint8Array(tensor.get(1)?.[0] as Uint8Array).buffer)
  const offsets = [...new BigInt64Array(new Uint8Array(tensor.get(2)?.[0] as Uint8Array).buffer)].map(Number)
  const logprobs = offsets.slice(1).map((end, i) => [...data.subarray((offsets[i] as number) / 4, end / 4)])
  const metrics = new Map(messagesAt(output, 3).map((entry) => [textsAt(entry, 1)[0], entry.get(2)?.[0]] as const))
  const loss = metrics.get('loss:sum') as Uint8Array
  return { logprobs, loss: new DataView(loss.buffer, loss.byteOffset, 8).getFloat64(0, true) }
}

/** What a future came to. */
export type Outcome = { readonly bytes: Uint8Array } | { readonly json: Readonly<Record<string, unknown>> }

/** One run of training; numbers its requests as the client does. */
export interface TestRun {
  readonly id: string
  /** Sends a request of training. @returns its request id */
  send(call: LossCall, seqId?: number): Promise<string>
  /** Sends any other request, `optim_step` and the like. */
  post(path: string, body: Readonly<Record<string, unknown>>, seqId?: number): Promise<string>
  nextSeq(): number
}

export interface TinkerTestClient {
  readonly sessionId: string
  json<T = Record<string, unknown>>(path: string, body?: object): Promise<{ status: number; body: T }>
  createRun(options?: { readonly baseModel?: string; readonly rank?: number; readonly seed?: number }): Promise<TestRun>
  /** The run that loading a state makes. */
  resumeRun(path: string, optimizer: boolean): Promise<TestRun>
  result(requestId: string): Promise<Outcome>
  loss(requestId: string): Promise<LossAnswer>
}

export interface TinkerTestOptions {
  /** Sends again what got no answer, as the client does, until it gets one: the server may be killed meanwhile. */
  readonly isPatient?: boolean
}

/**
 * Opens a session with a key in the client's spelling.
 *
 * @param service `url` is read with every request: the server may come back under another
 */
export async function openTinker(
  service: Pick<TestService, 'url' | 'apiKey'>,
  { isPatient = false }: TinkerTestOptions = {},
): Promise<TinkerTestClient> {
  const headers = { 'x-api-key': `tml-${service.apiKey}` }
  let runs = 0

  async function call(path: string, body: string | Uint8Array | undefined, type: string): Promise<Response> {
    for (;;) {
      try {
        const response = await callOnce(path, body, type)
        const { status, headers: heads } = response
        // the whole answer, or it is asked for again
        if (response.status < 500) return new Response(await response.arrayBuffer(), { status, headers: heads })
        if (!isPatient) return response
      } catch (error) {
        if (!isPatient) throw error
      }
      await sleep(20)
    }
  }

  async function callOnce(path: string, body: string | Uint8Array | undefined, type: string): Promise<Response> {
    return fetch(`${service.url}/api/v1/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': type }) },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : new Uint8Array(body) }),
    })
  }

  async function json<T>(path: string, body?: object): Promise<{ status: number; body: T }> {
    const response = await call(path, body === undefined ? undefined : JSON.stringify(body), 'application/json')
    return { status: response.status, body: (await response.json()) as T }
  }

  async function accepted(response: { status: number; body: { request_id?: string } }): Promise<string> {
    const { request_id: id } = response.body
    if (response.status !== 200 || id === undefined) throw new Error(JSON.stringify(response))
    return id
  }

  async function result(requestId: string): Promise<Outcome> {
    for (;;) {
      const response = await call('retrieve_future', JSON.stringify({ request_id: requestId }), 'application/json')
      if (response.status === 408) continue
      if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
      if (response.headers.get('content-type') === 'application/x-protobuf')
        return { bytes: new Uint8Array(await response.arrayBuffer()) }
      return { json: (await response.json()) as Record<string, unknown> }
    }
  }

  function toRun(id: string): TestRun {
    let seq = 0
    const nextSeq = (): number => ++seq
    return {
      id,
      nextSeq,
      send: async (lossCall, seqId = nextSeq()) => {
        const response = await call('forward_backward', encodeLossCall(id, seqId, lossCall), 'application/x-protobuf')
        return accepted({ status: response.status, body: (await response.json()) as { request_id?: string } })
      },
      post: async (path, body, seqId = nextSeq()) =>
        accepted(await json(path, { model_id: id, seq_id: seqId, ...body })),
    }
  }

  const { body: session } = await json<{ session_id: string }>('create_session', { tags: [], sdk_version: '0.38.0' })
  const sessionId = session.session_id
  return {
    sessionId,
    json,
    result,
    loss: async (requestId) => {
      const outcome = await result(requestId)
      if ('bytes' in outcome) return decodeLossAnswer(outcome.bytes)
      throw new Error(JSON.stringify(outcome.json))
    },
    createRun: async ({ baseModel = 'trainyard/tiny-random', rank = 4, seed = 1 } = {}) => {
      const request = {
        session_id: sessionId,
        model_seq_id: runs++,
        base_model: baseModel,
        lora_config: { rank, seed },
      }
      const outcome = await result(await accepted(await json('create_model', request)))
      return toRun('json' in outcome ? String(outcome.json['model_id']) : '')
    },
    resumeRun: async (path, optimizer) => {
      const request = { session_id: sessionId, model_seq_id: runs++, path, optimizer }
      const outcome = await result(await accepted(await json('load_weights', request)))
      return toRun('json' in outcome ? String(outcome.json['model_id']) : '')
    },
  }
}

/** Rows of next-token prediction with a weight of 1 for every token. */
export function plainRows(rows: readonly (readonly number[])[]): Datum[] {
  return rows.map((ids) => ({
    tokens: ids.slice(0, -1),
    inputs: { target_tokens: ids.slice(1), weights: ids.slice(1).map(() => 1) },
  }))
}

function bytesOf({ buffer, byteOffset, byteLength }: Int32Array | Float32Array | BigInt64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}
