/**
 * The training rows in an artifact that the wandb client uploaded.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { Tenant } from '#service/operations/access/principal.js'
import { isOwn } from '#service/operations/access/tenant.js'
import type { Database } from '#service/storage/database.js'
import { findArtifactByAlias, listArtifactFiles } from './storage/artifacts.js'

/** What clients call the file, where an artifact has several. */
const USUAL_NAMES = ['train.jsonl', 'trajectories.jsonl']

/**
 * @param artifact `entity/project/name:version`
 * @returns the digest of its only JSON Lines file, or of the one with a usual name; null if there is no such artifact
 * @throws {InvalidRequestError} `ambiguous_training_data` if it is not clear which file is meant
 */
export async function findArtifactRows(db: Database, tenant: Tenant, artifact: string): Promise<string | null> {
  const [path = '', alias = ''] = artifact.split(':')
  const [entity = '', project = '', collection = ''] = path.split('/')
  const found = isOwn(tenant, { entity, project })
    ? await findArtifactByAlias(db, { entity, project, collection }, alias)
    : null
  if (found === null) return null
  const files = (await listArtifactFiles(db, found.id)).filter((file) => file.name.endsWith('.jsonl'))
  const file = files.length === 1 ? files[0] : files.find(({ name }) => USUAL_NAMES.includes(name))
  if (file !== undefined) return file.sha256
  const names = files.map(({ name }) => `"${name.slice(0, 100)}"`).join(', ')
  throw new InvalidRequestError(
    'ambiguous_training_data',
    `artifact "${artifact}" must hold one file of rows (.jsonl) or a train.jsonl, it has ${names === '' ? 'none' : names}`,
  )
}
