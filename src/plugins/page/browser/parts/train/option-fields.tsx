/**
 * Fields of a job's options, made of what the server lists: each with its default in sight, so that leaving it empty is a choice. Knows no option.
 */

import type { JSX } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { KindOptions, TrainingOption } from '#contract/wire/training/option-list.js'
import { formatCount } from '../../data/format.js'
import { describeDefault, showValue } from '../../data/train/options.js'
import { Prose } from '../prose.js'

type InnerOption = Omit<TrainingOption, 'options'>

export function OptionFields(props: {
  readonly known: KindOptions
  readonly typed: Readonly<Record<string, string>>
  readonly onType: (name: string, text: string) => void
}): JSX.Element {
  const { known, typed } = props
  const [search, setSearch] = useState('')
  const flat = useMemo(
    () =>
      known.options.flatMap((option): readonly (readonly [string, InnerOption])[] =>
        option.options === null
          ? [[option.name, option]]
          : option.options.map((inner) => [`${option.name}.${inner.name}`, inner] as const),
      ),
    [known],
  )
  const isFirst = ([name, option]: readonly [string, InnerOption]): boolean =>
    option.is_common || option.suggested !== null || typed[name] !== undefined
  const others = flat.filter((each) => !isFirst(each))
  const found = others.filter(([name, { summary }]) =>
    `${name} ${summary}`.toLowerCase().includes(search.trim().toLowerCase()),
  )
  const field = ([name, option]: readonly [string, InnerOption]): JSX.Element => (
    <Field
      key={name}
      name={name}
      option={option}
      text={typed[name] ?? ''}
      onType={(text) => props.onType(name, text)}
    />
  )
  return (
    <>
      <div class="option-fields">{flat.filter(isFirst).map(field)}</div>
      <details>
        <summary>All options: {formatCount(others.length)} more, as their defaults say</summary>
        <div class="stack more-options">
          <label class="row">
            Find
            <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
          </label>
          <div class="option-fields">{found.map(field)}</div>
          {found.length === 0 && <p class="soft">No option is called that.</p>}
        </div>
      </details>
    </>
  )
}

function Field(props: {
  readonly name: string
  readonly option: InnerOption
  readonly text: string
  readonly onType: (text: string) => void
}): JSX.Element {
  const { name, option, text, onType } = props
  const id = `option-${name}`
  const { min = null, max = null } = option.bounds ?? {}
  const range =
    min === null && max === null
      ? ''
      : ` From ${min === null ? '−∞' : showValue(min)} to ${max === null ? '∞' : showValue(max)}.`
  const isSuggested = option.suggested !== null
  const fallback = isSuggested ? showValue(option.suggested) : describeDefault(option)
  const choices =
    option.type === 'boolean'
      ? [
          ['true', 'on'],
          ['false', 'off'],
        ]
      : option.type === 'choice'
        ? (option.choices ?? []).map((choice) => [choice, choice])
        : null
  return (
    <div class={text === '' ? 'option' : 'option set'}>
      <label for={id}>
        <code>{name}</code>
      </label>
      {choices === null ? (
        <input
          id={id}
          value={text}
          spellcheck={false}
          autocomplete="off"
          inputMode={option.type === 'number' || option.type === 'integer' ? 'decimal' : 'text'}
          placeholder={fallback}
          aria-describedby={`${id}-what`}
          onChange={(event) => onType(event.currentTarget.value.trim())}
        />
      ) : (
        <select
          id={id}
          value={text}
          aria-describedby={`${id}-what`}
          onChange={(event) => onType(event.currentTarget.value)}
        >
          <option value="">{fallback}</option>
          {choices.map(([value = '', title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
      )}
      <p class="soft small" id={`${id}-what`}>
        <Prose
          text={`${option.summary}.${range}${option.needs === null ? '' : ` Without effect unless ${option.needs} is set.`}`}
        />{' '}
        <span class="tag">
          {text !== ''
            ? `you; default ${describeDefault(option)}`
            : isSuggested
              ? `${option.suggested_by === 'size' ? 'measured for this size' : 'advised'}; default ${describeDefault(option)}`
              : 'default'}
        </span>
      </p>
    </div>
  )
}
