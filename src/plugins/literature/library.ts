/**
 * Losses of the literature, and losses written like them, in training sessions (`trainyard/rl`): computed here in float64 of the
 * log-probabilities that the server answers, whose slopes go back as weights.
 */
import { AppError } from '#base/errors/errors.js'
import { formulaGradient } from '#base/formula/evaluate.js'
import { composeFormula, type Formula, inputsOf, traceFormula } from '#base/formula/formula.js'
import type { LossDefinition } from '#contract/jobs/losses.js'
import { inputOf, type LossFunction, type SampledRow } from '#plugins/rl-library/session-rows.js'

/** Of losses that clip and name no range of their own, as in jobs. */
const RANGE = 0.2

/**
 * A loss for a training session: the sum over all tokens, as the session's own.
 *
 * @param loss a name that jobs take as `loss_fn` (`sapo`, `gmpo`, …) or, of examples, as `loss_type` (`dft`); or a function as
 *   `--loss ./mine.mjs` exports it
 * @param options numbers that it reads: `epsilon`, `epsilon_high`, `delta`, …
 * @throws {AppError} `unsupported_loss`, `unknown_setting`
 * @example session.forwardBackward(rows, await openLoss('dual_clip', { delta: 3 }))
 */
export async function openLoss(
  loss: string | LossDefinition['loss'],
  options: Readonly<Record<string, number>> = {},
): Promise<LossFunction<SampledRow>> {
  const { checkLoss, ofLogps, traceLoss } = await import('#contract/jobs/losses.js')
  const definition = typeof loss === 'string' ? await namedLoss(loss) : null
  const { kind = 'rl', name = 'a function', options: own = {}, like = 'ppo', sets = {} } = definition ?? {}
  const clip: readonly string[] = like === 'ppo' ? ['epsilon', 'epsilon_high'] : []
  const known = [...clip, ...Object.keys(own)]
  const unknown = definition === null ? undefined : Object.keys(options).find((each) => !known.includes(each))
  if (unknown !== undefined) {
    const expected = known.length === 0 ? 'none' : known.join(', ')
    throw invalid('unknown_setting', `the settings of ${name} have "${unknown.slice(0, 60)}", expected ${expected}`)
  }
  const said = Object.entries(sets).filter((entry): entry is [string, number] => typeof entry[1] === 'number')
  const defaults = Object.fromEntries(Object.entries(own).map(([each, row]) => [each, row.default]))
  const range = { epsilon: RANGE, epsilon_high: options['epsilon'] ?? RANGE }
  const write = definition?.loss ?? (loss as LossDefinition['loss'])
  const traced = traceLoss(kind, write, { ...range, ...Object.fromEntries(said), ...defaults, ...options })
  const isOfSequences = sets['importance_sampling_level'] === 'sequence'
  const formula = ofLogps(isOfSequences ? composeFormula(traced, { ratio: sequenceRatio() }) : traced)
  checkLoss(kind, formula)
  return lossFunction(formula, name)
}

async function namedLoss(name: string): Promise<LossDefinition> {
  const losses = [...(await import('./policy.js')).POLICY_LOSSES, ...(await import('./examples.js')).EXAMPLE_LOSSES]
  const found = losses.find((each) => each.name === name)
  if (found !== undefined) return found
  const names = losses.map((each) => each.name).join(', ')
  throw invalid('unsupported_loss', `loss must be one of ${names} or a function, got "${name.slice(0, 60)}"`)
}

/** As `importance_sampling_level` "sequence" has it. */
function sequenceRatio(): Formula {
  return traceFormula(['logRatio'], ({ logRatio }, { exp, sequenceMean }) => exp(sequenceMean(logRatio)))
}

function lossFunction(formula: Formula, loss: string): LossFunction<SampledRow> {
  const read = inputsOf(formula)
  return (logprobs, rows) => {
    const parts = rows.flatMap(({ tokens }, row) => tokens.map(() => row))
    const column = (name: 'logprobs' | 'advantages') =>
      rows.flatMap((row, index) => [...inputOf(row, name, { index, loss })])
    const inputs = {
      logp: logprobs.flatMap((each) => [...each]),
      ...(read.includes('old') ? { old: column('logprobs') } : {}),
      ...(read.includes('advantage') ? { advantage: column('advantages') } : {}),
    }
    const { values, gradient } = formulaGradient(formula, { inputs, parts, length: parts.length }, { of: 'logp' })
    let end = 0
    return {
      loss: values.reduce((sum, each) => sum + each, 0),
      gradients: rows.map(({ tokens }) => {
        end += tokens.length
        return gradient.subarray(end - tokens.length, end)
      }),
    }
  }
}

function invalid(code: string, message: string): AppError {
  return new AppError('invalid_request', code, message)
}
