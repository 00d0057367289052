/**
 * Connects a model's tokenizer and chat template to what `training/data` needs of them.
 */
import { renderConversation } from '#model/text/render.js'
import { leftOutOf, renderWithMask, trainingKwargs } from '#model/text/render-with-mask.js'
import type { TextModel } from '#model/text/text-model.js'
import type { SftText } from '#training/data/sft-data.js'
import type { SampledToken } from '#training/data/trajectory.js'
import type { TrajectoryText } from '#training/data/turns.js'

/** Text for trajectories and for supervised examples. */
export function bindText(model: TextModel): TrajectoryText & SftText {
  const idOfBytes = lazily(() => indexByBytes(model))
  return {
    vocabularySize: model.tokenizer.vocabularySize,
    renderPrompt: ({ messages, tools }) =>
      renderConversation(model, { messages, tools, addGenerationPrompt: true, kwargs: trainingKwargs(model) }).tokenIds,
    renderLastTurn: ({ messages, tools }) => renderWithMask(model, { messages, tools, assistantTurns: 'last' }),
    leftOutOf: ({ messages, tools }) => leftOutOf(model, messages, { tools, kwargs: trainingKwargs(model) }),
    renderWithMask: ({ messages, tools }, turns) => renderWithMask(model, { messages, tools, assistantTurns: turns }),
    textOf: (ids) => Buffer.concat(ids.map((id) => model.tokenizer.tokenBytes(id))).toString('utf8'),
    tokenIdOf: (token) => specialIdOf(model, token) ?? idOfBytes().get(bytesKey(token)) ?? null,
  }
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
