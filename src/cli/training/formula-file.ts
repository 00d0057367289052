/**
 * Losses and advantages of a module of the user's: it is loaded here, its function is called once, and what goes to the service
 * is what it computes, as data (`base/formula`). The service and its workers run no code of it.
 */
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { FormulaError } from '#base/formula/formula.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { JOB_DEFINITIONS } from '#contract/jobs/kinds.js'
import { CUSTOM, checkLoss, traceAdvantage, traceLoss } from '#contract/jobs/losses.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { UsageError } from '../terminal/errors.js'

/** @example isFormulaFile('./mine.mjs') // true */
export function isFormulaFile(text: unknown): text is string {
  return typeof text === 'string' && /\.[mc]?[jt]s$/.test(text)
}

/**
 * The options with what modules compute in place of their paths.
 *
 * @throws {UsageError} `invalid_formula` for a module that cannot be loaded, has no such function, or whose loss fails the check
 *   by central differences
 */
export async function withFormulas(kind: JobKind, options: JsonObject): Promise<Record<string, JsonValue>> {
  const read: Record<string, JsonValue> = { ...options }
  for (const [name, { flag }] of Object.entries(JOB_DEFINITIONS[kind].options)) {
    const path = options[name]
    if (flag?.file === undefined || !isFormulaFile(path)) continue
    const what = flag.file === 'loss_formula' ? 'loss' : 'advantage'
    const written = await loadFunction(path, what)
    read[name] = CUSTOM
    read[flag.file] = formulaOf(path, () => {
      if (what === 'advantage') return traceAdvantage(written as Parameters<typeof traceAdvantage>[0])
      const formula = traceLoss(kind, written as Parameters<typeof traceLoss>[1])
      checkLoss(kind, formula)
      return formula
    })
  }
  return read
}

function formulaOf<Formula>(path: string, trace: () => Formula): Formula {
  try {
    return trace()
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new UsageError(
      'invalid_formula',
      cause instanceof FormulaError ? `${path} ${reason}` : `the function of ${path} fails: ${reason}`,
      {
        cause,
        hint: 'it is called once, and sees values, no numbers: its inputs and operators are on the page /docs/how-training-works',
      },
    )
  }
}

const EXAMPLE = {
  loss: 'export const loss = ({ ratio, advantage }, { mul, min, clip, neg }) => neg(min(mul(ratio, advantage), mul(clip(ratio, 0.8, 1.2), advantage)))',
  advantage: 'export const advantage = ({ reward }, { sub, groupMean }) => sub(reward, groupMean(reward))',
} as const

async function loadFunction(path: string, name: keyof typeof EXAMPLE): Promise<unknown> {
  const module = (await import(pathToFileURL(resolve(path)).href).catch((cause: unknown) => {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new UsageError('invalid_formula', `${path} cannot be loaded: ${reason}`, { cause })
  })) as Readonly<Record<string, unknown>>
  const written = module[name] ?? module['default']
  if (typeof written === 'function') return written
  throw new UsageError('invalid_formula', `${path} must export a function "${name}"`, { hint: EXAMPLE[name] })
}
