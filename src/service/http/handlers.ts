/**
 * Handlers of endpoints: what each is given, what it may answer, and how they and the table become routes. A row without a handler does not
 * compile; a route without a row cannot be made.
 */

import type { z } from 'zod'
import type { Endpoint, JsonBody } from '#contract/endpoints/endpoint.js'
import type {
  AnswerOfRow,
  BodyKey,
  ENDPOINTS,
  EndpointTable,
  GroupsKey,
  Key,
  ParametersOf,
  QueryOf,
  Route,
} from '#contract/endpoints/table.js'
import type { KeyScope } from '#contract/wire/access/key-words.js'
import type { ReceivedGroups } from '#service/bodies/body-store.js'
import type { Principal } from '#service/operations/context.js'
import { readGroups, readJson, readQuery } from './body.js'
import type { App, AppOptions, BoundHandler, LoadedLater, RequestContext, Seen } from './environment.js'

/** One request for the endpoint of a key and its row. */
export interface CallOf<K extends string, R extends Endpoint> {
  readonly c: RequestContext
  /** Whose key it is, where one is asked for. */
  readonly principal: R['scope'] extends KeyScope ? Principal : undefined
  readonly params: ParametersOf<K>
  /** Checks the query and names what of it is ignored. */
  query(): QueryOf<R>
  /** Takes the body and checks it: when it is asked for, so that a stranger's is not taken. */
  body(): Promise<K extends GroupsKey ? ReceivedGroups<K> : CheckedBody<R>>
}

type CheckedBody<R extends Endpoint> = R extends { readonly body: JsonBody<infer S> } ? z.output<S> : never

/** Answers with JSON, or with a response of its own. */
type Reply<R extends Endpoint> = AnswerOfRow<R> | Response
type Handler<K extends string, R extends Endpoint> = (call: CallOf<K, R>) => Reply<R> | Promise<Reply<R>>

/** A handler for each row. */
export type HandlersOf<T> = {
  readonly [K in keyof T & string]: T[K] extends Endpoint ? Handler<K, T[K]> : never
}

/** The core's handlers. */
export type Handlers = HandlersOf<typeof ENDPOINTS>
/** One request for an endpoint of the core. */
export type Call<K extends keyof Handlers> = CallOf<K, (typeof ENDPOINTS)[K]>

/** Some handlers of the core: checks them against their rows. */
export function handlers<H extends Partial<Handlers>>(some: H & Record<Exclude<keyof H, keyof Handlers>, never>): H {
  return some
}

/** Makes a route of every row and its handler. */
export function bindEndpoints(
  app: App,
  own: Readonly<Record<string, BoundHandler>>,
  options: Pick<AppOptions, 'admission' | 'table' | 'plugins' | 'publicAddress' | 'witnesses'>,
): void {
  const all = new Map(Object.entries(own))
  for (const { keys, load } of options.plugins) for (const key of keys) all.set(key, loadedHandler(key, load))
  for (const route of options.table.routes) {
    const handle = all.get(route.key)
    if (handle === undefined) throw new Error(`endpoint "${route.key}" has no handler`)
    const witnesses = options.witnesses.filter((each) => each.wants(route))
    const tell = async (c: RequestContext, end: Seen['end']): Promise<void> => {
      for (const each of witnesses) await each.see({ c, route, client: options.publicAddress.clientOf(c), end })
    }
    const handled = async (c: RequestContext): Promise<object> => {
      try {
        return await handle(callOf(c, route, options) as never)
      } catch (error) {
        await tell(c, { error })
        throw error
      }
    }
    app.on(route.method, patternOf(route), async (c) => {
      const answer = await handled(c)
      await tell(c, { answer })
      return answer instanceof Response ? answer : c.json(answer)
    })
  }
}

function loadedHandler(key: Key, load: LoadedLater['load']): BoundHandler {
  return async (call) => {
    const handle = (await load())[key]
    if (handle === undefined) throw new Error(`endpoint "${key}" has no handler`)
    return handle(call)
  }
}

function callOf(
  c: RequestContext,
  { key, query, body, isAdmitted }: Route,
  { admission }: Pick<AppOptions, 'admission'>,
): object {
  return {
    c,
    principal: c.get('principal'),
    params: c.req.param(),
    query: () => query !== undefined && readQuery(c, query),
    body: () =>
      typeof body === 'object' && body.hasGroups === true
        ? readGroups(c, key as GroupsKey)
        : readJson(c, key as BodyKey, isAdmitted === true ? admission : undefined),
  }
}

/** The path as the router writes it: names that go on to the end may hold any character, line ends included. */
export function patternOf({ path }: Pick<Route, 'path'>): string {
  return path.replaceAll(/\{(\+?)(\w+)\}/g, (_, rest: string, name: string) =>
    rest === '' ? `:${name}` : `:${name}{[^]+}`,
  )
}

/** Finds the row behind a route of the application. */
export function createRouteFinder({ routes }: Pick<EndpointTable, 'routes'>) {
  const byPattern = new Map(routes.map((route) => [`${route.method} ${patternOf(route)}`, route]))
  return (bound: { readonly method: string; readonly path: string }): Route | undefined =>
    byPattern.get(`${bound.method} ${bound.path}`)
}
