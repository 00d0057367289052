/**
 * Limits and closed lists of probes (watched prompts), for code that loads no schemas.
 */

/** Most probes of a model: each is one more answer after every job. */
export const MAX_PROBES = 20
/** Longest message, UTF-16 units. */
export const MAX_PROBE_MESSAGE = 8000
/** Longest answer, tokens. */
export const MAX_PROBE_TOKENS = 128
export const DEFAULT_PROBE_TOKENS = 64

export const PROBE_STATUSES = ['queued', 'answered', 'failed'] as const
export type ProbeStatus = (typeof PROBE_STATUSES)[number]
