/**
 * Puts tokens into colour classes by probability, entropy, ratio or change, and says how a token is shown as text.
 * Pure.
 */
import type { RolloutTokens } from '#contract/wire/training/rollouts.js'

/** What tokens can be coloured by. */
export const COLOURS = ['none', 'probability', 'entropy', 'ratio', 'change'] as const
export type Colour = (typeof COLOURS)[number]

interface Scale {
  readonly title: string
  /** Between the five classes, rising. */
  readonly bounds: readonly [number, number, number, number]
  /** `low`: what is low stands out, `high`: what is high; `middle`: two colours around the third class. */
  readonly kind: 'low' | 'high' | 'middle'
  readonly unit: string
}

export const SCALES: Readonly<Record<Exclude<Colour, 'none'>, Scale>> = {
  probability: { title: 'Probability', bounds: [0.05, 0.25, 0.5, 0.9], kind: 'low', unit: '' },
  entropy: { title: 'Entropy', bounds: [0.1, 0.5, 1, 2], kind: 'high', unit: ' nats' },
  ratio: { title: 'Ratio', bounds: [0.8, 0.95, 1.05, 1.25], kind: 'middle', unit: '' },
  change: { title: 'Change of log-probability', bounds: [-0.5, -0.05, 0.05, 0.5], kind: 'middle', unit: ' nats' },
}

/** 0 to 4; null for what is no number. */
export function classOf(value: number | null | undefined, { bounds }: Pick<Scale, 'bounds'>): number | null {
  if (value === null || value === undefined || Number.isNaN(value)) return null
  return bounds.filter((bound) => value >= bound).length
}

/** How a token was drawn, where not at temperature 1 from the whole vocabulary; null there, and for what was given. */
export function drawnOf({ temperature, kept }: Pick<RolloutTokens, 'temperature' | 'kept'>, i: number): string | null {
  const [heat, count] = [temperature?.[i] ?? null, kept?.[i] ?? null]
  if (heat === null && count === null) return null
  const among = count === null ? '' : count === 1 ? ', no other token' : `, ${count} tokens`
  return `temperature ${Number((heat ?? 1).toPrecision(3))}${among}`
}

/**
 * The number that a token is coloured by.
 *
 * @param score its log-probability under another checkpoint, of the raw logits: what was drawn otherwise has no change by it
 */
export function numberOf(tokens: RolloutTokens, i: number, colour: Colour, score: number | null): number | null {
  const learner = tokens.learner_logprob[i] ?? null
  switch (colour) {
    case 'probability':
      return learner === null ? null : Math.exp(learner)
    case 'entropy':
      return tokens.entropy[i] ?? null
    case 'ratio':
      return tokens.ratio[i] ?? null
    case 'change':
      return learner === null || score === null || drawnOf(tokens, i) !== null ? null : score - learner
    default:
      return null
  }
}

/** The style of a class. */
export function styleOf(level: number, { kind }: Pick<Scale, 'kind'>): string {
  return kind === 'high' ? `low-${4 - level}` : `${kind}-${level}`
}

/** Characters that are not seen, or turn the order of others round. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNSEEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u205f-\u206f\ufeff]/g

/** How a token is shown: text that is harmless to look at, and whether it is a mark rather than text. */
export function shownOf(tokens: RolloutTokens, i: number): { readonly text: string; readonly isMark: boolean } {
  const text = tokens.texts[i] ?? null
  if (text === null) return { text: (tokens.bytes[i] ?? '').replaceAll(/../g, (byte) => `\\x${byte}`), isMark: true }
  const { text: seen, isMark } = toSeen(text)
  return { text: seen, isMark: isMark || tokens.is_control[i] === true }
}

/** The same for a token of an answer. @param bytes of its text, which by itself need be none; null: as the text says */
export function shownOfAnswer(text: string, bytes: readonly number[] | null): { text: string; isMark: boolean } {
  if (bytes === null || bytes.length === 0) return toSeen(text)
  try {
    return toSeen(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes)))
  } catch {
    return { text: bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join(''), isMark: true }
  }
}

function toSeen(text: string): { text: string; isMark: boolean } {
  if (text === '') return { text: '∅', isMark: true }
  const seen = text.replaceAll(UNSEEN, (character) => `⟨${hexOf(character)}⟩`)
  return { text: seen, isMark: seen !== text }
}

function hexOf(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}
