/**
 * What a job tells about itself besides its events: what was left out and why, tokens, where the time went, validation.
 *
 * Numbers are counted while the job runs. Times belong to the attempt that measured them; everything else goes through a
 * resume point, so that a job that lost its worker reports what an undisturbed one does.
 */

import { diagnoseJob, NO_NUMBERS, sayFinding } from '#contract/jobs/diagnosis/diagnose.js'
import type { TrainerFacts } from './learner/learner.js'

/** Where a job's time goes. A gradient is one graph run: forward and backward pass are not told apart. */
export const JOB_PARTS = ['setup', 'data', 'scores', 'gradient', 'optimizer', 'validation', 'io'] as const
export type JobPart = (typeof JOB_PARTS)[number]

/** Something in the data that did not train. */
export interface LeftOut {
  /** For example `overlength`. */
  readonly reason: string
  readonly count: number
  /** The first of them: `line 3`, `trajectory_groups[0].trajectories[2]`. */
  readonly examples: readonly string[]
}

/** A measurement on the validation rows. */
export interface ValidationPoint {
  /** Gradient steps before it. */
  readonly step: number
  /** That of training, nats. */
  readonly loss: number
  /** What is measured besides: for preferences `rewards/accuracies`, `rewards/margins` and the like. */
  readonly metrics?: Readonly<Record<string, number>>
}

/** Changed in place while a job runs; all fields but `seconds` are kept in resume points. */
export interface JobReport {
  /** What computes the gradients; null before it is known. */
  trainer: TrainerFacts | null
  /** Gradient steps announced by `training_started`; null before. */
  plannedSteps: number | null
  leftOut: readonly LeftOut[]
  /** Tokens of rows run through the train graph, without padding, and those of them that trained. */
  tokens: number
  trainedTokens: number
  validation: ValidationPoint[]
  /** Gradient steps before the state that was kept; null when it is the last one. */
  keptStep: number | null
  hasStoppedEarly: boolean
  /** Steps whose gradient was longer than the limit. */
  clippedSteps: number
  /** Shortest gradient before it was clipped; null before the first step. */
  leastNorm: number | null
  /** Divergence from the sampler, by step, at most `MAX_SERIES`. */
  klByStep: number[]
  /** Sentences known when the job starts. */
  notes: string[]
  /** Two answers whose rewards are equal, as a sentence ends with them. */
  quoted: string
  /** Facts of one kind of job, as they stand on its record. */
  readonly facts: Record<string, Readonly<Record<string, number>>>
  readonly seconds: Record<JobPart, number>
}

const MAX_SERIES = 4096

/** Nothing done yet. */
export function createReport(): JobReport {
  return {
    trainer: null,
    plannedSteps: null,
    leftOut: [],
    tokens: 0,
    trainedTokens: 0,
    validation: [],
    keptStep: null,
    hasStoppedEarly: false,
    clippedSteps: 0,
    leastNorm: null,
    klByStep: [],
    notes: [],
    quoted: '',
    facts: {},
    seconds: { setup: 0, data: 0, scores: 0, gradient: 0, optimizer: 0, validation: 0, io: 0 },
  }
}

/** Takes over what an earlier attempt counted. */
export function restoreReport(report: JobReport, stored: Omit<JobReport, 'seconds'>): void {
  const { facts, ...others } = stored
  Object.assign(report, structuredClone(others))
  Object.assign(report.facts, facts)
}

/** A number of some kind of thing that was left out; nothing for none. */
export function leftOut(reason: string, count: number, examples: readonly string[] = []): LeftOut[] {
  return count === 0 ? [] : [{ reason, count, examples }]
}

/** Rows of a file that are not used, by line. */
export interface UnusedRows {
  readonly overlengthCount: number
  readonly untrainableCount: number
  readonly leftOutLines: { readonly overlength: readonly number[]; readonly untrainable: readonly number[] }
  readonly leftOutMessages: { readonly count: number; readonly examples: readonly string[] }
  /** Rows that the chat template refuses. */
  readonly refused: { readonly count: number; readonly examples: readonly string[] }
}

/** What of a file's rows is left out. @param rows `validation` for those a job is measured on */
export function leftOutRows(
  { overlengthCount, untrainableCount, leftOutLines, leftOutMessages, refused }: UnusedRows,
  rows: 'training' | 'validation' = 'training',
): LeftOut[] {
  const [prefix, suffix] = rows === 'training' ? ['', ''] : ['validation_', ' of the validation rows']
  const names = (lines: readonly number[]): string[] => lines.map((line) => `line ${line}${suffix}`)
  return [
    ...leftOut(`${prefix}overlength`, overlengthCount, names(leftOutLines.overlength)),
    ...leftOut(`${prefix}untrainable`, untrainableCount, names(leftOutLines.untrainable)),
    ...leftOut(
      `${prefix}unrenderable`,
      refused.count,
      refused.examples.map((example) => `${example}${suffix}`),
    ),
    ...leftOut(
      `${prefix}left_out_message`,
      leftOutMessages.count,
      leftOutMessages.examples.map((example) => `${example}${suffix}`),
    ),
  ]
}

/** Messages that the chat template leaves out and rows that it refuses, as event data; nothing for none. */
export function templateMetrics({
  leftOutMessages,
  refused,
}: Pick<UnusedRows, 'leftOutMessages' | 'refused'>): Record<string, number> {
  return {
    ...(leftOutMessages.count === 0 ? {} : { num_skipped_left_out_message: leftOutMessages.count }),
    ...(refused.count === 0 ? {} : { num_skipped_unrenderable: refused.count }),
  }
}

/** Why no validation row is left, as the end of a sentence. */
export function whyUnused({ overlengthCount, untrainableCount, refused }: UnusedRows): string {
  const reasons = [
    ...(overlengthCount > 0 ? [`${overlengthCount} longer than the context of the model`] : []),
    ...(refused.count > 0 ? [`${refused.count} that the chat template refuses`] : []),
    ...(untrainableCount > 0 ? [`${untrainableCount} without an assistant turn that trains`] : []),
  ]
  return reasons.length === 0 ? '' : ` (${reasons.join(', ')})`
}

/** Counts a gradient step. */
export function noteStep(
  report: JobReport,
  step: {
    readonly tokens: number
    readonly trainedTokens: number
    readonly gradientNorm: number
    readonly maxGradientNorm: number
    readonly kl?: number | undefined
    readonly seconds: { readonly gradient: number; readonly optimizer: number }
  },
): void {
  report.tokens += step.tokens
  report.trainedTokens += step.trainedTokens
  report.seconds.gradient += step.seconds.gradient
  report.seconds.optimizer += step.seconds.optimizer
  if (step.gradientNorm > step.maxGradientNorm) report.clippedSteps += 1
  report.leastNorm = Math.min(report.leastNorm ?? step.gradientNorm, step.gradientNorm)
  if (step.kl !== undefined && report.klByStep.length < MAX_SERIES) report.klByStep.push(step.kl)
}

/** Sums of a job that runs, of which its figures are made at its end: kept with the report, and no figure for anybody. */
export const RUNNING_SUMS = 'running_sums'

/** A report's figures by topic, with those that are counted beside them: `gradient` and `kl`. */
export function factsOf(report: JobReport, stepCount: number): Record<string, Record<string, number>> {
  const { clippedSteps, leastNorm, klByStep: kl } = report
  const topics = Object.entries(report.facts).filter(([topic]) => topic !== RUNNING_SUMS)
  const quarter = Math.floor(kl.length / 4)
  const [first, last] = [kl[0], kl.at(-1)]
  return {
    ...Object.fromEntries(topics.map(([topic, figures]) => [topic, { ...figures }])),
    ...(leastNorm === null ? {} : { gradient: { steps: stepCount, clipped: clippedSteps, least_norm: leastNorm } }),
    ...(first === undefined || last === undefined
      ? {}
      : {
          kl: {
            steps: kl.length,
            first,
            last,
            first_quarter: mean(kl.slice(0, quarter)),
            last_quarter: mean(kl.slice(kl.length - quarter)),
          },
        }),
  }
}

/**
 * What a job's course gives reason to say, one sentence each: what was known when it started, then what its numbers say
 * (`contract/jobs/diagnosis/findings.ts`).
 *
 * @param stepCount gradient steps made
 * @param metrics means over them, names as on the checkpoint; default none
 */
export function reportWarnings(
  report: JobReport,
  stepCount: number,
  metrics: Readonly<Record<string, number>> = {},
): string[] {
  const numbers = {
    ...NO_NUMBERS,
    gradientSteps: stepCount,
    facts: factsOf(report, stepCount),
    metrics,
    validation: report.validation.map(({ loss }) => loss),
    quoted: report.quoted,
  }
  return [...report.notes, ...diagnoseJob(numbers).map(sayFinding)]
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)
}
