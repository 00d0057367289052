/**
 * The tools of an MCP server as an environment: the model calls them until it answers without a call. What it is asked is a
 * file's; what that is worth is `--reward`'s, or follows from the call that a row expects: `"call": {"name": …, "arguments":
 * {…}}` earns 0.4 for the tool, 0.4 for the arguments, 0.2 for an answer after it.
 *
 * A command is started anew for each episode, so that none sees what another did.
 */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { type Environment, play, type Turn } from '#plugins/rl-library/environment.js'
import type { ToolCall } from '#sdk/rl/tool-calls.js'
import type { Answer, AskOptions, Message } from '#sdk/rl/trajectory.js'
import { EnvironmentFailure } from '../failures.js'
import type { EnvironmentSource, EnvironmentTask, SourceSetup } from '../source.js'
import { messagesOf, readTasks } from '../tasks-file.js'
import { type McpAddress, type McpSession, openMcpSession } from './mcp-session.js'
import { splitWords } from './words.js'

const WEIGHTS = { tool: 0.4, arguments: 0.4, answer: 0.2 }
const PARTS = ['tool', 'arguments', 'answer'] as const
/** Arguments of this kind of environment. */
const SETTINGS: ReadonlySet<string> = new Set(['tools', 'tool_choice'])

export async function openMcp(setup: SourceSetup): Promise<EnvironmentSource> {
  const address = addressOf(setup.target)
  const name = `mcp:${setup.target}`
  if (setup.tasksFile === null) {
    throw new InvalidRequestError('tasks_missing', `${name} says what can be done, not what to ask`, {
      param: '--tasks-file',
      hint: 'give --tasks-file JSON Lines: {"prompt":"…","call":{"name":"add","arguments":{"a":1,"b":2}}}, or {"prompt":"…"} with --reward',
    })
  }
  if ('url' in address && (setup.isolate || Object.keys(setup.variables).length > 0)) {
    const flag = setup.isolate ? '--isolate' : '--env'
    throw new InvalidRequestError(
      'option_without_effect',
      `${flag} has no effect on ${name}, which is started by others`,
      { param: flag },
    )
  }
  const unknown = Object.keys(setup.settings).find((key) => !SETTINGS.has(key))
  if (unknown !== undefined) {
    throw new InvalidRequestError('option_without_effect', `--set ${unknown} has no effect on ${name}`, {
      param: '--set',
      hint: '--set tools=a,b shows the model these tools only, --set tool_choice=required has it call one in each turn',
    })
  }
  const tasks = await readTasks(setup.tasksFile, setup.seed, (row) => faultOf(row, setup.isJudgedElsewhere))

  return {
    async describe(signal) {
      const within = signal ?? AbortSignal.timeout(setup.stepTimeoutMs)
      const session = await openMcpSession(setup, { address, name, signal: within })
      try {
        const { server, tools } = session
        const said = JSON.stringify([server.name, server.version, tools, tasks.map(({ key }) => key)])
        return {
          name: `mcp:${server.name}`,
          version: server.version,
          digest: createHash('sha256').update(said).digest('hex'),
          tasks: tasks.length,
          tools,
          hasEvalSplit: false,
          rewardParts: setup.isJudgedElsewhere ? [] : PARTS,
          rewardRange: setup.isJudgedElsewhere ? null : [0, 1],
        }
      } finally {
        await session.close()
      }
    },
    async tasks(_split, from, count) {
      return tasks.slice(from, from + count)
    },
    async rollout(task, { model, seed, signal }) {
      const session = await openMcpSession(setup, { address, name, signal })
      try {
        const episode = createEpisode(session, task, setup.isJudgedElsewhere)
        const sampling = { ...model.sampling, ...chosenBody(model.sampling.body, setup.settings['tool_choice']) }
        return await play(model, episode, { ...sampling, seed, signal, maxTurns: setup.maxTurns })
      } finally {
        await session.close()
      }
    },
    close: async () => undefined,
  }
}

function addressOf(target: string): McpAddress {
  if (/^https?:\/\//.test(target)) return { url: new URL(target) }
  const [command, ...args] = splitWords(target)
  if (command === undefined) throw new InvalidRequestError('unknown_environment', `"mcp:${target}" names no command`)
  return { words: [command, ...args] }
}

function faultOf(row: JsonObject, isJudgedElsewhere: boolean): string | null {
  if (messagesOf(row) === null) return 'a task needs "prompt" as text or "messages" as an array'
  const { call } = row
  if (call === undefined)
    return isJudgedElsewhere ? null : 'a task needs "call", the call that is wanted, where --reward does not judge'
  const isCall = isJsonObject(call) && typeof call['name'] === 'string' && isJsonObject(call['arguments'] ?? {})
  return isCall ? null : '"call" must be {"name":…,"arguments":{…}}'
}

function createEpisode(session: McpSession, task: EnvironmentTask, isJudgedElsewhere: boolean): Environment {
  const calls: ToolCall[] = []
  let [errors, dropped, earned] = [0, 0, 0]
  const metrics = () => ({ tool_errors: errors, ...(dropped === 0 ? {} : { 'env/parts_left_out': dropped }) })
  async function run({ name, arguments: args }: ToolCall): Promise<string> {
    if (!session.tools.some((tool) => nameOf(tool) === name)) return `error: there is no tool "${name}"`
    if (args === null) return 'error: the arguments are not a JSON object'
    const result = await session.call(name, args)
    dropped += result.dropped
    return result.text
  }
  return {
    reset: () => ({ messages: messagesOf(task.facts) ?? [], tools: session.tools }),
    async step(answer): Promise<Turn> {
      const messages: Message[] = []
      for (const call of answer.toolCalls) {
        calls.push(call)
        const content = await run(call)
        if (content.startsWith('error:')) errors += 1
        messages.push({ role: 'tool', tool_call_id: call.id, name: call.name, content })
      }
      const isDone = answer.toolCalls.length === 0
      if (isJudgedElsewhere) return { messages, isDone, metrics: metrics() }
      // what was earned by calls stays when the episode is cut off
      const parts = partsOf(task.facts, calls, isDone ? answer : null)
      const sum = PARTS.reduce((all, part) => all + WEIGHTS[part] * parts[part], 0)
      const reward = sum - earned
      earned = sum
      const named = Object.fromEntries(PARTS.map((part) => [`reward/${part}`, parts[part]]))
      return { messages, isDone, reward, metrics: { ...metrics(), ...named } }
    },
  }
}

function chosenBody(body: AskOptions['body'], choice: JsonValue | undefined): Pick<AskOptions, 'body'> {
  return choice === undefined ? {} : { body: { ...body, tool_choice: String(choice) } }
}

/** How much of the wanted call was made, each 0 or 1. */
function partsOf(
  { call }: JsonObject,
  calls: readonly ToolCall[],
  answer: Answer | null,
): Readonly<Record<(typeof PARTS)[number], number>> {
  const { name, arguments: wanted = {} } = call as { readonly name: string; readonly arguments?: JsonObject }
  const named = calls.filter((each) => each.name === name)
  const isExact = named.some((each) => isDeepStrictEqual(each.arguments, wanted))
  return {
    tool: named.length > 0 ? 1 : 0,
    arguments: isExact ? 1 : 0,
    answer: calls.length > 0 && (answer?.content.trim() ?? '') !== '' ? 1 : 0,
  }
}

function nameOf(tool: McpSession['tools'][number]): string {
  const described = tool['function']
  if (isJsonObject(described) && typeof described['name'] === 'string') return described['name']
  throw new EnvironmentFailure('env_protocol', 'a tool has no name')
}
