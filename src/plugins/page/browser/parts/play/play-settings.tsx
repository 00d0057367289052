/**
 * What Play sends beside the messages: system prompt, sampler, tools, and the form of the answer. All of it is in the address.
 */

import type { JSX } from 'preact'
import {
  FORMATS,
  type PlaySettings,
  problemOf,
  type Sampling,
  samplingOf,
  TOOL_CHOICES,
} from '../../data/play/request.js'
import { setSetting, unsavedSettings } from '../../data/play/settings.js'
import { lowerWordsOf, wordsOf } from '../../data/words.js'

const TITLES = {
  auto: 'the model decides',
  required: 'must call one',
  none: 'may call none',
  text: 'text',
  json_object: 'a JSON object',
  json_schema: 'JSON of a schema',
} as const

const TOOL_EXAMPLE = `[{"type": "function", "function": {"name": "get_weather",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]`
const SCHEMA_EXAMPLE = `{"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}`

/** @param props.own how the first model asks to be sampled */
export function PlaySettingsCard(props: { readonly settings: PlaySettings; readonly own: Sampling }): JSX.Element {
  const { settings, own } = props
  const { system, tools, format, schema, toolChoice, temperature, top_p: topP, max, seed } = settings
  const { temperature: heat = 1, top_p: nucleus = 1, top_k: most } = samplingOf(settings, own)
  const problem = problemOf(settings)
  const unsaved = unsavedSettings()
  return (
    <details class="card" open={system !== '' || tools !== '' || format !== 'text' || problem !== null}>
      <summary>
        System prompt, sampler, tools and form{' '}
        <span class="soft small">
          temperature {heat} · {lowerWordsOf('top_p')} {nucleus}{' '}
          {most === undefined ? '' : `· ${lowerWordsOf('top_k')} ${most} `}· at most {max} tokens · seed{' '}
          {seed ?? 'random'}
          {tools === '' ? '' : ' · tools'}
          {format === 'text' ? '' : ` · ${TITLES[format]}`}
        </span>
      </summary>
      <div class="stack sampler">
        <Text name="system" title="System prompt" value={system} />
        <div class="row fields">
          <Figure name="temperature" title="Temperature" value={temperature} step="0.1" hint={heat} />
          <Figure name="top_p" title={wordsOf('top_p')} value={topP} step="0.05" hint={nucleus} />
          <Figure name="max" title="Most tokens" value={max} step="1" />
          <Figure name="seed" title="Seed" value={seed} step="1" hint="random" />
          <Choice name="format" title="The answer is" value={format} words={FORMATS} />
          <Choice name="tool_choice" title="Tools" value={toolChoice} words={TOOL_CHOICES} />
        </div>
        {format === 'json_schema' && <Text name="schema" title="JSON schema" value={schema} example={SCHEMA_EXAMPLE} />}
        <Text name="tools" title="Tools, as JSON" value={tools} example={TOOL_EXAMPLE} />
        {problem !== null && (
          <p class="wrong" role="alert">
            {problem}
          </p>
        )}
        {unsaved.length > 0 && (
          <p class="soft small">Too long for the address, so a reload or a link forgets it: {unsaved.join(', ')}.</p>
        )}
      </div>
    </details>
  )
}

/** @param props.example of JSON; without it the text is no JSON */
function Text(props: {
  readonly name: string
  readonly title: string
  readonly value: string
  readonly example?: string
}): JSX.Element {
  const { name, title, value, example } = props
  return (
    <label class="field">
      {title}
      <textarea
        rows={example === undefined ? 2 : 3}
        class={example === undefined ? '' : 'code'}
        value={value}
        placeholder={example ?? ''}
        spellcheck={example === undefined}
        onChange={(event) => setSetting(name, event.currentTarget.value)}
      />
    </label>
  )
}

function Figure(props: {
  readonly name: string
  readonly title: string
  readonly value: number | null
  readonly step: string
  /** What an empty field stands for. */
  readonly hint?: string | number
}): JSX.Element {
  return (
    <label>
      {props.title}
      <input
        type="number"
        step={props.step}
        min="0"
        value={props.value ?? ''}
        placeholder={String(props.hint)}
        onChange={(event) => setSetting(props.name, event.currentTarget.value)}
      />
    </label>
  )
}

function Choice<T extends keyof typeof TITLES>(props: {
  readonly name: string
  readonly title: string
  readonly value: T
  readonly words: readonly [T, ...T[]]
}): JSX.Element {
  const { name, title, value, words } = props
  return (
    <label>
      {title}
      <select
        value={value}
        onChange={(event) => setSetting(name, event.currentTarget.value === words[0] ? '' : event.currentTarget.value)}
      >
        {words.map((word) => (
          <option key={word} value={word}>
            {TITLES[word]}
          </option>
        ))}
      </select>
    </label>
  )
}
