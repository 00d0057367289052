/**
 * The model of a demo: a new one each time, named after its task with the next free number.
 */

import { NotFoundError } from '#base/errors/errors.js'
import { command } from '#contract/wire/command-words.js'
import type { Model } from '#contract/wire/models.js'
import type { Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'
import { eachItem } from '#sdk/client/pages.js'

export interface DemoModelOptions {
  readonly baseModel: string
  /** The number is put behind it: `demo-brief` becomes `demo-brief-1`. */
  readonly name: string
  readonly project: string
  readonly entity: string | null
  readonly signal: AbortSignal
}

/** Times the next number is tried when somebody else takes it first. */
const MAX_ATTEMPTS = 5

/**
 * Creates the model.
 *
 * @throws {NotFoundError} `base_model_not_found`, naming those the service has
 */
export async function createDemoModel(client: Client, options: DemoModelOptions): Promise<Model> {
  const { baseModel, name, project, entity, signal } = options
  const known = await client.baseModels.list({ signal })
  if (!known.includes(baseModel)) {
    throw new NotFoundError('base_model_not_found', `base model "${baseModel}" is not served by ${client.baseUrl}`, {
      hint: known[0] === undefined ? 'trainyard base-models list' : command`trainyard demo --base-model ${known[0]}`,
    })
  }
  let highest = 0
  for await (const model of eachItem((page) => client.models.list({ project, ...page }, { signal }))) {
    const number = model.name.startsWith(`${name}-`) ? Number(model.name.slice(name.length + 1)) : Number.NaN
    if (Number.isSafeInteger(number)) highest = Math.max(highest, number)
  }
  for (let attempt = 1; ; attempt += 1) {
    try {
      const request = { entity, project, name: `${name}-${highest + attempt}`, base_model: baseModel }
      return await client.models.create(request, { signal })
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409 || attempt === MAX_ATTEMPTS) throw error
    }
  }
}
