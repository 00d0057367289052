/**
 * `for` as Python's Jinja runs it. @huggingface/jinja loses what a turn has written before `continue` or `break`, keeps variables that a
 * turn sets for the next one, takes a loop of such turns for an empty one, and loops over lists and mappings only. Sets that should
 * outlive a turn are of a namespace, in both.
 */
import { field, isEqual, isTrue, itemsOf, looped, type Runtime, typeOf } from './runtime-values.js'

/** Ends a turn, or the loop; carries what was written before it. */
export class LoopControl extends Error {
  text = ''
  readonly isBreak: boolean

  constructor(isBreak: boolean) {
    super(`${isBreak ? 'break' : 'continue'} outside a loop`)
    this.isBreak = isBreak
  }
}

export function evaluateFor(node: unknown, runtime: Runtime): unknown {
  const { make, scope } = runtime
  const iterable = field(node, 'iterable')
  const isFiltered = typeOf(iterable) === 'SelectExpression'
  const all = looped(runtime.evaluate(isFiltered ? field(iterable, 'lhs') : iterable), make)
  const turnOf = (item: unknown): object => {
    const turn = runtime.newScope(scope)
    assign(field(node, 'loopvar'), item, turn, runtime)
    return turn
  }
  const items = isFiltered ? all.filter((item) => isTrue(runtime.evaluate(field(iterable, 'test'), turnOf(item)))) : all
  if (items.length === 0) return make.text(runtime.evaluateBlock(field(node, 'defaultBlock'), runtime.newScope(scope)))
  const seen: { last: unknown } = { last: undefined }
  let text = ''
  for (const [at, item] of items.entries()) {
    const turn = turnOf(item)
    runtime.setVariable(turn, 'loop', loopAt(at, items, seen, runtime))
    try {
      text += runtime.evaluateBlock(field(node, 'body'), turn)
    } catch (control) {
      if (!(control instanceof LoopControl)) throw control
      text += control.text
      if (control.isBreak) break
    }
  }
  return make.text(text)
}

function assign(target: unknown, item: unknown, scope: object, runtime: Runtime): void {
  if (typeOf(target) === 'Identifier') {
    runtime.setVariable(scope, String(field(target, 'value')), item)
    return
  }
  const names = field(target, 'value')
  const parts = itemsOf(item) ?? looped(item, runtime.make)
  if (!Array.isArray(names)) throw new Error(`Invalid loop variable: ${typeOf(target)}`)
  if (parts.length !== names.length) throw new Error(`${names.length} loop variables for ${parts.length} values`)
  for (const [i, name] of names.entries()) assign(name, parts[i], scope, runtime)
}

function loopAt(at: number, items: readonly unknown[], seen: { last: unknown }, { make }: Runtime): unknown {
  const count = items.length
  const numbers = {
    index: at + 1,
    index0: at,
    revindex: count - at,
    revindex0: count - at - 1,
    length: count,
    depth: 1,
    depth0: 0,
  }
  return make.mapping(
    new Map<string, unknown>([
      ...Object.entries(numbers).map(([name, value]) => [name, make.integer(value)] as const),
      ['first', make.boolean(at === 0)],
      ['last', make.boolean(at === count - 1)],
      ['previtem', items[at - 1] ?? make.missing],
      ['nextitem', items[at + 1] ?? make.missing],
      ['cycle', make.callable((args) => args[at % args.length])],
      [
        'changed',
        make.callable((args) => {
          const value = make.tuple(args)
          const isNew = seen.last === undefined || !isEqual(seen.last, value)
          seen.last = value
          return make.boolean(isNew)
        }),
      ],
    ]),
  )
}
