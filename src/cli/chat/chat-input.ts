/**
 * What is asked of a model: messages from arguments, standard input and a file, and the sampling flags.
 */

import { parseExactRow } from '#base/json/exact-json.js'
import { isJsonObject } from '#base/util/json.js'
import type { ChatRequestBody } from '#contract/wire/chat-completions.js'
import { flag } from '../command/flags.js'
import { displayPath, messageOf, readInput } from '../input/input-file.js'
import { parseInteger } from '../input/parse.js'
import { UsageError } from '../terminal/errors.js'
import type { Io } from '../terminal/io.js'

/** Flags of `trainyard chat`. */
export const chatFlags = {
  system: flag.text('--system <text>', 'system message'),
  messages: flag.text('--messages <file>', 'JSON array of messages to begin with, - for standard input'),
  step: flag.custom((text) => (text === 'latest' ? null : parseInteger(text, 0)))(
    '--step <n|latest>',
    'checkpoint to ask',
  ),
  temperature: flag.number(0, 2)(
    '--temperature <x>',
    '0 to 2, 0 for the likeliest token; default that of the model’s files, else 0.8; 1 with --save and for base models',
  ),
  topP: flag.number(0, 1)(
    '--top-p <x>',
    'nucleus sampling, 0 to 1; default that of the model’s files, else 0.95; 1 with --save and for base models',
  ),
  maxTokens: flag.integer(1)('--max-tokens <n>', 'longest answer'),
  seed: flag.integer(0)('--seed <n>', 'the same seed gives the same answer', { isAdvanced: true }),
  stop: flag.repeated((text) => text, '--stop <text>', 'end the answer before this text'),
  count: flag.integer(1, 128)('-n <count>', 'number of answers, 1 to 128; default 1', { isAdvanced: true }),
  stream: flag.toggle('--stream', 'print as it is written; default on, off with --json'),
  stats: flag.switch('--stats', 'tokens and speed on stderr'),
  logprobs: flag.switch('--logprobs', 'how sure the model was of each token, on stderr'),
  tools: flag.text('--tools <file>', 'JSON array of tools the model may call'),
  schema: flag.text('--schema <file>', 'JSON schema that the answer must follow'),
  save: flag.text('--save <file>', 'append the conversation as a trajectory that can be trained on'),
  history: flag.toggle('--history', 'keep what is typed for the next conversation; default on', { isAdvanced: true }),
}

interface SamplingFlags {
  readonly temperature: number | undefined
  readonly topP: number | undefined
  readonly maxTokens: number | undefined
  readonly seed: number | undefined
  readonly stop: readonly string[]
  readonly count: number | undefined
}

/** The sampling fields of a request; a flag that was not given is left to the server. */
export function sampling(flags: SamplingFlags): Partial<ChatRequestBody> {
  return {
    ...(flags.temperature === undefined ? {} : { temperature: flags.temperature }),
    ...(flags.topP === undefined ? {} : { top_p: flags.topP }),
    ...(flags.maxTokens === undefined ? {} : { max_completion_tokens: flags.maxTokens }),
    ...(flags.seed === undefined ? {} : { seed: flags.seed }),
    ...(flags.stop.length === 0 ? {} : { stop: [...flags.stop] }),
    ...(flags.count === undefined ? {} : { n: flags.count }),
  }
}

type Messages = ChatRequestBody['messages']

/** Time for a program that started this one to write its first bytes. */
const FIRST_BYTE_MS = 3000

/**
 * Builds the conversation: system message, messages of the file, then the question.
 *
 * A pipe of a shell is read to its end, however long that takes. A program that starts this one often leaves standard input
 * open and never writes: with a prompt, that is not waited for. The word `-` in the prompt asks to wait.
 *
 * @throws {UsageError} `input_invalid` for a malformed file; `missing_argument` when there is nothing to ask
 */
export async function readMessages(
  io: Io,
  input: {
    readonly prompt: readonly string[]
    readonly system: string | undefined
    readonly file: string | undefined
    readonly warn: (text: string) => void
  },
): Promise<Messages> {
  const fromFile = input.file === undefined ? [] : await readMessageFile(input.file, io)
  const isStdinFree = input.file !== '-' && !io.stdin.isTerminal
  const isAsked = input.prompt.includes('-')
  const words = input.prompt.filter((word) => word !== '-')
  const piped = isStdinFree ? (await readPiped(io, isAsked || words.length === 0, input.warn)).replace(/\n+$/, '') : ''
  const question = [piped, words.join(' ')].filter((part) => part !== '').join('\n\n')
  const messages = [
    ...(input.system === undefined ? [] : [{ role: 'system', content: input.system }]),
    ...fromFile,
    ...(question === '' ? [] : [{ role: 'user', content: question }]),
  ]
  if (!messages.some((message) => message.role !== 'system')) {
    throw new UsageError('missing_argument', 'there is nothing to ask: no prompt and no input', {
      hint: 'trainyard chat <model> "your question"',
    })
  }
  return messages
}

async function readPiped(io: Io, isNeeded: boolean, warn: (text: string) => void): Promise<string> {
  if (isNeeded || !io.stdin.isSocket || (await io.stdin.hasInput(FIRST_BYTE_MS))) return await io.stdin.readAll()
  warn('standard input is open but nothing came; asking without it (the word - waits for it)')
  return ''
}

/** Messages of a file. */
export async function readMessageFile(path: string, io: Io): Promise<Messages> {
  const text = await readInput(path, io)
  let value: unknown
  try {
    value = parseExactRow(text)
  } catch (cause) {
    throw new UsageError('input_invalid', `${displayPath(path)} is not valid JSON: ${messageOf(cause)}`, { cause })
  }
  const messages = isJsonObject(value) ? value['messages'] : value
  if (!Array.isArray(messages)) {
    throw new UsageError('input_invalid', `${displayPath(path)} must hold a JSON array of messages`)
  }
  messages.forEach((message: unknown, i) => {
    if (isJsonObject(message) && typeof message['role'] === 'string') return
    throw new UsageError('input_invalid', `${displayPath(path)}: [${i}].role: must be text such as "user"`)
  })
  return messages as Messages
}
