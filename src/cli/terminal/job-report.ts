/**
 * What a job tells about itself, as lines of `jobs get`.
 */
import { append } from '#base/util/lists.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { formatDuration } from './format.js'

/** How many examples of what was left out fit on a line. */
const SHOWN_EXAMPLES = 3

/** Names and values; empty for a job that has not started. */
export function describeReport({ report }: Pick<TrainingJob, 'report'>): (readonly [string, string])[] {
  if (report === null) return []
  const lines: (readonly [string, string])[] = []
  if (report.trainer) lines.push(['Trainer', report.trainer.description])
  if (report.trained_tokens > 0) lines.push(['Tokens', `${report.trained_tokens} trained of ${report.tokens}`])
  append(lines, describeLeftOut(report.left_out))
  const parts = Object.entries(report.seconds).filter(([, seconds]) => seconds >= 0.1)
  if (parts.length > 0) {
    lines.push(['Time', parts.map(([part, seconds]) => `${part} ${formatDuration(seconds * 1000)}`).join(', ')])
  }
  const losses = report.validation.map(({ loss }) => loss.toPrecision(4))
  if (losses.length > 0) lines.push(['Validation', `loss ${losses.slice(-8).join(', ')}`])
  const accuracies = report.validation.flatMap((measured) => measured['rewards/accuracies'] ?? [])
  if (accuracies.length > 0) {
    lines.push([
      'Validation',
      `accuracy ${accuracies
        .slice(-8)
        .map((share) => share.toFixed(2))
        .join(', ')}`,
    ])
  }
  if (report.stopped_early) lines.push(['Stopped', 'early: validation no longer got better'])
  if (report.kept_gradient_step !== null)
    lines.push(['Kept', `the state after gradient step ${report.kept_gradient_step}`])
  const mismatch = report.facts['sampler_mismatch']
  if (mismatch !== undefined) {
    lines.push([
      'Sampler',
      `KL ${(mismatch['kl'] ?? 0).toPrecision(2)}, ratio ${(mismatch['ratio_p01'] ?? 1).toFixed(3)} to ${(mismatch['ratio_p99'] ?? 1).toFixed(3)} (1% to 99%)`,
    ])
  }
  const {
    updates = 0,
    shortened = 0,
    smallest_scale: smallest = 1,
    target_kl: target = 0,
  } = report.facts['trust_region'] ?? {}
  if (shortened > 0)
    lines.push(['Updates', `${shortened} of ${updates} shortened, to ${smallest} at least (target_kl ${target})`])
  const { planned = 1, made = 1, ended_by_target_kl: isEnded = 0, kl = 0 } = report.facts['passes'] ?? {}
  if (planned > 1) {
    const why = isEnded === 1 ? `, ended by target_kl: ${kl.toPrecision(2)} nats per token from the rollout` : ''
    lines.push(['Passes', `${Number(made.toFixed(1))} of ${planned}${why}`])
  }
  return lines
}

/** What did not train, or would not, and the first examples. */
export function describeLeftOut(
  leftOut: NonNullable<TrainingJob['report']>['left_out'],
): (readonly [string, string])[] {
  return leftOut.map(({ reason, count, examples }) => {
    const shown = examples.slice(0, SHOWN_EXAMPLES).join(', ')
    const more = examples.length > SHOWN_EXAMPLES ? ', …' : ''
    return ['Left out', `${count} ${reason.replaceAll('_', ' ')}${shown === '' ? '' : `: ${shown}${more}`}`]
  })
}
