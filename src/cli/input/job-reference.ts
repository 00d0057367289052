/**
 * Job ids as people type them: in full, or on a terminal a unique prefix of at least eight characters.
 */
import type { Client } from '#api/client/client.js'
import { eachItem } from '#api/client/pages.js'
import { ConflictError, NotFoundError } from '#base/errors.js'
import type { CommandContext } from '../command/context.js'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/**
 * The full id. Scripts (`--json`, pipes) must give it in full: what a prefix means changes with time.
 *
 * @throws {NotFoundError} `training_job_not_found`; {ConflictError} `job_ambiguous` with the candidates
 */
export async function resolveJobId(context: CommandContext, client: Client, text: string): Promise<string> {
  const { output, signal } = context
  const isPrefix = !UUID.test(text) && /^[0-9a-f][0-9a-f-]{7,}$/i.test(text)
  if (!isPrefix || output.mode !== 'human' || !output.isTerminal) return text
  const matches: string[] = []
  for await (const job of eachItem((query) => client.trainingJobs.list(query, { signal }))) {
    if (job.id.startsWith(text.toLowerCase())) matches.push(job.id)
  }
  const [first, second] = matches
  if (first === undefined) {
    throw new NotFoundError('training_job_not_found', `no job id starts with ${text}`, { hint: 'trainyard jobs list' })
  }
  if (second !== undefined) {
    throw new ConflictError(
      'job_ambiguous',
      `${matches.length} job ids start with ${text}: ${matches.slice(0, 5).join(', ')}`,
    )
  }
  return first
}
