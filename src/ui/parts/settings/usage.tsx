/**
 * What was used: requests, tokens and training time by day, model or project.
 */
import type { JSX } from 'preact'
import type { UsageResponse } from '#contract/wire/access/usage.js'
import { query, setQuery } from '../../data/address.js'
import { ask } from '../../data/client.js'
import { nowMs } from '../../data/clock.js'
import { formatCount, formatSeconds } from '../../data/format.js'
import { useLoad } from '../../data/load.js'
import { addUpUsage, firstDay, USAGE_GROUPS, type UsageSum } from '../../data/usage.js'
import { Block, Empty } from '../block.js'
import { CopyAs } from '../copy-as.js'

const DAYS = [7, 30, 90] as const
const USUAL_DAYS = 30
const COLUMNS: readonly (readonly [string, (sum: Omit<UsageSum, 'name'>) => string])[] = [
  ['Requests', ({ requests }) => formatCount(requests)],
  ['Prompt tokens', (sum) => formatCount(sum.prompt_tokens)],
  ['of them cached', (sum) => formatCount(sum.cached_tokens)],
  ['Answer tokens', (sum) => formatCount(sum.completion_tokens)],
  ['Training', (sum) => formatSeconds(sum.training_seconds)],
]

export function Usage(): JSX.Element {
  const group = USAGE_GROUPS.find((name) => name === query.value.get('usage')) ?? 'day'
  const days = DAYS.find((count) => String(count) === query.value.get('days')) ?? USUAL_DAYS
  const from = firstDay(days, nowMs())
  const path = `/v1/usage?from=${from}`
  const usage = useLoad(path, (signal) => ask<UsageResponse>(path, { signal }))
  return (
    <section class="card" aria-labelledby="usage">
      <h2 id="usage">Usage</h2>
      <div class="row">
        <label class="row">
          By
          <select
            value={group}
            onChange={({ currentTarget: { value } }) => setQuery({ usage: value === 'day' ? null : value })}
          >
            {USAGE_GROUPS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label class="row">
          Last
          <select
            value={String(days)}
            onChange={({ currentTarget: { value } }) => setQuery({ days: Number(value) === USUAL_DAYS ? null : value })}
          >
            {DAYS.map((count) => (
              <option key={count} value={String(count)}>
                {count} days
              </option>
            ))}
          </select>
        </label>
      </div>
      <Block of={usage} height="8rem">
        {({ data, total, is_truncated: isTruncated }) =>
          data.length === 0 ? (
            <Empty>Nothing was asked or trained in these days.</Empty>
          ) : (
            <>
              {isTruncated && (
                <p class="warnings">There are more rows than one answer holds: the sums are too small.</p>
              )}
              {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
              <section class="table" tabIndex={0} aria-label={`Usage by ${group}`}>
                <table class="stacked">
                  <thead>
                    <tr>
                      <th scope="col">{group === 'day' ? 'Day (UTC)' : group === 'model' ? 'Model' : 'Project'}</th>
                      {COLUMNS.map(([title]) => (
                        <th scope="col" key={title} class="number">
                          {title}
                        </th>
                      ))}
                    </tr>
                  </thead>
                  <tbody>
                    {addUpUsage(data, group).map((sum) => (
                      <Row key={sum.name} name={sum.name} sum={sum} />
                    ))}
                    <Row name="Total" sum={total} />
                  </tbody>
                </table>
              </section>
            </>
          )
        }
      </Block>
      <CopyAs cli={`trainyard usage --from ${from}`} path={path} />
    </section>
  )
}

function Row({ name, sum }: { readonly name: string; readonly sum: Omit<UsageSum, 'name'> }): JSX.Element {
  return (
    <tr>
      <th scope="row" class="name">
        {name}
      </th>
      {COLUMNS.map(([title, show]) => (
        <td key={title} data-label={title} class="number">
          {show(sum)}
        </td>
      ))}
    </tr>
  )
}
