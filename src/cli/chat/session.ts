/**
 * One conversation with a model: what was said, how it is asked, and the answers as choices that can be trained on.
 *
 * Knows no terminal: it yields pieces of text as they come.
 */

import type { ChatChunk, ChatRequestBody, ChoiceLogprobs } from '#contract/wire/chat-completions.js'
import type { Client } from '#sdk/client/client.js'
import { joinChunks } from '#sdk/rl/join-chunks.js'
import { type Answer, type Message, type Tool, Trajectory } from '#sdk/rl/trajectory.js'
import { untilRepeating } from './defaults.js'

/** A sampled token with its log-probability. */
export type TokenLogprob = NonNullable<ChoiceLogprobs['content']>[number]

/** How the model is asked; `/set`, `/tools` and `/schema` change it. */
export interface Asking {
  model: string
  system: string | null
  sampling: Partial<ChatRequestBody>
  tools: readonly Tool[] | null
  schema: Readonly<Record<string, unknown>> | null
  /** Told where an answer began to repeat itself, which ends it; null: answers come whole. */
  readonly onRepeating?: (() => void) | null
}

export interface Session {
  readonly asking: Asking
  /** The conversation so far; its system message is `asking.system`. */
  readonly turns: Trajectory
  /** Asks; yields text as it comes. An interrupted answer stays as text that is not trained on. */
  ask(question: string, signal: AbortSignal): AsyncGenerator<string>
  /** Asks another model the last question, and records nothing. */
  compare(model: string, signal: AbortSignal): AsyncGenerator<string>
  /** Takes back the last question and what came of it; the question, or null when there is none. */
  undo(): string | null
  clear(): void
  /** Goes on from a conversation that was saved. */
  load(messages: readonly Message[]): void
  /** What the last answer was; null before the first one, and after an interruption. */
  lastAnswer(): Answer | null
  lastUsage(): ChatChunk['usage'] | null
  /** The conversation as a trajectory, with the system message. */
  toTrajectory(): Trajectory
}

/** Creates an empty conversation. */
export function createSession(client: Client, asking: Asking): Session {
  let turns = new Trajectory()
  let last: Answer | null = null
  let usage: ChatChunk['usage'] | null = null

  function systemMessages(): readonly Message[] {
    return asking.system === null ? [] : [{ role: 'system', content: asking.system }]
  }

  async function* stream(model: string, messages: readonly Message[], signal: AbortSignal): AsyncGenerator<ChatChunk> {
    const { tools, schema, sampling, onRepeating = null } = asking
    const chunks = client.chat.stream(
      {
        model,
        messages: [...systemMessages(), ...messages],
        logprobs: true,
        return_token_ids: true,
        ...sampling,
        ...(tools === null ? {} : { tools: [...tools] }),
        ...(schema === null
          ? {}
          : { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } } }),
      },
      { signal },
    )
    yield* onRepeating === null || schema !== null ? chunks : untilRepeating(chunks, onRepeating)
  }

  return {
    asking,
    get turns() {
      return turns
    },
    async *ask(question, signal) {
      turns.add({ role: 'user', content: question })
      last = null
      const chunks: ChatChunk[] = []
      let text = ''
      let isWhole = false
      try {
        for await (const chunk of stream(asking.model, turns.messages, signal)) {
          chunks.push(chunk)
          const piece = chunk.choices[0]?.delta.content ?? ''
          text += piece
          if (piece !== '') yield piece
        }
        isWhole = true
        const response = joinChunks(chunks)
        usage = response.usage
        last = turns.record(response)
      } finally {
        if (!isWhole && chunks.length > 0) turns.add({ role: 'assistant', content: text })
        else if (!isWhole) turns.histories[0]?.items.pop()
      }
    },
    async *compare(model, signal) {
      const { messages } = turns
      const at = messages.findLastIndex(({ role }) => role === 'user')
      for await (const chunk of stream(model, messages.slice(0, at + 1), signal)) {
        const piece = chunk.choices[0]?.delta.content ?? ''
        if (piece !== '') yield piece
      }
    },
    undo() {
      const items = turns.histories[0]?.items ?? []
      const { messages } = turns
      const at = messages.findLastIndex(({ role }) => role === 'user')
      if (at < 0) return null
      items.splice(at)
      last = null
      return String(messages[at]?.content ?? '')
    },
    clear() {
      turns = new Trajectory()
      last = null
    },
    load(messages) {
      const [first, ...rest] = messages
      const hasSystem = first?.role === 'system' && typeof first.content === 'string'
      if (hasSystem) asking.system = String(first.content)
      turns = new Trajectory(hasSystem ? rest : messages)
      last = null
    },
    lastAnswer: () => last,
    lastUsage: () => usage,
    toTrajectory() {
      const trajectory = new Trajectory(systemMessages(), asking.tools === null ? {} : { tools: asking.tools })
      for (const message of turns.histories[0]?.items ?? []) trajectory.histories[0]?.items.push(message)
      return trajectory
    },
  }
}
