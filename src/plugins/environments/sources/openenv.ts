/**
 * A server of the OpenEnv kind (openenv 0.10, BSD-3): one websocket an episode at `/ws`, since its HTTP `/reset` and `/step`
 * make an environment of their own for each call. What the model says becomes an action by the schema that the server shows:
 * its text, JSON, or calls of tools.
 *
 * A server plays one session in all unless it says otherwise; how many is learned from its refusals.
 */
import { createHash } from 'node:crypto'
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { type Environment, play, type Turn } from '#plugins/rl-library/environment.js'
import { sleep } from '#sdk/client/http.js'
import type { Answer, AskOptions, Message, Tool } from '#sdk/rl/trajectory.js'
import { EnvironmentFailure } from '../failures.js'
import type { EnvironmentSource, EnvironmentTask, RolloutOptions, SourceSetup } from '../source.js'
import { seedOf } from '../tasks.js'
import { readTasks } from '../tasks-file.js'
import { CapacityReached, openSocket, type Socket } from './openenv-socket.js'
import { createSeats } from './seats.js'

const HALF = 2 ** 30
/** Time between two tries for a seat that others hold, milliseconds. */
const RETRY_MS = 100
const MOST_BYTES = 1024 * 1024

/** How answers become actions. */
type ActionForm =
  | { readonly kind: 'text'; readonly field: string }
  | { readonly kind: 'json'; readonly schema: JsonObject }
  | { readonly kind: 'tools' }

export async function openOpenEnv(setup: SourceSetup): Promise<EnvironmentSource> {
  const base = addressOf(setup.target)
  const name = `openenv:${setup.target}`
  const timeoutMs = setup.stepTimeoutMs
  const seats = createSeats()
  let form: Promise<ActionForm> | null = null
  const rows = setup.tasksFile === null ? null : await readTasks(setup.tasksFile, setup.seed, () => null)

  const getJson = (path: string, signal?: AbortSignal): Promise<JsonObject> =>
    readJson(new URL(path, base), { name, timeoutMs, signal })

  const readForm = (signal?: AbortSignal): Promise<ActionForm> => {
    form ??= getJson('schema', signal).then((schemas) => formOf(schemas['action']))
    form.catch(() => {
      form = null
    })
    return form
  }

  /** A session, as soon as the server has a seat. */
  async function enter(
    task: EnvironmentTask,
    { signal }: Pick<RolloutOptions, 'signal'>,
  ): Promise<{ readonly socket: Socket; readonly first: JsonObject }> {
    const parameters = rows === null ? { ...setup.settings, seed: task.seed } : { ...setup.settings, ...task.facts }
    const untilMs = performance.now() + timeoutMs
    for (;;) {
      const socket = await openSocket(new URL('ws', toWebSocket(base)), { name, timeoutMs, signal })
      try {
        return { socket, first: await socket.ask('reset', parameters) }
      } catch (error) {
        socket.close()
        if (!(error instanceof CapacityReached) || performance.now() > untilMs) throw error
        seats.limit(error.capacity)
        await sleep(RETRY_MS, signal)
      }
    }
  }

  return {
    async describe(signal) {
      const [schemas, metadata] = await Promise.all([
        getJson('schema', signal),
        getJson('metadata', signal).catch(() => ({}) as JsonObject),
      ])
      const said = JSON.stringify([schemas, metadata['name'] ?? null, metadata['version'] ?? null, setup.settings])
      const tools =
        (await readForm(signal)).kind === 'tools'
          ? await seats.take(AbortSignal.timeout(timeoutMs), () =>
              listTools(new URL('ws', toWebSocket(base)), name, timeoutMs),
            )
          : []
      return {
        name: typeof metadata['name'] === 'string' ? `openenv:${metadata['name']}` : name,
        version: String(metadata['version'] ?? ''),
        digest: createHash('sha256').update(said).digest('hex'),
        tasks: rows?.length ?? null,
        tools,
        hasEvalSplit: rows === null,
        rewardParts: [],
        rewardRange: null,
      }
    },
    async tasks(split, from, count) {
      if (rows !== null) return rows.slice(from, from + count)
      return Array.from({ length: count }, (_, i) => {
        const seed = (seedOf(setup.seed, split, from + i) % HALF) + (split === 'eval' ? HALF : 0)
        return { key: `seed-${seed}`, seed, facts: { seed } }
      })
    },
    async rollout(task, options) {
      const { model, seed, signal } = options
      const action = await readForm(signal)
      return await seats.take(signal, async () => {
        const { socket, first } = await enter(task, options)
        try {
          const tools = action.kind === 'tools' ? toolsOf(await socket.ask('step', { type: 'list_tools' })) : []
          const environment = createEpisode(socket, {
            action,
            tools,
            first,
            name,
            judgedElsewhere: setup.isJudgedElsewhere,
          })
          return await play(model, environment, {
            ...withForm(model.sampling, action),
            seed,
            signal,
            maxTurns: setup.maxTurns,
            turnRewards: setup.turnRewards,
          })
        } finally {
          socket.close()
        }
      })
    },
    mostAtOnce: () => seats.most(),
    close: async () => undefined,
  }
}

/** The tools of a server, asked in a session of its own. */
async function listTools(url: URL, name: string, timeoutMs: number): Promise<readonly Tool[]> {
  const socket = await openSocket(url, { name, timeoutMs, signal: AbortSignal.timeout(timeoutMs) })
  try {
    return toolsOf(await socket.ask('step', { type: 'list_tools' }))
  } finally {
    socket.close()
  }
}

async function readJson(
  url: URL,
  {
    name,
    timeoutMs,
    signal,
  }: { readonly name: string; readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
): Promise<JsonObject> {
  const within = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal === undefined ? [] : [signal])])
  try {
    const response = await fetch(url, { signal: within, redirect: 'error' })
    if (!response.ok) throw new Error(`status ${response.status}`)
    const value: unknown = JSON.parse(await readBounded(response, MOST_BYTES))
    if (!isJsonObject(value)) throw new Error('no JSON object')
    return value
  } catch (error) {
    if (signal?.aborted === true) throw signal.reason
    const why = error instanceof Error ? error.message : String(error)
    throw new EnvironmentFailure('env_crashed', `${name}: GET ${url.pathname}: ${why}`, {
      isStart: true,
      hint: 'start the server first; the address is that of its root, for example openenv:http://127.0.0.1:8000',
    })
  }
}

/** The text of an answer. @throws {Error} for more bytes */
async function readBounded(response: Response, most: number): Promise<string> {
  const decoder = new TextDecoder()
  let [text, bytes] = ['', 0]
  for await (const part of response.body ?? []) {
    const chunk = part as Uint8Array
    bytes += chunk.byteLength
    if (bytes > most) throw new Error(`an answer of more than ${most} bytes`)
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

function addressOf(target: string): URL {
  try {
    const url = new URL(target.endsWith('/') ? target : `${target}/`)
    if (url.protocol === 'http:' || url.protocol === 'https:') return url
  } catch {
    // said below
  }
  throw new InvalidRequestError('unknown_environment', `"${target}" is no address of a server`, {
    hint: 'for example openenv:http://127.0.0.1:8000',
  })
}

function toWebSocket(base: URL): URL {
  const url = new URL(base)
  url.protocol = base.protocol === 'https:' ? 'wss:' : 'ws:'
  return url
}

/** One required text is the answer's own; `metadata` is nobody's. */
function formOf(given: unknown): ActionForm {
  const schema = isJsonObject(given) ? given : {}
  const properties = isJsonObject(schema['properties']) ? schema['properties'] : {}
  const names = Object.keys(properties).filter((name) => name !== 'metadata')
  if (names.includes('tool_name') && names.includes('arguments')) return { kind: 'tools' }
  const required = (Array.isArray(schema['required']) ? schema['required'] : []).filter((name) => name !== 'metadata')
  const [only] = required
  const field = required.length === 1 && typeof only === 'string' ? properties[only] : undefined
  if (typeof only === 'string' && isJsonObject(field) && field['type'] === 'string' && field['enum'] === undefined) {
    return { kind: 'text', field: only }
  }
  const { metadata: _, ...shown } = properties
  return { kind: 'json', schema: { ...schema, properties: shown } }
}

/** JSON by the server's schema. */
function withForm(sampling: AskOptions, action: ActionForm): AskOptions {
  if (action.kind !== 'json') return sampling
  const format = { type: 'json_schema', json_schema: { name: 'action', schema: action.schema, strict: true } }
  return { ...sampling, body: { ...sampling.body, response_format: format } as NonNullable<AskOptions['body']> }
}

function createEpisode(
  socket: Socket,
  episode: {
    readonly action: ActionForm
    readonly tools: readonly Tool[]
    readonly first: JsonObject
    readonly name: string
    readonly judgedElsewhere: boolean
  },
): Environment {
  const { action, tools, first } = episode
  let errors = 0
  const observed = (
    data: JsonObject,
  ): { readonly messages: readonly Message[]; readonly reward: number; readonly isDone: boolean } => {
    const observation = isJsonObject(data['observation']) ? data['observation'] : {}
    return {
      messages: messagesOf(observation),
      reward: episode.judgedElsewhere ? 0 : rewardOf(data, episode.name),
      isDone: data['done'] === true,
    }
  }
  /** An action that is refused leaves the episode open: the model is told why. */
  const step = async (data: JsonObject): Promise<JsonObject | string> => {
    try {
      return await socket.ask('step', data)
    } catch (error) {
      if (!(error instanceof EnvironmentFailure) || error.kind !== 'env_error') throw error
      errors += 1
      return `error: ${error.message}`
    }
  }
  return {
    reset: () => ({ messages: observed(first).messages, ...(tools.length === 0 ? {} : { tools }) }),
    async step(answer): Promise<Turn> {
      if (action.kind === 'tools') return await callTools(answer)
      const given = action.kind === 'text' ? { [action.field]: answer.content } : parseAction(answer.content)
      if (given === null) {
        errors += 1
        return {
          messages: [{ role: 'user', content: 'error: the answer is no JSON object' }],
          metrics: { tool_errors: errors },
        }
      }
      const result = await step(given)
      if (typeof result === 'string')
        return { messages: [{ role: 'user', content: result }], metrics: { tool_errors: errors } }
      return { ...observed(result), metrics: { tool_errors: errors } }
    },
  }

  async function callTools({ toolCalls }: Answer): Promise<Turn> {
    if (toolCalls.length === 0) return { isDone: true, metrics: { tool_errors: errors } }
    const messages: Message[] = []
    let [reward, isDone] = [0, false]
    for (const { id, name, arguments: args } of toolCalls) {
      const result =
        args === null
          ? 'error: the arguments are not a JSON object'
          : await step({ type: 'call_tool', tool_name: name, arguments: args })
      const told = typeof result === 'string' ? null : observed(result)
      if (args === null) errors += 1
      reward += told?.reward ?? 0
      isDone ||= told?.isDone === true
      const content = typeof result === 'string' ? result : resultText(result)
      messages.push({ role: 'tool', tool_call_id: id, name, content })
    }
    return { messages, reward, isDone, metrics: { tool_errors: errors } }
  }
}

function rewardOf({ reward }: JsonObject, name: string): number {
  if (reward === null || reward === undefined) return 0
  if (typeof reward === 'number' || typeof reward === 'boolean') return Number(reward)
  throw new EnvironmentFailure(
    'reward_invalid',
    `${name}: a reward must be a number, got ${JSON.stringify(reward).slice(0, 60)}`,
  )
}

/** What the model is shown of an observation: its messages, its one text, or all of it as JSON. */
function messagesOf(observation: JsonObject): readonly Message[] {
  const { metadata: _, ...shown } = observation
  const { messages } = shown
  if (
    Array.isArray(messages) &&
    messages.length > 0 &&
    messages.every((each) => isJsonObject(each) && typeof each['content'] === 'string')
  ) {
    return messages.map((each) => {
      const { role, content } = each as { readonly role?: unknown; readonly content: string }
      return { role: role === 'system' || role === 'assistant' ? role : 'user', content }
    })
  }
  const texts = Object.values(shown).filter((value) => typeof value === 'string' && value !== '')
  const named = shown['prompt'] ?? (texts.length === 1 ? texts[0] : undefined)
  return [{ role: 'user', content: typeof named === 'string' ? named : JSON.stringify(shown) }]
}

function resultText(data: JsonObject): string {
  const observation = isJsonObject(data['observation']) ? data['observation'] : {}
  const { error, result } = observation
  if (error !== null && error !== undefined) return `error: ${JSON.stringify(error)}`
  const { data: inner, content } = isJsonObject(result) ? result : {}
  const value = inner ?? content ?? result ?? null
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function toolsOf(data: JsonObject): readonly Tool[] {
  const observation = isJsonObject(data['observation']) ? data['observation'] : {}
  const tools = Array.isArray(observation['tools']) ? observation['tools'] : []
  return tools.flatMap((tool) => {
    if (!isJsonObject(tool) || typeof tool['name'] !== 'string') return []
    const parameters = isJsonObject(tool['input_schema']) ? tool['input_schema'] : { type: 'object', properties: {} }
    return [
      {
        type: 'function',
        function: { name: tool['name'], description: String(tool['description'] ?? ''), parameters, strict: true },
      },
    ]
  })
}

function parseAction(content: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(content)
    return isJsonObject(value) ? value : null
  } catch {
    return null
  }
}
