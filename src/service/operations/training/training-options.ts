/**
 * The options of training jobs, for whoever shows them: rows of the tables in `contract/jobs/` as they are, with what is suggested for a base
 * model. Names that only repeat another one, or that only refuse, are left out.
 */
import { NotFoundError } from '#base/errors/errors.js'
import { JOB_DEFINITIONS } from '#contract/jobs/kinds.js'
import type { OptionRow, OptionTable } from '#contract/jobs/option.js'
import { advisedOptions, sizeDefaults } from '#contract/jobs/size-defaults.js'
import { JOB_KINDS, type JobKind } from '#contract/wire/job-words.js'
import type {
  KindOptions,
  TrainingOption,
  TrainingOptions,
  TrainingOptionsQuery,
} from '#contract/wire/training/option-list.js'
import type { ServiceContext } from '../context.js'

export interface TrainingOptionsService {
  /** @throws {NotFoundError} `base_model_not_found` */
  list(query: TrainingOptionsQuery): Promise<TrainingOptions>
}

export function createTrainingOptionsService(
  context: Pick<ServiceContext, 'baseModels' | 'modelFacts'>,
): TrainingOptionsService {
  return {
    list: async ({ kind, base_model: name }) => {
      if (name !== undefined && !context.baseModels.some((model) => model.name === name)) {
        throw new NotFoundError('base_model_not_found', `base model "${name}" is not served here`)
      }
      const parameters = name === undefined ? null : await context.modelFacts.parametersOf(name)
      const kinds = kind === undefined ? JOB_KINDS : [kind]
      return {
        object: 'training_options',
        base_model: name ?? null,
        parameters,
        data: kinds.map((each) => describeKind(each, parameters)),
      }
    },
  }
}

function describeKind(kind: JobKind, parameters: number | null): KindOptions {
  const { root, row, options } = JOB_DEFINITIONS[kind]
  const bySize = sizeDefaults(kind, {}, parameters)
  const advised = advisedOptions(kind, {})
  return {
    kind,
    root,
    row: row.noun,
    options: describeTable(options, (name) =>
      name in bySize
        ? { suggested: bySize[name] ?? null, suggested_by: 'size' }
        : name in advised
          ? { suggested: advised[name] ?? null, suggested_by: 'advice' }
          : NOTHING,
    ),
  }
}

type Suggestion = Pick<TrainingOption, 'suggested' | 'suggested_by'>
const NOTHING: Suggestion = { suggested: null, suggested_by: null }

function describeTable(table: OptionTable, suggest: (name: string) => Suggestion): TrainingOption[] {
  return Object.entries(table).flatMap(([name, row]): TrainingOption[] => {
    if (row.type === 'unread' || row.isRecorded === false) return []
    return [
      {
        name,
        type: row.type,
        summary: row.summary,
        default: row.default,
        ...suggest(name),
        otherwise: otherwiseOf(row),
        bounds: 'bounds' in row ? { min: row.bounds.min ?? null, max: row.bounds.max ?? null } : null,
        choices: 'choices' in row ? [...row.choices] : null,
        word: row.type === 'integer' ? (row.word?.text ?? null) : null,
        takes_list: row.type === 'number' && row.takesList === true,
        is_common: row.flag?.isCommon === true,
        needs: row.needs?.said ?? null,
        options: row.type === 'object' ? describeTable(row.rows, () => NOTHING) : null,
      },
    ]
  })
}

/** @example '1 with cispo, 0.2 with ppo' */
function otherwiseOf({ byChoice, flag }: OptionRow): string | null {
  const choices = Object.entries(byChoice?.values ?? {}).map(([choice, value]) => `${value} with ${choice}`)
  const parts = [...choices, ...(flag?.whenAbsent == null ? [] : [flag.whenAbsent])]
  return parts.length === 0 ? null : parts.join(', ')
}
