/**
 * Keys and values of OpenAI's `metadata`.
 *
 * Source: OpenAI API reference, `metadata`: up to 16 pairs, keys of 64 characters, values of 512.
 */
import { z } from 'zod'

export const metadataSchema = z.record(z.string().max(64), z.string().max(512))

export const MAX_METADATA = 16
