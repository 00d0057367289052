/**
 * What an environment is, and whether it can be trained in: its tasks repeat, none is in both splits, and its scorer tells
 * right from wrong.
 */
import type { Clock } from '#base/util/clock.js'
import type { JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import { EnvironmentFailure } from './failures.js'
import type { EnvironmentDescription, EnvironmentSource, EnvironmentTask, Scoring } from './source.js'
import { openTasks } from './tasks.js'

/** Another task's answer may earn so much on the average before it is said. */
const MOST_FOR_ANOTHER = 0.2
/** An answer that is right in no task. */
const WRONG = 'I do not know.'

export interface Finding {
  readonly name: string
  readonly outcome: 'ok' | 'warning' | 'failed'
  readonly says: string
}

interface CheckReport {
  readonly description: EnvironmentDescription
  readonly findings: readonly Finding[]
  /** A task, as a person reads it. */
  readonly sample: Readonly<Record<string, JsonValue>> | null
}

/** @param count tasks that are looked at */
export async function checkEnvironment(
  source: EnvironmentSource,
  {
    count,
    seed,
    clock,
    signal,
  }: { readonly count: number; readonly seed: number; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<CheckReport> {
  const findings: Finding[] = []
  const add = (name: string, outcome: Finding['outcome'], says: string): void => {
    findings.push({ name, outcome, says })
  }
  const startMs = clock.monotonicMs()
  const description = await source.describe(signal)
  add('start', 'ok', `answered after ${seconds(clock.monotonicMs() - startMs)}`)
  const madeMs = clock.monotonicMs()
  const tasks = await source.tasks('train', 0, count, signal)
  const each = (clock.monotonicMs() - madeMs) / Math.max(1, tasks.length)
  add(
    'tasks',
    tasks.length > 0 ? 'ok' : 'failed',
    `${tasks.length} of ${description.tasks ?? 'endless'} read, ${each.toFixed(1)} ms each`,
  )
  const again = await source.tasks('train', 0, count, signal)
  const isSame = JSON.stringify(tasks.map(({ key }) => key)) === JSON.stringify(again.map(({ key }) => key))
  add(
    'repeats',
    isSame ? 'ok' : 'warning',
    isSame ? 'the same seed makes the same tasks' : 'the same seed makes other tasks: a run cannot be repeated',
  )
  findings.push(await checkSplits(source, description, { count, seed, signal }))
  if (source.scoring === undefined)
    add('scorer', 'ok', 'judges episodes and no single answer: env eval shows what they earn')
  else append(findings, await checkScorer(source.scoring, tasks, { most: description.rewardRange?.[1] ?? 1, signal }))
  return { description, findings, sample: tasks[0]?.facts ?? null }
}

async function checkSplits(
  source: EnvironmentSource,
  description: EnvironmentDescription,
  { count, seed, signal }: { readonly count: number; readonly seed: number; readonly signal: AbortSignal },
): Promise<Finding> {
  const name = 'splits'
  try {
    const feed = await openTasks(source, description, { seed, measured: count, signal })
    const trained = await feed.train(1, count, signal)
    const both = trained.filter(({ key }) => feed.heldOut.some((task) => task.key === key))
    if (both.length > 0)
      return { name, outcome: 'failed', says: `${both.length} tasks are both trained on and measured` }
    return {
      name,
      outcome: 'ok',
      says: `${feed.heldOut.length} tasks to measure, ${trained.length} to train on in a step, none is both`,
    }
  } catch (error) {
    if (signal.aborted || error instanceof EnvironmentFailure) throw error
    return { name, outcome: 'failed', says: error instanceof Error ? error.message : String(error) }
  }
}

async function checkScorer(
  scoring: Scoring,
  tasks: readonly EnvironmentTask[],
  { most, signal }: { readonly most: number; readonly signal: AbortSignal },
): Promise<readonly Finding[]> {
  const right: number[] = []
  const wrong: number[] = []
  const others: number[] = []
  for (const [i, task] of tasks.entries()) {
    const own = scoring.reference(task)
    const another = scoring.reference(tasks[(i + 1) % tasks.length] as EnvironmentTask)
    if (own !== null) right.push(await scoring.score(task, own, signal))
    wrong.push(await scoring.score(task, WRONG, signal))
    if (own !== null && another !== null && another !== own) others.push(await scoring.score(task, another, signal))
  }
  const findings: Finding[] = []
  const missed = right.filter((reward) => Math.abs(reward - most) > 1e-9).length
  if (right.length > 0) {
    findings.push({
      name: 'right answer',
      outcome: missed === 0 ? 'ok' : 'failed',
      says: missed === 0 ? `earns ${most}` : `earns less than ${most} in ${missed} of ${right.length} tasks`,
    })
  }
  findings.push(atMost('wrong answer', wrong))
  if (others.length > 0) findings.push(atMost("another task's answer", others))
  return findings
}

function atMost(name: string, rewards: readonly number[]): Finding {
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length)
  const says = `earns ${mean.toFixed(3)} on the average`
  if (mean <= MOST_FOR_ANOTHER) return { name, outcome: 'ok', says }
  return { name, outcome: 'warning', says: `${says}: a model can earn much without knowing anything` }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
