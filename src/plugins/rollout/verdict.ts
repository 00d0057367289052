/**
 * What a measurement means, and the command that follows from it: one sentence at every number.
 */

import { formatNumber } from '#cli/terminal/format.js'
import { command } from '#contract/wire/command-words.js'
import { shareOfRange } from '#formats/rows/reward-range.js'
import type { LikelyFiles } from './likely-files.js'
import type { Missing } from './missing.js'
import type { RolloutPlan } from './sample.js'

/** Share of the range from which prompts count as learned, and below which rewards have too little to raise. */
const [LEARNED, TOO_LITTLE] = [0.95, 0.025]
/** Below this share right answers are shown first where they are known: what rewards reach in forty jobs they reach in one. */
const SHOW_FIRST = 0.5
/** What a base model cannot write leaves no more than chance. */
const CHANCE = 0.1
/** Jobs on examples after which more of them are no advice. */
const ENOUGH_SHOWN = 2
/** Share of cut answers that makes the limit the first thing to change. */
const MOSTLY_CUT = 0.5
/** Answers of some length were cut at this one: the next that is tried. */
const MORE_TOKENS = 4

/** Examples that help where the first ones did not, by what is missing. */
const MORE: Readonly<Record<Missing['kind'], string>> = {
  content: 'more different examples, which hold the parts that held-out prompts ask for',
  form: 'more examples in the wanted form, with other words',
  characters: 'more examples that hold it',
  lost: 'examples without it',
}

export interface Measured {
  /** As the command was given it. */
  readonly model: string
  /** Whether it is a model that can be trained on, at its latest step. */
  readonly isTrainable: boolean
  readonly reward: number
  readonly range: RolloutPlan['range']
  readonly cutShare: number
  readonly isGuessing: boolean
  /** Jobs on examples that the model has had. */
  readonly shown: number
  readonly missing: Missing | null
  /** Share of the answers that are as they are wanted; null where nobody knows what is. */
  readonly rightShare: number | null
  readonly files: LikelyFiles
  readonly flags: { readonly prompts: string; readonly reward: string | undefined; readonly maxTokens: number }
  /** Flags of the reward and the limit, as the next command takes them. */
  readonly asked: readonly string[]
}

export interface Verdict {
  readonly says: string
  readonly command: string
}

/** Always one. */
export function verdictOf(measured: Measured): Verdict {
  const { model, isTrainable, reward, range, cutShare, isGuessing, flags, rightShare, shown, missing, files, asked } =
    measured
  const share = range === null ? null : shareOfRange(reward, range)
  const isLittle = (share ?? (reward === 0 ? 0 : 1)) < TOO_LITTLE
  if (share !== null && share >= LEARNED) {
    return {
      says: `learned: ${percent(share)} of what can be earned on these prompts`,
      command: command`trainyard chat ${model}`,
    }
  }
  if (missing?.kind === 'lost' && missing.isMost === true && (share ?? rightShare ?? reward) < CHANCE) {
    return {
      says: `not learned: ${missing.says}; neither examples nor rewards change that, another base model may have them`,
      command: 'trainyard base-models list',
    }
  }
  if (cutShare >= MOSTLY_CUT) {
    const more = command`trainyard eval ${model} --prompts ${flags.prompts} ${withLimit(asked, MORE_TOKENS * flags.maxTokens)}`
    return {
      says: `${percent(cutShare)} of the answers are cut off at ${flags.maxTokens} tokens, so nothing else is sure`,
      command: more,
    }
  }
  if (!isTrainable) {
    const named = model.split('/').at(-1) ?? model
    return {
      says: 'a base model or an older step is only measured: a model of its own is trained',
      command: command`trainyard models create ${`my-${named.split(':')[0] ?? named}`} ${model.includes(':step') ? ['--from-checkpoint', model] : ['--base-model', model]}`,
    }
  }
  const show = command`trainyard train sft ${model} --file ${files.examples} --watch`
  const rewards = command`trainyard rollout ${model} --prompts ${files.training} ${asked} | trainyard train rl ${model} --file - --watch`
  const lacks = missing === null ? '' : `: ${missing.says}`
  if (isLittle && shown === 0) return { says: `not learned yet${lacks}; right answers come first`, command: show }
  if (isLittle && shown >= ENOUGH_SHOWN) {
    return {
      says: `not learned in ${shown} jobs on examples${lacks}; ${MORE[missing?.kind ?? 'form']}, another base model, or a reward that pays for the first step of an answer`,
      command: 'trainyard base-models list',
    }
  }
  if (isLittle) {
    const next = MORE[missing?.kind ?? 'form']
    return { says: `not learned from its examples${lacks}; ${next}`, command: show }
  }
  if (isGuessing) {
    return {
      says: `no better than guessing${lacks}; ${shown > 0 ? 'more different examples show' : 'examples show'} which answer belongs where`,
      command: show,
    }
  }
  const part = share === null ? `reward ${formatNumber(reward)}` : `${percent(share)} of what can be earned`
  // prompts whose answers are known need not wait until one of them is sampled
  if (shown === 0 && rightShare !== null && (share ?? rightShare) < SHOW_FIRST) {
    return {
      says: `partly learned, ${part}${lacks}; right answers come first, rewards after them`,
      command: show,
    }
  }
  const ask = share === null ? '; --reward-range says whether more can be' : ''
  return { says: `partly learned, ${part}${lacks}${ask}; rewards raise what is right now and then`, command: rewards }
}

const percent = (share: number): string => `${Math.round(100 * share)}%`

/** The same flags with another limit. */
function withLimit(asked: readonly string[], limit: number): string[] {
  const at = asked.indexOf('--max-tokens')
  const others = at < 0 ? asked : asked.filter((_, i) => i !== at && i !== at + 1)
  return [...others, '--max-tokens', String(limit)]
}
