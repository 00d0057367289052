/**
 * A task that `trainyard init` writes, and the parts that its programs have in common. Knows no disk.
 */
import type { JsonObject } from '#base/util/json.js'
import { command } from '#contract/wire/command-words.js'
import type { BaseModelChoice } from './base-model.js'

/** What somebody has to learn from. */
export const SOURCES = ['examples', 'checker', 'judge', 'teacher'] as const
export type AskedSource = (typeof SOURCES)[number]
export type Source = AskedSource | 'preferences' | 'labelled' | 'conversations'

/** What a program is written in. */
export const LANGUAGES = ['program', 'shell'] as const
export type Language = (typeof LANGUAGES)[number]

export interface Task {
  /** Of the model, and of the folder. */
  readonly name: string
  readonly baseModel: BaseModelChoice
  readonly source: Source
  readonly language: Language
  readonly training: readonly JsonObject[]
  readonly heldOut: readonly JsonObject[]
  /** Whether rows say what is right. */
  readonly hasAnswers: boolean
  /** Whether Node runs TypeScript by itself. */
  readonly isTypeScript: boolean
}

/** How a program gets the key of a server in the default place. */
export const SET_KEY = 'export TRAINYARD_API_KEY=$(cat ~/.local/share/trainyard/api-key)'

/** Starts the service with the base model, and takes the model from it. */
export function openLocal({ name, baseModel }: Task): string {
  const { name: base, path, isHub, server } = baseModel
  const register = `const model = await new TrainableModel(local.client, { name: ${JSON.stringify(name)}, baseModel: ${JSON.stringify(base)} }).register()`
  if (server !== undefined) {
    return `// on the server that serves ${base}, with the key of TRAINYARD_API_KEY
const { TRAINYARD_URL: baseUrl = ${JSON.stringify(server)}, TRAINYARD_API_KEY: apiKey } = process.env
if (!apiKey) {
  console.error('TRAINYARD_API_KEY is not set, and ' + baseUrl + ' takes a key: ${SET_KEY} on its machine')
  process.exit(2)
}
const local = { client: createClient({ baseUrl, apiKey }), close: async () => {} }
${register}`
  }
  const models =
    path === null ? '' : `, baseModels: [{ name: ${JSON.stringify(base)}, sourcePath: ${JSON.stringify(path)} }]`
  const download = `const { baseModels } = local.client
const isThere = async () => (await baseModels.details()).data.find((each) => each.name === ${JSON.stringify(base)})
if ((await isThere())?.status !== 'ready') await baseModels.add({ hub: ${JSON.stringify(base)} })
for (let model = await isThere(); model?.status !== 'ready'; model = await isThere()) {
  if (model?.status !== 'downloading') throw new Error(model?.error ?? 'the download of ${base} was interrupted: run this again')
  await new Promise((resolve) => setTimeout(resolve, 1000))
}
`
  return `const local = await startLocal({ dataDir: './data'${models} })
${isHub ? download : ''}${register}`
}

/** What opens it, by the name that it is imported under. */
export const opener = ({ baseModel }: Task): string => (baseModel.server === undefined ? 'startLocal' : 'createClient')

/** How somebody talks with what was learned. */
export function talk({ name, baseModel }: Task): string {
  const chat = command`trainyard chat ${name}`
  return baseModel.server === undefined ? `trainyard serve --data-dir ./data, then ${chat}` : chat
}

/** A type where the language has them. */
export function typed({ isTypeScript }: Task, type: string): string {
  return isTypeScript ? `: ${type}` : ''
}
