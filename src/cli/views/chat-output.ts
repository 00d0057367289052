/**
 * Answers of a model on stdout: text as it comes, one JSON object, or JSON Lines of chunks; statistics on stderr.
 */

import type { ChatChunk, ChatResponse, Usage } from '#contract/wire/chat-completions.js'
import { joinChunks } from '#sdk/rl/join-chunks.js'
import type { CommandContext } from '../command/context.js'
import { plural } from '../terminal/format.js'
import { type Progress, startProgressLater } from '../terminal/progress.js'

/** A base model that was just added is prepared and measured before its first answer, which takes seconds to minutes. */
export function startWaiting({ io, output }: CommandContext): Progress {
  return startProgressLater(
    io,
    output.mode === 'human',
    'no answer yet: new weights are prepared once, others wait their turn',
  )
}

/** Prints an answer as it is written; returns it whole. */
export async function streamAnswer(
  context: CommandContext,
  chunks: AsyncIterable<ChatChunk>,
  hasStats: boolean,
): Promise<ChatResponse> {
  const { output, clock } = context
  const startMs = clock.monotonicMs()
  const seen: ChatChunk[] = []
  let firstMs: number | null = null
  let usage: Usage | undefined
  let finishReason: string | null = null
  let lastText = ''
  const waiting = startWaiting(context)
  try {
    for await (const chunk of chunks) {
      seen.push(chunk)
      usage = chunk.usage ?? usage
      if (output.mode === 'json') output.event(chunk, null)
      for (const choice of chunk.choices) {
        const text = choice.delta.content ?? ''
        finishReason = choice.finish_reason ?? finishReason
        if (text === '') continue
        waiting.stop()
        firstMs ??= clock.monotonicMs()
        lastText = text
        if (output.mode !== 'json') output.text(text)
      }
    }
  } finally {
    waiting.stop()
    if (output.mode !== 'json' && output.isTerminal && !lastText.endsWith('\n')) output.text('\n')
  }
  warnOfLength(context, finishReason)
  if (hasStats) printStats(context, usage, { startMs, firstMs, endMs: clock.monotonicMs() })
  return joinChunks(seen)
}

/** Prints a finished answer and returns it; several ones are separated by a blank line. */
export async function answerOnce(
  context: CommandContext,
  ask: () => Promise<ChatResponse>,
  hasStats: boolean,
): Promise<ChatResponse> {
  const { output, clock } = context
  const startMs = clock.monotonicMs()
  const waiting = startWaiting(context)
  const response = await ask().finally(() => waiting.stop())
  if (output.mode === 'json') {
    output.result(response, '', [])
  } else {
    const texts = response.choices.map((choice) => choice.message.content ?? '')
    output.text(texts.join('\n\n'))
    if (output.isTerminal && !texts.at(-1)?.endsWith('\n')) output.text('\n')
  }
  for (const choice of response.choices) warnOfLength(context, choice.finish_reason)
  if (hasStats) printStats(context, response.usage, { startMs, firstMs: null, endMs: clock.monotonicMs() })
  return response
}

function warnOfLength(context: CommandContext, finishReason: string | null): void {
  if (finishReason === 'length' && context.output.mode === 'human') {
    context.output.warning('the answer was cut at the length limit; --max-tokens raises it')
  }
}

function printStats(
  context: CommandContext,
  usage: Usage | undefined,
  times: { readonly startMs: number; readonly firstMs: number | null; readonly endMs: number },
): void {
  const { output } = context
  const tokens = usage?.completion_tokens ?? 0
  const seconds = Math.max(0.001, (times.endMs - (times.firstMs ?? times.startMs)) / 1000)
  const parts = [
    `${plural(usage?.prompt_tokens ?? 0, 'prompt token')}`,
    `${plural(tokens, 'answer token')}`,
    ...(times.firstMs === null ? [] : [`first after ${((times.firstMs - times.startMs) / 1000).toFixed(2)} s`]),
    `${(tokens / seconds).toFixed(1)} tokens/s`,
  ]
  output.status(parts.join(', '))
}
