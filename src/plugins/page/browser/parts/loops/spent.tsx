/**
 * What a loop has used: of its limits, tokens by model that grades, errors by kind; and money, where the reader names prices.
 * They are in the address and nowhere else: the server knows none.
 */

import type { JSX } from 'preact'
import { query, setQuery } from '../../data/address.js'
import { formatCount, formatNumber, formatSeconds } from '../../data/format.js'
import { below, costOf, type Loop, type LoopMetrics, type ModelTokens, readPrice, tokensOf } from '../../data/loops.js'
import { lowerWordsOf } from '../../data/words.js'

/** A price in the address: a model's name, and money for a million tokens of prompts and of answers. */
const PRICE = 'price'

function priceOf(model: string): string | undefined {
  const own = query.value.getAll(PRICE).find((text) => text.slice(0, text.lastIndexOf('=')) === model)
  return own?.slice(own.lastIndexOf('=') + 1)
}

export function Spent(props: { readonly loop: Loop; readonly totals: LoopMetrics['totals'] }): JSX.Element {
  const { loop, totals } = props
  const limits = [
    ['Time', loop.used.seconds, loop.limits.seconds, formatSeconds],
    ['Tokens of graders', loop.used.grader_tokens, loop.limits.grader_tokens, formatCount],
    ['Calls of endpoints', loop.used.endpoint_calls, loop.limits.endpoint_calls, formatCount],
  ] as const
  const models = tokensOf(totals)
  const errors = below(totals, 'errors/')
  return (
    <section class="card stack" aria-labelledby="spent">
      <h2 id="spent">Used</h2>
      <dl class="figures">
        {limits
          .filter(([, used, limit]) => used > 0 || limit !== null)
          .map(([title, used, limit, format]) => (
            <div key={title}>
              <dt>{title}</dt>
              <dd>
                {format(used)}
                {limit !== null && <span class="soft"> of {format(limit)}</span>}
              </dd>
            </div>
          ))}
        <div>
          <dt>Errors of graders</dt>
          <dd>
            {errors.length === 0
              ? 'none'
              : errors.map((kind) => `${lowerWordsOf(kind)} ${formatCount(totals[`errors/${kind}`] ?? 0)}`).join(' · ')}
          </dd>
        </div>
      </dl>
      {models.length > 0 && <Models models={models} />}
    </section>
  )
}

function Models({ models }: { readonly models: readonly ModelTokens[] }): JSX.Element {
  const costs = models.map((used) => {
    const price = readPrice(priceOf(used.model))
    return price === null ? null : costOf(used, price)
  })
  const known = costs.filter((cost) => cost !== null)
  return (
    <>
      <div class="table">
        <table class="stacked">
          <thead>
            <tr>
              <th scope="col">Model that grades</th>
              <th scope="col" class="number">
                Tokens of prompts
              </th>
              <th scope="col" class="number">
                Tokens of answers
              </th>
              <th scope="col">Price of a million, prompts and answers</th>
              <th scope="col" class="number">
                Cost
              </th>
            </tr>
          </thead>
          <tbody>
            {models.map((used, i) => (
              <tr key={used.model}>
                <th scope="row" class="name">
                  {used.model}
                </th>
                <td data-label="Tokens of prompts" class="number">
                  {formatCount(used.prompt)}
                </td>
                <td data-label="Tokens of answers" class="number">
                  {formatCount(used.completion)}
                </td>
                <td data-label="Price">
                  <Price model={used.model} />
                </td>
                <td data-label="Cost" class="number">
                  {formatNumber(costs[i])}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {known.length > 1 && <p>Cost together {formatNumber(known.reduce((sum, cost) => sum + cost, 0))}</p>}
    </>
  )
}

function Price({ model }: { readonly model: string }): JSX.Element {
  const text = priceOf(model) ?? ''
  const [prompt = '', completion = ''] = text.split(',')
  const set = (next: readonly [string, string]): void => {
    const others = query
      .peek()
      .getAll(PRICE)
      .filter((each) => each.slice(0, each.lastIndexOf('=')) !== model)
    const isEmpty = next.every((part) => part === '')
    setQuery({ [PRICE]: isEmpty ? others : [...others, `${model}=${next.join(',')}`] })
  }
  const field = (what: string, value: string, change: (value: string) => void): JSX.Element => (
    <input
      type="number"
      class="price"
      min="0"
      step="any"
      aria-label={`Price of a million tokens of ${what}, ${model}`}
      value={value}
      onChange={(event) => change(event.currentTarget.value)}
    />
  )
  return (
    <span class="row">
      {field('prompts', prompt, (value) => set([value, completion]))}
      {field('answers', completion, (value) => set([prompt, value]))}
    </span>
  )
}
