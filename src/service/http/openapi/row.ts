/**
 * A row of the table of routes: what goes in, what comes out.
 */
import type { z } from 'zod'

/** Sections of the reference, in this order. */
export const TAGS = [
  'Chat and text',
  'Models',
  'Training',
  'Files',
  'Fine-tuning (OpenAI)',
  'Webhooks',
  'Keys and usage',
  'wandb client',
  'Server',
] as const

/** A body that is not JSON, by its media type. */
export type Media =
  | 'application/octet-stream'
  | 'application/jsonl'
  | 'text/event-stream'
  | 'text/html'
  | 'image/svg+xml'
  | 'text/css'
  | 'text/plain'

export interface Route {
  readonly method: 'get' | 'post' | 'put' | 'delete'
  /** With `{name}` for parameters. */
  readonly path: string
  readonly tag: (typeof TAGS)[number]
  /** One sentence without a full stop. */
  readonly summary: string
  readonly query?: z.ZodObject | undefined
  /** The JSON body; `multipart` and raw bytes for uploads. */
  readonly body?: z.ZodType | 'upload' | Media | undefined
  /** The JSON answer, another media type, or nothing. */
  readonly answer: z.ZodType | Media | 'nothing'
  /** A second form of the answer, for example a stream. */
  readonly stream?: z.ZodType | undefined
  /** No key is asked for. */
  readonly isOpen?: boolean
  /** The answer may also come with these statuses. */
  readonly alsoWith?: readonly number[]
}
