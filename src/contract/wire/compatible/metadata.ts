/**
 * Keys and values of OpenAI's `metadata`.
 *
 * Source: OpenAI API reference, `metadata`: up to 16 pairs, keys of 64 characters, values of 512.
 */
import { z } from 'zod'

export const MAX_METADATA = 16

/** How many there are is said in OpenAI's words by whoever keeps it. */
export const metadataSchema = z.record(z.string().max(64), z.string().max(512)).meta({ maxProperties: MAX_METADATA })
