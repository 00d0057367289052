/**
 * Flags that `train rl`, `train sft` and `train dpo` share, in one wording each; what they count and their defaults differ.
 */
import {
  BATCH_SIZE,
  EARLY_STOPPING_PATIENCE,
  EPOCHS,
  LEARNING_RATE,
  LEARNING_RATE_SCHEDULES,
  VALIDATION_INTERVAL,
  WARMUP_STEPS,
  WEIGHT_DECAY,
} from '#contract/jobs/training.js'
import { argument, flag } from '../command/flags.js'
import { parseAssignment, parseInteger } from '../input/parse.js'
import { type ModelReference, parseWholeModel } from '../names/model-reference.js'
import { UsageError } from '../terminal/errors.js'

/** The model that all of them train. */
export const trainedModel = argument.required('id, name, project/name or entity/project/name', { asks: 'model' })

/** @throws {UsageError} for a checkpoint: a job goes on from the latest one */
export function parseTrainedModel(text: string): ModelReference {
  return parseWholeModel(text, {
    takesLatest: true,
    hint: 'a job trains on from the latest; to go on from another: trainyard models create <name> --from-checkpoint <model>:step3',
  })
}

/** What becomes of the job: submitted unless one of the last two is given. */
export const modeFlags = {
  watch: flag.switch('--watch', 'follow the job and exit with its outcome'),
  plan: flag.switch('--plan', 'show steps, masks, memory and time of the job without starting it'),
  dryRun: flag.switch('--dry-run', 'check the file and show what would be sent'),
}

/** @throws {UsageError} `conflicting_options` for more than one of `modeFlags` */
export function assertOneMode(flags: {
  readonly plan: boolean
  readonly dryRun: boolean
  readonly watch: boolean
}): void {
  const given = [flags.plan && '--plan', flags.dryRun && '--dry-run', flags.watch && '--watch'].filter(
    (name) => name !== false,
  )
  if (given.length < 2) return
  throw new UsageError('conflicting_options', `${given.join(' and ')} exclude each other: give one of them`, {
    hint: '--dry-run checks the file here, --plan asks the server what the job would do, --watch follows it',
  })
}

/** @param small what the command line chooses for small models, for example `1e-3 below 20 million parameters` */
export function learningRateFlag(published: number, small: string) {
  return flag.number(LEARNING_RATE.min, LEARNING_RATE.max)(
    '--learning-rate <x>',
    `step size of the optimizer; default ${published.toExponential()}, ${small}`,
  )
}

/** Whole hyperparameter objects and single keys. @param key of the request that they go to */
export function hyperparameterFlags(key: 'config' | 'experimental_config') {
  return {
    config: flag.text('--config <file>', `JSON object of ${key}`, { isAdvanced: true }),
    set: flag.repeated(parseAssignment, '--set <key=value>', `one key of ${key}`),
  }
}

interface RowDefaults {
  readonly batch_size: number | string
  readonly epochs: number
  readonly learning_rate_schedule: string
  readonly warmup_steps: number
  readonly min_learning_rate: number
  readonly weight_decay: number
}

/** Where the rows of a job come from: a file here, or an address. @param rows what a row is, in the plural */
export function dataFlags(rows: string) {
  return {
    file: flag.text('--file <path>', `JSON Lines of ${rows}, - for standard input`),
    dataUrl: flag.text('--data-url <url>', 'data the service can reach: file-<id>, https://… or wandb-artifact:///…'),
  }
}

interface DataSources {
  readonly file: string | undefined
  readonly dataUrl: string | undefined
  readonly validationFile: string | undefined
  readonly validationDataUrl: string | undefined
}

/**
 * The rows to train on and those to measure on, each from one place.
 *
 * @param rows what a row to train on is, in the plural
 * @throws {UsageError} `conflicting_options`, `missing_option`
 */
export function dataSources({ file, dataUrl, validationFile, validationDataUrl }: DataSources, rows: string) {
  if (file !== undefined && dataUrl !== undefined) {
    throw new UsageError('conflicting_options', '--file and --data-url name the data twice: give one of them')
  }
  if (file === undefined && dataUrl === undefined) {
    throw new UsageError('missing_option', `--file with ${rows} is required`, {
      param: '--file',
      hint: 'trainyard help files shows the format',
    })
  }
  if (validationFile !== undefined && validationDataUrl !== undefined) {
    throw new UsageError(
      'conflicting_options',
      '--validation-file and --validation-data-url name the rows twice: give one of them',
    )
  }
  return {
    rows: { path: file, url: dataUrl },
    validation: { path: validationFile, url: validationDataUrl },
  }
}

/** Of jobs that go through rows of a file in epochs. @param rows what a row is, in the plural */
export function rowFlags(rows: string, defaults: RowDefaults) {
  const isAdvanced = true
  return {
    batchSize: flag.custom((text) => (text === 'auto' ? text : parseInteger(text, BATCH_SIZE.min, BATCH_SIZE.max)))(
      '--batch-size <n|auto>',
      `${rows} per gradient step; default ${defaults.batch_size}`,
    ),
    epochs: flag.integer(EPOCHS.min, EPOCHS.max)('--epochs <n>', `passes over the data; default ${defaults.epochs}`),
    validationFile: flag.text('--validation-file <path>', `JSON Lines of ${rows} to measure on, not to train`),
    schedule: flag.choice(LEARNING_RATE_SCHEDULES)(
      `--schedule <${LEARNING_RATE_SCHEDULES.join('|')}>`,
      `course of the learning rate over all epochs; default ${defaults.learning_rate_schedule}`,
      { isAdvanced },
    ),
    warmupSteps: flag.integer(WARMUP_STEPS.min, WARMUP_STEPS.max)(
      '--warmup-steps <n>',
      `batches over which the rate rises; default ${defaults.warmup_steps}`,
      { isAdvanced },
    ),
    validationInterval: flag.integer(VALIDATION_INTERVAL.min, VALIDATION_INTERVAL.max)(
      '--validation-interval <n>',
      'gradient steps between measurements; default one epoch',
      { isAdvanced },
    ),
    earlyStoppingPatience: flag.integer(EARLY_STOPPING_PATIENCE.min, EARLY_STOPPING_PATIENCE.max)(
      '--early-stopping-patience <n>',
      'stop after n measurements without a better one, keep the best state',
      { isAdvanced },
    ),
    minLearningRate: flag.number(LEARNING_RATE.min, LEARNING_RATE.max)(
      '--min-learning-rate <x>',
      `rate the schedule starts from and ends at; default ${defaults.min_learning_rate}`,
      { isAdvanced },
    ),
    weightDecay: flag.number(WEIGHT_DECAY.min, WEIGHT_DECAY.max)(
      '--weight-decay <x>',
      `decoupled decay of AdamW; default ${defaults.weight_decay}`,
      { isAdvanced },
    ),
    validationDataUrl: flag.text('--validation-data-url <url>', 'validation rows the service can reach', {
      isAdvanced,
    }),
    keepBest: flag.toggle(
      '--keep-best',
      'keep the state with the lowest validation loss; default with early stopping',
      { isAdvanced },
    ),
  }
}

/** What `rowFlags` say, under the API's names. */
export function rowHyperparameters(flags: {
  readonly batchSize: number | 'auto' | string | undefined
  readonly epochs: number | undefined
  readonly schedule: string | undefined
  readonly warmupSteps: number | undefined
  readonly validationInterval: number | undefined
  readonly earlyStoppingPatience: number | undefined
  readonly minLearningRate: number | undefined
  readonly weightDecay: number | undefined
  readonly keepBest: boolean | undefined
}) {
  return {
    batch_size: flags.batchSize,
    epochs: flags.epochs,
    learning_rate_schedule: flags.schedule,
    warmup_steps: flags.warmupSteps,
    validation_interval: flags.validationInterval,
    early_stopping_patience: flags.earlyStoppingPatience,
    min_learning_rate: flags.minLearningRate,
    weight_decay: flags.weightDecay,
    keep_best: flags.keepBest,
  }
}
