/**
 * The `/commands` of a conversation: a table from name to what it does. An unknown one is an error, never a message.
 */

import { isJsonObject } from '#base/util/json.js'
import { closest } from '#base/util/suggest.js'
import { resolveServed } from '#cli/names/model-reference.js'
import type { CommandContext } from '../command/context.js'
import { parseInteger, parseNumber } from '../input/parse.js'
import { UsageError } from '../terminal/errors.js'
import { describeServed, type ReplOptions } from './repl-state.js'
import { loadConversation, loadJson, saveConversation } from './save.js'
import { readTools } from './tools.js'

/** What is left to do after a command. */
interface Outcome {
  readonly said?: string
  /** A question to be asked now. */
  readonly ask?: string
  readonly isOver?: boolean
}

interface ReplCommand {
  readonly usage: string
  readonly summary: string
  run(context: CommandContext, options: ReplOptions, rest: string): Outcome | Promise<Outcome>
}

const parameters: Readonly<Record<string, (text: string) => number>> = {
  temperature: (text) => parseNumber(text, 0, 2),
  top_p: (text) => parseNumber(text, 0, 1),
  max_tokens: (text) => parseInteger(text, 1),
  seed: (text) => parseInteger(text, 0),
}

const commands: Readonly<Record<string, ReplCommand>> = {
  help: {
    usage: '/help',
    summary: 'this list',
    run: () => ({
      said: [
        ...Object.values(commands).map(({ usage, summary }) => `  ${usage.padEnd(26)} ${summary}`),
        `  ${'"""'.padEnd(26)} begins and ends a message of several lines`,
        `  ${'//text'.padEnd(26)} a message that begins with a slash`,
      ].join('\n'),
    }),
  },
  system: {
    usage: '/system [text]',
    summary: 'set the system message; without text, show it',
    run: (_, { session }, rest) => {
      if (rest !== '') session.asking.system = rest
      return { said: `system: ${session.asking.system ?? '(none)'}` }
    },
  },
  set: {
    usage: '/set [parameter value]',
    summary: `${Object.keys(parameters).join(', ')}; without one, show what is set`,
    run: (_, { session }, rest) => {
      if (rest === '') return { said: `settings: ${showSettings(session.asking.sampling)}` }
      const [name = '', value = ''] = rest.split(/\s+/)
      const parse = parameters[name]
      if (parse === undefined) {
        throw new UsageError('unknown_parameter', `there is no parameter "${name}"`, {
          hint: `one of ${Object.keys(parameters).join(', ')}`,
        })
      }
      const key = name === 'max_tokens' ? 'max_completion_tokens' : name
      try {
        session.asking.sampling = { ...session.asking.sampling, [key]: parse(value) }
      } catch (cause) {
        throw new UsageError('invalid_value', `${name} must be ${(cause as Error).message}, got "${value}"`, { cause })
      }
      return { said: `${name} ${value}` }
    },
  },
  step: {
    usage: '/step <n|latest>',
    summary: 'ask another checkpoint of this model',
    run: async (context, { client, session, state }, rest) => {
      const served = await resolveServed(context, client, state.model, parseStep(rest))
      if (served.model === null) throw new UsageError('no_steps', 'a base model has no checkpoints')
      session.asking.model = served.name
      state.label = describeServed(served)
      return { said: `asking ${state.label}` }
    },
  },
  compare: {
    usage: '/compare <n|model|off>',
    summary: 'let another checkpoint or model answer every question, too',
    run: async (context, { client, state }, rest) => {
      if (rest === 'off' || rest === '') {
        state.compared = null
        return { said: 'compare is off' }
      }
      const isStep = /^(?:\d+|latest)$/.test(rest)
      const served = await resolveServed(
        context,
        client,
        isStep ? state.model : rest,
        isStep ? parseStep(rest) : undefined,
      )
      state.compared = { label: isStep ? `step ${rest}` : rest, model: served.name }
      return { said: `comparing with ${state.compared.label}` }
    },
  },
  logprobs: {
    usage: '/logprobs',
    summary: 'show how sure the model was of each token; again: off',
    run: (_, { state }) => {
      state.hasLogprobs = !state.hasLogprobs
      return { said: `logprobs ${state.hasLogprobs ? 'on' : 'off'}` }
    },
  },
  tools: {
    usage: '/tools <file|off>',
    summary: 'tools the model may call, as a JSON array',
    run: async ({ io }, { session }, rest) => {
      session.asking.tools = rest === 'off' || rest === '' ? null : await readTools(rest, io)
      return { said: `tools: ${session.asking.tools?.map((tool) => tool.function.name).join(', ') ?? 'none'}` }
    },
  },
  schema: {
    usage: '/schema <file|off>',
    summary: 'a JSON schema that answers must follow',
    run: async ({ io }, { session }, rest) => {
      const schema = rest === 'off' || rest === '' ? null : await loadJson(rest, io)
      if (schema !== null && !isJsonObject(schema)) throw new UsageError('input_invalid', `${rest} must hold an object`)
      session.asking.schema = schema
      return { said: schema === null ? 'schema off' : `answers follow ${rest}` }
    },
  },
  retry: {
    usage: '/retry',
    summary: 'ask the last question again',
    run: (_, { session }) => {
      const question = session.undo()
      return question === null ? { said: 'nothing was asked yet' } : { ask: question }
    },
  },
  undo: {
    usage: '/undo',
    summary: 'take back the last question and its answer',
    run: (_, { session }) => ({ said: session.undo() === null ? 'nothing was asked yet' : 'taken back' }),
  },
  clear: {
    usage: '/clear',
    summary: 'begin anew; system message and settings stay',
    run: (_, { session }) => {
      session.clear()
      return { said: 'cleared' }
    },
  },
  show: {
    usage: '/show',
    summary: 'model, settings and the conversation so far',
    run: (_, { session, state }) => ({
      said: [
        `model      ${state.label}`,
        `settings   ${showSettings(session.asking.sampling)}`,
        ...(session.asking.tools === null
          ? []
          : [`tools      ${session.asking.tools.map((tool) => tool.function.name).join(', ')}`]),
        ...(session.asking.schema === null ? [] : ['schema     on']),
        ...(state.hasLogprobs ? ['logprobs   on'] : []),
        ...(state.compared === null ? [] : [`compared   with ${state.compared.label}`]),
        ...session.toTrajectory().messages.map(({ role, content }) => `${role}: ${String(content)}`),
      ].join('\n'),
    }),
  },
  save: {
    usage: '/save <file>',
    summary: 'append the conversation as a trajectory that can be trained on',
    run: async (_, { session }, rest) => {
      if (rest === '') throw new UsageError('missing_argument', '/save needs a file')
      await saveConversation(rest, session.toTrajectory())
      return { said: `saved to ${rest}` }
    },
  },
  load: {
    usage: '/load <file>',
    summary: 'go on from a saved conversation',
    run: async ({ io }, { session }, rest) => {
      session.load(await loadConversation(rest, io))
      return { said: `loaded ${session.turns.messages.length} messages` }
    },
  },
  exit: { usage: '/exit', summary: 'leave', run: () => ({ isOver: true }) },
}

/** What a line that begins with a slash asks for. @throws {UsageError} `unknown_command` with the nearest one */
export function findCommand(
  line: string,
): (context: CommandContext, options: ReplOptions, line: string) => Outcome | Promise<Outcome> {
  const name = /^\/(\S*)/.exec(line)?.[1] ?? ''
  const found = commands[name === 'quit' || name === 'bye' ? 'exit' : name]
  if (found === undefined) {
    const near = closest(name, Object.keys(commands))
    throw new UsageError('unknown_command', `there is no command /${name}`, {
      hint: near === undefined ? '/help lists them; //text sends a slash' : `did you mean /${near}?`,
    })
  }
  return (context, options, text) => {
    const rest = text.replace(/^\/\S*\s*/, '').trim()
    if (rest !== '' && !/[<[]/.test(found.usage)) {
      throw new UsageError('unexpected_argument', `${found.usage} takes nothing after it, got "${rest}"`)
    }
    return found.run(context, options, rest)
  }
}

function parseStep(text: string): number | null {
  if (text === 'latest' || text === '') return null
  try {
    return parseInteger(text, 0)
  } catch (cause) {
    throw new UsageError('invalid_value', `a step is a whole number or latest, got "${text}"`, { cause })
  }
}

function showSettings(sampling: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(sampling).filter(([, value]) => value !== undefined)
  if (given.length === 0) return 'the defaults'
  // by the names that /set takes
  const nameOf = (key: string) => (key === 'max_completion_tokens' ? 'max_tokens' : key)
  return given.map(([key, value]) => `${nameOf(key)} ${JSON.stringify(value)}`).join(', ')
}
