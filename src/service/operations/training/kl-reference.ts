/**
 * Which checkpoint the KL penalty of an RL job is measured to.
 *
 * Checked when the job is created and found again for each attempt: a step never changes, so every attempt gets the same.
 */
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { type CheckpointRecord, findCheckpoint } from '#service/storage/checkpoints.js'
import { findModel, type ModelRecord } from '#service/storage/models.js'
import type { KlReference, RlHyperparameters } from '#training/hyperparameters.js'
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
 * @throws {InvalidRequestError} `invalid_value` with `param`
 */
export async function assertKlReference(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'baseModels'>,
  principal: Tenant,
  model: ModelRecord,
  { klReference, policyLoss }: Pick<RlHyperparameters, 'klReference' | 'policyLoss'>,
): Promise<void> {
  if (policyLoss.kl === null || klReference.kind === 'base') return
  const question = { entity: principal.entity, project: principal.project, modelId: model.id, parentStep: model.step }
  try {
    await findKlReference(context, question, klReference)
  } catch (cause) {
    if (!(cause instanceof NotFoundError)) throw cause
    const param = `experimental_config.${PARAMS[klReference.kind]}`
    throw new InvalidRequestError('invalid_value', `${param} names no checkpoint: ${cause.message}`, { param, cause })
  }
}

/**
 * Refuses a reference of a preference job that does not exist.
 *
 * @throws {InvalidRequestError} `invalid_value` with `param`
 */
export async function assertReferenceStep(
  context: Pick<ServiceContext, 'db'>,
  model: ModelRecord,
  step: number | null,
): Promise<void> {
  if (step === null || step === 0) return
  try {
    await requireStep(context, model.id, step)
  } catch (cause) {
    if (!(cause instanceof NotFoundError)) throw cause
    const param = 'config.reference_step'
    throw new InvalidRequestError('invalid_value', `${param} names no checkpoint: ${cause.message}`, { param, cause })
  }
}

const PARAMS = {
  step: 'kl_penalty_reference_step',
  lag: 'kl_penalty_step_lag',
  adapter: 'kl_ref_adapter_path',
} as const

/**
 * The checkpoint of a reference; null for the base model, which is step 0 of every model.
 *
 * @throws {NotFoundError} `checkpoint_not_found`, also for a checkpoint deleted since
 */
export async function findKlReference(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'baseModels'>,
  { entity, project, modelId, parentStep }: ReferenceQuestion,
  reference: KlReference,
): Promise<CheckpointRecord | null> {
  if (reference.kind === 'base') return null
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
