/**
 * What a job runs with where an agent says nothing: as the command line chooses it, by the size of the base model and the rows at hand. The
 * API's own defaults are the hosted service's, which are for models of billions of parameters.
 */
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { JOB_DEFINITIONS } from '#contract/jobs/kinds.js'
import { advisedOptions, openPasses, sizeDefaults } from '#contract/jobs/size-defaults.js'
import { EXAMPLES_KIND, type JobKind } from '#contract/wire/job-words.js'
import { askFor, type ToolCall } from './tool.js'

/** @returns the call with the options of its job filled in; what was given stays */
export async function withDefaults(kind: JobKind, given: JsonObject, call: ToolCall): Promise<JsonObject> {
  const { root } = JOB_DEFINITIONS[kind]
  const options = given[root] ?? {}
  // another type is the endpoint's to refuse
  if (!isJsonObject(options)) return given
  const model = (await askFor(
    call,
    'GET',
    `/v1/preview/models/${encodeURIComponent(String(given['model_id']))}`,
  )) as JsonObject
  const name = String(model['base_model']).split('/').map(encodeURIComponent).join('/')
  const base = (await askFor(call, 'GET', `/v1/preview/base-models/${name}`).catch(() => ({}))) as JsonObject
  const parameters = typeof base['parameters'] === 'number' ? base['parameters'] : null
  const chosen: JsonObject = { ...options, ...advisedOptions(kind, options) }
  const rows = kind !== EXAMPLES_KIND ? null : await countRows(String(given['training_data_url']), call)
  const hasValidation = (given['validation_data_url'] ?? null) !== null
  // how often rows are gone through is left open by supervised jobs alone
  const passes = rows === null ? {} : openPasses(chosen, { ...rows, parameters, hasValidation })
  const timed: JsonObject = { ...chosen, ...passes }
  return { ...given, [root]: { ...timed, ...sizeDefaults(kind, timed, parameters) } }
}

/** Lines and bytes of an uploaded file, without holding it; null for data that lie elsewhere. */
async function countRows(url: string, { ask, signal }: ToolCall): Promise<{ rows: number; bytes: number } | null> {
  if (!url.startsWith('file-')) return null
  const response = await ask(`/v1/files/${encodeURIComponent(url)}/content`, { signal })
  if (!response.ok || response.body === null) return null
  let rows = 0
  let bytes = 0
  let isOpen = false
  for await (const part of response.body as AsyncIterable<Uint8Array>) {
    bytes += part.length
    for (const byte of part) {
      if (byte === NEWLINE && isOpen) rows += 1
      isOpen = byte !== NEWLINE
    }
  }
  return { rows: rows + Number(isOpen), bytes }
}

const NEWLINE = 10
