/**
 * Losses and advantages beside the core's own, as plugins contribute them and as users write them: short functions over numbers
 * per token, pair or trajectory. They are called when a job is asked for and stored with it as formulas (`base/formula`):
 * workers get data, and nobody's code runs where others' jobs do.
 *
 * A loss is like one of the core in what it reads of the other options: those that the core's does not read are refused here,
 * too.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { checkGradient, type FormulaData } from '#base/formula/evaluate.js'
import {
  composeFormula,
  type Formula,
  FormulaError,
  type FormulaMath,
  inputsOf,
  parseFormula,
  type Term,
  traceFormula,
} from '#base/formula/formula.js'
import { ADVANTAGE_REDUCTIONS } from '#base/formula/operators.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { JOB_KINDS, type JobKind } from '#contract/wire/job-words.js'
import { ADVANTAGE_INPUTS, addEstimator } from '#formats/rows/which-train.js'
import { type JobKindDefinition, refuse } from './kind.js'
import { extendKind, JOB_DEFINITIONS } from './kinds.js'
import { type Bounds, isSet, type OptionRow } from './option.js'

/** A number that a loss reads, an option of the job under its name. */
interface FormulaOption {
  readonly default: number
  readonly bounds: Bounds
  readonly summary: string
}

interface Contribution {
  /** What the job's option says. */
  readonly name: string
  /** A clause about it. */
  readonly summary: string
  /** The paper. */
  readonly source: string
  /** Options of the core that are otherwise here where the request does not say. */
  readonly sets?: JsonObject
}

/** Inputs of losses of any kind (`loss.inputs` of its definition); those of other kinds are not there. */
type LossTerms = Readonly<
  Record<
    | 'logp'
    | 'old'
    | 'ratio'
    | 'logRatio'
    | 'advantage'
    | 'chosen'
    | 'rejected'
    | 'chosenReference'
    | 'rejectedReference',
    Term
  >
>

/** A loss, larger where worse. Inputs: those of its kind. */
export interface LossDefinition extends Contribution {
  readonly kind: JobKind
  /** The loss of the core that reads the same options. */
  readonly like: string
  /** Options that it does not read all the same. */
  readonly unread?: readonly string[]
  readonly options?: Readonly<Record<string, FormulaOption>>
  loss(inputs: LossTerms, math: FormulaMath, options: Readonly<Record<string, number>>): Term
}

/** Advantages of rewards. */
export interface AdvantageDefinition extends Contribution {
  advantage(inputs: Readonly<Record<(typeof ADVANTAGE_INPUTS)[number], Term>>, math: FormulaMath): Term
}

/** What the option that names a loss, or the advantages, says where the request brings the formula. */
export const CUSTOM = 'custom'

const losses = new Map<JobKind, Map<string, LossDefinition>>(JOB_KINDS.map((kind) => [kind, new Map()]))
/** Losses of a kind by name. */
const lossesOf = (kind: JobKind): Map<string, LossDefinition> => losses.get(kind) ?? new Map()
const advantages = new Map<string, AdvantageDefinition>()
const extended = new Set<JobKind>()

/** Adds losses and advantages to the tables of this process; those that are there stay. */
function addLosses(given: readonly LossDefinition[], estimators: readonly AdvantageDefinition[] = []): void {
  for (const definition of given) {
    const { kind, name, options = {} } = definition
    if (lossesOf(kind).has(name)) continue
    lossesOf(kind).set(name, definition)
    addChoice(kind, JOB_DEFINITIONS[kind].loss.option, definition)
    extendKind(kind, (known) => ({ ...known, options: { ...known.options, ...optionRows(kind, name, options) } }))
  }
  for (const definition of estimators) {
    if (advantages.has(definition.name)) continue
    advantages.set(definition.name, definition)
    addChoice('rl', 'advantage_estimator', definition)
    addEstimator(definition.name, traceAdvantage(definition.advantage))
  }
  for (const kind of JOB_KINDS) {
    if (extended.has(kind)) continue
    extended.add(kind)
    extendKind(kind, (known) => ({ ...known, derive: (values) => derive(kind, known.derive, values) }))
  }
}

/** A plugin, as far as losses know it. */
interface WithLosses {
  readonly losses?: (() => Promise<readonly LossDefinition[]>) | undefined
  readonly advantages?: (() => Promise<readonly AdvantageDefinition[]>) | undefined
}

/** Adds what plugins contribute. */
export async function addLossesOf(plugins: readonly WithLosses[]): Promise<void> {
  addLosses([])
  for (const plugin of plugins) addLosses((await plugin.losses?.()) ?? [], (await plugin.advantages?.()) ?? [])
}

/** A loss as data. @throws {FormulaError}; what the function throws */
export function traceLoss(
  kind: JobKind,
  loss: LossDefinition['loss'],
  options: Readonly<Record<string, number>> = {},
): Formula {
  return traceFormula(JOB_DEFINITIONS[kind].loss.inputs, (inputs, math) => loss(inputs as LossTerms, math, options))
}

/** Advantages as data. @throws {FormulaError}; what the function throws */
export function traceAdvantage(advantage: AdvantageDefinition['advantage']): Formula {
  return traceFormula(ADVANTAGE_INPUTS, (inputs, math) => advantage(inputs, math))
}

/** The policy's loss in terms of log-probabilities alone, ratios of tokens. */
export function ofLogps(formula: Formula): Formula {
  const logRatio = traceFormula(['logp', 'old'], ({ logp, old }, { clip, sub, stop }) =>
    clip(sub(logp, stop(old)), -MAX_LOG_RATIO, MAX_LOG_RATIO),
  )
  const ratio = composeFormula(
    traceFormula(['logRatio'], ({ logRatio: d }, { exp }) => exp(d)),
    { logRatio },
  )
  return composeFormula(formula, { logRatio, ratio })
}
/** As `numerics/nn/policy-loss.ts` clamps it. */
const MAX_LOG_RATIO = 30

/** Inputs that no gradient is by. */
const GIVEN: readonly string[] = ['old', 'ratio', 'logRatio', 'advantage', 'chosenReference', 'rejectedReference']

/**
 * Checks a loss by central differences on numbers as jobs have them: at advantages of both signs and 0, at ratios from a half to
 * 2.
 *
 * @throws {FormulaError}
 */
export function checkLoss(kind: JobKind, formula: Formula): void {
  const at = (i: number, salt: number): number => ((i + 1) * 0.6180339887 + salt * 0.7548776662) % 1
  const length = 24
  const column = (of: (i: number) => number) => Float64Array.from({ length }, (_, i) => of(i))
  const logp = column((i) => -0.01 - 6 * at(i, 0))
  const numbers: Readonly<Record<string, Float64Array>> = {
    logp,
    old: column((i) => (logp[i] as number) + 1.4 * at(i, 3) - 0.7),
    advantage: column((i) => (i === 5 ? 0 : 4 * at(i, 4) - 2)),
    chosen: column((i) => 8 * at(i, 1) - 4),
    rejected: column((i) => 8 * at(i, 2) - 4),
    chosenReference: column((i) => -20 * at(i, 5)),
    rejectedReference: column((i) => -20 * at(i, 6)),
  }
  const checked = ofLogps(formula)
  const read = inputsOf(checked)
  const inputs = Object.fromEntries(Object.entries(numbers).filter(([name]) => read.includes(name)))
  const data: FormulaData = { length, inputs, parts: column((i) => i >> 2) }
  const by = JOB_DEFINITIONS[kind].loss.inputs.filter((name) => !GIVEN.includes(name))
  for (const of of by) checkGradient(checked, data, of)
}

function addChoice(kind: JobKind, option: string, { name, summary }: Contribution): void {
  extendKind(kind, (known) => {
    const row = known.options[option]
    if (row?.type !== 'choice' || row.choices.includes(name)) return known
    const changed: OptionRow = {
      ...row,
      choices: [...row.choices, name],
      summary: `${row.summary}; ${name}: ${summary}`,
    }
    return { ...known, options: { ...known.options, [option]: changed } }
  })
}

function optionRows(kind: JobKind, loss: string, options: Readonly<Record<string, FormulaOption>>) {
  return Object.fromEntries(
    Object.entries(options).map(([name, { bounds, summary, default: otherwise }]): [string, OptionRow] => [
      name,
      {
        type: 'number',
        default: null,
        byChoice: { of: JOB_DEFINITIONS[kind].loss.option, values: { [loss]: otherwise } },
        bounds,
        summary: `${summary}; read by ${loss}`,
        flag: {},
      },
    ]),
  )
}

type Derive = JobKindDefinition['derive']

function derive(kind: JobKind, core: Derive, given: JsonObject): JsonObject {
  const { root, options: table } = JOB_DEFINITIONS[kind]
  const option = JOB_DEFINITIONS[kind].loss.option
  const name = String(given[option])
  const wrong = (of: string, reason: string, hint?: string): never =>
    refuse(`${root}.${of}`, `${root}.${of} ${reason}.`, hint)
  for (const other of lossesOf(kind).values()) {
    if (other.name === name) continue
    const unread = Object.keys(other.options ?? {}).find((each) => (given[each] ?? null) !== null)
    if (unread !== undefined) wrong(unread, `has no effect with ${option} ${name}: ${other.name} reads it`)
  }
  const estimated = kind === 'rl' ? withAdvantage(given, wrong) : given
  const known = lossesOf(kind).get(name)
  if (known === undefined && name !== CUSTOM) {
    if (given['loss_formula'] != null) wrong('loss_formula', `has no effect with ${option} ${name}: ${CUSTOM} reads it`)
    return core(estimated)
  }
  const { like = JOB_DEFINITIONS[kind].loss.like, unread = [], sets = {}, options = {} } = known ?? {}
  const idle = unread.find((each) => isSet(table[each], estimated[each]))
  if (idle !== undefined) wrong(idle, `has no effect with ${option} ${name}`)
  const filled = withSets(table, estimated, sets)
  const own = Object.entries(options).map(([each, row]) => [each, filled[each] ?? row.default])
  const sent = filled['loss_formula'] ?? null
  const resolved = renamed(() => core({ ...filled, [option]: like }), `${option} ${like}`, `${option} ${name}`)
  const read: JsonObject = { ...resolved, ...Object.fromEntries(own) }
  const formula = known === undefined ? sentLoss(kind, sent, wrong) : tracedLoss(known, read)
  if (known !== undefined && sent !== null && JSON.stringify(sent) !== JSON.stringify(formula)) {
    wrong('loss_formula', `has no effect with ${option} ${name}: ${CUSTOM} reads it`)
  }
  return { ...read, [option]: name, loss_formula: formula }
}

/** What the core says of the loss that the named one is like is said of the named one. */
function renamed(resolve: () => JsonObject, like: string, named: string): JsonObject {
  try {
    return resolve()
  } catch (error) {
    if (!(error instanceof InvalidRequestError)) throw error
    const { code, param, hint, message } = error
    const options = { ...(param === undefined ? {} : { param }), ...(hint === undefined ? {} : { hint }) }
    throw new InvalidRequestError(code, message.replaceAll(like, named), options)
  }
}

function withAdvantage(given: JsonObject, wrong: (of: string, reason: string, hint?: string) => never): JsonObject {
  const { options: table } = JOB_DEFINITIONS.rl
  const name = String(given['advantage_estimator'])
  const sent = given['advantage_formula'] ?? null
  const known = advantages.get(name)
  if (known === undefined && name !== CUSTOM) {
    if (sent !== null) wrong('advantage_formula', `has no effect with advantage_estimator ${name}: ${CUSTOM} reads it`)
    return given
  }
  if (known === undefined && sent === null) {
    wrong(
      'advantage_formula',
      `is missing: advantage_estimator ${CUSTOM} computes it`,
      'train rl --advantage ./mine.mjs writes it',
    )
  }
  const formula = known === undefined ? parsed('advantage_formula', sent, wrong) : traceAdvantage(known.advantage)
  // what these compute is divided by nothing else
  const unscaled = { scale_rewards: false, scale_batch: given['scale_batch'] ?? false }
  return {
    ...withSets(table, given, known?.sets ?? {}),
    ...unscaled,
    advantage_formula: formula,
  }
}

function parsed(of: string, value: JsonValue, wrong: (of: string, reason: string, hint?: string) => never): Formula {
  try {
    return parseFormula(value, ADVANTAGE_INPUTS, ADVANTAGE_REDUCTIONS)
  } catch (error) {
    if (!(error instanceof FormulaError)) throw error
    return wrong(of, error.message)
  }
}

function withSets(table: JobKindDefinition['options'], given: JsonObject, sets: JsonObject): JsonObject {
  const open = Object.entries(sets).filter(([name]) => !isSet(table[name], given[name]))
  return { ...given, ...Object.fromEntries(open) }
}

function tracedLoss({ kind, loss }: LossDefinition, read: JsonObject): Formula {
  const numbers = Object.entries(read).filter((entry): entry is [string, number] => typeof entry[1] === 'number')
  return traceLoss(kind, loss, Object.fromEntries(numbers))
}

function sentLoss(
  kind: JobKind,
  sent: JsonValue,
  wrong: (of: string, reason: string, hint?: string) => never,
): Formula {
  const hint = 'the page "How training works" (/docs/how-training-works) has what a loss of your own may read'
  if (sent === null)
    return wrong('loss_formula', `is missing: ${JOB_DEFINITIONS[kind].loss.option} ${CUSTOM} computes it`, hint)
  try {
    const formula = parseFormula(sent, JOB_DEFINITIONS[kind].loss.inputs, JOB_DEFINITIONS[kind].loss.reductions)
    checkLoss(kind, formula)
    return formula
  } catch (error) {
    if (!(error instanceof FormulaError)) throw error
    return wrong('loss_formula', error.message, hint)
  }
}
