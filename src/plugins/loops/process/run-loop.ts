/**
 * A loop from where others left it to its end: evaluate, then step by step sample, grade, train and evaluate. What a later
 * process needs is reported at each border of phases; what lies between two of them it does again, with the same seeds.
 */
import { AppError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { Model } from '#contract/wire/models.js'
import { countTraining, estimatorOf } from '#formats/rows/which-train.js'
import { createClient } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'
import { createHttp } from '#sdk/client/http.js'
import { sayOfGroups } from '#sdk/rl/diagnose.js'
import { nameMeasurement } from '#sdk/rl/measurement.js'
import type { TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { LoopEvaluation } from '../loop-service.js'
import type { LoopReport, LoopStart } from '../messages.js'
import { createGrading, type GradedAnswer } from './grading.js'
import type { Link } from './link.js'
import { type Facts, factsOf, graderTokensOf, metricsData } from './metrics.js'
import { type LoopRow, readRows, rowsOfStep, seedOf, splitRows } from './rows.js'
import { sample } from './sampling.js'
import { LoopFailedError, readJob, trainOnce } from './training.js'

/** A server that is busy, or starts an engine, answers later. */
const RETRIES = 6
/** Steps in a row without anything to train, after which a loop has failed. */
const MOST_DULL = 3
/** Errors that say nothing of the answer. */
const GRADERS_OWN: readonly string[] = [
  ...['python_grader_server_error', 'python_grader_runtime_error', 'model_grader_server_error'],
  ...['model_grader_refusal_error', 'model_grader_parse_error', 'unresponsive_reward_error'],
]
/** Of a step's grades. */
const MOST_ERRED = 0.5

/** What a process leaves those after it, inside one step and beyond. */
interface Progress {
  /** Steps in a row in which nothing trained. */
  readonly dull: number
  /** The step's groups, once they are graded. */
  readonly graded: {
    readonly fileId: string
    readonly facts: Facts
    readonly groups: number
    readonly trainedGroups: number
    readonly dropped: number
    readonly samplingSeconds: number
    /** Why nothing trains, one sentence each; empty where something does. */
    readonly reasons: readonly string[]
  } | null
}

/** @throws {LoopStoppedError} where it pauses or is over; anything else: another process goes on */
export async function runLoop(start: LoopStart, link: Link): Promise<void> {
  try {
    const loop = await openLoop(start, link)
    if (start.evaluations.length === 0) await loop.evaluateFirst()
    for (let step = start.step; step < start.spec.steps; step += 1) await loop.runStep(step)
    await link.report({ events: [say('info', 'Loop completed')], end: { error: null } })
  } catch (error) {
    const known = toEnd(error)
    if (known === null) throw error
    await link.report({ events: [say('error', known.message, { code: known.code })], end: { error: known } })
  }
}

/** What ends the loop; null: trying again may help. */
function toEnd(error: unknown): { readonly code: string; readonly message: string } | null {
  if (error instanceof LoopFailedError) return { code: error.code, message: error.message }
  if (!(error instanceof AppError)) return null
  if (error.code === 'model_not_found') return { code: 'model_deleted', message: 'the model was deleted' }
  const isRefusal = error instanceof ApiError && error.status < 500 && ![408, 409, 429].includes(error.status)
  if (!isRefusal && error.category !== 'invalid_request') return null
  return { code: error.code, message: error.hint === undefined ? error.message : `${error.message}; ${error.hint}` }
}

const say = (level: 'info' | 'warn' | 'error', message: string, data: JsonObject = {}) =>
  ({ type: 'message', level, message, data }) as const

async function openLoop(start: LoopStart, link: Link) {
  const { spec, id, url, token } = start
  const connection = { baseUrl: url, apiKey: token, maxRetries: RETRIES }
  const client = createClient(connection)
  const http = createHttp(connection)
  const grading = createGrading(start, http, link)
  const { grader } = grading
  const textOf = async (fileId: string): Promise<string> => await (await client.marks.openFile(fileId)).text()
  const given = spec.heldOutFileId === null ? null : readRows(await textOf(spec.heldOutFileId))
  const { train, heldOut } = splitRows(readRows(await textOf(spec.promptsFileId)), given, spec)
  let progress: Progress = { dull: 0, graded: null, ...start.progress }
  let { baseStep } = start
  let reportedMs = performance.now()

  /** Reports what was used since the report before, too. */
  async function report(given: LoopReport): Promise<void> {
    const nowMs = performance.now()
    const seconds = (nowMs - reportedMs) / 1000
    reportedMs = nowMs
    await link.report({ ...given, used: { ...given.used, seconds } })
  }

  const usedBy = (answers: readonly GradedAnswer[]): NonNullable<LoopReport['used']> => ({
    graderTokens: graderTokensOf(answers),
    endpointCalls: grading.endpointCalls * answers.filter(({ wasKnown }) => !wasKnown).length,
  })

  const modelNow = async (): Promise<Model> => await client.models.get(spec.modelId)

  async function sampleRows(model: Model, step: number, rows: readonly LoopRow[], seeds: readonly number[], n: number) {
    const begunMs = performance.now()
    const asked = rows.map((row, i) => ({ row, seed: seeds[i] ?? 0 }))
    const groups = await sample({ client, model, step, spec }, asked, n)
    const [first] = groups.flatMap(({ exceptions }) => exceptions)
    if (first !== undefined && groups.every(({ trajectories }) => trajectories.length === 0)) {
      throw new Error(`no row was answered; the first: ${first.message}`)
    }
    return { groups, seconds: (performance.now() - begunMs) / 1000 }
  }

  /** Answers of a checkpoint to the held-out rows, graded. */
  async function evaluate(step: number) {
    const model = await modelNow()
    const begunMs = performance.now()
    const seeds = heldOut.map((_, i) => seedOf(spec.seed, 'held out', i))
    const { groups } = await sampleRows(model, step, heldOut, seeds, spec.answersPerHeldOut)
    const graded = await grading.grade(groups, heldOut)
    // what was logged is at the model's newest step: another job may have moved it
    const warning = model.step === step ? await log(model, graded.groups) : null
    return {
      facts: factsOf(grader, graded.answers),
      seconds: (performance.now() - begunMs) / 1000,
      used: usedBy(graded.answers),
      events: warning === null ? [] : [say('warn', warning)],
    }
  }

  /** Stores an evaluation beside the model's others. @returns why it could not be */
  async function log(model: Model, groups: readonly TrajectoryGroup[]): Promise<string | null> {
    const prompts = heldOut.map(({ messages }) => messages)
    const measurement = nameMeasurement(prompts, [spec.grader, spec.sampling, spec.responseFormat])
    const body = { split: 'val', measurement, trajectory_groups: groups.map((group) => group.toJSON()) }
    try {
      await client.models.log(model.id, body)
      return null
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'other_measurement') throw error
      return `the evaluation is not among those of the model: ${error.message}`
    }
  }

  const toEvaluation = (loopStep: number, checkpointStep: number, train: Facts | null, valid: Facts) =>
    ({ loopStep, checkpointStep, trainReward: train?.reward ?? null, validReward: valid.reward ?? 0 }) as const

  async function evaluateFirst(): Promise<void> {
    if (heldOut.length === 0) return
    await report({ phase: 'evaluating' })
    const { step } = await modelNow()
    const { facts, seconds, used, events } = await evaluate(step)
    const at = { step: 0, totalSteps: spec.steps, times: { eval: seconds }, own: { checkpoint_step: step } }
    const data = metricsData(grader, at, null, facts)
    const message = `Evaluated before the first step: full_valid_mean_reward ${round(facts.reward)}`
    await report({
      evaluation: toEvaluation(0, step, null, facts),
      events: [{ type: 'metrics', level: 'info', message, data }, ...events],
      used,
    })
  }

  /** Samples and grades the step's rows, and stores the groups. */
  async function gradeStep(step: number, base: number): Promise<NonNullable<Progress['graded']>> {
    const rows = rowsOfStep(train.length, step, spec).map((place) => train[place] as LoopRow)
    const seeds = rows.map((_, i) => seedOf(spec.seed, 'step', step, i))
    const { groups, seconds: samplingSeconds } = await sampleRows(
      await modelNow(),
      base,
      rows,
      seeds,
      spec.answersPerPrompt,
    )
    await report({ phase: 'grading' })
    const graded = await grading.grade(groups, rows)
    const estimator = estimatorOf(spec.training)
    const rewards = graded.groups.map((group) => group.rewards)
    const trainedGroups = countTraining(rewards, estimator)
    const text = JSON.stringify(graded.groups.map((group) => group.toJSON()))
    const file = await client.files.upload(new Blob([text]), `loop-${id}-${step}.json`, { purpose: 'user_data' })
    const made = {
      fileId: file.id,
      facts: factsOf(grader, graded.answers),
      groups: groups.length,
      trainedGroups,
      dropped: graded.groups.reduce((sum, { exceptions }) => sum + exceptions.length, 0),
      samplingSeconds,
      reasons: trainedGroups === 0 ? sayOfGroups(graded.groups, { estimator }) : [],
    }
    progress = { ...progress, graded: made }
    await report({ progress, used: usedBy(graded.answers) })
    assertGraded(graded.answers)
    return made
  }

  async function runStep(step: number): Promise<void> {
    const begunMs = performance.now()
    baseStep ??= (await modelNow()).step
    if (progress.graded === null) await report({ phase: 'sampling', baseStep })
    const graded = progress.graded ?? (await gradeStep(step, baseStep))
    let [checkpointStep, trainedTokens] = [baseStep, 0]
    let training: number | null = null
    let jobId: string | null = null
    if (graded.trainedGroups > 0) {
      await report({ phase: 'training' })
      const groups = readJob(await textOf(graded.fileId))
      const key = `loop:${id}:${step}`
      const onJob = async (job: string): Promise<void> => await report({ jobId: job })
      const trained = await trainOnce({ client, http }, { spec, groups, key, onJob })
      ;({ checkpointStep, trainedTokens, jobId } = trained)
      training = trained.seconds
    }
    const isDue = heldOut.length > 0 && ((step + 1) % spec.evaluateEvery === 0 || step + 1 === spec.steps)
    if (isDue) await report({ phase: 'evaluating' })
    const measured = isDue ? await evaluate(checkpointStep) : null
    const valid = measured?.facts ?? null
    const times = {
      sampling: graded.samplingSeconds,
      ...(training === null ? {} : { training }),
      ...(measured === null ? {} : { eval: measured.seconds }),
      full_iteration: (performance.now() - begunMs) / 1000,
    }
    const own = {
      checkpoint_step: checkpointStep,
      training_job_id: jobId,
      groups: graded.groups,
      trained_groups: graded.trainedGroups,
      dropped_answers: graded.dropped,
      trained_tokens: trainedTokens,
    }
    const data = metricsData(grader, { step: step + 1, totalSteps: spec.steps, times, own }, graded.facts, valid)
    const dull = graded.trainedGroups > 0 ? 0 : progress.dull + 1
    progress = { dull, graded: null }
    baseStep = null
    const evaluation: LoopEvaluation | null =
      valid === null ? null : toEvaluation(step + 1, checkpointStep, graded.facts, valid)
    await report({
      endedStep: step + 1,
      progress,
      ...(evaluation === null ? {} : { evaluation }),
      used: { ...measured?.used, trainedTokens },
      events: [
        ...(dull === 0 ? [] : [say('warn', `nothing_to_train: ${graded.reasons.join('; ')}`, NOTHING)]),
        { type: 'metrics', level: 'info', message: sayStep(step + 1, spec.steps, graded.facts, valid), data },
        ...(measured?.events ?? []),
      ],
    })
    await client.marks.deleteFile(graded.fileId).catch(() => undefined)
    if (dull >= MOST_DULL) {
      const why = graded.reasons.join('; ')
      throw new LoopFailedError(
        'no_learning_signal',
        `nothing was left to train in ${MOST_DULL} steps in a row: ${why}`,
      )
    }
  }

  return { evaluateFirst, runStep }
}

const NOTHING = { code: 'nothing_to_train' }

/** @throws {LoopFailedError} `grader_failed_too_often` */
function assertGraded(answers: readonly GradedAnswer[]): void {
  const erred = answers.flatMap(({ graded }) => graded.errors.find(({ flag }) => GRADERS_OWN.includes(flag)) ?? [])
  if (answers.length === 0 || erred.length < MOST_ERRED * answers.length) return
  const examples = [...new Set(erred.map(({ grader, flag, message }) => `${grader}: ${flag}: ${message}`))].slice(0, 3)
  throw new LoopFailedError(
    'grader_failed_too_often',
    `${erred.length} of ${answers.length} answers could not be graded: ${examples.join('; ')}`,
  )
}

const round = (value: number | null): string => (value === null ? 'none' : String(Number(value.toFixed(4))))

function sayStep(step: number, steps: number, train: Facts, valid: Facts | null): string {
  const measured = valid === null ? '' : `, full_valid_mean_reward ${round(valid.reward)}`
  return `Step ${step}/${steps}: train_mean_reward ${round(train.reward)}${measured}`
}
