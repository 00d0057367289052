/**
 * Jobs as people name them: by id, by its last or first eight digits, or as `latest`.
 */

import { ConflictError, NotFoundError } from '#base/errors/errors.js'
import type { Client } from '#sdk/client/client.js'
import { eachItem } from '#sdk/client/pages.js'
import type { Asking } from './ask.js'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
/** Fewer digits than `jobs list` shows mean another job too soon. */
const PART = /^[0-9a-f][0-9a-f-]{7,}$/i

/** The argument of a command about one job. */
export const JOB_ARGUMENT = 'job id, its last eight digits, or latest; default the newest job'

/**
 * The full id.
 *
 * @param text nothing names the newest job
 * @throws {NotFoundError} `training_job_not_found`; {ConflictError} `job_ambiguous` with the candidates
 */
export async function resolveJobId(
  { signal }: Pick<Asking, 'signal'>,
  client: Client,
  text: string | undefined,
): Promise<string> {
  if (text === undefined || text === 'latest') return await newest(client, signal)
  if (UUID.test(text) || !PART.test(text)) return text
  const part = text.toLowerCase()
  const matches: string[] = []
  for await (const job of eachItem((query) => client.trainingJobs.list(query, { signal }))) {
    if (job.id.endsWith(part) || job.id.startsWith(part)) matches.push(job.id)
  }
  const [first, second] = matches
  if (first === undefined) {
    throw new NotFoundError('training_job_not_found', `no job id begins or ends with ${text}`, {
      hint: 'trainyard jobs list',
    })
  }
  if (second !== undefined) {
    throw new ConflictError(
      'job_ambiguous',
      `${matches.length} job ids begin or end with ${text}: ${matches.slice(0, 5).join(', ')}`,
    )
  }
  return first
}

async function newest(client: Client, signal: AbortSignal): Promise<string> {
  const page = await client.trainingJobs.list({ limit: 1 }, { signal })
  const [job] = page.data
  if (job === undefined) {
    throw new NotFoundError('training_job_not_found', 'there is no training job yet', {
      hint: 'trainyard train sft <model> --file data.jsonl starts one',
    })
  }
  return job.id
}
