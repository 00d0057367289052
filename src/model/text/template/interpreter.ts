/**
 * Running a Jinja template under a budget: the only importer of @huggingface/jinja.
 *
 * A template comes from a model repository or a request, so it may loop or grow. Every evaluated node counts against a time budget,
 * and whatever it makes large is bounded before it is made (`render-meter.ts`); values are plain data, so no attribute leads
 * out of the variables given.
 */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja'
import { AppError, InvalidRequestError, TokenizerError } from '#base/errors/errors.js'
import { type Clock, watchProcessorTime } from '#base/util/clock.js'
import type { JsonValue } from '#base/util/json.js'
import { LoopControl } from './python-loops.js'
import { evaluateAsPython, newMapping, printedAsPython, printedNodes } from './python-semantics.js'
import { createRuntimeValues } from './python-values.js'
import { budgetError, claimItems, claimText, metered } from './render-meter.js'
import { createValueMaker, field, itemsOf, type Runtime, typeOf, type ValueMaker } from './runtime-values.js'
import { locateParseFault } from './template-faults.js'
import { repairTokens } from './template-tokens.js'

/**
 * A template's text as @huggingface/jinja can read it, where its lexer differs from Jinja's:
 *
 * - line ends are one thing to Jinja, whatever a file was written with: what is trimmed hangs on it
 * - `{% generation %}` of transformers marks assistant text for masks and prints nothing
 * - `{% raw %}` is unknown, and so are `{%+` and `+%}`, which keep white space
 * - a backslash before a character that needs none ends the template (`'\d'`); Python keeps both characters
 */
function readableSource(source: string): string {
  return withPlainEscapes(withRawText(source.replace(/\r\n?/g, '\n')))
    .replace(/\{%-?\s*(?:end)?generation\s*-?%\}/g, (tag) =>
      tag.replace(/(?:end)?generation/, (word) => (word === 'generation' ? 'if true' : 'endif')),
    )
    .replace(/\{%\+/g, '{{""}}{%')
    .replace(/\+%\}/g, '%}{{""}}')
}

const rawPattern =
  /\{#[\s\S]*?#\}|(^[ \t]*)?\{%([-+]?)\s*raw\s*(-?)%\}([\s\S]*?)\{%([-+]?)\s*endraw\s*(?:(-)%\}|(\+)%\}|%\}(\n?))/gm

/** Raw text becomes a printed string, which is not read for tags. */
function withRawText(source: string): string {
  return source.replace(rawPattern, (whole, indent = '', before, after, text, end, isTrimmed) => {
    if (whole.startsWith('{#')) return whole
    let body = String(text)
    if (after === '-') body = body.trimStart()
    if (end === '-') body = body.trimEnd()
    else if (end === '') body = body.replace(/(?<=\n)[ \t]*$/, '')
    const escaped = body.replace(/[^\w ]/g, (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    const kept = before === '+' ? indent : ''
    return `${kept}{{${before === '-' ? '-' : ''}"${escaped}"${isTrimmed === '-' ? '-' : ''}}}`
  })
}

const tagOrComment =
  /\{#[\s\S]*?#\}|\{\{(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?!\}\})[\s\S])*?\}\}|\{%(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?!%\})[\s\S])*?%\}/g
const literal = /"(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\])*'/g

function withPlainEscapes(source: string): string {
  if (!source.includes('\\')) return source
  return source.replace(tagOrComment, (tag) =>
    tag.startsWith('{#')
      ? tag
      : tag.replace(literal, (text) => text.replace(/\\([\s\S])/g, (pair, next: string) => plainEscape(pair, next))),
  )
}

function plainEscape(pair: string, next: string): string {
  if (next === '\n') return ''
  if (next === 'a') return '\\x07'
  if (next === '0') return '\\x00'
  return /[ntrbfv'"\\xu]/.test(next) ? pair : `\\${pair}`
}

/**
 * Python's `strftime` for chat templates that print today's date. Knows the directives that templates use, in English.
 */
const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const months = [
  ...['January', 'February', 'March', 'April', 'May', 'June'],
  ...['July', 'August', 'September', 'October', 'November', 'December'],
]

const two = (n: number): string => String(n).padStart(2, '0')

const directives: Readonly<Record<string, (date: Date) => string>> = {
  Y: (date) => String(date.getFullYear()),
  y: (date) => two(date.getFullYear() % 100),
  m: (date) => two(date.getMonth() + 1),
  d: (date) => two(date.getDate()),
  e: (date) => String(date.getDate()).padStart(2, ' '),
  B: (date) => months[date.getMonth()] ?? '',
  b: (date) => (months[date.getMonth()] ?? '').slice(0, 3),
  A: (date) => days[date.getDay()] ?? '',
  a: (date) => (days[date.getDay()] ?? '').slice(0, 3),
  H: (date) => two(date.getHours()),
  I: (date) => two(date.getHours() % 12 || 12),
  M: (date) => two(date.getMinutes()),
  S: (date) => two(date.getSeconds()),
  p: (date) => (date.getHours() < 12 ? 'AM' : 'PM'),
  F: (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`,
  T: (date) => `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`,
  '%': () => '%',
}

/** Formats a date in local time; an unknown directive stays as written. */
function formatTime(date: Date, format: string): string {
  return format.replace(/%(.)/g, (whole, directive: string) => directives[directive]?.(date) ?? whole)
}

export interface RenderBudget {
  /** Longest time of one rendering: processor time of the thread, but for a tenth. */
  readonly timeoutMs: number
  /** Longest text, in UTF-16 units. */
  readonly maxOutputLength: number
}

/** Values a template may see. */
export type TemplateVariables = Readonly<Record<string, JsonValue>>

export interface CompiledTemplate {
  /** The syntax tree, for questions about what the template does. */
  readonly syntax: unknown
  /**
   * @throws {InvalidRequestError} `chat_template_error` with the message of `raise_exception`, or when the template
   *   fails; `chat_template_budget` when it takes too long or writes too much
   */
  render(variables: TemplateVariables): string
}

const MAX_RANGE = 100_000
/** Of what a template says itself with `raise_exception`. */
const MAX_MESSAGE = 2000
/** The longest text that a character of a format becomes: half of `%F`. */
const MAX_DIRECTIVE = 6

/** Names that the interpreter defines; variables of a request must not redefine them. */
export const templateGlobals: ReadonlySet<string> = new Set([
  ...['true', 'false', 'none', 'True', 'False', 'None'],
  ...['raise_exception', 'range', 'strftime_now', 'namespace', 'loop', 'caller', 'self'],
])

/**
 * Parses a template.
 *
 * @throws {TokenizerError} `invalid_chat_template` when it is no valid Jinja
 */
export function compileTemplate(source: string, budget: RenderBudget, clock: Clock): CompiledTemplate {
  const program = parseOrThrow(readableSource(source))
  const printed = printedNodes(program)
  return {
    syntax: program,
    render: (variables) => {
      const environment = new Environment()
      for (const [name, value] of Object.entries(globals(clock))) environment.set(name, value)
      environment.setVariable(
        'dict',
        make.callable((args) => newMapping(args, make)),
      )
      for (const [name, value] of Object.entries(variables)) environment.setVariable(name, toRuntimeValue(value))
      const isLate = createDeadline(budget.timeoutMs, clock)
      const guard = createGuard(isLate)
      try {
        return metered({ maxTextLength: budget.maxOutputLength, isLate }, () =>
          stringOf(runGuarded({ program, printed, environment, guard })),
        )
      } catch (cause) {
        if (cause instanceof AppError) throw cause
        const reason = cause instanceof Error ? cause.message : 'unknown error'
        throw new InvalidRequestError('chat_template_error', `chat template failed: ${reason}`, {
          param: 'messages',
          cause,
        })
      }
    },
  }
}

interface Run {
  readonly program: unknown
  readonly printed: WeakSet<object>
  readonly environment: Environment
  /** Shown every value that a node of the program evaluates to. */
  readonly guard: (value: unknown) => void
}

function runGuarded({ program, printed, environment, guard }: Run): unknown {
  // The package's type declarations do not resolve under Node's module rules, hence reflection.
  const interpreter: object = new Interpreter(environment)
  const evaluate: unknown = Reflect.get(interpreter, 'evaluate')
  const run: unknown = Reflect.get(interpreter, 'run')
  if (typeof evaluate !== 'function' || typeof run !== 'function') throw new Error('unexpected template interpreter')
  const evaluateBlock = (statements: unknown, scope: object): string => {
    let text = ''
    for (const statement of Array.isArray(statements) ? statements : []) {
      try {
        const value = evaluateGuarded(statement, scope)
        if (typeOf(value) !== 'NullValue' && typeOf(value) !== 'UndefinedValue') text += String(value)
      } catch (control) {
        if (control instanceof LoopControl) control.text = text + control.text
        throw control
      }
    }
    return text
  }
  const evaluateGuarded = (node: unknown, scope: object): unknown => {
    const evaluateAsLibrary = (inner: unknown): unknown => Reflect.apply(evaluate, interpreter, [inner, scope])
    const runtime: Runtime = {
      make,
      scope,
      evaluate: (inner, other = scope) => evaluateGuarded(inner, other),
      evaluateAsLibrary,
      evaluateBlock,
      newScope: (parent) => new Environment(parent as Environment),
      setVariable: (target, name, value) => (target as Environment).setVariable(name, value),
    }
    const value: unknown = evaluateAsPython(node, runtime) ?? evaluateAsLibrary(node)
    guard(value)
    const text =
      typeof node === 'object' && node !== null && printed.has(node) ? printedAsPython(node, value) : undefined
    return text === undefined ? value : make.text(text)
  }
  Object.defineProperty(interpreter, 'evaluate', { value: evaluateGuarded })
  Object.defineProperty(interpreter, 'evaluateBlock', {
    value: (statements: unknown, scope: object) => make.text(evaluateBlock(statements, scope)),
  })
  return Reflect.apply(run, interpreter, [program])
}

/** A value of the interpreter, whose classes the package does not export. */
const runtimeValue = (value: unknown): unknown => new Environment().set('value', value)
const toRuntimeValue = createRuntimeValues(runtimeValue)
const make: ValueMaker = createValueMaker(runtimeValue, sampleArguments())

/** Values that only a running template makes. */
function sampleArguments(): { readonly tuple: unknown; readonly keywords: unknown } {
  const Callable: unknown = field(
    runtimeValue(() => null),
    'constructor',
  )
  if (typeof Callable !== 'function') throw new Error('unexpected template value')
  let samples: readonly unknown[] = []
  const environment = new Environment()
  environment.setVariable(
    'f',
    Reflect.construct(Callable, [
      (args: readonly unknown[]) => {
        samples = args
        return runtimeValue(null)
      },
    ]),
  )
  new Interpreter(environment).run(parse(tokenize('{{ f((1, 2), a=1) }}')))
  return { tuple: samples[0], keywords: samples[1] }
}

/**
 * Says when a rendering has used its time. A tenth of it counts by the clock, which costs little to read; the rest in processor time of
 * the thread: a process that is stopped, or waits for a busy machine, does not use it up.
 */
function createDeadline(timeoutMs: number, clock: Clock): () => boolean {
  let usedMs: (() => number) | null = null
  let lookAtMs = clock.monotonicMs() + timeoutMs / 10
  return () => {
    const nowMs = clock.monotonicMs()
    if (nowMs <= lookAtMs) return false
    usedMs ??= watchProcessorTime('own', clock)
    const leftMs = timeoutMs * 0.9 - usedMs()
    // no thread uses more than the time that passes
    lookAtMs = nowMs + leftMs
    return leftMs <= 0
  }
}

function createGuard(isLate: () => boolean): (value: unknown) => void {
  return (value) => {
    // the library makes some values itself
    if (isRuntimeString(value)) claimText(value.value.length)
    else claimItems(itemsOf(value)?.length ?? 0)
    // At every step: one step may be a loop over a hundred thousand numbers.
    if (isLate()) throw budgetError('takes too long')
  }
}

const isRuntimeString = (value: unknown): value is { value: string } =>
  typeof value === 'object' && value !== null && 'value' in value && typeof value.value === 'string'

function stringOf(value: unknown): string {
  return isRuntimeString(value) ? value.value : ''
}

function parseOrThrow(source: string): unknown {
  try {
    return parse(repairTokens(tokenize(source, { lstrip_blocks: true, trim_blocks: true })))
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'unknown error'
    const place = locateParseFault(source, canParse)
    const where = place === null ? '' : `, ${place}`
    throw new TokenizerError('invalid_chat_template', `chat template cannot be parsed: ${reason}${where}`, { cause })
  }
}

function canParse(source: string): boolean {
  try {
    parse(repairTokens(tokenize(source)))
    return true
  } catch {
    return false
  }
}

function globals(clock: Clock): Record<string, unknown> {
  return {
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    range: boundedRange,
    strftime_now: (format: unknown) => {
      claimText(String(format).length * MAX_DIRECTIVE)
      return formatTime(new Date(clock.nowMs()), String(format))
    },
    raise_exception: (message: unknown) => {
      throw new InvalidRequestError('chat_template_error', String(message).slice(0, MAX_MESSAGE), { param: 'messages' })
    },
  }
}

/** Python's `range`, with at most `MAX_RANGE` numbers. */
function boundedRange(first: number, second?: number, step = 1): number[] {
  const start = second === undefined ? 0 : first
  const stop = second === undefined ? first : second
  const count = Math.max(0, Math.ceil((stop - start) / step))
  if (!Number.isFinite(count) || count > MAX_RANGE) throw budgetError(`asks for a range of more than ${MAX_RANGE}`)
  return Array.from({ length: count }, (_, i) => start + i * step)
}
