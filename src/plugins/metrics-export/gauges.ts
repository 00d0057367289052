/**
 * Gauges of `--job-metrics`: what the jobs of each model measured last, how long jobs wait, cards of this machine. Read at a
 * scrape.
 *
 * A series is a model's and not a job's: each step of RL is a job, and a job of a few seconds would be in no scrape.
 */
import { readCardLoads } from '#base/processes/graphics-cards.js'
import type { PluginStart } from '#service/plugin.js'
import { findNewestStep, listActiveModels, readLongestWait } from './storage/measured.js'

/** Models whose last job ended longer ago are in no scrape: several times what is usual between two. */
const SHOWN_MS = 15 * 60_000

const MODEL_LABELS = ['entity', 'project', 'model', 'base_model', 'kind'] as const

/** Name of the gauge behind `trainyard_model_` → what it is, and the name of the number in a gradient step. */
const OF_A_STEP = [
  ['loss', 'Loss of the last gradient step', 'loss'],
  ['reward', 'Mean reward of what the last gradient step was made of', 'reward'],
  ['reward_std_dev', 'Its standard deviation inside groups', 'reward_std_dev'],
  ['kl', 'Distance from the reference policy, nats a token', 'kl_div'],
  ['update_kl', 'How far the last gradient step moved the policy, nats a token', 'update_kl'],
  ['entropy', 'Entropy of the policy, nats a token', 'entropy'],
  ['grad_norm', 'Norm of the gradient', 'grad_norm'],
  ['learning_rate', 'Learning rate of the last gradient step', 'learning_rate'],
  ['tokens_per_second', 'Tokens trained a second', 'tokens_per_second'],
] as const

/** One look at the rows serves all gauges of a scrape. */
const SAME_SCRAPE_MS = 1000

export function addJobGauges({ context: { db, clock }, metrics }: Pick<PluginStart, 'context' | 'metrics'>): void {
  const readModels = kept(clock, async () => {
    const models = await listActiveModels(db, SHOWN_MS)
    return Promise.all(models.map(async (model) => ({ model, numbers: await findNewestStep(db, model.jobId) })))
  })
  const readCards = kept(clock, readCardLoads)
  const labelsOf = ({ model }: Awaited<ReturnType<typeof readModels>>[number]) => {
    const { entity, project, name, baseModel, kind } = model
    return { entity, project, model: name, base_model: baseModel, kind }
  }
  for (const [name, help, key] of OF_A_STEP) {
    metrics.addGauge({
      name: `trainyard_model_${name}`,
      help,
      labels: MODEL_LABELS,
      read: async () =>
        (await readModels()).flatMap((each) => {
          const value = each.numbers?.[key]
          return value === undefined ? [] : [{ labels: labelsOf(each), value }]
        }),
    })
  }
  metrics.addGauge({
    name: 'trainyard_model_training',
    help: '1 while a job of the model runs; 0 for a quarter of an hour after it',
    labels: MODEL_LABELS,
    read: async () =>
      (await readModels()).map((each) => ({ labels: labelsOf(each), value: each.model.isRunning ? 1 : 0 })),
  })
  metrics.addGauge({
    name: 'trainyard_training_longest_wait_seconds',
    help: 'Time since the oldest job that waits was created',
    labels: [],
    read: async () => [{ labels: {}, value: await readLongestWait(db) }],
  })
  const cardGauges = [
    ['memory_used_bytes', 'Memory of a card in use', 'usedBytes'],
    ['memory_bytes', 'Memory of a card', 'memoryBytes'],
    ['utilization_ratio', 'Part of the time in which a card computes', 'utilization'],
  ] as const
  for (const [name, help, key] of cardGauges) {
    metrics.addGauge({
      name: `trainyard_card_${name}`,
      help: `${help}, of this machine, as nvidia-smi says`,
      labels: ['card', 'name'],
      read: async () =>
        (await readCards()).map((card) => ({ labels: { card: card.index, name: card.name }, value: card[key] })),
    })
  }
}

/** What was read a moment ago is given again. */
function kept<T>(clock: { monotonicMs(): number }, read: () => Promise<T>): () => Promise<T> {
  let last: { readonly atMs: number; readonly value: Promise<T> } | null = null
  return () => {
    const nowMs = clock.monotonicMs()
    if (last === null || nowMs - last.atMs > SAME_SCRAPE_MS) last = { atMs: nowMs, value: read() }
    return last.value
  }
}
