/**
 * Names for a shell that completes a word: models and jobs of the service, one per line. What a key press waits for, so it is quick
 * or silent: every failure, and a service that does not answer at once, is an empty list.
 */
import type { Client } from '#sdk/client/client.js'
import type { Asking } from './ask.js'

/** What a word can name: a model, anything that answers questions, or a job. */
export const COMPLETED_KINDS = ['model', 'served', 'job'] as const
export type CompletedKind = (typeof COMPLETED_KINDS)[number]

/** Nobody waits longer for a key press, unless a timeout is set. */
const MOST_MS = 300
const MOST_NAMES = 100
/** Names come from a server and go into a shell. */
const SAFE = /^[\w./:-]+$/

/** Names of a kind; none when anything is wrong. */
export async function listNames(
  context: Pick<Asking, 'config' | 'connect'>,
  kind: CompletedKind,
): Promise<readonly string[]> {
  const giveUp = new AbortController()
  let timer: NodeJS.Timeout | undefined
  try {
    const client = await context.connect()
    timer = setTimeout(() => giveUp.abort(), context.config.get('timeout') ?? MOST_MS)
    return (await askNames(context, client, kind, giveUp.signal)).filter((name) => SAFE.test(name))
  } catch {
    return []
  } finally {
    clearTimeout(timer)
  }
}

async function askNames(
  { config }: Pick<Asking, 'config'>,
  client: Client,
  kind: CompletedKind,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (kind === 'job') {
    const { shortId } = await import('../terminal/table.js')
    const jobs = await client.trainingJobs.list({ limit: MOST_NAMES }, { signal })
    return ['latest', ...jobs.data.map(({ id }) => shortId(id))]
  }
  const { shortName } = await import('./model-reference.js')
  const [models, bases] = await Promise.all([
    client.models.list({ limit: MOST_NAMES }, { signal }),
    kind === 'served' ? client.baseModels.list({ signal }) : [],
  ])
  return [...models.data.map((model) => shortName(model, config)), ...bases]
}
