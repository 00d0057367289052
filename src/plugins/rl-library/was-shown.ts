/**
 * How often a model was shown examples: what is said where its answers earn nothing depends on it.
 */
import { EXAMPLES_KIND } from '#contract/wire/job-words.js'
import type { Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'

/** Jobs that are looked at, the newest. */
const LOOKED_AT = 100

/** @returns completed jobs on examples; 0 also where the service lists no jobs */
export async function timesShown(client: Client, modelId: string, signal?: AbortSignal): Promise<number> {
  const query = { model_id: modelId, status: 'completed', limit: LOOKED_AT } as const
  try {
    const { data } = await client.trainingJobs.list(query, { signal })
    return data.filter(({ kind }) => kind === EXAMPLES_KIND).length
  } catch (error) {
    if (error instanceof ApiError && error.category === 'not_found') return 0
    throw error
  }
}
