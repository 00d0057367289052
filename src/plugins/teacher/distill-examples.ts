/**
 * Distillation by answers: a teacher's answers are gathered, kept, filtered by a reward, and trained on by one supervised job.
 */
import type { JsonObject } from '#base/util/json.js'
import type { CommandContext } from '#cli/command/context.js'
import { messageOf } from '#cli/input/input-file.js'
import { assertWritable } from '#cli/local/output-file.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import { startProgress } from '#cli/terminal/progress.js'
import { addSizeDefaults, type Hyperparameters, submitJob, toRowsRequest } from '#cli/training/submission.js'
import type { Model } from '#contract/wire/models.js'
import { askTeacher, type Lesson, type Teacher } from '#plugins/rl-library/teacher.js'
import type { PromptRow } from '#plugins/rollout/prompt-file.js'
import type { Scorer } from '#plugins/rollout/reward.js'
import type { Client } from '#sdk/client/client.js'
import { DEFAULT_ANSWER_TOKENS, DEFAULT_QUESTIONS } from './distill-flags.js'
import { openTeacherAnswers, type TeacherAnswers } from './teacher-answers.js'
import { isAddress, openTeacher, type TeacherFlags } from './teacher-flags.js'

export interface ExampleFlags extends TeacherFlags {
  readonly answers: string | undefined
  readonly samples: number | undefined
  readonly maxTokens: number | undefined
  readonly temperature: number | undefined
  readonly reward: string | undefined
  readonly minReward: number | undefined
  readonly concurrency: number | undefined
  readonly dryRun: boolean
  readonly plan: boolean
  readonly watch: boolean
}

/** Gathers, filters, submits. `--dry-run` and `--plan` ask the teacher nothing. */
export async function trainByExamples(
  context: CommandContext,
  client: Client,
  job: {
    readonly flags: ExampleFlags
    readonly model: Model
    readonly rows: readonly PromptRow[]
    readonly key: string | null
    readonly score: Scorer | null
    readonly hyperparameters: Hyperparameters
  },
): Promise<void> {
  const { flags, model, rows, score, hyperparameters } = job
  const found = await findLessons(context, client, job)
  if (flags.dryRun) return reportMissing(context, job, found)
  const lessons = await gatherLessons(context, job, found)
  if (lessons.length === 0) {
    throw new UsageError('no_examples', 'no answer of the teacher is whole, so there is nothing to train on', {
      param: '--max-tokens',
      hint: 'a higher --max-tokens lets it finish; with another limit all prompts are asked again',
    })
  }
  const kept = score === null ? lessons : await bestOf(context, lessons, { rows, score, least: flags.minReward })
  if (kept.length === 0) {
    throw new UsageError(
      'no_examples',
      `none of ${plural(lessons.length, 'whole answer')} of the teacher is worth training on`,
      {
        param: '--reward',
        hint: 'more answers per prompt (--samples), a lower --min-reward, or another teacher; the answers stay in the file',
      },
    )
  }
  const text = kept.map(({ prompt, text: content }) => {
    const messages = [...(rows[prompt]?.messages ?? []), { role: 'assistant', content }]
    return `${JSON.stringify({ messages })}\n`
  })
  const data = new Blob(text)
  const examples = { path: 'distill.jsonl', data, facts: null, url: undefined }
  const none = { path: null, data: null, facts: null, url: undefined }
  await addSizeDefaults(context, client, {
    kind: 'sft',
    baseModel: model.base_model,
    rows: { rows: kept.length, bytes: data.size, hasValidation: false },
    hyperparameters,
  })
  await submitJob(context, client, flags, {
    kind: 'sft',
    model,
    counts: `${plural(kept.length, 'answer')} of the teacher`,
    facts: { conversations: kept.length, teacher_answers: lessons.length },
    hyperparameters,
    toRequest: () =>
      toRowsRequest(context, client, {
        model,
        rows: examples,
        validation: none,
        hyperparameters,
        isPlanned: flags.plan,
      }),
    plan: client.trainingJobs.planSft,
    create: client.trainingJobs.createSft,
  })
}

type DistillJob = Parameters<typeof trainByExamples>[2]

/** A teacher, and what it said already. */
interface FoundLessons {
  readonly teacher: Teacher
  readonly path: string
  readonly answers: TeacherAnswers
  readonly old: readonly Lesson[]
  readonly samples: number
  readonly maxTokens: number
}

/** Opens the file of answers; asks the teacher nothing. */
async function findLessons(context: CommandContext, client: Client, job: DistillJob): Promise<FoundLessons> {
  const { output } = context
  const { flags, model, rows, key } = job
  const { samples = 1, maxTokens = DEFAULT_ANSWER_TOKENS } = flags
  const body = bodyOf(flags, { samples, maxTokens })
  const teacher = await openTeacher(context, client, flags, { key, body })
  const path = flags.answers ?? `distill-${model.name}.jsonl`
  await assertWritable(path)
  const prompts = rows.map(({ messages }) => messages)
  const options = { ...body, ...(flags.teacherSystem === undefined ? {} : { system: flags.teacherSystem }) }
  const answers = await openTeacherAnswers(path, prompts, { teacher: teacher.name, options })
  const old = answers.lessons.filter(({ sample }) => sample < samples)
  if (old.length > 0)
    output.status(
      `${plural(old.length, 'answer')} of the teacher ${old.length === 1 ? 'is' : 'are'} in ${path} already`,
    )
  if (answers.others > 0) {
    output.status(
      `${plural(answers.others, 'line')} of ${path} ${answers.others === 1 ? 'is' : 'are'} of another teacher, other prompts or other options, and stay unused`,
    )
  }
  return { teacher, path, answers, old, samples, maxTokens }
}

/** What a run would ask for. */
function reportMissing({ output }: CommandContext, { model, rows }: DistillJob, found: FoundLessons): void {
  const { teacher, old, samples } = found
  const missing = rows.length * samples - old.length
  output.result(
    {
      dry_run: true,
      model_id: model.id,
      prompts: rows.length,
      samples,
      answers_there: old.length,
      answers_to_ask: missing,
    },
    `Would ask ${teacher.name} for ${plural(missing, 'answer')}, and train ${model.name} on them and on ${old.length} that ${old.length === 1 ? 'is' : 'are'} there (dry run)`,
    [],
  )
}

/** Whole answers, old and new; for a plan those that are there, since a teacher may be dear. */
async function gatherLessons(
  { io, output, signal }: CommandContext,
  { flags, rows }: DistillJob,
  { teacher, path, answers, old, samples, maxTokens }: FoundLessons,
): Promise<readonly Lesson[]> {
  const { concurrency = DEFAULT_QUESTIONS } = flags
  const wanted = rows.length * samples
  if (flags.plan) {
    if (old.length === 0) {
      throw new UsageError(
        'no_examples',
        `a job of this kind asks the teacher first, and ${path} holds no answer yet`,
        {
          param: '--plan',
          hint: 'train options sft shows the options of such a job; --dry-run says how many answers would be asked for',
        },
      )
    }
    if (old.length < wanted) {
      output.warning(
        `the plan is for ${old.length} of ${plural(wanted, 'answer')}: a run asks the teacher for the rest`,
      )
    }
    return old.filter(({ isCut }) => !isCut)
  }
  let [came, failures] = [0, 0]
  let why = ''
  const progress = startProgress(io, output.mode === 'human', 'asking the teacher')
  try {
    const prompts = rows.map(({ messages }) => messages)
    const asked = await askTeacher(prompts, teacher, {
      samples,
      concurrency,
      signal,
      has: answers.has,
      onLesson: async (lesson) => {
        await answers.add(lesson)
        came += 1
        progress.update(`${old.length + came} of ${wanted} answers of the teacher`)
      },
      onFailure: ({ error }) => {
        failures += 1
        why = messageOf(error)
      },
    })
    const all = [...old, ...asked].toSorted((a, b) => a.prompt - b.prompt || a.sample - b.sample)
    const whole = all.filter(({ isCut }) => !isCut)
    if (failures > 0) {
      output.warning(
        `${plural(failures, 'answer')} of the teacher did not come, the last one: ${why}; the same command asks for them again`,
      )
    }
    if (whole.length < all.length) {
      output.warning(
        `${all.length - whole.length} of ${all.length} answers of the teacher were cut off at ${maxTokens} tokens, and are no examples; --max-tokens raises the limit`,
      )
    }
    return whole
  } finally {
    progress.stop()
  }
}

/**
 * Fields of each request. A model of this service says its likeliest answer where one is asked for; others are asked as they are
 * used.
 */
function bodyOf(
  { teacher, temperature }: ExampleFlags,
  { samples, maxTokens }: { readonly samples: number; readonly maxTokens: number },
): JsonObject {
  const isHere = !isAddress(teacher)
  const chosen = temperature ?? (isHere ? (samples === 1 ? 0 : 1) : undefined)
  return { max_completion_tokens: maxTokens, ...(chosen === undefined ? {} : { temperature: chosen }) }
}

/** Of the answers to each prompt the best ones, where they are good enough: rejection sampling. */
async function bestOf(
  { output, signal }: CommandContext,
  lessons: readonly Lesson[],
  {
    rows,
    score,
    least,
  }: { readonly rows: readonly PromptRow[]; readonly score: Scorer; readonly least: number | undefined },
): Promise<readonly Lesson[]> {
  const rewards: number[] = []
  // one after the other: a reward may be a program, and some are not made to run side by side
  for (const { prompt, text } of lessons) {
    const { messages = [], row = {} } = rows[prompt] ?? {}
    const scored = {
      answer: text,
      messages: [...messages, { role: 'assistant', content: text }],
      reward: 0,
      metrics: {},
    }
    await score(scored, row, signal)
    rewards.push(scored.reward)
  }
  const best = new Map<number, number>()
  for (const [i, { prompt }] of lessons.entries()) {
    best.set(prompt, Math.max(best.get(prompt) ?? Number.NEGATIVE_INFINITY, rewards[i] ?? 0))
  }
  const kept = lessons.filter(({ prompt }, i) => {
    const reward = rewards[i] ?? 0
    return reward === best.get(prompt) && (least === undefined ? reward > 0 : reward >= least)
  })
  const mean = rewards.reduce((sum, each) => sum + each, 0) / Math.max(1, rewards.length)
  output.status(
    `The teacher's reward is ${formatNumber(mean)}: ${kept.length} of ${plural(lessons.length, 'answer')} to ${new Set(kept.map(({ prompt }) => prompt)).size} of ${plural(rows.length, 'prompt')} are trained on`,
  )
  return kept
}
