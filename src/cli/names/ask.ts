/**
 * Lists that a person at a terminal chooses from when a command line leaves something out. Nothing here is reached in a pipe, in CI,
 * with `--json` or with `--no-input`.
 */

import type { Config } from '#cli/config/load.js'
import type { Model } from '#contract/wire/models.js'
import type { Client } from '#sdk/client/client.js'
import { UsageError } from '../terminal/errors.js'
import type { Choice, Prompts } from '../terminal/prompts.js'
import { shortName } from './model-reference.js'

/** What a person can be asked for: a model of a list, any that answers questions, or a name to type. */
export type AskedKind = 'model' | 'served' | 'name'

/** What asking needs of a command's context. */
export interface Asking {
  readonly config: Config
  readonly prompts: Prompts
  readonly signal: AbortSignal
  readonly connect: () => Promise<Client>
}

/** Models offered: nobody scrolls through more. */
const MOST = 100

/**
 * Asks for a missing argument.
 *
 * @returns what the argument would have said
 * @throws {UsageError} `missing_argument` when there is none to choose
 */
export async function askForArgument(context: Asking, kind: AskedKind): Promise<string> {
  const { config, prompts, signal } = context
  if (kind === 'name') return await prompts.text('Name of the new model:', '<name>')
  const client = await context.connect()
  const page = await client.models.list({ limit: MOST }, { signal })
  const models = page.data.toReversed().map((model) => toChoice(model, shortName(model, config)))
  const bases = kind === 'served' ? (await client.baseModels.list({ signal })).map(toBaseChoice) : []
  if (models.length + bases.length === 0) {
    throw new UsageError('missing_argument', 'there is no model yet', {
      hint: 'trainyard models create <name> --base-model <name>',
    })
  }
  return await prompts.select('Which model?', [...models, ...bases], '<model>')
}

/** Asks which base model; the only one there is is taken. */
export async function askForBaseModel(context: Pick<Asking, 'prompts' | 'signal'>, client: Client): Promise<string> {
  const names = await client.baseModels.list({ signal: context.signal })
  const choices = names.map((name) => ({ value: name, name }))
  return await context.prompts.select('Which base model?', choices, '--base-model')
}

/** Asks which of several models of one name, in different projects. */
export async function askForProject(context: Pick<Asking, 'prompts'>, models: readonly Model[]): Promise<Model> {
  const choices = models.map((model) => ({ value: model, name: `${model.project}/${model.name}` }))
  return await context.prompts.select(
    `"${models[0]?.name ?? ''}" is in several projects. Which one?`,
    choices,
    '--project',
  )
}

function toChoice(model: Model, value: string): Choice<string> {
  return { value, name: value, description: `${model.base_model}, step ${model.step}` }
}

function toBaseChoice(name: string): Choice<string> {
  return { value: name, name: `${name} (base model)`, description: 'the base model itself' }
}
