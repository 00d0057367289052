/**
 * Resolves the `model` that a chat request names to what answers it.
 *
 * Accepted: a base model's name; `name`, `project/name`, `entity/project/name` or the model's id, each with `:stepN`, `:vN`
 * (the same as `:stepN`) or `:latest`; a name alone means the model of the key's own project or else of `DEFAULT_PROJECT`, before the
 * only one of that name; any of them behind `wandb-artifact:///` (two or three slashes) and behind litellm's
 * `hosted_vllm/`. "Latest" is resolved here, when the request is admitted: a checkpoint published later does not touch it.
 * A model without checkpoints answers with its base model, which is its step 0.
 */

import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { DEFAULT_PROJECT } from '#contract/settings/service.js'
import type { ServedModel } from '#contract/wire/models.js'
import {
  ADAPTER_CONFIG_FILE,
  ADAPTER_WEIGHTS_FILE,
  checkpointTitle,
  MANIFEST_FILE,
} from '#formats/checkpoint-manifest.js'
import type { AdapterRef } from '#inference/host/protocol.js'
import { toLocalFiles } from '#service/storage/blobs.js'
import { type CheckpointRecord, findCheckpoint } from '#service/storage/checkpoints.js'
import { findModel, findModelByName, findModelsNamed, type ModelRecord } from '#service/storage/models.js'
import { isOwn } from '../../access/tenant.js'
import type { ServiceContext, Tenant } from '../../context.js'
import { baseCard, modelCard } from './served-list.js'

/** What answers a request: fixed for its whole life. */
export interface Policy {
  /** What the answer calls the model. */
  readonly servedName: string
  readonly baseModel: string
  /** Null for a plain base model. */
  readonly model: ModelRecord | null
  readonly step: number
  readonly adapter: AdapterRef | null
  /** Template variables that chats with the checkpoint have where they do not say otherwise. */
  readonly templateKwargs: JsonObject
}

interface Address {
  readonly parts: readonly string[]
  readonly step: number | 'latest'
}

/** @throws {NotFoundError} `model_not_found` in vLLM's words; {InvalidRequestError} `ambiguous_model` */
export async function resolvePolicy(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'baseModels'>,
  principal: Tenant,
  requested: string | null,
): Promise<Policy> {
  const name = (requested ?? '').replace(/^hosted_vllm\//, '')
  const base = name === '' ? context.baseModels[0] : context.baseModels.find((entry) => entry.name === name)
  if (base !== undefined) {
    return { servedName: base.name, baseModel: base.name, model: null, step: 0, adapter: null, templateKwargs: {} }
  }
  const address = parseAddress(name)
  const model = address === null ? null : await findAddressed(context, principal, address.parts)
  if (address === null || model === null) throw doesNotExist(requested ?? '')
  const checkpoint = address.step === 0 ? null : await findCheckpoint(context.db, model.id, address.step)
  if (checkpoint === null && address.step !== 0 && address.step !== 'latest') throw doesNotExist(requested ?? '')
  return {
    servedName: requested ?? '',
    baseModel: model.baseModel,
    model,
    step: checkpoint?.step ?? 0,
    adapter: checkpoint === null ? null : await toAdapter(context, model, checkpoint),
    templateKwargs: checkpoint?.templateKwargs ?? {},
  }
}

/**
 * The card of one name, in any form that a request may use.
 *
 * @throws as `resolvePolicy`
 */
export async function describeServedModel(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'engines' | 'baseModels' | 'modelFacts'>,
  principal: Tenant,
  { requested, startedSeconds }: { readonly requested: string; readonly startedSeconds: number },
): Promise<ServedModel> {
  const { model, baseModel, step } = await resolvePolicy(context, principal, requested)
  if (model === null) return baseCard(context, baseModel, startedSeconds)
  const isStep = /:(?:step|v)\d+$/.test(requested)
  const checkpoint = isStep ? await findCheckpoint(context.db, model.id, step) : null
  return modelCard(context, model, isStep ? step : null, checkpoint?.createdAtMs ?? model.createdAtMs)
}

function parseAddress(name: string): Address | null {
  const path = name.replace(/^wandb-artifact:\/\/\/?/, '')
  const [address, alias, ...rest] = path.split(':')
  if (address === undefined || rest.length > 0) return null
  const parts = address.split('/')
  if (parts.length > 3 || parts.some((part) => part === '')) return null
  if (alias === undefined || alias === 'latest') return { parts, step: 'latest' }
  const step = /^(?:step|v)(\d{1,9})$/.exec(alias)?.[1]
  return step === undefined ? null : { parts, step: Number(step) }
}

async function findAddressed(
  context: Pick<ServiceContext, 'db'>,
  principal: Tenant,
  parts: readonly string[],
): Promise<ModelRecord | null> {
  const found = await findInEntity(context, principal, parts)
  return found !== null && isOwn(principal, found) ? found : null
}

async function findInEntity(
  { db }: Pick<ServiceContext, 'db'>,
  principal: Tenant,
  parts: readonly string[],
): Promise<ModelRecord | null> {
  const [first = '', second, third] = parts
  if (third !== undefined && second !== undefined) {
    return first === principal.entity ? findModelByName(db, first, second, third) : null
  }
  if (second !== undefined) return findModelByName(db, principal.entity, first, second)
  // what somebody makes in another project must not change what a name means
  const own = await findModelByName(db, principal.entity, principal.project ?? DEFAULT_PROJECT, first)
  if (own !== null) return own
  const named = await findModelsNamed(db, principal, first, 10)
  if (named.length > 1) {
    const candidates = named.map((model) => `"${model.project}/${model.name}"`).join(', ')
    throw new InvalidRequestError('ambiguous_model', `model "${first}" exists in several projects: ${candidates}`, {
      param: 'model',
      hint: 'write project/name',
    })
  }
  if (named[0] !== undefined) return named[0]
  const byId = await findModel(db, first)
  return byId?.entity === principal.entity ? byId : null
}

/** Files a host needs; a checkpoint from before manifests has only the first two. */
const SERVED_FILES: readonly string[] = [ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE, MANIFEST_FILE]

async function toAdapter(
  context: Pick<ServiceContext, 'blobs'>,
  model: ModelRecord,
  checkpoint: CheckpointRecord,
): Promise<AdapterRef> {
  const served = checkpoint.files.filter((file) => SERVED_FILES.includes(file.name))
  const title = checkpointTitle(model.name, checkpoint.step)
  return {
    digest: checkpoint.adapterDigest,
    checkpoint: title,
    files: await toLocalFiles(context.blobs, title, served),
  }
}

function doesNotExist(requested: string): NotFoundError {
  return new NotFoundError('model_not_found', `The model \`${requested.slice(0, 500)}\` does not exist.`, {
    param: 'model',
  })
}
