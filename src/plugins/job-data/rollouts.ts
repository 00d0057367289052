/**
 * What a job trained on: its rows as they came, its groups, trajectories and tokens, and what another checkpoint says of the same tokens.
 */
import type { Readable } from 'node:stream'
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { RolloutTrajectory as Noted, RolloutSequence } from '#contract/processes/rollouts.js'
import { DEFAULT_PAGE_LIMIT, toList } from '#contract/wire/list.js'
import { DEFAULT_ROLLOUT_TOKENS, MAX_ROLLOUT_TOKENS } from '#contract/wire/training/rollout-words.js'
import type {
  ListRolloutGroupsQuery,
  RolloutGroupDetail,
  RolloutGroupList,
  RolloutScores,
  RolloutScoresQuery,
  RolloutTokens,
  RolloutTokensQuery,
  RolloutTrajectory,
} from '#contract/wire/training/rollouts.js'
import { parseTrajectoryGroup } from '#formats/rows/parse.js'
import type { HistoryItem, Trajectory, TrajectoryGroup } from '#formats/rows/trajectory.js'
import { isOwn } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { deleteKeptData, findKeptData, type KeptDataRecord } from '#service/storage/jobs/kept-data.js'
import { findJob, type JobRecord } from '#service/storage/training-jobs.js'
import { createScorer } from './rescore.js'
import { chooseGroups, entropyOf, histogramOf } from './rollout-rows.js'
import { createRolloutFiles, type Piece, type RolloutFiles, type RolloutsFile } from './rollouts-file.js'
import { toTokenColumns } from './token-columns.js'

/** Which trajectory of which job. */
export interface TrajectoryPlace {
  readonly jobId: string
  readonly group: string
  readonly trajectory: string
}

export interface RolloutService {
  openData(principal: Principal, jobId: string): Promise<{ readonly stream: Readable; readonly sizeBytes: number }>
  deleteData(
    principal: Principal,
    jobId: string,
  ): Promise<{ readonly id: string; readonly object: 'training_job.data'; readonly deleted: boolean }>
  groups(principal: Principal, jobId: string, query: ListRolloutGroupsQuery): Promise<RolloutGroupList>
  group(principal: Principal, jobId: string, group: string): Promise<RolloutGroupDetail>
  trajectory(principal: Principal, place: TrajectoryPlace): Promise<RolloutTrajectory>
  tokens(principal: Principal, place: TrajectoryPlace, query: RolloutTokensQuery): Promise<RolloutTokens>
  /** Runs the tokens through the engine under a checkpoint of the job's model. */
  scores(
    principal: Principal,
    place: TrajectoryPlace,
    query: RolloutScoresQuery,
    signal: AbortSignal,
  ): Promise<RolloutScores>
}

const ANSWER_CHARACTERS = 4000

type Context = Pick<
  ServiceContext,
  'db' | 'blobs' | 'ids' | 'engines' | 'baseModels' | 'usage' | 'requestSweep' | 'keepTrainingDataMs'
>

/** What is kept of a job that the principal may see. */
interface Kept {
  readonly job: JobRecord
  readonly record: KeptDataRecord
  readonly keptUntil: string
}

export function createRolloutService(context: Context): RolloutService {
  return new Rollouts(context)
}

class Rollouts implements RolloutService {
  readonly #context: Context
  readonly #files: RolloutFiles
  readonly #score: ReturnType<typeof createScorer>

  constructor(context: Context) {
    this.#context = context
    this.#files = createRolloutFiles(context.blobs)
    this.#score = createScorer(context)
  }

  async openData(
    principal: Principal,
    jobId: string,
  ): Promise<{ readonly stream: Readable; readonly sizeBytes: number }> {
    const { record } = await this.#requireKept(principal, jobId)
    const sizeBytes = (await this.#context.blobs.factsOf(record.dataSha256))?.sizeBytes ?? 0
    return { stream: await this.#context.blobs.openRead(record.dataSha256), sizeBytes }
  }

  async deleteData(
    principal: Principal,
    jobId: string,
  ): Promise<{ readonly id: string; readonly object: 'training_job.data'; readonly deleted: boolean }> {
    const { job } = await this.#requireKept(principal, jobId)
    if (job.endedAtMs === null) {
      throw new InvalidRequestError('job_unfinished', `the job is ${job.status}: it still needs its data`, {
        hint: 'delete the data when it has ended, or cancel it',
      })
    }
    await deleteKeptData(this.#context.db, [job.id])
    this.#context.requestSweep()
    return { id: job.id, object: 'training_job.data', deleted: true }
  }

  async groups(principal: Principal, jobId: string, query: ListRolloutGroupsQuery): Promise<RolloutGroupList> {
    const { file, keptUntil } = await this.#requireRollouts(principal, jobId)
    const { head, rows } = file
    const chosen = chooseGroups(head, rows, query)
    const begin = query.after === undefined ? 0 : chosen.findIndex(({ id }) => id === query.after) + 1
    if (begin === 0 && query.after !== undefined) {
      throw new InvalidRequestError('invalid_cursor', `after names no group of this list, got "${query.after}"`, {
        param: 'after',
      })
    }
    const end = begin + (query.limit ?? DEFAULT_PAGE_LIMIT)
    const all = head.groups.flatMap(({ trajectories }) => trajectories)
    return {
      ...toList(chosen.slice(begin, end), end < chosen.length),
      data: chosen.slice(begin, end),
      histogram: histogramOf(head, chosen),
      group_count: head.groups.length,
      trajectory_count: all.length,
      trained_count: all.filter(({ left_out: reason }) => reason === undefined).length,
      zero_advantage_count: all.filter(({ advantage }) => advantage === 0).length,
      failures: countNames(head.groups.flatMap(({ failures = {} }) => Object.entries(failures))).map(
        ([type, count]) => ({ type, count }),
      ),
      environments: countNames(
        head.groups.flatMap(({ environment }) => (environment === undefined ? [] : [[environment, 1] as const])),
      ).map(([name, groups]) => ({ name, groups })),
      unnoted_count: head.omitted,
      untrained_count: head.untrained ?? 0,
      clip: head.clip,
      parent_step: head.parent_step,
      kept_until: keptUntil,
    }
  }

  async group(principal: Principal, jobId: string, given: string): Promise<RolloutGroupDetail> {
    const { file, record } = await this.#requireRollouts(principal, jobId)
    const index = toIndex('group', given)
    const row = file.rows[index]
    const listed = file.head.groups[index]
    if (row === undefined || listed === undefined) throw noSuch('group', index)
    const group = await this.#readGroup(record, index)
    return {
      ...row,
      metadata: plain(group.metadata),
      metrics: { ...group.metrics },
      failed: group.exceptions.map(({ type, message }) => ({ type, message })),
      members: listed.trajectories.map((noted, t) => {
        const trajectory = group.trajectories[t]
        const sequences = file.sequencesOf(index, t)
        return { ...toMember(noted, t, { trajectory, sequences }), answer: answerOf(trajectory) }
      }),
    }
  }

  async trajectory(principal: Principal, place: TrajectoryPlace): Promise<RolloutTrajectory> {
    const { job, record, group, trajectory, size, noted, sequences } = await this.#find(principal, place)
    const sent = (await this.#readGroup(record, group)).trajectories[trajectory]
    return {
      ...toMember(noted, trajectory, { trajectory: sent, sequences }),
      id: `${group}/${trajectory}`,
      object: 'training.rollout_trajectory',
      training_job_id: job.id,
      group,
      group_size: size,
      histories: (sent?.histories ?? []).map(({ items, tools }) => ({
        messages: items.map(toMessage),
        tools: tools === null ? null : tools.map(plain),
      })),
      sequences: sequences.map(({ step, length, trained }, index) => ({
        index,
        gradient_step: step,
        length,
        trained,
      })),
    }
  }

  async tokens(principal: Principal, place: TrajectoryPlace, query: RolloutTokensQuery): Promise<RolloutTokens> {
    const { file, noted, sequence, range } = await this.#findRange(principal, place, query)
    const tokens = await file.readTokens(sequence, range.from, range.to)
    const pieces: ReadonlyMap<number, Piece> = await file.readPieces()
    return {
      object: 'training.rollout_tokens',
      ...range,
      gradient_step: sequence.step,
      advantage: noted.advantage ?? null,
      weight: noted.weight ?? null,
      clip: file.head.clip,
      ...toTokenColumns(tokens, pieces, file.head.clip),
    }
  }

  async scores(
    principal: Principal,
    place: TrajectoryPlace,
    query: RolloutScoresQuery,
    signal: AbortSignal,
  ): Promise<RolloutScores> {
    const { job, file, sequence, range } = await this.#findRange(principal, place, query)
    const ids = await file.readIds(sequence)
    const scored = await this.#score(principal, {
      modelId: job.modelId,
      step: query.step ?? 'latest',
      tokenIds: ids.subarray(0, range.to),
      signal,
    })
    const { step, fingerprint, logprobs } = scored
    return {
      object: 'training.rollout_scores',
      ...range,
      step,
      system_fingerprint: fingerprint,
      logprob: logprobs.slice(range.from, range.to),
    }
  }

  async #requireKept(principal: Principal, jobId: string): Promise<Kept> {
    const job = await findJob(this.#context.db, jobId)
    if (job === null || !isOwn(principal, job)) {
      throw new NotFoundError('training_job_not_found', `training job "${jobId.slice(0, 100)}" was not found`)
    }
    const record = (await findKeptData(this.#context.db, [job.id])).get(job.id)
    if (record === undefined || this.#context.keepTrainingDataMs === 0) {
      throw new NotFoundError('training_data_not_kept', 'what the job trained on was not kept, or is kept no longer', {
        hint:
          this.#context.keepTrainingDataMs === 0
            ? 'start the service with --keep-training-data 7d to keep it for jobs to come'
            : 'it is kept for a time after the end of a job: trainyard serve --keep-training-data',
      })
    }
    const untilMs = record.endedAtMs === null ? null : record.endedAtMs + this.#context.keepTrainingDataMs
    return { job, record, keptUntil: untilMs === null ? '' : new Date(untilMs).toISOString() }
  }

  async #requireRollouts(principal: Principal, jobId: string): Promise<Kept & { readonly file: RolloutsFile }> {
    const kept = await this.#requireKept(principal, jobId)
    const { job, record } = kept
    if (record.rolloutsSha256 !== null) return { ...kept, file: await this.#files.open(record.rolloutsSha256) }
    const why =
      job.endedAtMs === null
        ? `the job is ${job.status}: its groups can be read when it has ended`
        : `nothing was noted of groups: the job (${job.kind}) has none, ended before it had read them, or ran in a worker of an older version`
    throw new NotFoundError('rollouts_not_kept', why, { hint: 'trainyard jobs data gives the rows of the job' })
  }

  async #readGroup(record: KeptDataRecord, group: number): Promise<TrajectoryGroup> {
    const text = await this.#files.readRow(record.dataSha256, group)
    if (text === null) throw noSuch('group', group)
    return parseTrajectoryGroup(JSON.parse(text), `trajectory_groups[${group}]`)
  }

  async #find(principal: Principal, { jobId, group: g, trajectory: t }: TrajectoryPlace) {
    const kept = await this.#requireRollouts(principal, jobId)
    const [group, trajectory] = [toIndex('group', g), toIndex('trajectory', t)]
    const listed = kept.file.head.groups[group]
    if (listed === undefined) throw noSuch('group', group)
    const noted = listed.trajectories[trajectory]
    if (noted === undefined) throw noSuch('trajectory', trajectory)
    const sequences = kept.file.sequencesOf(group, trajectory)
    return { ...kept, group, trajectory, size: listed.trajectories.length, noted, sequences }
  }

  /** A sequence and the part of it that is asked for. */
  async #findRange(principal: Principal, place: TrajectoryPlace, query: RolloutTokensQuery) {
    const found = await this.#find(principal, place)
    const index = query.sequence ?? 0
    const sequence = found.sequences[index]
    if (sequence === undefined) {
      if (found.sequences.length > 0) throw noSuch('sequence', index)
      const { left_out: reason } = found.noted
      const why =
        reason === undefined
          ? 'its tokens were not noted: there were too many, or an earlier attempt of the job trained them'
          : `it did not train (${reason}), so that there are no numbers of its tokens`
      throw new NotFoundError('tokens_not_kept', `trajectory ${found.trajectory} of group ${found.group}: ${why}`)
    }
    const from = Math.min(query.from ?? 0, sequence.length)
    const to = Math.min(query.to ?? from + DEFAULT_ROLLOUT_TOKENS, sequence.length)
    if (to < from || to - from > MAX_ROLLOUT_TOKENS) {
      throw new InvalidRequestError('invalid_value', `from and to name at most ${MAX_ROLLOUT_TOKENS} tokens`, {
        param: 'to',
      })
    }
    const range = {
      group: found.group,
      trajectory: found.trajectory,
      sequence: index,
      length: sequence.length,
      from,
      to,
    }
    return { ...found, sequence, range }
  }
}

function toMember(
  noted: Noted,
  index: number,
  {
    trajectory,
    sequences,
  }: { readonly trajectory: Trajectory | undefined; readonly sequences: readonly RolloutSequence[] },
) {
  return {
    index,
    reward: noted.reward,
    shaped_reward: noted.shaped ?? noted.reward,
    advantage: noted.advantage ?? null,
    weight: noted.weight ?? null,
    left_out: noted.left_out ?? null,
    tokens: noted.tokens,
    entropy: entropyOf(sequences),
    cut_off: noted.is_cut === true,
    metrics: { ...trajectory?.metrics },
    metadata: plain(trajectory?.metadata ?? {}),
    initial_policy_version: trajectory?.initialPolicyVersion ?? null,
    final_policy_version: trajectory?.finalPolicyVersion ?? null,
  }
}

function toMessage(item: HistoryItem) {
  return {
    message: plain(item.message),
    is_sampled: item.kind === 'choice',
    finish_reason: item.kind === 'choice' ? item.finishReason : null,
  }
}

function answerOf(trajectory: Trajectory | undefined): string {
  const items = trajectory?.histories[0]?.items ?? []
  const last = items.findLast(({ kind, message }) => kind === 'choice' || message['role'] === 'assistant')
  const content = last?.message['content'] ?? ''
  const calls = last?.message['tool_calls']
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  return (text === '' && Array.isArray(calls) ? JSON.stringify(calls) : text).slice(0, ANSWER_CHARACTERS)
}

/** Rows are parsed JSON, as the wire has it. */
function plain(value: JsonObject): RolloutTrajectory['metadata'] {
  return value as RolloutTrajectory['metadata']
}

function toIndex(name: string, text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new NotFoundError('rollout_not_found', `${name} must be a number from 0, got "${text.slice(0, 40)}"`)
}

function noSuch(name: string, index: number): NotFoundError {
  return new NotFoundError('rollout_not_found', `there is no ${name} ${index}`, {
    hint: 'they are counted from 0: GET …/groups lists the groups of the job',
  })
}

/** Counts of each name together, the greatest first. */
function countNames(
  counts: readonly (readonly [name: string, count: number])[],
): readonly (readonly [string, number])[] {
  const sums = new Map<string, number>()
  for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count)
  return [...sums].sort((a, b) => b[1] - a[1])
}
