/**
 * Request options without effect, because what they belong to is turned off: `length_penalty` without
 * `use_beam_search`. Schemas know them, so nothing else says that they are ignored.
 *
 * A default is never named: many clients send every field they know. Does not know which options exclude each other; that is
 * refused by `service/operations/generation/chat/chat-sampling.ts`.
 */
import { SAMPLER_DEFAULTS } from '../chat-completions.js'

type Fields = Readonly<Record<string, unknown>>

interface OptionGroup {
  /** Whether what the options belong to is on. */
  isOn(request: Fields): boolean
  /** Paths of options, with the value that says nothing. */
  readonly options: Fields
}

const { length_penalty, dry_base, dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers, xtc_threshold } =
  SAMPLER_DEFAULTS
/** Where samplers beyond vLLM's may stand besides the request itself, which beats them. */
const EXTRAS = ['engine_xargs', 'vllm_xargs'] as const

const GROUPS: readonly OptionGroup[] = [
  { isOn: (request) => request['use_beam_search'] === true, options: { length_penalty } },
  {
    isOn: (request) =>
      isPositive(valueAt(request, 'repetition_detection.max_pattern_size') ?? request['max_repetition_pattern_size']),
    options: {
      min_repetition_pattern_size: 0,
      repetition_min_count: 0,
      'repetition_detection.min_pattern_size': 0,
      'repetition_detection.min_count': 0,
    },
  },
  {
    isOn: (request) => isPositive(extension(request, 'dry_multiplier')),
    options: withExtras({ dry_base, dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers }),
  },
  {
    isOn: (request) => isPositive(extension(request, 'xtc_probability')),
    options: withExtras({ xtc_threshold }),
  },
]

/** Names of what a checked request sets without effect, as paths. */
export function idleOptionsOf(request: Fields): readonly string[] {
  return GROUPS.filter((group) => !group.isOn(request)).flatMap(({ options }) =>
    Object.entries(options)
      .filter(([path, silent]) => isSaid(valueAt(request, path), silent))
      .map(([path]) => path),
  )
}

/** As text, for extra arguments may be the texts of numbers. */
function isSaid(value: unknown, silent: unknown): boolean {
  return value !== null && String(value) !== String(silent)
}

function isPositive(value: unknown): boolean {
  return Number(value ?? 0) > 0
}

function extension(request: Fields, name: string): unknown {
  return request[name] ?? EXTRAS.map((extra) => valueAt(request, `${extra}.${name}`)).find((value) => value !== null)
}

function withExtras(options: Fields): Fields {
  const prefixed = EXTRAS.flatMap((extra) =>
    Object.entries(options).map(([name, value]) => [`${extra}.${name}`, value]),
  )
  return { ...options, ...Object.fromEntries(prefixed) }
}

/** The field at a path of one or two names; null where there is none. */
function valueAt(request: Fields, path: string): unknown {
  const [first = '', second] = path.split('.')
  const value = request[first] ?? null
  if (second === undefined || value === null) return value
  return (value as Fields)[second] ?? null
}
