/**
 * What a job's first event says about its data, as sentences for the job's record: what was left out, and why.
 *
 * Groups whose rewards hardly differ are told by the job's diagnosis (`contract/jobs/diagnosis/findings.ts`).
 */

import type { JsonObject } from '#base/util/json.js'
import { JOB_DEFINITIONS } from '#contract/jobs/kinds.js'
import type { JobKind } from '#contract/wire/job-words.js'

/** Sentences by count; each begins after the number, and `[one|several]` says how a part of it reads for one and for several. */
function sentencesOf(kind: JobKind): Readonly<Record<string, string>> {
  const { noun, limit } = JOB_DEFINITIONS[kind].row
  return {
    num_dropped_overlength: `${noun}[ was|s were] longer than ${limit} and [was|were] dropped whole`,
    num_untrainable: `${noun}[ has|s have] nothing to train on`,
    num_skipped_no_trainable_turn: 'trajector[y has|ies have] no turn to train on',
    num_skipped_no_logprobs:
      'answer[ carries|s carry] no log-probabilities and [does|do] not train; allow_training_without_logprobs trains [it|them]',
    num_skipped_masked_truncated: 'answer[|s] ended by length and [does|do] not train, as mask_truncated asks',
    num_skipped_unknown_token_text:
      'answer[ contains|s contain] a token text that is not in the vocabulary and [does|do] not train',
    num_skipped_empty_completion: 'answer[ has|s have] no sampled token',
    num_skipped_unsupported_exchange:
      'exchange[ was|s were] recorded by another protocol than chat and without [its|their] tokens',
    num_skipped_left_out_message:
      'message[ is|s are] left out by the chat template of the model, which knows no such role in [its|their] place; the rest of [its row|their rows] trains without [it|them]',
    num_skipped_unrenderable:
      'conversation[ is|s are] refused by the chat template of the model and [does|do] not train',
    num_unmerged_histories:
      'conversation[ was|s were] cut into several sequences: a later prompt does not begin with the tokens before it, as when a template renders earlier turns anew, or a call that tool_choice asked for',
  }
}

/**
 * Warnings about the data of a job.
 *
 * @param started data of `training_started`
 * @returns one sentence each; none when everything trains
 */
export function dataWarnings(kind: JobKind, started: JsonObject): string[] {
  const countOf = (name: string): number => Number(started[name] ?? 0)
  return Object.entries(sentencesOf(kind)).flatMap(([name, sentence]) => {
    const count = countOf(name)
    return count > 0 ? [`${count} ${inNumber(count, sentence)}`] : []
  })
}

function inNumber(count: number, sentence: string): string {
  return sentence.replaceAll(/\[([^|\]]*)\|([^\]]*)\]/g, count === 1 ? '$1' : '$2')
}
