/**
 * The core's endpoints, in the order of the reference, what their keys say, and how rows of plugins come between them. Where two
 * paths fit a request, the first is served.
 */
import type { z } from 'zod'
import {
  deletedFileSchema,
  fileListSchema,
  fileObjectSchema,
  listFilesQuerySchema,
  uploadQuerySchema,
} from '../wire/files.js'
import { ACCESS, type KEYS, type USAGE } from './access.js'
import { type Endpoint, endpoints, type JsonBody, type Key, type Method, TAGS } from './endpoint.js'
import type { ENGINE_NODE, ENGINE_NODE_LIST } from './engine-nodes.js'
import { GENERATION } from './generation.js'
import type { FILE_FROM_MARKS, MARKS_OF_ANSWERS } from './marks.js'
import { MODELS } from './models.js'
import type { PROBES } from './probes.js'
import type { ROLLOUTS } from './rollouts.js'
import { type DOCS, SERVER, type VERIFY } from './server.js'
import { TRAINING } from './training.js'
import type { LOOPS } from './training-loops.js'
import type { WEBHOOKS } from './webhooks.js'
import { WORKER } from './worker.js'
import type { WORKER_CLAIMS } from './worker-claims.js'

/**
 * Endpoints of files, in OpenAI's format.
 */
const openAi = { tag: 'Files', origin: 'OpenAI' } as const

const FILES = endpoints({
  'POST /v1/files': {
    ...openAi,
    summary: 'Upload a file',
    scope: 'write',
    query: uploadQuerySchema,
    body: 'upload',
    answer: fileObjectSchema,
    parameters: { purpose: 'What the file is for when its bytes are the whole body; default `fine-tune`' },
  },
  'GET /v1/files': {
    ...openAi,
    summary: 'List files, newest first',
    scope: 'read',
    query: listFilesQuerySchema,
    answer: fileListSchema,
    parameters: {
      limit: 'Most items of the page; default 10,000',
      order: '`asc`: oldest first, `desc`: newest first; default `desc`',
      purpose: 'Only files of this purpose',
    },
  },
  'GET /v1/files/{file_id}': { ...openAi, summary: 'Get a file', scope: 'read', answer: fileObjectSchema },
  'GET /v1/files/{file_id}/content': {
    ...openAi,
    summary: 'Download a file',
    scope: 'read',
    answer: 'application/octet-stream',
  },
  'DELETE /v1/files/{file_id}': { ...openAi, summary: 'Delete a file', scope: 'write', answer: deletedFileSchema },
})

export const ENDPOINTS = Object.freeze({
  ...GENERATION,
  ...MODELS,
  ...TRAINING,
  ...FILES,
  ...ACCESS,
  ...SERVER,
  ...WORKER,
})

/** Rows of plugins that the client has methods for. */
type OfPlugins = typeof PROBES &
  typeof MARKS_OF_ANSWERS &
  typeof FILE_FROM_MARKS &
  typeof WEBHOOKS &
  typeof LOOPS &
  typeof ROLLOUTS &
  typeof VERIFY &
  typeof DOCS &
  typeof KEYS &
  typeof USAGE &
  typeof WORKER_CLAIMS &
  OfNodes
type OfNodes = typeof ENGINE_NODE & typeof ENGINE_NODE_LIST
type Endpoints = typeof ENDPOINTS & OfPlugins
export type EndpointKey = keyof Endpoints
export type EndpointOf<K extends EndpointKey> = Endpoints[K]

type Rows = Readonly<Record<string, Endpoint>>

type Parameters<P extends string> = P extends `${string}{${infer Name}}${infer Rest}`
  ? (Name extends `+${infer Plain}` ? Plain : Name) | Parameters<Rest>
  : never
/** The parameters of a path, by name. */
export type ParametersOf<K extends string> = { readonly [Name in Parameters<K>]: string }
/** The checked query of a row. */
export type QueryOf<R extends Endpoint> = R extends { readonly query: infer S extends z.ZodType } ? z.output<S> : never
/** Endpoints with a JSON body. */
export type BodyKey = { [K in EndpointKey]: Endpoints[K] extends { readonly body: JsonBody } ? K : never }[EndpointKey]
/** Those whose `trajectory_groups` are streamed. */
export type GroupsKey = {
  [K in BodyKey]: Endpoints[K] extends { readonly body: { readonly hasGroups: true } } ? K : never
}[BodyKey]
export type BodyOf<K extends BodyKey> = Endpoints[K] extends { readonly body: JsonBody<infer S> } ? z.output<S> : never

/** A value as it may be handed over: nobody changes it. */
type Shown<T> = T extends readonly (infer Item)[]
  ? readonly Shown<Item>[]
  : T extends object
    ? { readonly [Name in keyof T]: Shown<T[Name]> }
    : T
/** The JSON of an answer; never for one that is something else. */
export type AnswerOf<K extends EndpointKey> = AnswerOfRow<Endpoints[K]>
/** The same of a row. */
export type AnswerOfRow<R extends Endpoint> = R['answer'] extends infer S extends z.ZodType ? Shown<z.output<S>> : never

/**
 * What a client says: the fields of a schema's input. Scalars are also taken as text, which their schemas call unknown: a client
 * gives what comes out of them.
 */
type Given<I, O> = Shown<{ [Name in keyof I]: GivenValue<I[Name], Name extends keyof O ? O[Name] : unknown> }>
type GivenValue<I, O> = unknown extends I ? O : I extends readonly unknown[] ? GivenItems<I, O> : I
type GivenItems<I extends readonly unknown[], O> = unknown extends I[number] ? Extract<O, readonly unknown[]> : I
type GivenTo<S> = S extends z.ZodType ? Given<z.input<S>, z.output<S>> : never
export type GivenQuery<K extends EndpointKey> = Endpoints[K] extends { readonly query: infer S } ? GivenTo<S> : never
export type GivenBody<K extends BodyKey> = Endpoints[K] extends { readonly body: JsonBody<infer S> }
  ? GivenTo<S>
  : never

/** An endpoint, or an alias of one, with its method and path. */
export interface Route extends Endpoint {
  /** Of the endpoint: an alias is served by the same handler. */
  readonly key: Key
  readonly method: Method
  /** With `{name}` and `{+name}` for parameters. */
  readonly path: string
}

/** Rows of a plugin that stand together in the table. */
export interface EndpointRun<T extends Rows = Rows> {
  /** The row that they stand behind: the core's, or another plugin's. */
  readonly after: EndpointKey
  readonly rows: T
}

/** A section of the reference that a plugin adds. */
export interface Section {
  readonly name: string
  /** The core's section that it stands behind. */
  readonly after: (typeof TAGS)[number]
}

/** All endpoints of a service, in the order of the reference. */
export interface EndpointTable {
  readonly endpoints: Readonly<Record<Key, Endpoint>>
  /** Every endpoint and alias, an alias behind what it means. */
  readonly routes: readonly Route[]
  /** What is part of the API: every route but the worker's. */
  readonly apiRoutes: readonly Route[]
  /** Sections of the reference, in their order. */
  readonly sections: readonly string[]
}

/** The core's rows with those of plugins between them. */
export function createEndpointTable(runs: readonly EndpointRun[] = [], added: readonly Section[] = []): EndpointTable {
  const withRowsBehind = (rows: Rows): (readonly [string, Endpoint])[] =>
    Object.entries<Endpoint>(rows).flatMap((entry) => [
      entry,
      ...runs.filter(({ after }) => after === entry[0]).flatMap((run) => withRowsBehind(run.rows)),
    ])
  const entries = withRowsBehind(ENDPOINTS)
  const routes = entries.flatMap(([key, row]) =>
    Object.entries<string>({ [key]: row.summary, ...row.aliases }).map(([name, summary]) => {
      const [method, path] = name.split(' ') as [Method, string]
      return { ...row, key: key as Key, method, path, summary }
    }),
  )
  return {
    endpoints: Object.fromEntries(entries),
    routes,
    apiRoutes: routes.filter(({ tag }) => tag !== null),
    sections: TAGS.flatMap((tag) => [tag, ...added.filter(({ after }) => after === tag).map(({ name }) => name)]),
  }
}

/** The key of an endpoint is its method and path. */
export type { Key }
