/**
 * Which checkpoint a job is compared with: what a KL penalty is measured to, and the reference of preferences.
 *
 * Checked when the job is created and found again for each attempt: a step never changes, so every attempt gets the same.
 */
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { PolicyReference } from '#contract/jobs/kind.js'
import { type CheckpointRecord, findCheckpoint } from '#service/storage/checkpoints.js'
import { findModel, type ModelRecord } from '#service/storage/models.js'
import type { ServiceContext, Tenant } from '../context.js'
import { resolvePolicy } from '../generation/chat/served-models.js'

/** Who asks, for which model, starting from which of its steps. */
export interface ReferenceQuestion extends Tenant {
  readonly modelId: string
  readonly parentStep: number
}

/**
 * Refuses a reference that does not exist, or that is no adapter of the model's base.
 *
 * @param root where the job's options stand in the request
 * @throws {InvalidRequestError} `invalid_value` with `param`
 */
export async function assertReference(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'baseModels'>,
  principal: Tenant,
  model: ModelRecord,
  { reference, root }: { readonly reference: PolicyReference | null; readonly root: string },
): Promise<void> {
  if (reference === null) return
  const question = { entity: principal.entity, project: principal.project, modelId: model.id, parentStep: model.step }
  try {
    await findKlReference(context, question, reference)
  } catch (cause) {
    if (!(cause instanceof NotFoundError)) throw cause
    const param = `${root}.${reference.option}`
    throw new InvalidRequestError('invalid_value', `${param} names no checkpoint: ${cause.message}`, { param, cause })
  }
}

/**
 * The checkpoint of a reference; null for the base model, which is step 0 of every model.
 *
 * @throws {NotFoundError} `checkpoint_not_found`, also for a checkpoint deleted since
 */
export async function findKlReference(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'baseModels'>,
  { entity, project, modelId, parentStep }: ReferenceQuestion,
  reference: PolicyReference,
): Promise<CheckpointRecord | null> {
  if (reference.kind === 'adapter') {
    const policy = await resolvePolicy(context, { entity, project }, reference.address)
    const model = await findModel(context.db, modelId)
    if (policy.baseModel !== model?.baseModel) {
      throw new NotFoundError(
        'checkpoint_not_found',
        `"${reference.address}" is an adapter of ${policy.baseModel}, not of ${model?.baseModel ?? 'this base model'}`,
      )
    }
    return policy.model === null || policy.step === 0 ? null : requireStep(context, policy.model.id, policy.step)
  }
  const step = reference.kind === 'step' ? reference.step : Math.max(0, parentStep - reference.lag)
  return step === 0 ? null : requireStep(context, modelId, step)
}

async function requireStep(
  context: Pick<ServiceContext, 'db'>,
  modelId: string,
  step: number,
): Promise<CheckpointRecord> {
  const checkpoint = await findCheckpoint(context.db, modelId, step)
  if (checkpoint !== null) return checkpoint
  throw new NotFoundError('checkpoint_not_found', `the model has no checkpoint at step ${step}`)
}
