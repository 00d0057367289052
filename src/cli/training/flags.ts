/**
 * Flags that `train rl`, `train sft` and `train dpo` share, in one wording each, besides those of options (`option-flags.ts`).
 */
import { argument, flag } from '../command/flags.js'
import { type ColumnMap, parseMap } from '../input/column-map.js'
import { parseAssignment } from '../input/parse.js'
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

/** Of every command that reads rows. */
export const mapFlag = flag.custom(parseMap)(
  '--map <columns>',
  'what columns are, where their names do not say it: text=prompt,label=completion',
)

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

/** Whole hyperparameter objects and single keys. @param key of the request that they go to */
export function hyperparameterFlags(key: 'config' | 'experimental_config') {
  return {
    config: flag.text('--config <file>', `JSON object of ${key}`, { isAdvanced: true }),
    set: flag.repeated(parseAssignment, '--set <key=value>', `one key of ${key}`),
  }
}

/** Where the rows of a job come from: a file here, or an address. @param rows what a row is, in the plural */
export function dataFlags(rows: string) {
  return {
    file: flag.text('--file <path>', `${rows} as JSON Lines, JSON, CSV, TSV or Parquet; - for standard input`),
    map: mapFlag,
    dataUrl: flag.text('--data-url <url>', 'data the service can reach: file-<id>, https://… or wandb-artifact:///…'),
  }
}

/** The same for rows to measure on. */
export function validationFlags(rows: string) {
  return {
    validationFile: flag.text('--validation-file <path>', `${rows} to measure on, not to train`),
    validationDataUrl: flag.text('--validation-data-url <url>', 'validation rows the service can reach', {
      isAdvanced: true,
    }),
  }
}

interface DataSources {
  readonly file: string | undefined
  readonly map?: ColumnMap | undefined
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
export function dataSources({ file, map, dataUrl, validationFile, validationDataUrl }: DataSources, rows: string) {
  if (map !== undefined && file === undefined) {
    throw new UsageError('conflicting_options', '--map names columns of --file, which is not given', { param: '--map' })
  }
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
