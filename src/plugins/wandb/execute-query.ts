/**
 * Answers GraphQL documents from plain objects: a field is a value, or a function of its arguments.
 *
 * There is no schema: a field that an object does not have is null, so that a newer client that asks for more still gets what
 * is here; only an unknown query or mutation is an error that names it. Source: GraphQL specification, October 2021, sections
 * 5 (documents) and 6 (execution).
 */
import {
  type ArgumentNode,
  type DirectiveNode,
  type FieldNode,
  type FragmentDefinitionNode,
  Kind,
  type OperationDefinitionNode,
  parse,
  type SelectionSetNode,
  type ValueNode,
} from 'graphql'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import type { JsonValue } from '#base/util/json.js'

export type Arguments = Readonly<Record<string, JsonValue>>
export type Field = JsonValue | Fields | readonly Field[] | ((args: Arguments) => Field | Promise<Field>)
export interface Fields {
  readonly [name: string]: Field
}

export interface Root {
  readonly query: Fields
  readonly mutation: Fields
}

export interface GraphqlRequest {
  readonly query: string
  readonly variables: Arguments
  readonly operationName: string | null
}

export interface GraphqlError {
  readonly message: string
  readonly path: readonly string[]
  readonly extensions: { readonly code: string }
}

/** Most tokens of a document, and fields of an answer: the client's largest document has a few hundred. */
const MAX_TOKENS = 10_000
const MAX_FIELDS = 100_000

interface Execution {
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>
  readonly variables: Arguments
  fieldCount: number
}

/**
 * @param authorizeMutation called before a document that changes something; throws if the key may not
 * @returns the answer; a field that fails makes the whole `data` null, with an error that says which
 * @throws {InvalidRequestError} `malformed_graphql` for a document that cannot be read
 */
export async function executeQuery(
  root: Root,
  request: GraphqlRequest,
  authorizeMutation: () => void,
): Promise<{ readonly data: JsonValue; readonly errors?: readonly GraphqlError[] }> {
  const { operation, fragments } = readDocument(request)
  if (operation.operation === 'subscription') throw malformed('subscriptions are not served here')
  if (operation.operation === 'mutation') authorizeMutation()
  const fields = root[operation.operation]
  const execution: Execution = { fragments, variables: withDefaults(operation, request.variables), fieldCount: 0 }
  const data: Record<string, JsonValue> = {}
  for (const [key, nodes] of collectFields(execution, operation.selectionSet, fields)) {
    const name = nodes[0]?.name.value ?? ''
    try {
      if (!Object.hasOwn(fields, name) && name !== '__typename') {
        throw new AppError('not_implemented', 'not_implemented', `${operation.operation} "${name}" is not served here`)
      }
      data[key] = await resolveField(execution, fields, nodes)
    } catch (error) {
      if (!(error instanceof AppError) || error.category === 'internal') throw error
      return { data: null, errors: [{ message: error.message, path: [key], extensions: { code: error.code } }] }
    }
  }
  return { data }
}

function readDocument(request: GraphqlRequest) {
  const fragments = new Map<string, FragmentDefinitionNode>()
  const operations: OperationDefinitionNode[] = []
  try {
    for (const definition of parse(request.query, { maxTokens: MAX_TOKENS, noLocation: true }).definitions) {
      if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments.set(definition.name.value, definition)
      if (definition.kind === Kind.OPERATION_DEFINITION) operations.push(definition)
    }
  } catch (cause) {
    throw malformed(cause instanceof Error ? cause.message : String(cause))
  }
  const named = operations.find((operation) => operation.name?.value === request.operationName)
  const operation = named ?? (operations.length === 1 ? operations[0] : undefined)
  if (operation === undefined) throw malformed('the document must hold one operation, or operationName must name one')
  return { operation, fragments }
}

function withDefaults(operation: OperationDefinitionNode, given: Arguments): Arguments {
  const variables: Record<string, JsonValue> = { ...given }
  for (const { variable, defaultValue } of operation.variableDefinitions ?? []) {
    const name = variable.name.value
    if (variables[name] === undefined && defaultValue !== undefined) variables[name] = toValue(defaultValue, given)
  }
  return variables
}

/** Fields of a selection by the key they answer under; the same key again asks for more of the same field. */
function collectFields(
  execution: Execution,
  selections: SelectionSetNode,
  parent: Fields,
  visited = new Set<string>(),
  found = new Map<string, FieldNode[]>(),
): ReadonlyMap<string, FieldNode[]> {
  for (const selection of selections.selections) {
    countWork(execution)
    if (!isIncluded(selection.directives ?? [], execution.variables)) continue
    if (selection.kind === Kind.FIELD) {
      const key = selection.alias?.value ?? selection.name.value
      const nodes = found.get(key)
      if (nodes === undefined) found.set(key, [selection])
      else nodes.push(selection)
      continue
    }
    const isSpread = selection.kind === Kind.FRAGMENT_SPREAD
    const name = isSpread ? selection.name.value : ''
    if (isSpread && visited.has(name)) continue
    const fragment = isSpread ? execution.fragments.get(name) : selection
    if (fragment === undefined) throw malformed(`fragment "${name}" is not defined`)
    // once a selection, as the specification has it: more would only cost time, exponentially
    if (isSpread) visited.add(name)
    if (!isOfType(parent, fragment.typeCondition?.name.value)) continue
    collectFields(execution, fragment.selectionSet, parent, visited, found)
  }
  return found
}

function countWork(execution: Execution): void {
  execution.fieldCount += 1
  if (execution.fieldCount > MAX_FIELDS) throw malformed(`the answer would have more than ${MAX_FIELDS} fields`)
}

/** Objects without a type name fit every condition; collections have one interface. */
function isOfType(object: Fields, condition: string | undefined): boolean {
  const own = object['__typename']
  if (condition === undefined || typeof own !== 'string') return true
  return own === condition || (condition === 'ArtifactCollection' && own === 'ArtifactSequence')
}

function isIncluded(directives: readonly DirectiveNode[], variables: Arguments): boolean {
  return directives.every((directive) => {
    const condition = toArguments(directive.arguments ?? [], variables)['if']
    if (directive.name.value === 'skip') return condition !== true
    return directive.name.value !== 'include' || condition === true
  })
}

async function resolveField(execution: Execution, parent: Fields, nodes: readonly FieldNode[]): Promise<JsonValue> {
  const [node] = nodes
  if (node === undefined) return null
  const field = Object.hasOwn(parent, node.name.value) ? parent[node.name.value] : undefined
  const value =
    typeof field === 'function' ? await field(toArguments(node.arguments ?? [], execution.variables)) : field
  return complete(execution, value ?? null, nodes)
}

async function complete(execution: Execution, value: Field, nodes: readonly FieldNode[]): Promise<JsonValue> {
  if (typeof value === 'function') throw new Error('a field answers with a value, not with another function')
  if (Array.isArray(value)) {
    const items: JsonValue[] = []
    for (const item of value as readonly Field[]) items.push(await complete(execution, item, nodes))
    return items
  }
  const selections = nodes.flatMap((node) => node.selectionSet ?? [])
  if (value === null || typeof value !== 'object' || selections.length === 0) return value as JsonValue
  const fields = value as Fields
  const answer: Record<string, JsonValue> = {}
  const asked: SelectionSetNode = { kind: Kind.SELECTION_SET, selections: selections.flatMap((set) => set.selections) }
  for (const [key, inner] of collectFields(execution, asked, fields)) {
    answer[key] = await resolveField(execution, fields, inner)
  }
  return answer
}

function toArguments(nodes: readonly ArgumentNode[], variables: Arguments): Arguments {
  return Object.fromEntries(nodes.map((node) => [node.name.value, toValue(node.value, variables)]))
}

function toValue(node: ValueNode, variables: Arguments): JsonValue {
  switch (node.kind) {
    case Kind.VARIABLE:
      return variables[node.name.value] ?? null
    case Kind.INT:
    case Kind.FLOAT:
      return Number(node.value)
    case Kind.STRING:
    case Kind.ENUM:
    case Kind.BOOLEAN:
      return node.value
    case Kind.NULL:
      return null
    case Kind.LIST:
      return node.values.map((value) => toValue(value, variables))
    case Kind.OBJECT:
      return Object.fromEntries(node.fields.map((field) => [field.name.value, toValue(field.value, variables)]))
  }
}

function malformed(reason: string): InvalidRequestError {
  return new InvalidRequestError('malformed_graphql', `the GraphQL document cannot be answered: ${reason}`)
}
