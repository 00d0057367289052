/**
 * Handlers of endpoints: what each is given, what it may answer, and how they and the table become routes. A row without a handler does not
 * compile; a route without a row cannot be made.
 */

import type { Endpoint } from '#contract/endpoints/endpoint.js'
import {
  type AnswerOf,
  type BodyKey,
  ENDPOINTS,
  type EndpointKey,
  type EndpointOf,
  type GroupsKey,
  type ParametersOf,
  type QueryOf,
  ROUTES,
  type Route,
} from '#contract/endpoints/table.js'
import type { KeyScope } from '#contract/wire/access/key-words.js'
import type { BodyOf } from '#service/bodies/bodies.js'
import type { ReceivedGroups } from '#service/bodies/body-store.js'
import type { Principal } from '#service/operations/context.js'
import { readGroups, readJson, readQuery } from './body.js'
import type { App, AppOptions, RequestContext } from './environment.js'

/** One request for an endpoint. */
export interface Call<K extends EndpointKey> {
  readonly c: RequestContext
  /** Whose key it is, where one is asked for. */
  readonly principal: EndpointOf<K>['scope'] extends KeyScope ? Principal : undefined
  readonly params: ParametersOf<K>
  /** Checks the query and names what of it is ignored. */
  query(): QueryOf<K>
  /** Takes the body and checks it: when it is asked for, so that a stranger's is not taken. */
  body(): Promise<K extends GroupsKey ? ReceivedGroups<K> : K extends BodyKey ? BodyOf<K> : never>
}

/** Answers with JSON, or with a response of its own. */
type Reply<K extends EndpointKey> = AnswerOf<K> | Response
export type Handler<K extends EndpointKey> = (call: Call<K>) => Reply<K> | Promise<Reply<K>>

export type Handlers = { readonly [K in EndpointKey]: Handler<K> }

/** Some handlers: checks them against their rows. */
export function handlers<H extends Partial<Handlers>>(some: H & Record<Exclude<keyof H, EndpointKey>, never>): H {
  return some
}

/** Makes a route of every row and its handler. */
export function bindEndpoints(app: App, all: Handlers, options: Pick<AppOptions, 'admission'>): void {
  for (const route of ROUTES) {
    const handle = all[route.key] as (call: object) => object | Promise<object>
    app.on(route.method, patternOf(route), async (c) => {
      const answer = await handle(callOf(c, route, options))
      return answer instanceof Response ? answer : c.json(answer)
    })
  }
}

function callOf(c: RequestContext, { key }: Route, { admission }: Pick<AppOptions, 'admission'>): object {
  const { query, body, isAdmitted }: Endpoint = ENDPOINTS[key]
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

const byPattern = new Map(ROUTES.map((route) => [`${route.method} ${patternOf(route)}`, route]))

/** The row behind a route of the application. */
export function routeOf(bound: { readonly method: string; readonly path: string }): Route | undefined {
  return byPattern.get(`${bound.method} ${bound.path}`)
}
