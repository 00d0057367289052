/**
 * What was found about jobs of a model, the newest of each kind, and the deeds that each names. Pure: sentences are the server's
 * (`contract/jobs/diagnosis/findings.ts`), and are told apart by their words without the numbers.
 */
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { modelPath } from './match.js'
import { repeatPath } from './train/repeat.js'

export interface FoundDeed {
  readonly title: string
  /** The page that does it, filled in. */
  readonly path: string
  /** The step that a new model begins from, whose page that is. */
  readonly from?: number
}

export interface Found {
  readonly kind: string
  readonly sentence: string
  /** The newest job it is said of. */
  readonly job: TrainingJob
  /** Of how many jobs it is said. */
  readonly jobs: number
}

const NUMBER = /[\d][\d.,]*(?:e[-+−]?\d+)?/g

/** @param jobs newest first */
export function newestFindings(jobs: readonly TrainingJob[]): readonly Found[] {
  const found = new Map<string, Found>()
  for (const job of jobs) {
    for (const sentence of job.warnings) {
      const kind = sentence.replace(NUMBER, '#')
      const known = found.get(kind)
      found.set(kind, known === undefined ? { kind, sentence, job, jobs: 1 } : { ...known, jobs: known.jobs + 1 })
    }
  }
  return [...found.values()]
}

/** About a third, as people write rates. */
export function lowered(rate: number): string {
  return Number((rate / 3).toPrecision(1)).toExponential()
}

/** What the sentence says to do, as pages that do it. */
export function deedsOf({ sentence, job }: Found, model: Model): readonly FoundDeed[] {
  const name = `${model.project}/${model.name}`
  const rate = job.resolved_config?.['learning_rate']
  const [, step, at] = /train from step (\d+) at ([\d.e-]+\d)/.exec(sentence) ?? []
  const deeds: FoundDeed[] = []
  if (step !== undefined && at !== undefined) {
    deeds.push({
      title: `Go back to step ${step} with rate ${at}`,
      path: repeatPath(job, model, { learning_rate: Number(at) }),
      from: Number(step),
    })
  }
  if (/train sft|good answers first|examples/.test(sentence)) {
    deeds.push({
      title: 'Train on good answers first',
      path: `/train?kind=sft&${new URLSearchParams({ m: name })}`,
    })
  }
  if (step === undefined && /lower(?:ing)? (?:the )?(?:learning_)?rate/.test(sentence) && typeof rate === 'number') {
    const next = lowered(rate)
    deeds.push({ title: `Lower the rate to ${next}`, path: repeatPath(job, model, { learning_rate: Number(next) }) })
  }
  const [, measured] = /([\d.e-]+\d) was measured for this size/.exec(sentence) ?? []
  if (measured !== undefined) {
    const path = repeatPath(job, model, { learning_rate: Number(measured) })
    deeds.push({ title: `Take the rate ${measured}`, path })
  }
  if (/raise learning_rate/.test(sentence) && typeof rate === 'number') {
    const next = Number((rate * 3).toPrecision(1)).toExponential()
    deeds.push({ title: `Raise the rate to ${next}`, path: repeatPath(job, model, { learning_rate: Number(next) }) })
  }
  if (/earlier step|the step that was best/.test(sentence)) {
    deeds.push({ title: 'Choose a step', path: modelPath(model, '/checkpoints') })
  }
  if (job.status === 'running' && /stop here/.test(sentence)) {
    deeds.push({ title: 'Stop and keep', path: `/jobs/${job.id}` })
  }
  if (/held-out answers|look at the answers/.test(sentence)) {
    deeds.push({ title: 'Look at the answers', path: modelPath(model, '/evaluations') })
  }
  return deeds
}
