/**
 * One job in a line: what it is about, how far it is, when it ends.
 */
import type { JSX } from 'preact'
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { hrefOf } from '../data/address.js'
import { nowMs } from '../data/clock.js'
import { formatNumber, formatSeconds } from '../data/format.js'

export function JobLine(props: { readonly job: TrainingJob; readonly model: Model | null }): JSX.Element {
  const { job, model } = props
  return (
    <li class="job-line">
      <a href={hrefOf(`/jobs/${job.id}`)}>{model?.name ?? 'a model'}</a>
      <span>
        <span class="tag">{job.kind}</span> <StatusTag job={job} />
      </span>
      <Progress job={job} />
      <span class="soft">{remaining(job)}</span>
    </li>
  )
}

/** Of a job, or of what has its states. */
export function StatusTag({ job }: { readonly job: { readonly status: string } }): JSX.Element {
  return <span class={`status ${job.status}`}>{job.status}</span>
}

/** Gradient steps done of all. */
export function Progress({ job }: { readonly job: TrainingJob }): JSX.Element | null {
  const total = job.num_sequences
  if (job.status !== 'running' && job.num_gradient_steps === 0) return null
  const text =
    total === null ? 'preparing' : `gradient step ${formatNumber(job.num_gradient_steps)} of ${formatNumber(total)}`
  return (
    <span class="progress">
      <progress
        aria-label={text}
        {...(total === null ? {} : { max: Math.max(total, 1), value: job.num_gradient_steps })}
      />
      <span class="soft small">{text}</span>
    </span>
  )
}

/** What is left, or how a waiting job stands. */
export function remaining(job: TrainingJob): string {
  const until = (iso: string | null): number | null => (iso === null ? null : (Date.parse(iso) - nowMs()) / 1000)
  if (job.status === 'queued') {
    const start = until(job.expected_start)
    const place =
      job.queue_position === null
        ? 'waiting'
        : job.queue_position === 1
          ? 'starts next'
          : `${job.queue_position}. in the queue`
    return start === null || start < 1 ? place : `${place}, in about ${formatSeconds(start)}`
  }
  const end = job.status === 'running' ? until(job.predicted_end) : null
  return end === null || end < 1 ? '' : `about ${formatSeconds(end)} left`
}
