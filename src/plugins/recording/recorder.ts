/**
 * Hears the answers to one request of a rollout: sees to it that they are sampled as the rollout says, and keeps what was
 * sampled.
 *
 * An answer is stored before a client can have the end of it, so that whoever ends the rollout, or goes on from the answer,
 * finds it, at any server. What did not arrive is taken back.
 */

import type { JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import type { SamplingRecord } from '#contract/wire/sampling-record.js'
import type { AnswerListener, HeardPrompt } from '#service/operations/access/answer-listener.js'
import type { ServiceContext } from '#service/operations/context.js'
import { createRecorders, type SamplingRecorder } from '#service/operations/generation/chat/sampling-recorder.js'
import type { GenerationEvent } from '#service/processes/engine-process.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { addCounts, deleteCalls, insertCall, type RolloutRecord } from './storage/rollouts.js'
import type { RolloutSampling } from './wire.js'

type Sampling = HeardPrompt['sampling']
type DeltaEvent = Extract<GenerationEvent, { type: 'delta' }>

/** A call as it is stored until its rollout ends. */
export interface RecordedCall {
  /** Of the model that answered. */
  readonly step: number
  readonly promptIds: readonly number[]
  readonly choices: readonly RecordedChoice[]
  /** Of a conversation, in the words of chat, whatever it was asked in. */
  readonly messages: readonly JsonValue[] | null
  readonly tools: readonly JsonValue[] | null
  readonly beganAtMs: number
  readonly endedAtMs: number
}

export interface RecordedChoice {
  readonly tokenIds: readonly number[]
  /** Raw log-softmax. */
  readonly logprobs: readonly number[]
  /** Absent: they were drawn plainly. */
  readonly sampling?: SamplingRecord
  readonly finishReason: string
  readonly text: string
}

interface HeardChoice {
  readonly tokenIds: number[]
  readonly logprobs: number[]
  readonly recorder: SamplingRecorder
  text: string
  finishReason: string | null
}

type Context = Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'clock' | 'logger'>

export interface Recorder extends AnswerListener {
  /** The answer is over. @param isDelivered its client has all of it, and it was no refusal. @returns when the rollout says so */
  settle(outcome: 'delivered' | 'undelivered' | 'refused'): Promise<void>
}

export function createRecorder(context: Context, rollout: RolloutRecord): Recorder {
  const { db, blobs, ids, clock } = context
  const stored: { readonly id: string; readonly sampledTokens: number; readonly recordedTokens: number }[] = []
  const storing = new Set<Promise<void>>()
  let begun = 0
  let isLeft = false
  let isOverridden = false

  async function store(id: string, call: RecordedCall): Promise<void> {
    const sampledTokens = call.choices.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0)
    const recordedTokens = sampledTokens + call.promptIds.length
    const { sha256 } = await blobs.put([Buffer.from(JSON.stringify(call))])
    const isKept = await inTransaction(db, async (transaction) => {
      // one that has ended meanwhile takes no more
      if (!(await addCounts(transaction, rollout.id, { sampledTokens, recordedTokens }))) return false
      await insertCall(transaction, { id, rolloutId: rollout.id, sha256 })
      return true
    })
    if (isKept) stored.push({ id, sampledTokens, recordedTokens })
  }

  async function keep(write: Promise<void>): Promise<void> {
    storing.add(write)
    await write.finally(() => storing.delete(write))
  }

  return {
    toSampling: (asked) => {
      const wanted = samplingOf(rollout, asked)
      isOverridden ||= isOther(asked, wanted)
      return wanted
    },
    async *hear(prompt, events) {
      const id = ids.uuid()
      const call = createHeardCall(prompt, clock.nowMs())
      let [hasBegun, isStored] = [false, false]
      for await (const event of events) {
        // what is refused before its first token, as of a longer answer than there is room for, never began
        if (!hasBegun) begun++
        hasBegun = true
        call.add(event)
        if (!isStored && !isLeft && call.isWhole()) {
          isStored = true
          await keep(store(id, call.recorded(clock.nowMs())))
        }
        yield event
      }
    },
    settle: async (outcome) => {
      // of who is gone nothing more is stored
      isLeft = outcome !== 'delivered'
      await Promise.allSettled(storing)
      const isLost = outcome === 'undelivered' || stored.length < begun
      const lost = outcome === 'delivered' ? [] : stored
      if (outcome === 'delivered' && !isLost && !isOverridden) return
      await inTransaction(db, async (transaction) => {
        const known =
          lost.length === 0
            ? 0
            : await deleteCalls(
                transaction,
                lost.map(({ id }) => id),
              )
        const total = (name: 'sampledTokens' | 'recordedTokens') => lost.reduce((sum, call) => sum - call[name], 0)
        await addCounts(transaction, rollout.id, {
          ...(known > 0 ? { sampledTokens: total('sampledTokens'), recordedTokens: total('recordedTokens') } : {}),
          ...(outcome === 'refused' && begun === 0 ? { turns: -1 } : {}),
          undeliveredCalls: begun > 0 && isLost ? 1 : 0,
          overriddenCalls: isOverridden && begun > 0 ? 1 : 0,
        })
      })
    },
  }
}

/** What bends the distribution of plain sampling, off. */
const NEUTRAL = {
  ...{ repetitionPenalty: 1, frequencyPenalty: 0, presencePenalty: 0 },
  ...{ logitBias: null, allowedTokenIds: null, seed: null },
  ...{ minTokens: 0, ignoreEos: false, badWords: [], textBias: [] },
  ...{ dry: null, xtc: null, beam: null },
} as const satisfies Partial<Sampling>

function samplingOf({ sampling }: Pick<RolloutRecord, 'sampling'>, asked: Sampling): Sampling {
  const { temperature = 1, top_p: topP = 1, top_k: topK = 0, min_p: minP = 0 }: RolloutSampling = sampling
  return { ...asked, ...NEUTRAL, temperature, topP, topK, minP, hasLogprobs: true, recordsDraws: true }
}

/** Whether the request would have sampled in another way. A seed is none: which answer is drawn is the rollout's to say. */
function isOther(asked: Sampling, wanted: Sampling): boolean {
  const { seed: _, ...bends } = NEUTRAL
  const names = [...Object.keys(bends), 'temperature', 'topP', 'topK', 'minP'] as (keyof Sampling)[]
  const shown = (value: unknown): string =>
    JSON.stringify(Array.isArray(value) && value.length === 0 ? null : (value ?? null))
  return names.some((name) => shown(asked[name]) !== shown(wanted[name]))
}

/** Collects the events of one prompt's answer. */
function createHeardCall({ policy, sampling, messages = [], tools = null }: HeardPrompt, beganAtMs: number) {
  let promptIds: readonly number[] = []
  const choices = createRecorders(sampling.n, sampling, { isStream: false }).map(
    (recorder): HeardChoice => ({ tokenIds: [], logprobs: [], recorder, text: '', finishReason: null }),
  )

  function addDelta(event: DeltaEvent): void {
    const choice = choices[event.choice]
    if (choice === undefined) return
    append(choice.tokenIds, event.tokenIds)
    append(
      choice.logprobs,
      event.logprobs.map(({ logprob }) => Math.min(0, logprob)),
    )
    choice.recorder.add(event)
    choice.text += event.text
    choice.finishReason = event.finishReason ?? choice.finishReason
  }

  return {
    add: (event: GenerationEvent): void => {
      if (event.type === 'started') promptIds = event.promptTokenIds
      else if (event.type === 'delta') addDelta(event)
    },
    isWhole: (): boolean => choices.every(({ finishReason }) => finishReason !== null && finishReason !== 'abort'),
    recorded: (endedAtMs: number): RecordedCall => ({
      step: policy.step,
      promptIds,
      choices: choices.map(({ tokenIds, logprobs, recorder, text, finishReason }) => {
        const record = recorder.whole()
        const drawn = record === undefined ? {} : { sampling: record }
        return { tokenIds, logprobs, ...drawn, finishReason: finishReason ?? 'stop', text }
      }),
      messages: messages.length === 0 ? null : messages,
      tools: tools === null || tools.length === 0 ? null : tools,
      beganAtMs,
      endedAtMs,
    }),
  }
}
