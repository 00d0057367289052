/**
 * Methods of the client, made of the keys of endpoints: what each takes and answers is what its row in `contract/endpoints` says. Of the rows
 * it knows types alone, for the schemas would cost every command a third of a second; `answers.ts` has what is checked.
 */
import { type Address, addressOf } from '#contract/endpoints/address.js'
import type { AnswerOf, BodyKey, EndpointKey, GivenBody, GivenQuery } from '#contract/endpoints/table.js'
import type { Http, HttpRequest } from './http.js'
import type { Check } from './shape.js'

/** Every call may be given a signal; aborting rejects with its reason. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined
}

/** How a request is sent, whatever it says. */
export type Manner = Pick<HttpRequest, 'headers' | 'isLong' | 'maxRetries' | 'isRepeatable' | 'signal'>
/** What a request says. */
interface Parts {
  /** Of the path, in its order. */
  readonly ids?: readonly (string | number)[]
  readonly query?: object
  readonly json?: unknown
}

type Named = Extract<EndpointKey, `${string}{${string}`>
type TwiceNamed = Extract<EndpointKey, `${string}{${string}{${string}`>
/** Keys whose path has one parameter. */
type OneKey = Exclude<Named, TwiceNamed>
type PlainKey = Exclude<EndpointKey, Named>

/** The request for an endpoint. */
export function requestOf(
  key: EndpointKey,
  { ids = [], query, json }: Parts,
  manner: Manner = {},
): HttpRequest & Address {
  const said = query === undefined ? {} : { query: query as NonNullable<HttpRequest['query']> }
  return { ...addressOf(key, ids), ...said, ...(json === undefined ? {} : { json }), ...manner }
}

/** Makes methods that send over `http`. A method's own manner is told where it is made, its signal by each call. */
export function createCalls(http: Http) {
  function ask<K extends EndpointKey, A extends AnswerOf<K> = AnswerOf<K>>(
    key: K,
    check: Check<A>,
    parts: Parts,
    manner: Manner = {},
  ): Promise<A> {
    return http.json(requestOf(key, parts, manner), check)
  }
  return {
    ask,
    /** Of what there is once. */
    plain:
      <K extends PlainKey, A extends AnswerOf<K> = AnswerOf<K>>(key: K, check: Check<A>) =>
      (call: CallOptions = {}): Promise<A> =>
        ask(key, check, {}, call),
    /** Of one of many, by its id. */
    one:
      <K extends OneKey, A extends AnswerOf<K> = AnswerOf<K>>(key: K, check: Check<A>) =>
      (id: string, call: CallOptions = {}): Promise<A> =>
        ask(key, check, { ids: [id] }, call),
    list:
      <K extends PlainKey, A extends AnswerOf<K> = AnswerOf<K>>(key: K, check: Check<A>) =>
      (query: GivenQuery<K> = {} as GivenQuery<K>, call: CallOptions = {}): Promise<A> =>
        ask(key, check, { query }, call),
    /** Of what belongs to one thing. */
    listOf:
      <K extends OneKey, A extends AnswerOf<K> = AnswerOf<K>>(key: K, check: Check<A>) =>
      (id: string, query: GivenQuery<K> = {} as GivenQuery<K>, call: CallOptions = {}): Promise<A> =>
        ask(key, check, { ids: [id], query }, call),
    send:
      <K extends PlainKey & BodyKey, A extends AnswerOf<K> = AnswerOf<K>>(
        key: K,
        check: Check<A>,
        manner: Manner = {},
      ) =>
      (body: GivenBody<K>, call: CallOptions = {}): Promise<A> =>
        ask(key, check, { json: body }, { ...manner, ...call }),
  }
}
