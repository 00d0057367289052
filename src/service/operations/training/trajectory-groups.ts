/**
 * What a job and a log do with trajectory groups that have been read and checked (`bodies/group-reading.ts`).
 */
import { rm } from 'node:fs/promises'
import { DataError } from '#base/errors/errors.js'
import type { GroupsBodyName } from '#service/bodies/bodies.js'
import type { ReceivedGroups } from '#service/bodies/body-store.js'
import type { BlobRef, BlobStore } from '#service/storage/blobs.js'

/**
 * Runs `action`, which may publish the groups as a blob; drops them if it did not.
 *
 * @example withGroups(blobs, groups, async (publish) => (await publish()).sha256)
 */
export async function withGroups<T>(
  blobs: BlobStore,
  groups: ReceivedGroups<GroupsBodyName>,
  action: (publish: () => Promise<BlobRef>) => Promise<T>,
): Promise<T> {
  let isTaken = false
  try {
    return await action(async () => {
      const blob = await blobs.adopt(groups.path, groups)
      isTaken = true
      return blob
    })
  } finally {
    if (!isTaken) await rm(groups.path, { force: true })
  }
}

/**
 * Refuses a policy version the model has not reached.
 *
 * @throws {DataError} `invalid_policy_version` with the path
 */
export function checkPolicyVersions(groups: ReceivedGroups<GroupsBodyName>, currentStep: number): void {
  const { newest } = groups
  if (newest === null || newest.version <= currentStep) return
  throw new DataError(
    'invalid_policy_version',
    `${newest.path} must be at most the model's step ${currentStep}, got ${newest.version}`,
    { param: newest.path },
  )
}

/**
 * Refuses a token id that the model cannot have sampled. Nothing is checked before the model's engine is loaded: then the job says it.
 *
 * @throws {DataError} `invalid_token_id` with the path
 */
export function checkTokenIds(
  groups: ReceivedGroups<GroupsBodyName>,
  baseModel: string,
  vocabularySize: number | undefined,
): void {
  const { largestTokenId } = groups
  if (largestTokenId === null || vocabularySize === undefined || largestTokenId.id < vocabularySize) return
  const { id, path } = largestTokenId
  throw new DataError(
    'invalid_token_id',
    `${path} must be a token id of ${baseModel}, from 0 to ${vocabularySize - 1}, got ${id}`,
    { param: path },
  )
}

/**
 * Refuses metrics that the job's checkpoint could not take at its end.
 *
 * @throws {DataError} `invalid_metric` with the path
 */
export function checkMetricNames({ unfitMetrics }: Pick<ReceivedGroups<GroupsBodyName>, 'unfitMetrics'>): void {
  if (unfitMetrics === null) return
  const { path, problem } = unfitMetrics
  throw new DataError('invalid_metric', `${path} ${problem}`, {
    param: path,
    hint: 'name what is measured, and put what differs from one trajectory to the next (an id, a text) into metadata',
  })
}
