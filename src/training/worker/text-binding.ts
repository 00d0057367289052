/**
 * Connects a model's tokenizer and chat template to what the readers of rows (`formats/rows/`) and `training/rows/`
 * need of them.
 */
import type { JsonObject } from '#base/util/json.js'
import type { PreferenceText } from '#formats/rows/preference-data.js'
import type { SftText } from '#formats/rows/sft-data.js'
import type { SampledToken } from '#formats/rows/trajectory.js'
import { renderConversation } from '#model/text/render.js'
import { leftOutOf, renderTurns, renderWithMask } from '#model/text/render-with-mask.js'
import type { TextModel } from '#model/text/text-model.js'
import type { TokenNames } from '#training/rollouts/rollout-notes.js'
import type { TrajectoryText } from '#training/rows/turns.js'

/**
 * Text for trajectories and for supervised examples.
 *
 * @param kwargs template variables of the chats that are learned
 */
export function bindText(model: TextModel, kwargs: JsonObject = {}): TrajectoryText & SftText & PreferenceText {
  const idOfBytes = lazily(() => indexByBytes(model))
  const ofSampler = { ...samplerKwargs(model), ...kwargs }
  const prompted = { addGenerationPrompt: true, allowsLeftOut: true, kwargs: ofSampler }
  return {
    vocabularySize: model.tokenizer.vocabularySize,
    isReasoningRead: model.chatTemplate?.source.includes('reasoning') === true,
    renderPrompt: ({ messages, tools }) => renderConversation(model, { ...prompted, messages, tools }).tokenIds,
    renderLastTurn: ({ messages, tools }) => renderWithMask(model, { messages, tools, kwargs, assistantTurns: 'last' }),
    leftOutOf: ({ messages, tools }) => leftOutOf(model, messages, { tools, kwargs }),
    renderWithMask: ({ messages, tools }, turns) =>
      renderWithMask(model, { messages, tools, kwargs, assistantTurns: turns }),
    renderTurns: ({ messages, tools }, turns) => renderTurns(model, { messages, tools, kwargs, assistantTurns: turns }),
    textOf: (ids) => Buffer.concat(ids.map((id) => model.tokenizer.tokenBytes(id))).toString('utf8'),
    isControl: (id) => model.tokenizer.isSpecial(id),
    tokenIdOf: (token) => specialIdOf(model, token) ?? idOfBytes().get(bytesKey(token)) ?? null,
  }
}

/** What tokens are called, one by one. */
export function tokenNamesOf({ tokenizer }: TextModel): TokenNames {
  const isKnown = (id: number): boolean => id >= 0 && id < tokenizer.vocabularySize
  return {
    bytesOf: (id) => (isKnown(id) ? tokenizer.tokenBytes(id) : new Uint8Array(0)),
    isControl: (id) => tokenizer.isSpecial(id),
  }
}

/** Template variables of a prompt whose ids the client did not keep, where the template reads them. */
const SAMPLER_KWARGS: JsonObject = { enable_thinking: false, preserve_thinking: true }

/**
 * As ART renders: an answer that does not open its think block was asked for behind an empty one; the block of one that does is taken
 * out again (`src/training/rows/turns.ts`).
 */
function samplerKwargs({ chatTemplate }: TextModel): JsonObject {
  const known = Object.entries(SAMPLER_KWARGS).filter(([name]) => chatTemplate?.facts.variables.has(name) === true)
  return Object.fromEntries(known)
}

/** A control token is named by its spelling; its bytes could also be those of plain text. */
function specialIdOf(model: TextModel, token: SampledToken): number | null {
  const id = model.tokenizer.tokenToId(token.text)
  return id !== null && model.tokenizer.isSpecial(id) ? id : null
}

function indexByBytes({ tokenizer }: TextModel): ReadonlyMap<string, number> {
  const index = new Map<string, number>()
  for (let id = tokenizer.vocabularySize - 1; id >= 0; id--) {
    if (!tokenizer.isSpecial(id)) index.set(Buffer.from(tokenizer.tokenBytes(id)).toString('latin1'), id)
  }
  return index
}

function bytesKey({ text, bytes }: SampledToken): string {
  return (bytes === null ? Buffer.from(text) : Buffer.from(bytes)).toString('latin1')
}

function lazily<T extends object>(make: () => T): () => T {
  let value: T | undefined
  return () => {
    value ??= make()
    return value
  }
}
