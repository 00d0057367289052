/**
 * Sessions of browsers, codes that begin one, and addresses that a browser may fetch a file from. Ours.
 *
 * A page keeps the token of a session and never an API key. A session may do what its key may, or less, and ends with it.
 */
import { z } from 'zod'
import { laxBoolean } from '../lax.js'
import { listSchema } from '../list.js'
import { KEY_SCOPES } from './key-words.js'

/** What a session begins with, however it is begun. */
const beginning = {
  /** To tell sessions apart: the browser's name. Default empty. */
  name: z.string().max(256).nullish(),
  /** True: 30 days, for a browser that stays signed in; else 12 hours. Never longer than the key. Default false. */
  is_kept: laxBoolean().nullish(),
}

export const createSessionRequestSchema = z.object({
  ...beginning,
  /** At most the key's own, which is the default. */
  scope: z.enum(KEY_SCOPES).nullish(),
})
export type CreateSessionRequest = z.infer<typeof createSessionRequestSchema>

export const exchangeCodeRequestSchema = z.object({ ...beginning, code: z.string().min(1).max(200) })
export type ExchangeCodeRequest = z.infer<typeof exchangeCodeRequestSchema>

export const sessionSchema = z.object({
  object: z.literal('session'),
  id: z.string(),
  name: z.string(),
  /** The key it stands for. */
  key_id: z.string(),
  entity: z.string(),
  project: z.string().nullable(),
  scope: z.enum(KEY_SCOPES),
  /** ISO 8601, UTC, as all times here. */
  created_at: z.string(),
  expires_at: z.string(),
  /** True for the session that asks. */
  is_current: z.boolean(),
})
export type Session = z.infer<typeof sessionSchema>

/** The only answer that holds the token itself. */
export const createdSessionSchema = sessionSchema.extend({ token: z.string() })
export type CreatedSession = z.infer<typeof createdSessionSchema>

export const sessionListSchema = listSchema(sessionSchema)

export const deletedSessionSchema = z.object({ id: z.string(), object: z.literal('session'), deleted: z.literal(true) })
export type DeletedSession = z.infer<typeof deletedSessionSchema>

/** A code that begins one session. */
export const sessionCodeSchema = z.object({
  object: z.literal('session.code'),
  code: z.string(),
  /** The page with the code in its fragment, which no server or log sees. */
  url: z.string(),
  expires_at: z.string(),
})
export type SessionCode = z.infer<typeof sessionCodeSchema>

export const createDownloadRequestSchema = z.object({
  /** Path and query of a GET endpoint that answers with a file: `/v1/files/{file_id}/content`. */
  path: z.string().min(1).max(4000),
})
export type CreateDownloadRequest = z.infer<typeof createDownloadRequestSchema>

/** An address that gives the file once, without a header. */
export const downloadSchema = z.object({ object: z.literal('download'), url: z.string(), expires_at: z.string() })
export type Download = z.infer<typeof downloadSchema>
