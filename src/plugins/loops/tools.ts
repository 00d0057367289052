/**
 * Tools of a loop's episodes, as Azure's reinforcement jobs have them: the model's call is POSTed to the tool's server as a
 * `function_call`, and its `function_call_output` goes back to the model. What 4xx says the model is shown; what is busy,
 * fails or says nothing is asked again three times, and then the episode is dropped. Source: Microsoft's notes on the
 * preview.
 *
 * Addresses keep the rules of webhooks.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonValue } from '#base/util/json.js'
import { postJson } from '#plugins/graders/grading/endpoint.js'
import { type AddressRules, createAddressRules } from '#service/operations/address-rules.js'
import type { ServiceContext } from '#service/operations/context.js'

/** Who answers calls of one function. */
export interface EpisodeTool {
  /** Of the function, as rows describe it. */
  readonly name: string
  readonly serverUrl: string
  readonly headers: Readonly<Record<string, string>>
}

/** What the model asks. */
export interface ToolCallRequest {
  readonly name: string
  readonly callId: string
  /** JSON, as the model wrote it. */
  readonly arguments: string
  /** The same for all calls of an episode. */
  readonly traceId: string
}

/** What the model is shown, or why the episode is dropped. */
export type ToolAnswer = { readonly output: string; readonly isError: boolean } | { readonly dropped: string }

const MOST_TOOLS = 64
const MOST_HEADERS = 32
const MOST_HEADER = 4096
const DEFAULT_EPISODE_STEPS = 10
const MOST_BYTES = 1_000_000
const RETRIES = 3

/** Tests shorten them. */
export interface ToolTimes {
  readonly timeoutMs: number
  readonly retryMs: number
}
const TOOL_TIMES: ToolTimes = { timeoutMs: 600_000, retryMs: 1000 }

/** @param hosts see `createAddressRules` */
export function createToolRules(hosts: readonly string[], lookUp: ServiceContext['lookUp']): AddressRules {
  const refusal = { code: 'tool_refused', param: 'server_url', subject: 'server_url', flag: '--webhook-host' }
  return createAddressRules(hosts, refusal, lookUp)
}

/**
 * What a request says of episodes. @param prefix how its fields are named in refusals, with the point behind
 *
 * @throws {InvalidRequestError} `invalid_value`, `tool_refused`, by the path of what is wrong
 */
export function readEpisode(
  given: { readonly tools?: JsonValue | undefined; readonly max_episode_steps?: number | null | undefined },
  rules: AddressRules,
  prefix = '',
): { readonly tools?: readonly EpisodeTool[]; readonly maxEpisodeSteps?: number } {
  const param = `${prefix}max_episode_steps`
  const tools = readTools(given.tools, rules, `${prefix}tools`)
  const steps = given.max_episode_steps ?? null
  if (tools.length > 0) return { tools, maxEpisodeSteps: steps ?? DEFAULT_EPISODE_STEPS }
  if (steps === null) return {}
  throw new InvalidRequestError('invalid_value', `${param} has no effect without tools`, {
    param,
    hint: `leave it out, or name ${prefix}tools: an answer without tools is one turn`,
  })
}

/** What is shown of tools; headers hold keys: only their names are. */
export const shownTools = (tools: readonly EpisodeTool[]) =>
  tools.map(({ name, serverUrl, headers }) => ({
    name,
    server_url: serverUrl,
    headers: Object.fromEntries(Object.keys(headers).map((header) => [header, '***'])),
  }))

function readTools(given: JsonValue | undefined, rules: AddressRules, path: string): readonly EpisodeTool[] {
  const wrong = (at: string, message: string) =>
    new InvalidRequestError('invalid_value', `${at} ${message}`, {
      param: at,
      hint: 'each tool is {"name", "server_url", "headers"}, and rows describe its function under "tools"',
    })
  if (given == null) return []
  if (!Array.isArray(given)) throw wrong(path, 'must be a list of tools')
  if (given.length > MOST_TOOLS) throw wrong(path, `has ${given.length} tools, there may be ${MOST_TOOLS}`)
  const names = new Set<string>()
  return (given as readonly JsonValue[]).map((tool, i) => {
    const at = `${path}[${i}]`
    if (!isJsonObject(tool)) throw wrong(at, 'must be an object')
    const { name, server_url: url, headers = {}, ...rest } = tool
    const [unknown] = Object.keys(rest)
    if (unknown !== undefined) throw wrong(`${at}.${unknown.slice(0, 60)}`, 'is no field of a tool')
    if (typeof name !== 'string' || !/^[\w.-]{1,64}$/.test(name)) {
      throw wrong(`${at}.name`, 'must be the name of a function: letters, digits, _ . -, at most 64')
    }
    if (names.has(name)) throw wrong(`${at}.name`, `is "${name}", as that of a tool before`)
    names.add(name)
    if (typeof url !== 'string' || url.length > 2048) throw wrong(`${at}.server_url`, 'must be an address')
    return { name, serverUrl: checkUrl(rules, url, `${at}.server_url`), headers: readHeaders(headers, at, wrong) }
  })
}

function checkUrl(rules: AddressRules, url: string, param: string): string {
  try {
    return rules.check(url).href
  } catch (error) {
    if (!(error instanceof InvalidRequestError)) throw error
    throw new InvalidRequestError(error.code, `${param}: ${error.message}`, { param, hint: error.hint })
  }
}

function readHeaders(
  given: JsonValue | undefined,
  at: string,
  wrong: (at: string, message: string) => InvalidRequestError,
): Readonly<Record<string, string>> {
  const param = `${at}.headers`
  const headers = given ?? {}
  if (!isJsonObject(headers)) throw wrong(param, 'must be an object')
  const all = Object.entries(headers)
  if (all.length > MOST_HEADERS) throw wrong(param, `has ${all.length} headers, there may be ${MOST_HEADERS}`)
  for (const [name, value] of all) {
    const isFit = typeof value === 'string' && value.length <= MOST_HEADER && /^[\t\x20-\x7e\x80-\xff]*$/.test(value)
    if (!/^[\w!#$%&'*+.^`|~-]{1,100}$/.test(name) || !isFit) {
      throw wrong(param, `must hold names and texts of headers, got "${name.slice(0, 60)}"`)
    }
  }
  return headers as Readonly<Record<string, string>>
}

export type CallTool = (tool: EpisodeTool, call: ToolCallRequest, owner: string) => Promise<ToolAnswer>

/** Calls tools. It never throws for what a tool says or does not say. */
export function createToolCalls(rules: AddressRules, times: ToolTimes = TOOL_TIMES): CallTool {
  return async (tool, call, owner) => {
    const body = JSON.stringify({
      type: 'function_call',
      id: `fc_${call.callId.replace(/^call_/, '')}`,
      call_id: call.callId,
      name: call.name,
      arguments: call.arguments,
      trace_id: call.traceId,
    })
    if (Buffer.byteLength(body) > MOST_BYTES) return tooLarge('the call')
    let reason = ''
    for (let tried = 0; tried <= RETRIES; tried += 1) {
      if (tried > 0) await sleep(times.retryMs * 2 ** (tried - 1))
      const signal = AbortSignal.timeout(times.timeoutMs)
      try {
        const address = await rules.resolve(rules.check(tool.serverUrl), owner, signal)
        const { status, text } = await postJson(tool.serverUrl, { address, headers: tool.headers, body, signal })
        const isPassing = status >= 500 || status === 429
        if (!isPassing) return read(status, text)
        reason = `it answered ${status}`
      } catch (error) {
        if (error instanceof InvalidRequestError) return { dropped: error.message }
        const { message } = error as Error
        if (message.includes(`more than ${MOST_BYTES} bytes`)) return tooLarge('the answer')
        reason = signal.aborted ? `no answer within ${times.timeoutMs} ms` : message || 'the connection broke'
      }
    }
    return { dropped: `tool ${tool.name} gave no output in ${RETRIES + 1} tries: ${reason}` }
  }
}

const tooLarge = (what: string): ToolAnswer => ({
  output: `error 413: ${what} has more than ${MOST_BYTES} bytes`,
  isError: true,
})

/** Of an answer below 500: its output, else all that it says. */
function read(status: number, text: string): ToolAnswer {
  const isError = status < 200 || status >= 300
  let output: JsonValue | undefined
  try {
    output = (JSON.parse(text) as { readonly output?: JsonValue } | null)?.output
  } catch {
    output = undefined
  }
  if (output === undefined) return { output: isError ? `error ${status}: ${text}` : text, isError }
  return { output: typeof output === 'string' ? output : JSON.stringify(output), isError }
}
