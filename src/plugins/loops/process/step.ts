/**
 * One step of a loop: sample, grade, train, and measure where it is time.
 */
import { countTraining, estimatorOf } from '#formats/rows/which-train.js'
import { sayOfGroups } from '#plugins/rl-library/diagnose.js'
import { groupsFile } from '../messages.js'
import { evaluate, round, toStep } from './evaluating.js'
import type { GradedAnswer } from './grading.js'
import { type Facts, factsOf, metricsData } from './metrics.js'
import { type LoopRow, rowsOfStep, seedOf } from './rows.js'
import { type GradedStep, type Run, sampleRows, say, toolCountsOf } from './run.js'
import { LoopFailedError, readGroups, trainOnce } from './training.js'

/** Steps in a row without anything to train, after which a loop has failed, or has nothing left to learn. */
const MOST_DULL = 3
/** Errors that say nothing of the answer. */
const GRADERS_OWN: readonly string[] = [
  ...['python_grader_server_error', 'python_grader_runtime_error', 'model_grader_server_error'],
  ...['model_grader_refusal_error', 'model_grader_parse_error', 'unresponsive_reward_error'],
]
/** Of a step's grades. */
const MOST_ERRED = 0.5

/** @returns why nothing is left to learn, or null: there is */
export async function runStep(run: Run, step: number): Promise<Learned | null> {
  const { spec, state, heldOut } = run
  const begunMs = performance.now()
  state.baseStep ??= (await run.modelNow()).step
  if (state.progress.graded === null) await run.report({ phase: 'sampling', baseStep: state.baseStep })
  const graded = state.progress.graded ?? (await gradeStep(run, step, state.baseStep))
  const trained = graded.trainedGroups === 0 ? null : await train(run, step, graded)
  const checkpointStep = trained?.checkpointStep ?? state.baseStep
  const dull = trained === null ? state.progress.dull + 1 : 0
  const first = state.progress.first ?? graded.facts.reward
  const hasTrained = state.progress.hasTrained || trained !== null
  const learned = dull < MOST_DULL ? null : learnedBy(run, graded, hasTrained ? first : null)
  const isLast = step + 1 === spec.steps || learned !== null
  const isDue = heldOut.length > 0 && ((step + 1) % spec.evaluateEvery === 0 || isLast)
  if (isDue) await run.report({ phase: 'evaluating' })
  const measured = isDue ? await evaluate(run, checkpointStep) : null
  const valid = measured?.facts ?? null
  const times = {
    sampling: graded.samplingSeconds,
    ...(trained === null ? {} : { training: trained.seconds }),
    ...(measured === null ? {} : { eval: measured.seconds }),
    full_iteration: (performance.now() - begunMs) / 1000,
  }
  const own = {
    checkpoint_step: checkpointStep,
    training_job_id: trained?.jobId ?? null,
    groups: graded.groups,
    trained_groups: graded.trainedGroups,
    dropped_answers: graded.dropped,
    trained_tokens: trained?.trainedTokens ?? 0,
    ...graded.tools,
  }
  const at = { step: step + 1, totalSteps: spec.steps, times, own }
  const data = metricsData(run.grading.grader, at, graded.facts, valid)
  state.progress = { dull, first, hasTrained, graded: null }
  state.baseStep = null
  await run.report({
    endedStep: step + 1,
    progress: state.progress,
    reached: toStep(
      run,
      { loopStep: step + 1, checkpointStep, jobId: own.training_job_id },
      { train: graded.facts, valid },
      {
        trained_tokens: own.trained_tokens,
        trained_groups: graded.trainedGroups,
        groups: graded.groups,
        dropped_answers: graded.dropped,
        'seconds/sampling': graded.samplingSeconds,
        'seconds/training': trained?.seconds ?? null,
        'seconds/evaluating': measured?.seconds ?? null,
        'seconds/step': times.full_iteration,
      },
    ),
    ...(measured === null ? {} : { examples: measured.examples }),
    used: { ...measured?.used, trainedTokens: own.trained_tokens },
    events: [
      ...(dull === 0 ? [] : [say('warn', `Nothing to train: ${graded.reasons.join('; ')}`, NOTHING)]),
      { type: 'metrics', level: 'info', message: sayStep(step + 1, spec.steps, graded.facts, valid), data },
      ...(measured?.events ?? []),
    ],
  })
  // one that stays is deleted when the process ends
  await run.client.marks.deleteFile(graded.fileId).catch(() => undefined)
  if (dull < MOST_DULL || learned !== null) return learned
  const why = graded.reasons.join('; ')
  throw new LoopFailedError('no_learning_signal', `nothing was left to train in ${MOST_DULL} steps in a row: ${why}`)
}

const NOTHING = { code: 'nothing_to_train' }
/** Of a mean of rewards. */
const ROUNDING = 1e-9

interface Learned {
  readonly code: 'solved' | 'converged'
  readonly message: string
}

/**
 * Why some steps that train nothing are the end of what can be learned. @param first mean reward of the first step; null: no
 * step trained, so nothing was learned
 */
function learnedBy(
  { grading }: Pick<Run, 'grading'>,
  { facts, dropped }: GradedStep,
  first: number | null,
): Learned | null {
  const { reward } = facts
  if (dropped > 0 || reward === null) return null
  if (grading.best !== null && reward >= grading.best - ROUNDING) {
    const message = 'every answer earns the most that there is, so nothing is left to learn'
    return { code: 'solved', message: `Loop completed before its last step: ${message}` }
  }
  if (first === null || reward <= first + ROUNDING) return null
  const gained = `their mean is ${round(reward)}, ${round(first)} in the first step`
  const message = `all answers to a prompt earn the same, and more than at first (${gained})`
  return { code: 'converged', message: `Loop completed before its last step: ${message}` }
}

/** Samples and grades the step's rows, and stores the groups. */
async function gradeStep(run: Run, step: number, base: number): Promise<GradedStep> {
  const { id, spec, state, grading } = run
  const rows = rowsOfStep(run.train.length, step, spec).map((place) => run.train[place] as LoopRow)
  const asked = rows.map((row, i) => ({ row, seed: seedOf(spec.seed, 'step', step, i) }))
  const place = { model: await run.modelNow(), step: base }
  const { groups, seconds: samplingSeconds } = await sampleRows(run, place, asked, spec.answersPerPrompt)
  await run.report({ phase: 'grading' })
  const graded = await grading.grade(groups, rows)
  const estimator = estimatorOf(spec.training)
  const trainedGroups = countTraining(
    graded.groups.map((group) => group.rewards),
    estimator,
  )
  const text = JSON.stringify(graded.groups.map((group) => group.toJSON()))
  const file = await run.client.files.upload(new Blob([text]), groupsFile(id, step), { purpose: 'user_data' })
  const made: GradedStep = {
    fileId: file.id,
    facts: factsOf(grading.grader, graded.answers),
    groups: groups.length,
    trainedGroups,
    dropped: graded.groups.reduce((sum, { exceptions }) => sum + exceptions.length, 0),
    samplingSeconds,
    ...(spec.tools === undefined ? {} : { tools: toolCountsOf(graded.groups) }),
    reasons: trainedGroups === 0 ? sayOfGroups(graded.groups, { estimator }) : [],
  }
  state.progress = { ...state.progress, graded: made }
  await run.report({ progress: state.progress, used: run.usedBy(graded.answers, graded.groups) })
  assertGraded(graded.answers)
  return made
}

async function train(run: Run, step: number, graded: GradedStep) {
  await run.report({ phase: 'training' })
  return await trainOnce(run.client, {
    spec: run.spec,
    groups: readGroups(await run.textOf(graded.fileId)),
    key: `loop:${run.id}:${step}`,
    onJob: async (jobId) => await run.report({ jobId }),
  })
}

/** @throws {LoopFailedError} `grader_failed_too_often` */
export function assertGraded(answers: readonly Pick<GradedAnswer, 'graded'>[]): void {
  const erred = answers.flatMap(({ graded }) => graded.errors.find(({ flag }) => GRADERS_OWN.includes(flag)) ?? [])
  if (answers.length === 0 || erred.length < MOST_ERRED * answers.length) return
  const examples = [...new Set(erred.map(({ grader, flag, message }) => `${grader}: ${flag}: ${message}`))].slice(0, 3)
  throw new LoopFailedError(
    'grader_failed_too_often',
    `${erred.length} of ${answers.length} answers could not be graded: ${examples.join('; ')}`,
  )
}

function sayStep(step: number, steps: number, train: Facts, valid: Facts | null): string {
  const measured = valid === null ? '' : `, full_valid_mean_reward ${round(valid.reward)}`
  return `Step ${step}/${steps}: train_mean_reward ${round(train.reward)}${measured}`
}
