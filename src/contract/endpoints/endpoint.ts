/**
 * A row of the table of endpoints: all that is known of one without its code. The router, scopes, limits of bodies, the OpenAPI
 * document, the reference, the paths of the client and the table of `src/docs/reference/api.md` are made of these rows.
 *
 * The key of a row is its method and path, as `GET /v1/files/{file_id}`; `{+name}` is a parameter that may hold slashes (RFC 6570).
 */
import type { z } from 'zod'
import type { KeyScope } from '../wire/access/key-words.js'

/** The core's sections of the reference, in this order. */
export const TAGS = ['Chat and text', 'Models', 'Training', 'Files', 'Keys and usage', 'Server'] as const

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'
export type Key = `${Method} /${string}`

/** A body that is not JSON, by its media type. */
export type Media =
  | 'application/octet-stream'
  | 'application/jsonl'
  | 'application/x-protobuf'
  | 'text/event-stream'
  | 'text/html'
  | 'image/*'
  | 'text/css'
  | 'text/plain'

/** How much of a body is read before anything looks at its values: counts are checked while bytes arrive. */
export interface BodyCounts {
  /** Most objects and arrays; counted anew after each streamed element. Default 1,000,000. */
  readonly maxContainers?: number
  /** Most values of any kind; counted anew after each streamed element. Default 5,000,000. */
  readonly maxValues?: number
  /** Most values deeper than the elements of a top-level list, counted in the same way. Default: no limit of its own. */
  readonly maxNestedValues?: number
  /** Most keys of one object. Default: no limit of its own. */
  readonly maxKeys?: number
  /** Most different keys in all; counted anew after each streamed element. V8 keeps every name, at some 150 bytes. Default: no limit. */
  readonly maxNames?: number
  /** Top-level fields whose big integers become `bigint`; elsewhere they become the nearest number. */
  readonly int64Fields?: readonly string[]
  /** A text with half of a surrogate pair, which no prompt can hold, is refused with its path. Default false. */
  readonly refusesHalves?: boolean
  /** Numbers keep their text in fields of prompts and grammars. Default false. */
  readonly keepsNumbers?: boolean
  /** Top-level fields below which every number keeps its text. */
  readonly keptFields?: readonly string[]
}

/** A JSON body. */
export interface JsonBody<S extends z.ZodType = z.ZodType> {
  readonly schema: S
  /** The setting that says how many bytes it may have. */
  readonly size: 'smallBytes' | 'chatBytes' | 'trajectoriesBytes'
  readonly reader: BodyCounts
  /** Its `trajectory_groups` go to a file of their own, one by one. */
  readonly hasGroups?: boolean
  /** Fields of texts and numbers that come with the refusal of a body: whose place in an order it would have had. */
  readonly told?: readonly string[]
  /** What a checked body says without effect although its schema knows it. */
  readonly idle?: (value: Readonly<Record<string, unknown>>) => readonly string[]
}

/** `open`: nobody is asked for a key. `attempt`: a worker proves its attempt at a job instead. */
export type EndpointScope = KeyScope | 'open' | 'attempt'

export interface Endpoint {
  /** Section of the reference: of `TAGS` or a plugin's own; null for what is no part of the API. */
  readonly tag: string | null
  /** One sentence without a full stop. */
  readonly summary: string
  /** Whose format it is: `ours`, `hosted` or a name. */
  readonly origin: string
  readonly scope: EndpointScope
  readonly query?: z.ZodObject
  /** JSON, a form or the bytes (`upload`), or another media type. */
  readonly body?: JsonBody | 'upload' | Media
  /** The JSON answer, another media type, or nothing. */
  readonly answer: z.ZodType | Media | 'nothing'
  /** A second form of the answer, for example a stream. */
  readonly stream?: z.ZodType
  /** The answer may also come with these statuses. */
  readonly alsoWith?: readonly number[]
  /** Statuses of refusals beyond those that follow from the rest of the row. */
  readonly refusals?: readonly number[]
  /** What parameters mean where their names mean something else than on other endpoints (`parameters.ts`). */
  readonly parameters?: Readonly<Record<string, string>>
  /** A model answers: how many may wait is limited, and each is let in before its body is looked at. */
  readonly isAdmitted?: boolean
  /** The key may also come as the password of HTTP Basic. */
  readonly takesPassword?: boolean
  /** Other methods and paths of the same, each with its own sentence. */
  readonly aliases?: Readonly<Record<Key, string>>
}

/** Checks rows and keeps their types. */
export function endpoints<const T extends Readonly<Record<Key, Endpoint>>>(rows: T): T {
  return Object.freeze(rows)
}
