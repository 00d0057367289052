/**
 * The conversation at the terminal: lines in, answers out, `/commands` in between.
 *
 * History is kept between runs, for its owner only. Ctrl-C stops an answer that is being written, and says how to leave
 * otherwise; Ctrl-D leaves.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { Writable } from 'node:stream'
import { AppError } from '#base/errors/errors.js'
import { createFolders } from '#base/util/create-folders.js'
import type { CommandContext } from '../command/context.js'
import type { Sink } from '../terminal/io.js'
import { startWaiting } from '../views/chat-output.js'
import { findCommand } from './repl-commands.js'
import type { ReplOptions } from './repl-state.js'
import { saveConversation } from './save.js'
import { renderAnswerTokens } from './tokens.js'

/** Lines of history that are kept. */
const HISTORY = 500
const FENCE = '"""'

/** Runs until Ctrl-D, `/exit` or the end of input. */
export async function runRepl(context: CommandContext, options: ReplOptions): Promise<void> {
  const { io, output, config, signal } = context
  const { session, state } = options
  const path = join(config.paths.stateDir, 'chat_history')
  const lines = createInterface({
    input: io.stdin.stream,
    output: process.stdout.isTTY ? process.stdout : toStream(io.stdout),
    terminal: io.stdin.isTerminal && process.stdout.isTTY === true,
    history: options.hasHistory ? await readHistory(path) : [],
    historySize: HISTORY,
    removeHistoryDuplicates: true,
  })
  let answering: AbortController | null = null
  // What was typed is read on after Ctrl-D, but a closed editor shows no prompt: Node.js 24 throws.
  let isClosed = false
  lines.once('close', () => {
    isClosed = true
  })
  function prompt(text: string): void {
    if (isClosed) return
    lines.setPrompt(text)
    lines.prompt()
  }
  lines.on('SIGINT', () => {
    if (answering !== null) answering.abort(new AppError('cancelled', 'interrupted', 'interrupted'))
    else io.stderr.write('\n(Ctrl-D or /exit leaves)\n')
    if (answering === null) prompt(lines.getPrompt())
  })
  signal.addEventListener('abort', () => lines.close(), { once: true })

  async function answer(question: string): Promise<void> {
    answering = new AbortController()
    try {
      await say(session.ask(question, answering.signal))
      const last = session.lastAnswer()
      for (const call of last?.toolCalls ?? []) output.status(`calls ${call.name}(${call.text})`)
      if (last?.finishReason === 'length')
        output.warning('the answer was cut at the length limit; /set max_tokens raises it')
      if (state.hasLogprobs && last !== null) io.stderr.write(`${renderAnswerTokens(last.choice, io.stderr)}\n`)
      if (state.compared !== null) {
        output.status(`--- ${state.compared.label}`)
        await say(session.compare(state.compared.model, answering.signal))
      }
      if (state.savePath !== null) await saveConversation(state.savePath, session.toTrajectory())
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      output.status(error.code === 'interrupted' ? '(interrupted)' : `error: ${error.message}`)
    } finally {
      answering = null
    }
  }

  async function say(pieces: AsyncIterable<string>): Promise<void> {
    let end = ''
    const waiting = startWaiting(context)
    try {
      for await (const piece of pieces) {
        waiting.stop()
        output.text(piece)
        end = piece
      }
    } finally {
      waiting.stop()
      if (!end.endsWith('\n')) output.text('\n')
    }
  }

  async function command(text: string): Promise<boolean> {
    try {
      const outcome = await findCommand(text)(context, options, text)
      if (outcome.ask !== undefined) await answer(outcome.ask)
      if (outcome.said !== undefined) output.status(outcome.said)
      return outcome.isOver === true
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      output.status(`error: ${error.message}${error.hint === undefined ? '' : `\nhint: ${error.hint}`}`)
      return false
    }
  }

  output.status(`${state.label} - /help for commands, Ctrl-D to leave`)
  prompt('> ')
  try {
    for await (const turn of readTurns(lines, () => prompt('... '))) {
      const text = turn.trim()
      if (text !== '') {
        if (text.startsWith('/') && !text.startsWith('//')) {
          if (await command(text)) break
        } else {
          await answer(text.startsWith('//') ? turn.slice(1) : turn)
        }
      }
      prompt('> ')
    }
  } finally {
    lines.close()
    if (options.hasHistory) await writeHistory(path, (lines as { history?: readonly string[] }).history ?? [])
  }
  signal.throwIfAborted()
}

/** The editor wants a stream; what is written goes where everything else goes. */
function toStream(sink: Sink): Writable {
  return new Writable({
    write(chunk, _, done) {
      sink.write(String(chunk))
      done()
    },
  })
}

/** What a person means by one turn: a line, or the lines between two `"""`. */
async function* readTurns(lines: Interface, promptForMore: () => void): AsyncGenerator<string> {
  let fenced: string[] | null = null
  for await (const line of lines) {
    if (fenced === null) {
      const rest = line.trim()
      if (!rest.startsWith(FENCE)) {
        yield line
        continue
      }
      const inside = rest.slice(FENCE.length)
      if (inside.endsWith(FENCE)) {
        yield inside.slice(0, -FENCE.length)
        continue
      }
      fenced = inside === '' ? [] : [inside]
    } else if (line.trimEnd().endsWith(FENCE)) {
      const whole: string = [...fenced, line.trimEnd().slice(0, -FENCE.length)].join('\n').trim()
      fenced = null
      yield whole
      continue
    } else {
      fenced.push(line)
    }
    promptForMore()
  }
}

/** Newest first, as the editor wants it; none when there is none. */
async function readHistory(path: string): Promise<string[]> {
  const text = await readFile(path, 'utf8').catch(() => '')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .toReversed()
}

/** A history that cannot be kept is no reason to fail: the conversation is over. */
async function writeHistory(path: string, history: readonly string[]): Promise<void> {
  try {
    await createFolders(dirname(path), 0o700)
    await writeFile(path, `${history.slice(0, HISTORY).toReversed().join('\n')}\n`, { mode: 0o600 })
  } catch {
    // A read-only home, for example.
  }
}
