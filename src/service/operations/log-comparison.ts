/**
 * Evaluations of a model at two steps, or of two models, in pairs of prompts. Groups are paired by `metadata.id`, else by what
 * was said before the first answer;
 * logs of a split at one step are pooled, as their metrics are.
 *
 * Reads at most so many groups and bytes of each step, and says how many groups it left out: it runs on the event loop, a line at a time,
 * and ends with whoever asked.
 */
import { createHash } from 'node:crypto'
import { byDifference, comparePairs, outcomeOf } from '#base/statistics/paired.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import {
  type CompareLogsQuery,
  DEFAULT_PAIRS,
  type LogComparison,
  type LoggedPair,
} from '#contract/wire/log-comparison.js'
import { DEFAULT_MAX_LINE_BYTES, readLines } from '#formats/rows/json-lines.js'
import { parseTrajectoryGroup } from '#formats/rows/parse.js'
import { measurementOf } from '#formats/rows/split-metrics.js'
import type { TrajectoryGroup } from '#formats/rows/trajectory.js'
import { findSplitTotals, listTrajectoryLogs } from '#service/storage/trajectories.js'
import type { Principal, ServiceContext } from './context.js'
import { requireModel } from './models/models.js'

const MAX_LOGS = 100
const MAX_GROUPS = 5000
const MAX_BYTES = 64 * 1024 ** 2
/** A longer line would be parsed for too long beside other requests. */
const MAX_LINE_CHARACTERS = 4 * 1024 ** 2
const MAX_ANSWERS = 4
const MAX_TEXT = 20_000
/** The pieces of work between which others have their turn. */
const TURN_BYTES = 256 * 1024

/** What one step has of a prompt. */
interface Asked {
  readonly id: string | null
  readonly messages: readonly JsonObject[]
  readonly rewards: number[]
  readonly answers: { readonly text: string; readonly reward: number }[]
}

interface Side {
  readonly logs: number
  readonly asked: ReadonlyMap<string, Asked>
  readonly skipped: number
}

export interface LogComparisonService {
  /** @throws {NotFoundError} `model_not_found` */
  compare(principal: Principal, modelId: string, query: CompareLogsQuery, signal: AbortSignal): Promise<LogComparison>
}

export function createLogComparisonService(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'maxGroupBytes'>,
): LogComparisonService {
  const { db, blobs } = context
  // what was logged under a larger bound is there all the same
  const maxLineBytes = Math.max(DEFAULT_MAX_LINE_BYTES, context.maxGroupBytes)

  async function readSide(modelId: string, split: string, step: number, signal: AbortSignal): Promise<Side> {
    // where logs are of one measurement, the newest stands for it
    const isOne = measurementOf(await findSplitTotals(db, { modelId, split, step })) !== null
    const { items, hasMore } = await listTrajectoryLogs(db, modelId, { split, step, limit: isOne ? 1 : MAX_LOGS })
    const asked = new Map<string, Asked>()
    let skipped = hasMore && !isOne ? await countOlder(modelId, { split, step, after: items.at(-1)?.id }) : 0
    let groups = 0
    let bytes = 0
    let turn = 0
    const isFull = (): boolean => groups > MAX_GROUPS || bytes > MAX_BYTES
    // oldest first: the first answers of a prompt are those that came first
    for (const log of items.toReversed()) {
      let compared = 0
      for await (const { text } of isFull() ? [] : readLines(await blobs.openRead(log.bodySha256), { maxLineBytes })) {
        signal.throwIfAborted()
        if (text.trim() === '') continue
        groups += 1
        bytes += text.length
        if (isFull()) break
        if (text.length > MAX_LINE_CHARACTERS) continue
        compared += 1
        turn += text.length
        if (turn > TURN_BYTES) {
          turn = 0
          await new Promise((resolve) => setImmediate(resolve))
        }
        add(asked, parseTrajectoryGroup(JSON.parse(text), 'trajectory_groups'))
      }
      skipped += log.groupCount - compared
    }
    return { logs: items.length, asked, skipped }
  }

  /** Groups of the logs that are too many to be read. */
  async function countOlder(
    modelId: string,
    of: { readonly split: string; readonly step: number; readonly after: string | undefined },
  ): Promise<number> {
    let count = 0
    for (let { after } = of; after !== undefined; ) {
      const { items, hasMore } = await listTrajectoryLogs(db, modelId, { ...of, after, limit: 1000 })
      count += items.reduce((sum, { groupCount }) => sum + groupCount, 0)
      after = hasMore ? items.at(-1)?.id : undefined
    }
    return count
  }

  return {
    compare: async (principal, modelId, query, signal) => {
      const { split, a, b, outcome, limit = DEFAULT_PAIRS, offset = 0 } = query
      const model = await requireModel(context, principal, modelId)
      const other = query.b_model_id === undefined ? model : await requireModel(context, principal, query.b_model_id)
      const isOneSide = a === b && other.id === model.id
      const first = await readSide(model.id, split, a, signal)
      const second = isOneSide ? first : await readSide(other.id, split, b, signal)
      const pairs: LoggedPair[] = []
      for (const [key, was] of first.asked) {
        const is = second.asked.get(key)
        if (is !== undefined) pairs.push(toPair(was, is))
      }
      const shown = pairs.filter((pair) => outcome === undefined || pair.outcome === outcome).sort(byDifference)
      const compared = comparePairs(pairs)
      return {
        object: 'log_comparison',
        model_id: model.id,
        b_model_id: other.id,
        split,
        a: sideOf(a, first),
        b: sideOf(b, second),
        prompts: pairs.length,
        ...compared,
        rewards: [...compared.rewards],
        interval: compared.interval === null ? null : [...compared.interval],
        unpaired: first.asked.size + second.asked.size - 2 * pairs.length,
        skipped: first.skipped + (isOneSide ? 0 : second.skipped),
        pairs: shown.slice(offset, offset + limit),
        has_more: shown.length > offset + limit,
      }
    },
  }
}

function sideOf(step: number, { logs, asked }: Side): LogComparison['a'] {
  const answers = [...asked.values()].reduce((sum, { rewards }) => sum + rewards.length, 0)
  return { step, logs, prompts: asked.size, answers }
}

function add(asked: Map<string, Asked>, group: TrajectoryGroup): void {
  const [first] = group.trajectories
  if (first === undefined) return
  const id = idOf(group.metadata) ?? idOf(first.metadata)
  const messages = promptOf(first)
  const key = id === null ? createHash('sha256').update(JSON.stringify(messages)).digest('hex') : `id ${id}`
  const known = asked.get(key) ?? { id, messages, rewards: [], answers: [] }
  asked.set(key, known)
  for (const trajectory of group.trajectories) {
    known.rewards.push(trajectory.reward)
    if (known.answers.length < MAX_ANSWERS) {
      known.answers.push({ text: answerOf(trajectory).slice(0, MAX_TEXT), reward: trajectory.reward })
    }
  }
}

function idOf(metadata: JsonObject): string | null {
  const { id } = metadata
  return typeof id === 'string' || typeof id === 'number' ? String(id).slice(0, 256) : null
}

type Trajectory = TrajectoryGroup['trajectories'][number]

/** What was said before the first answer. */
function promptOf({ histories: [history] }: Trajectory): readonly JsonObject[] {
  const items = history?.items ?? []
  const end = items.findIndex(({ kind, message }) => kind === 'choice' || message['role'] === 'assistant')
  return items.slice(0, end < 0 ? items.length : end).map(({ message }) => message)
}

/** What the model said, turn by turn. */
function answerOf({ histories: [history] }: Trajectory): string {
  const said = (history?.items ?? []).filter(
    ({ kind, message }) => kind === 'choice' || message['role'] === 'assistant',
  )
  return said.map(({ message }) => textOf(message)).join('\n\n')
}

function textOf(message: JsonObject): string {
  const { content, tool_calls: calls } = message
  const text = typeof content === 'string' ? content : content == null ? '' : partsOf(content)
  return calls == null || (Array.isArray(calls) && calls.length === 0)
    ? text
    : `${text}${text === '' ? '' : '\n'}${JSON.stringify(calls)}`
}

function partsOf(content: unknown): string {
  if (!Array.isArray(content)) return JSON.stringify(content)
  return content.map((part) => (isJsonObject(part) && typeof part['text'] === 'string' ? part['text'] : '')).join('')
}

function toPair(was: Asked, is: Asked): LoggedPair {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)
  const rewards: [number, number] = [mean(was.rewards), mean(is.rewards)]
  return {
    id: was.id,
    messages: was.messages.map((message) => ({ ...message }) as LoggedPair['messages'][number]),
    outcome: outcomeOf({ rewards }),
    rewards,
    counts: [was.rewards.length, is.rewards.length],
    answers: [was.answers, is.answers],
  }
}
