/**
 * Whether a model was shown examples: what is said where its answers earn nothing depends on it.
 */
import { EXAMPLES_KIND } from '#contract/wire/job-words.js'
import type { Client } from '../client/client.js'
import { ApiError } from '../client/errors.js'

/** Jobs that are looked at, the newest. */
const LOOKED_AT = 100

/** @returns false also where the service lists no jobs */
export async function wasShown(client: Client, modelId: string, signal?: AbortSignal): Promise<boolean> {
  const query = { model_id: modelId, status: 'completed', limit: LOOKED_AT } as const
  try {
    const { data } = await client.trainingJobs.list(query, { signal })
    return data.some(({ kind }) => kind === EXAMPLES_KIND)
  } catch (error) {
    if (error instanceof ApiError && error.category === 'not_found') return false
    throw error
  }
}
