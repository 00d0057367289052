/**
 * A model's chat template: conversations to text, with the places where user text must not become control tokens.
 *
 * Knows the template and the spellings of the control tokens, not the vocabulary. Follows Hugging Face's
 * `apply_chat_template`: the variables `messages`, `tools`, `documents`, `add_generation_prompt`, `bos_token`,
 * `eos_token` and the caller's own, `trim_blocks` and `lstrip_blocks` on.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { type Clock, systemClock } from '#base/util/clock.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { needsToolPrompt } from '#formats/answers/answer-format.js'

import {
  type BarredText,
  type ControlTokenGuard,
  createControlTokenGuard,
  pickMarker,
  someString,
  unmark,
} from './template/control-tokens.js'
import { withGenericTools } from './template/generic-tools.js'
import { compileTemplate, type RenderBudget, type TemplateVariables, templateGlobals } from './template/interpreter.js'
import { appendToText, createLeftOutFinder } from './template/left-out.js'
import { type ChatMessage, normalizeMessages } from './template/messages.js'
import { readTemplateFacts, type TemplateFacts } from './template/template-facts.js'

export type { RenderBudget } from './template/interpreter.js'
export type { ChatMessage } from './template/messages.js'

/** What a conversation is rendered from. */
export interface Conversation {
  readonly messages: readonly JsonValue[]
  /** Tool definitions; those without `type` are taken as functions. Default none. */
  readonly tools?: readonly JsonValue[] | null | undefined
  /** Handed to the template as `documents`. Default none. */
  readonly documents?: readonly JsonValue[] | null | undefined
  /** Ask for the header of the next assistant turn (default true, false when a final message is continued). */
  readonly addGenerationPrompt?: boolean | undefined
  /** End right after the content of the last message (default false). */
  readonly continueFinalMessage?: boolean | undefined
  /** System messages where the template takes none become part of the turns beside them (default false: it refuses them). */
  readonly foldsSystem?: boolean | undefined
  /** Further template variables; they cannot replace those above. */
  readonly kwargs?: JsonObject | null | undefined
}

export interface ChatTemplate {
  readonly source: string
  readonly facts: TemplateFacts
  /**
   * Renders a conversation.
   *
   * @throws {InvalidRequestError} for messages or variables that are wrong, when the template refuses or fails, when it
   *   exceeds its budget, or (`control_token_in_input`) when user text spells a control token in a place that the
   *   template rewrites
   */
  render(conversation: Conversation): BarredText
  /**
   * The messages of which nothing reaches the prompt, by position: those of a role that the template does not know.
   *
   * @throws {InvalidRequestError} as `render`
   */
  leftOutMessages(conversation: Conversation): readonly number[]
}

export interface ChatTemplateOptions {
  /** Spellings of the control tokens of the vocabulary. */
  readonly controlTokens: readonly string[]
  /** `bos_token`, `eos_token` and the like, as the template sees them. */
  readonly tokenVariables: Readonly<Record<string, string>>
  readonly budget?: Partial<RenderBudget>
  readonly clock?: Clock
}

const MAX_DEPTH = 128

const defaultBudget: RenderBudget = { timeoutMs: 5_000, maxOutputLength: 2 ** 26 }

const reservedNames: ReadonlySet<string> = new Set([
  ...['messages', 'tools', 'documents', 'add_generation_prompt', 'continue_final_message', 'chat_template'],
  ...['bos_token', 'eos_token', 'pad_token', 'unk_token'],
  ...templateGlobals,
])

/** The variables that a caller may set and the template reads, by name. */
export function kwargsReadBy({ facts }: Pick<ChatTemplate, 'facts'>): string[] {
  return [...facts.outsideNames].filter((name) => !reservedNames.has(name)).sort()
}

/** Roles that templates write into control tokens themselves (`<|` + role + `|>`); another role is user text. */
const knownRoles: ReadonlySet<string> = new Set([
  ...['system', 'user', 'assistant', 'tool', 'function', 'developer', 'ipython', 'model', 'observation', 'documents'],
])

/**
 * Joins a model's template for conversations with tools to the one for those without; `facts` are those without but for
 * the names from outside, `source` has both.
 */
export function withToolTemplate(template: ChatTemplate, toolTemplate: ChatTemplate): ChatTemplate {
  const templateFor = ({ tools }: Conversation): ChatTemplate => ((tools ?? []).length > 0 ? toolTemplate : template)
  return {
    ...template,
    facts: {
      ...template.facts,
      outsideNames: new Set([...template.facts.outsideNames, ...toolTemplate.facts.outsideNames]),
    },
    source: `${template.source}\n${toolTemplate.source}`,
    render: (conversation) => templateFor(conversation).render(conversation),
    leftOutMessages: (conversation) => templateFor(conversation).leftOutMessages(conversation),
  }
}

/**
 * Compiles a chat template.
 *
 * @throws {TokenizerError} `invalid_chat_template` when it is no valid Jinja
 */
export function createChatTemplate(source: string, options: ChatTemplateOptions): ChatTemplate {
  const compiled = compileTemplate(source, { ...defaultBudget, ...options.budget }, options.clock ?? systemClock)
  const facts = readTemplateFacts(compiled.syntax)
  const render = (variables: TemplateVariables): string => compiled.render({ ...options.tokenVariables, ...variables })
  const { controlTokens } = options
  const isSearched = (token: string): boolean => facts.testedLiterals.some((literal) => literal.includes(token))
  const guard = createControlTokenGuard(controlTokens)
  const assistantGuard = createControlTokenGuard(controlTokens.filter((token) => !isSearched(token)))

  const findLeftOut = createLeftOutFinder(render)
  const isGeneric = needsToolPrompt(source)
  let takesSystem: boolean | null = null
  const plainOf = (
    variables: ConversationVariables,
  ): ConversationVariables & { readonly origins?: readonly number[] } => {
    if (!isGeneric || variables.tools === null) return variables
    takesSystem ??= writesSystem(render, facts)
    const { messages, origins } = withGenericTools(variables.messages, variables.tools, takesSystem)
    return { ...variables, messages, origins }
  }
  const renderBarred = (variables: TemplateVariables): BarredText => {
    assertRolesAreText(variables, controlTokens)
    return renderGuarded({ source, render, guard, assistantGuard }, variables)
  }

  return {
    source,
    facts,
    render(conversation) {
      const { origins: _, ...variables } = plainOf(toVariables(conversation, facts))
      return conversation.continueFinalMessage === true
        ? renderContinued(renderBarred, variables, source)
        : renderBarred(variables)
    },
    leftOutMessages(conversation) {
      const { origins, ...variables } = plainOf(toVariables(conversation, facts))
      return findLeftOut(variables, variables.messages).map((at) => origins?.[at] ?? at)
    },
  }
}

type ConversationVariables = TemplateVariables & {
  readonly messages: readonly JsonObject[]
  readonly tools: readonly JsonValue[] | null
}

/** Whether a template writes what a system message says: some refuse one, some leave it out. */
function writesSystem(render: (variables: TemplateVariables) => string, facts: TemplateFacts): boolean {
  const said = 'Be brief.'
  const messages = [
    { role: 'system', content: said },
    { role: 'user', content: 'x' },
  ]
  try {
    const variables = { tools: null, documents: null, add_generation_prompt: true }
    return render({ ...variables, messages: normalizeMessages(messages, facts) }).includes(said)
  } catch {
    return false
  }
}

function toVariables(conversation: Conversation, facts: TemplateFacts): ConversationVariables {
  const { messages, tools, documents, addGenerationPrompt, continueFinalMessage = false, kwargs } = conversation
  if (continueFinalMessage && addGenerationPrompt === true) {
    throw new InvalidRequestError(
      'invalid_value',
      'Cannot set both `continue_final_message` and `add_generation_prompt` to True.',
      { param: 'continue_final_message' },
    )
  }
  for (const name of Object.keys(kwargs ?? {})) {
    if (!reservedNames.has(name)) continue
    throw new InvalidRequestError('invalid_value', `chat_template_kwargs must not set "${name}"`, {
      param: `chat_template_kwargs.${name}`,
    })
  }
  for (const [name, value] of Object.entries({ messages, tools, documents, chat_template_kwargs: kwargs })) {
    assertShallow(value ?? null, name, MAX_DEPTH)
  }
  const given = tools === undefined || tools === null || tools.length === 0 ? null : tools.map(wrapTool)
  // SmolLM3's name for tools that are called in JSON; it prints each as it is, and knows no wrapping
  const isSmolLm = facts.variables.has('xml_tools') && !facts.variables.has('tools')
  return {
    ...(isSmolLm && given !== null ? { xml_tools: given.map((tool) => functionOf(tool)) } : {}),
    ...kwargs,
    messages: normalizeMessages(messages, facts),
    tools: given,
    documents: documents ?? null,
    add_generation_prompt: addGenerationPrompt ?? !continueFinalMessage,
  }
}

/** Deeper JSON would exhaust the stack of the template's interpreter. */
function assertShallow(value: JsonValue, name: string, depth: number): void {
  if (typeof value !== 'object' || value === null) return
  if (depth === 0) {
    throw new InvalidRequestError('invalid_value', `${name} must not be nested deeper than ${MAX_DEPTH} levels`, {
      param: name,
    })
  }
  for (const item of Object.values(value)) assertShallow(item, name, depth - 1)
}

function wrapTool(tool: JsonValue, index: number): JsonValue {
  if (typeof tool !== 'object' || tool === null || Array.isArray(tool)) {
    throw new InvalidRequestError('invalid_value', `tools[${index}] must be an object`, { param: `tools[${index}]` })
  }
  return 'type' in tool ? tool : { type: 'function', function: tool }
}

function functionOf(tool: JsonValue): JsonValue {
  return isJsonObject(tool) && isJsonObject(tool['function']) ? tool['function'] : tool
}

interface Guarded {
  readonly source: string
  readonly render: (variables: TemplateVariables) => string
  readonly guard: ControlTokenGuard
  /** For assistant messages, a second try: without the tokens that the template itself looks for. */
  readonly assistantGuard: ControlTokenGuard
}

/**
 * Renders with markers where user text spells control tokens, and compares with the plain rendering: a template that
 * tests or splits content at such a spelling writes something else for marked content. Then the spellings that the
 * template itself looks for in assistant messages (the model's own `</think>`, for example) are left unmarked there.
 * If the texts still differ, the request is refused.
 */
function renderGuarded({ source, render, guard, assistantGuard }: Guarded, variables: TemplateVariables): BarredText {
  const plain = render(variables)
  let marker: string | null | undefined
  for (const ofAssistant of [guard, assistantGuard]) {
    const guardOf = (isAssistant: boolean): ControlTokenGuard => (isAssistant ? ofAssistant : guard)
    if (!someValue(variables, (value, isAssistant) => guardOf(isAssistant).needsMarks(value))) {
      return { text: plain, barriers: [] }
    }
    marker ??= pickUnusedMarker(source, plain, variables)
    if (marker === null) break
    const chosen = marker
    const marked = mapValues(variables, (value, isAssistant) => guardOf(isAssistant).mark(value, chosen))
    const rendered = unmark(renderOrEmpty(render, marked), chosen)
    if (rendered.text === plain) return rendered
  }
  throw new InvalidRequestError(
    'control_token_in_input',
    'messages spell a control token of the model in a place that the chat template rewrites',
    { param: 'messages', hint: 'remove the control token from the text' },
  )
}

/** A template may refuse marked input that it accepts plain; that attempt has failed, not the request. */
function renderOrEmpty(render: (variables: TemplateVariables) => string, variables: TemplateVariables): string {
  try {
    return render(variables)
  } catch (error) {
    if (error instanceof InvalidRequestError && error.code === 'chat_template_error') return ''
    throw error
  }
}

function pickUnusedMarker(source: string, plain: string, variables: TemplateVariables): string | null {
  const used = new Set<string>()
  someString(variables, (text) => {
    for (const character of text.match(/[\ufdd0-\ufdef]/g) ?? []) used.add(character)
    return false
  })
  return pickMarker([source, plain, ...used])
}

const isAssistantMessage = (value: JsonValue): boolean => isJsonObject(value) && value['role'] === 'assistant'

function someValue(variables: TemplateVariables, test: (value: JsonValue, isAssistant: boolean) => boolean): boolean {
  return Object.entries(variables).some(([name, value]) =>
    name === 'messages' && Array.isArray(value)
      ? value.some((message: JsonValue) => test(message, isAssistantMessage(message)))
      : test(value, false),
  )
}

function mapValues(
  variables: TemplateVariables,
  map: (value: JsonValue, isAssistant: boolean) => JsonValue,
): TemplateVariables {
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [
      name,
      name === 'messages' && Array.isArray(value)
        ? value.map((message: JsonValue) => map(message, isAssistantMessage(message)))
        : map(value, false),
    ]),
  )
}

/** A made-up role must not complete a control token together with what templates write around roles. */
function assertRolesAreText(variables: TemplateVariables, controlTokens: readonly string[]): void {
  const messages = variables['messages']
  if (!Array.isArray(messages)) return
  for (const [index, message] of messages.entries()) {
    const role = String(message.role)
    if (knownRoles.has(role) || (role !== '' && !controlTokens.some((token) => token.includes(role)))) continue
    throw new InvalidRequestError('invalid_value', `messages[${index}].role "${role}" is not a role of this model`, {
      param: `messages[${index}].role`,
    })
  }
}

/** Renders and cuts right after the last message's content, found by a marker at its end. */
function renderContinued(
  render: (variables: TemplateVariables) => BarredText,
  variables: TemplateVariables,
  source: string,
): BarredText {
  const messages = variables['messages']
  const last: ChatMessage | undefined = Array.isArray(messages) ? messages.at(-1) : undefined
  const content = last?.['content']
  if (!Array.isArray(messages) || last === undefined || content === undefined || content === '' || content === null) {
    throw new InvalidRequestError('invalid_value', 'continue_final_message needs a last message with text content', {
      param: 'messages',
    })
  }
  const whole = render(variables)
  const marker = pickUnusedMarker(source, whole.text, variables)
  if (marker === null) throw new InvalidRequestError('invalid_value', 'messages hold every noncharacter of Unicode')
  const marked = { ...last, content: appendToText(content, marker) }
  const { text } = render({ ...variables, messages: [...messages.slice(0, -1), marked] })
  const before = text.slice(0, text.lastIndexOf(marker)).replaceAll(marker, '')
  const cut = [before, before.trimEnd()].find((candidate) => candidate !== '' && whole.text.startsWith(candidate))
  if (!text.includes(marker) || cut === undefined) {
    throw new InvalidRequestError(
      'invalid_value',
      'continue_final_message is set but the chat template rewrites the last message',
      {
        param: 'continue_final_message',
      },
    )
  }
  return { text: cut, barriers: whole.barriers.filter((barrier) => barrier <= cut.length) }
}
