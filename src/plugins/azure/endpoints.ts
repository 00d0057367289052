/**
 * Azure's addresses of OpenAI's endpoints → their paths here: `/openai/v1/files`, as OpenAI's client asks with Azure's base URL,
 * and as `AzureOpenAI` does `/openai/files` and `/openai/deployments/NAME/chat/completions`.
 *
 * Deviation: the body's `model` says which model answers, the deployment in the path does not; `AzureOpenAI` makes the path of
 * it. `api-version` has no effect, and is named among ignored fields where a query is read.
 */
import type { PluginEndpoints } from '#service/plugin.js'

/** Of OpenAI's own endpoints; ours have no other address. */
const NOUN = '(?:chat|completions|files|fine_tuning|batches|uploads|evals|models|responses)'
const PLAIN = new RegExp(`^/openai(?:/v1)?(/${NOUN}(?:/.*)?)$`, 's')
const DEPLOYED = /^\/openai\/deployments\/.+?(\/(?:(?:chat\/)?completions|batches))$/s

/** @returns a path that is none of Azure's as it is */
export function aliasOf(path: string): string {
  const within = PLAIN.exec(path)?.[1] ?? DEPLOYED.exec(path)?.[1]
  return within === undefined ? path : `/v1${within}`
}

export const azureEndpoints = { runs: [], aliasOf } as const satisfies PluginEndpoints
